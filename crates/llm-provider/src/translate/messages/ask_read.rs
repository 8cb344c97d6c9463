//! Reads a caller's request.

use super::{
    super::{
        ask::{Ask, Format, Role, Thinking, Tool, ToolChoice, Turn, Unable, Untranslatable},
        fields::{Field, Invalid, Object},
        lost::Lost,
    },
    blocks::{Place, lose_rest, read_parts, read_texts},
};

/// Reads a request. What an [`Ask`] has no place for is noted in `lost`.
pub(crate) fn read_ask(body: &[u8], lost: &mut Lost) -> Result<Ask, Untranslatable> {
    let mut body = Field::whole(body)?.object()?;
    let mut ask = Ask {
        wants_usage: true,
        ..Ask::default()
    };
    if let Some(model) = body.take("model") {
        model.text()?;
    }
    match body.need("max_tokens")?.count()? {
        0 => return Err(Unable("max_tokens of 0 only fills a cache of its provider").into()),
        most => ask.max_tokens = Some(most),
    }
    if let Some(system) = body.take("system") {
        ask.system = read_texts(&system, Place::System, lost)?;
    }
    read_messages(&body.need("messages")?, &mut ask, lost)?;
    read_tools(&mut body, &mut ask, lost)?;
    if let Some(stop) = body.take("stop_sequences") {
        for sequence in stop.list()? {
            let sequence = sequence.text()?;
            if !sequence.is_empty() {
                ask.stop.push(sequence);
            }
        }
    }
    ask.temperature = take(&mut body, "temperature", Field::number)?;
    ask.top_p = take(&mut body, "top_p", Field::number)?;
    ask.top_k = take(&mut body, "top_k", Field::count)?;
    ask.streamed = take(&mut body, "stream", Field::flag)?.unwrap_or(false);
    read_thinking(&mut body, &mut ask, lost)?;
    if let Some(metadata) = body.take("metadata") {
        let mut metadata = metadata.object()?;
        let user = take(&mut metadata, "user_id", Field::text)?;
        ask.user = user.filter(|user| !user.is_empty());
        lose_rest(&metadata, "metadata", lost);
    }
    for name in body.rest() {
        lost.add_unknown(name);
    }
    Ok(ask)
}

fn take<'a, T>(
    object: &mut Object<'a>,
    name: &str,
    read: impl FnOnce(&Field<'a>) -> Result<T, Invalid>,
) -> Result<Option<T>, Invalid> {
    object.take(name).map(|field| read(&field)).transpose()
}

fn read_messages(
    messages: &Field<'_>,
    ask: &mut Ask,
    lost: &mut Lost,
) -> Result<(), Untranslatable> {
    for message in messages.list()? {
        let mut message = message.object()?;
        let role = message.need("role")?;
        let (role, place) = match role.text()?.as_str() {
            "user" => (Role::User, Place::User),
            "assistant" => (Role::Assistant, Place::Assistant),
            "system" => (Role::System, Place::System),
            _ => return Err(role.invalid("expected user, assistant or system").into()),
        };
        let content = message.need("content")?;
        lose_rest(&message, "messages", lost);
        if role == Role::System && ask.turns.is_empty() {
            ask.system.extend(read_texts(&content, place, lost)?);
            continue;
        }
        let parts = read_parts(&content, place, lost)?;
        // What had nothing but thinking, or nothing at all, is no turn.
        if !parts.is_empty() {
            ask.turns.push(Turn { role, parts });
        }
    }
    let Some(last) = ask.turns.last() else {
        return Err(messages.invalid("there is nothing in them").into());
    };
    // An answer that goes on in the middle of this text is a thing that only this dialect has.
    if last.role == Role::Assistant {
        lost.add("messages.prefill");
    }
    Ok(())
}

fn read_tools(body: &mut Object<'_>, ask: &mut Ask, lost: &mut Lost) -> Result<(), Untranslatable> {
    // Names of those that only their provider knows.
    let mut dropped: Vec<String> = Vec::new();
    let tools = take(body, "tools", Field::list)?.unwrap_or_default();
    for tool in tools {
        let mut tool = tool.object()?;
        match take(&mut tool, "type", Field::text)?.as_deref() {
            None | Some("custom") => ask.tools.push(read_tool(tool, lost)?),
            Some(kind) => {
                lost.add_unknown(&format!("tools.{kind}"));
                let name = take(&mut tool, "name", Field::text)?;
                dropped.push(name.unwrap_or_default());
            }
        }
    }
    let Some(choice) = body.take("tool_choice") else {
        return Ok(());
    };
    let mut choice = choice.object()?;
    let kind = choice.need("type")?;
    let gone = Unable("the tool that must be called is one that only its provider has");
    ask.tool_choice = match kind.text()?.as_str() {
        "auto" => Some(ToolChoice::Auto),
        "none" => Some(ToolChoice::Nothing),
        "any" if ask.tools.is_empty() && !dropped.is_empty() => return Err(gone.into()),
        "any" => Some(ToolChoice::Required),
        "tool" => {
            let field = choice.need("name")?;
            let name = field.text()?;
            if !ask.tools.iter().any(|tool| tool.name == name) {
                if dropped.contains(&name) {
                    return Err(gone.into());
                }
                return Err(field.invalid("there is no tool of this name").into());
            }
            Some(ToolChoice::Named(name))
        }
        _ => return Err(kind.invalid("expected auto, any, tool or none").into()),
    };
    let alone = take(&mut choice, "disable_parallel_tool_use", Field::flag)?;
    ask.parallel_tools = alone.map(|alone| !alone);
    lose_rest(&choice, "tool_choice", lost);
    Ok(())
}

fn read_tool(mut tool: Object<'_>, lost: &mut Lost) -> Result<Tool, Invalid> {
    let name = tool.need("name")?;
    let text = name.text()?;
    if text.is_empty() {
        return Err(name.invalid("it is empty"));
    }
    let description = take(&mut tool, "description", Field::text)?;
    let schema = tool.need("input_schema")?;
    if !schema.is_object() {
        return Err(schema.invalid("expected an object"));
    }
    let strict = take(&mut tool, "strict", Field::flag)?;
    lose_rest(&tool, "tools", lost);
    Ok(Tool {
        name: text,
        description: description.filter(|text| !text.is_empty()),
        schema: Some(schema.raw().to_owned()),
        strict,
    })
}

/// `thinking`, `output_config` and the format of the whole answer.
fn read_thinking(
    body: &mut Object<'_>,
    ask: &mut Ask,
    lost: &mut Lost,
) -> Result<(), Untranslatable> {
    if let Some(thinking) = body.take("thinking") {
        let mut thinking = thinking.object()?;
        ask.thinking = match thinking.need("type")?.text()?.as_str() {
            "enabled" => Some(Thinking::Budget(thinking.need("budget_tokens")?.count()?)),
            "disabled" => Some(Thinking::Off),
            "adaptive" => Some(Thinking::Adaptive),
            _ => {
                lost.add("thinking");
                None
            }
        };
        lose_rest(&thinking, "thinking", lost);
    }
    let mut format = None;
    if let Some(output) = body.take("output_config") {
        let mut output = output.object()?;
        if let Some(effort) = take(&mut output, "effort", Field::text)? {
            match ask.thinking {
                // Both say how much the model thinks, and an effort says it better.
                None | Some(Thinking::Adaptive) => ask.thinking = Some(Thinking::Effort(effort)),
                _ => lost.add("output_config.effort"),
            }
        }
        format = output.take("format");
        lose_rest(&output, "output_config", lost);
    }
    // The older name stands beside the newer one.
    let older = body.take("output_format");
    if let Some(format) = format.or(older) {
        ask.format = read_format(&format, lost)?;
    }
    Ok(())
}

fn read_format(format: &Field<'_>, lost: &mut Lost) -> Result<Format, Invalid> {
    let mut format = format.object()?;
    let kind = format.need("type")?;
    if kind.text()? != "json_schema" {
        return Err(kind.invalid("expected json_schema"));
    }
    let schema = format.need("schema")?;
    if !schema.is_object() {
        return Err(schema.invalid("expected an object"));
    }
    lose_rest(&format, "output_config.format", lost);
    Ok(Format::Schema {
        name: None,
        schema: schema.raw().to_owned(),
        strict: None,
    })
}
