//! Writes a request for a target.

use std::{borrow::Cow, collections::HashSet};

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    super::{
        ask::{Ask, Format, Manner, Part, Thinking, Tool, ToolChoice, Turn, Unable},
        fields::Field,
        lost::Lost,
    },
    blocks_write::{Message, ends_with_results, messages},
};

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    system: String,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WrittenTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stop_sequences: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<WrittenThinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct WrittenTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    input_schema: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    disable_parallel_tool_use: Option<bool>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WrittenThinking {
    Enabled { budget_tokens: u64 },
    Disabled,
    Adaptive,
}

#[derive(Default, Serialize)]
struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<OutputFormat<'a>>,
}

#[derive(Serialize)]
struct OutputFormat<'a> {
    r#type: &'static str,
    schema: &'a RawValue,
}

#[derive(Serialize)]
struct Metadata<'a> {
    user_id: &'a str,
}

/// The smallest budget for thinking.
const LEAST_BUDGET: u64 = 1024;

/// The smallest `top_p` that goes with thinking.
const LEAST_TOP_P: f64 = 0.95;

/// Writes the body. What the target cannot be told is noted in `lost`, by the name that it has for
/// OpenAI chat completions.
pub(crate) fn write_ask(
    ask: &Ask,
    manner: &Manner<'_>,
    lost: &mut Lost,
) -> Result<Vec<u8>, Unable> {
    let messages = messages(&ask.turns, lost)?;
    let max_tokens = ask
        .max_tokens
        .filter(|most| *most > 0)
        .unwrap_or(manner.default_max_tokens)
        .min(manner.output_limit.unwrap_or(u64::MAX))
        .max(1);
    let mut output = OutputConfig::default();
    let mut thinking = None;
    match &ask.thinking {
        None => {}
        Some(Thinking::Off) => thinking = Some(WrittenThinking::Disabled),
        Some(Thinking::Adaptive) => thinking = Some(WrittenThinking::Adaptive),
        Some(Thinking::Budget(budget)) => {
            thinking = write_budget(*budget, max_tokens, &messages, lost);
        }
        Some(Thinking::Effort(effort)) if effort == "none" => {
            thinking = Some(WrittenThinking::Disabled);
        }
        Some(Thinking::Effort(wish)) => {
            output.effort = known_effort(wish);
            if output.effort != Some(wish) {
                lost.add("reasoning_effort");
            }
        }
    }
    let thinks = matches!(
        thinking,
        Some(WrittenThinking::Enabled { .. } | WrittenThinking::Adaptive)
    );

    let tools = write_tools(ask, manner, lost)?;
    let tool_choice = write_choice(ask, thinks, lost);
    let (temperature, top_p, top_k) = write_sampling(ask, thinks, lost);
    let lost_fields = [
        (ask.seed.is_some(), "seed"),
        (ask.presence_penalty.is_some(), "presence_penalty"),
        (ask.frequency_penalty.is_some(), "frequency_penalty"),
    ];
    for (is_there, name) in lost_fields {
        if is_there {
            lost.add(name);
        }
    }

    let mut system: Vec<Cow<'_, str>> = ask.system.iter().map(Into::into).collect();
    write_format(ask, manner, &mut output, &mut system, lost);
    let is_set = output.effort.is_some() || output.format.is_some();
    let body = Body {
        model: manner.model,
        max_tokens,
        system: system.join("\n\n"),
        messages,
        tools,
        tool_choice,
        stop_sequences: write_stop(ask, lost),
        temperature,
        top_p,
        top_k,
        thinking,
        output_config: is_set.then_some(output),
        metadata: ask.user.as_deref().map(|user_id| Metadata { user_id }),
        stream: ask.streamed,
    };
    serde_json::to_vec(&body).map_err(|_| Unable("the request cannot be written"))
}

fn known_effort(wish: &str) -> Option<&'static str> {
    Some(match wish {
        "minimal" | "low" => "low",
        "medium" => "medium",
        "high" => "high",
        "xhigh" => "xhigh",
        "max" => "max",
        _ => return None,
    })
}

fn write_budget(
    wish: u64,
    max_tokens: u64,
    messages: &[Message<'_>],
    lost: &mut Lost,
) -> Option<WrittenThinking> {
    // With a budget, the turn that called the tools has to begin with the signed thoughts that led
    // there; another model's thoughts would not do.
    if max_tokens <= LEAST_BUDGET || ends_with_results(messages) {
        lost.add("thinking");
        return None;
    }
    let budget_tokens = wish.clamp(LEAST_BUDGET, max_tokens.saturating_sub(1));
    if budget_tokens != wish {
        lost.add("thinking.budget_tokens");
    }
    Some(WrittenThinking::Enabled { budget_tokens })
}

fn write_sampling(
    ask: &Ask,
    thinks: bool,
    lost: &mut Lost,
) -> (Option<f64>, Option<f64>, Option<u64>) {
    let mut temperature = ask.temperature.map(|wish| wish.clamp(0.0, 1.0));
    let (mut top_p, mut top_k) = (ask.top_p, ask.top_k);
    if temperature != ask.temperature {
        lost.add("temperature");
    }
    if thinks {
        if temperature.take().is_some_and(|wish| wish != 1.0) {
            lost.add("temperature");
        }
        if top_p.is_some_and(|wish| wish < LEAST_TOP_P) {
            top_p = None;
            lost.add("top_p");
        }
        if top_k.take().is_some() {
            lost.add("top_k");
        }
    }
    // Models since Claude 4.1 refuse both at once.
    if temperature.is_some() && top_p.take().is_some_and(|wish| wish != 1.0) {
        lost.add("top_p");
    }
    (temperature, top_p, top_k)
}

fn write_stop<'a>(ask: &'a Ask, lost: &mut Lost) -> Vec<&'a str> {
    let is_fit = |sequence: &&str| !sequence.trim().is_empty();
    let stop: Vec<&str> = ask.stop.iter().map(String::as_str).filter(is_fit).collect();
    if stop.len() < ask.stop.len() {
        lost.add("stop");
    }
    stop
}

fn write_tools<'a>(
    ask: &'a Ask,
    manner: &Manner<'_>,
    lost: &mut Lost,
) -> Result<Vec<WrittenTool<'a>>, Unable> {
    let mut tools = Vec::with_capacity(ask.tools.len());
    for tool in &ask.tools {
        // Checked calls came with checked answers.
        let strict = tool.strict.filter(|strict| *strict);
        if strict.is_some() && !manner.json_schema {
            lost.add("tools.strict");
        }
        tools.push(WrittenTool {
            name: &tool.name,
            description: tool.description.as_deref(),
            input_schema: write_schema(tool)?,
            strict: strict.filter(|_| manner.json_schema),
        });
    }
    if tools.is_empty() {
        // Calls in the conversation must be of known tools. They cannot be called again: see
        // `write_choice`.
        for name in called(&ask.turns) {
            tools.push(WrittenTool {
                name,
                description: None,
                input_schema: Cow::Owned(raw(NO_SCHEMA.to_owned())?),
                strict: None,
            });
        }
    }
    Ok(tools)
}

/// The names of the tools that were called, each once.
fn called<'a>(turns: &'a [Turn]) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let parts = turns.iter().flat_map(|turn| &turn.parts);
    let name = |part: &'a Part| match part {
        Part::ToolCall { name, .. } => Some(name.as_str()),
        _ => None,
    };
    parts
        .filter_map(name)
        .filter(|name| seen.insert(*name))
        .collect()
}

const NO_SCHEMA: &str = r#"{"type":"object","properties":{}}"#;

/// The schema as it was written, but for the type, which this dialect insists on.
fn write_schema(tool: &Tool) -> Result<Cow<'_, RawValue>, Unable> {
    let Some(schema) = &tool.schema else {
        return Ok(Cow::Owned(raw(NO_SCHEMA.to_owned())?));
    };
    let field = Field::whole(schema.get().as_bytes()).and_then(|schema| schema.object());
    let mut object = field.map_err(|_| Unable("a schema that is no object"))?;
    if object.take("type").is_some() {
        return Ok(Cow::Borrowed(schema));
    }
    if object.rest().next().is_none() {
        return Ok(Cow::Owned(raw(NO_SCHEMA.to_owned())?));
    }
    let rest = schema.get().trim_start().strip_prefix('{').unwrap_or("}");
    Ok(Cow::Owned(raw(format!(r#"{{"type":"object",{rest}"#))?))
}

fn raw(json: String) -> Result<Box<RawValue>, Unable> {
    RawValue::from_string(json).map_err(|_| Unable("a schema that is no object"))
}

fn write_choice<'a>(ask: &'a Ask, thinks: bool, lost: &mut Lost) -> Option<Choice<'a>> {
    let mut choice = Choice {
        r#type: "auto",
        name: None,
        disable_parallel_tool_use: None,
    };
    if ask.tools.is_empty() {
        choice.r#type = "none";
        return (!called(&ask.turns).is_empty()).then_some(choice);
    }
    let alone = ask.parallel_tools == Some(false);
    match &ask.tool_choice {
        None if !alone => return None,
        None | Some(ToolChoice::Auto) => {}
        Some(ToolChoice::Nothing) => {
            choice.r#type = "none";
            return Some(choice);
        }
        // A model that thinks cannot be forced.
        Some(ToolChoice::Required | ToolChoice::Named(_)) if thinks => lost.add("tool_choice"),
        Some(ToolChoice::Required) => choice.r#type = "any",
        Some(ToolChoice::Named(name)) => {
            choice.r#type = "tool";
            choice.name = Some(name);
        }
    }
    choice.disable_parallel_tool_use = alone.then_some(true);
    Some(choice)
}

fn write_format<'a>(
    ask: &'a Ask,
    manner: &Manner<'_>,
    output: &mut OutputConfig<'a>,
    system: &mut Vec<Cow<'_, str>>,
    lost: &mut Lost,
) {
    match &ask.format {
        Format::Text => {}
        Format::Json => {
            lost.add("response_format.json_object");
            system.push(
                "Answer with a single JSON object and nothing else: no words before or after it, \
                 no code fence."
                    .into(),
            );
        }
        Format::Schema { schema, .. } if manner.json_schema => {
            output.format = Some(OutputFormat {
                r#type: "json_schema",
                schema,
            });
        }
        Format::Schema { schema, .. } => {
            lost.add("response_format");
            system.push(
                format!(
                    "Answer with a single JSON value and nothing else: no words before or after \
                     it, no code fence. It must match this JSON schema:\n{schema}"
                )
                .into(),
            );
        }
    }
}
