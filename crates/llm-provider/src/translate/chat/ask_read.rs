//! A caller's chat completion request.

mod messages;

use serde_json::value::RawValue;

use self::messages::messages;
use crate::translate::{
    ask::{Ask, Format, Thinking, Tool, ToolChoice, Unable, Untranslatable},
    fields::{Field, Invalid, Object},
    lost::Lost,
};

/// Reads the body of a request.
pub(crate) fn read_ask(body: &[u8], lost: &mut Lost) -> Result<Ask, Untranslatable> {
    let mut body = Field::whole(body)?.object()?;
    check_unable(&mut body)?;
    // Which model answers is decided elsewhere.
    body.take("model").map(|f| f.text()).transpose()?;
    let mut ask = Ask {
        max_tokens: max_tokens(&mut body)?,
        stop: stop(&mut body)?,
        temperature: body.take("temperature").map(|f| f.number()).transpose()?,
        top_p: body.take("top_p").map(|f| f.number()).transpose()?,
        seed: body.take("seed").map(|f| seed(&f)).transpose()?,
        presence_penalty: number(&mut body, "presence_penalty")?,
        frequency_penalty: number(&mut body, "frequency_penalty")?,
        parallel_tools: flag(&mut body, "parallel_tool_calls")?,
        user: text(&mut body, "user")?.filter(|user| !user.is_empty()),
        streamed: flag(&mut body, "stream")?.unwrap_or(false),
        ..Ask::default()
    };
    messages(&body.need("messages")?, &mut ask, lost)?;
    if let Some(tools) = body.take("tools") {
        for tool in tools.list()? {
            ask.tools.push(read_tool(&tool, lost)?);
        }
    }
    ask.tool_choice = body
        .take("tool_choice")
        .map(|choice| tool_choice(&choice))
        .transpose()?;
    if let Some(format) = body.take("response_format") {
        ask.format = read_format(&format, lost)?;
    }
    ask.thinking = text(&mut body, "reasoning_effort")?.map(|effort| match effort.as_str() {
        "none" => Thinking::Off,
        _ => Thinking::Effort(effort),
    });
    if let Some(options) = body.take("stream_options") {
        let mut options = options.object()?;
        ask.wants_usage = flag(&mut options, "include_usage")?.unwrap_or(false);
        lose_rest(&options, "stream_options", lost);
    }
    lose(&mut body, lost)?;
    for name in body.rest() {
        lost.add_unknown(name);
    }
    Ok(ask)
}

fn text(object: &mut Object<'_>, name: &str) -> Result<Option<String>, Invalid> {
    object.take(name).map(|field| field.text()).transpose()
}

fn flag(object: &mut Object<'_>, name: &str) -> Result<Option<bool>, Invalid> {
    object.take(name).map(|field| field.flag()).transpose()
}

fn number(object: &mut Object<'_>, name: &str) -> Result<Option<f64>, Invalid> {
    object.take(name).map(|field| field.number()).transpose()
}

fn seed(field: &Field<'_>) -> Result<i64, Invalid> {
    serde_json::from_str(field.raw().get()).map_err(|_| field.invalid("expected a whole number"))
}

/// What the answer of another provider could not serve.
fn check_unable(body: &mut Object<'_>) -> Result<(), Untranslatable> {
    if let Some(n) = body.take("n") {
        match n.count()? {
            0 => return Err(n.invalid("expected at least 1").into()),
            1 => {}
            _ => return Err(Unable("more than one answer (`n`)").into()),
        }
    }
    if let Some(modalities) = body.take("modalities") {
        for modality in modalities.list()? {
            if modality.text()? != "text" {
                return Err(Unable("an answer that is not text (`modalities`)").into());
            }
        }
    }
    for (name, what) in [
        ("audio", "an answer in audio (`audio`)"),
        ("functions", "functions of the old form (`functions`)"),
        (
            "function_call",
            "functions of the old form (`function_call`)",
        ),
    ] {
        if body.take(name).is_some() {
            return Err(Unable(what).into());
        }
    }
    Ok(())
}

/// Known fields that no other dialect has. What says the default is no loss.
fn lose(body: &mut Object<'_>, lost: &mut Lost) -> Result<(), Invalid> {
    for name in ["logprobs", "store"] {
        if flag(body, name)? == Some(true) {
            lost.add(name);
        }
    }
    if let Some(count) = body.take("top_logprobs")
        && count.count()? > 0
    {
        lost.add("top_logprobs");
    }
    for name in [
        "logit_bias",
        "metadata",
        "moderation",
        "prediction",
        "prompt_cache_options",
        "web_search_options",
    ] {
        if let Some(field) = body.take(name) {
            if !field.is_object() {
                return Err(field.invalid("expected an object"));
            }
            if field.raw().get() != "{}" {
                lost.add(name);
            }
        }
    }
    for name in [
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "verbosity",
    ] {
        if let Some(value) = text(body, name)?
            && (name, value.as_str()) != ("service_tier", "auto")
        {
            lost.add(name);
        }
    }
    Ok(())
}

/// Notes what nobody asked for inside of `place`.
fn lose_rest(object: &Object<'_>, place: &str, lost: &mut Lost) {
    for name in object.rest() {
        lost.add_unknown(&format!("{place}.{name}"));
    }
}

fn max_tokens(body: &mut Object<'_>) -> Result<Option<u64>, Invalid> {
    let mut most = None;
    for name in ["max_tokens", "max_completion_tokens"] {
        if let Some(field) = body.take(name) {
            let count = field.count()?;
            if count == 0 {
                return Err(field.invalid("expected at least 1"));
            }
            most = Some(count);
        }
    }
    Ok(most)
}

fn stop(body: &mut Object<'_>) -> Result<Vec<String>, Invalid> {
    let Some(field) = body.take("stop") else {
        return Ok(Vec::new());
    };
    let mut stop = if field.is_text() {
        vec![field.text()?]
    } else if field.is_list() {
        let texts = field.list()?;
        texts.iter().map(Field::text).collect::<Result<_, _>>()?
    } else {
        return Err(field.invalid("expected a string or a list of strings"));
    };
    stop.retain(|text| !text.is_empty());
    Ok(stop)
}

/// Takes the type of a tool, a call or a choice; only functions have a counterpart elsewhere.
fn check_function(object: &mut Object<'_>) -> Result<(), Untranslatable> {
    let Some(kind) = object.take("type") else {
        return Ok(());
    };
    match kind.text()?.as_str() {
        "function" => Ok(()),
        "custom" => Err(Unable("a custom tool (`custom`)").into()),
        "allowed_tools" => Err(Unable("a choice of tools (`allowed_tools`)").into()),
        _ => Err(kind.invalid("expected function").into()),
    }
}

fn read_tool(field: &Field<'_>, lost: &mut Lost) -> Result<Tool, Untranslatable> {
    let mut tool = field.object()?;
    check_function(&mut tool)?;
    let mut function = tool.need("function")?.object()?;
    let name = function.need("name")?;
    let read = Tool {
        name: name.text()?,
        description: text(&mut function, "description")?.filter(|text| !text.is_empty()),
        schema: function
            .take("parameters")
            .map(|f| schema(&f))
            .transpose()?,
        strict: flag(&mut function, "strict")?,
    };
    if read.name.is_empty() {
        return Err(name.invalid("expected a name").into());
    }
    lose_rest(&function, "tools", lost);
    lose_rest(&tool, "tools", lost);
    Ok(read)
}

fn schema(field: &Field<'_>) -> Result<Box<RawValue>, Invalid> {
    if field.is_object() {
        Ok(field.raw().to_owned())
    } else {
        Err(field.invalid("expected a JSON schema of type object"))
    }
}

fn tool_choice(field: &Field<'_>) -> Result<ToolChoice, Untranslatable> {
    if field.is_object() {
        let mut choice = field.object()?;
        check_function(&mut choice)?;
        let mut function = choice.need("function")?.object()?;
        return Ok(ToolChoice::Named(function.need("name")?.text()?));
    }
    match field.text()?.as_str() {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::Nothing),
        "required" => Ok(ToolChoice::Required),
        _ => Err(field
            .invalid("expected none, auto, required or a function")
            .into()),
    }
}

fn read_format(field: &Field<'_>, lost: &mut Lost) -> Result<Format, Invalid> {
    let mut format = field.object()?;
    let kind = format.need("type")?;
    let read = match kind.text()?.as_str() {
        "text" => Format::Text,
        "json_object" => Format::Json,
        "json_schema" => {
            let mut inner = format.need("json_schema")?.object()?;
            let read = Format::Schema {
                name: text(&mut inner, "name")?.filter(|name| !name.is_empty()),
                schema: schema(&inner.need("schema")?)?,
                strict: flag(&mut inner, "strict")?,
            };
            lose_rest(&inner, "response_format", lost);
            read
        }
        _ => return Err(kind.invalid("expected text, json_object or json_schema")),
    };
    lose_rest(&format, "response_format", lost);
    Ok(read)
}
