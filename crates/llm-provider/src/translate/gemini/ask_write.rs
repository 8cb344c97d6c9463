//! A request for Gemini.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::translate::{
    ask::{Ask, Format, Manner, Media, Part, Role, Thinking, ToolChoice, Turn, Unable},
    lost::Lost,
};

/// Gemini 3 refuses a call of a tool in the history without the signature that it gave itself; this
/// word of its documentation stands for calls that another model made.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// How many tokens an effort may think, as Google's own endpoint for OpenAI's clients has it.
const EFFORTS: [(&str, i64); 5] = [
    ("none", 0),
    ("minimal", 512),
    ("low", 1_024),
    ("medium", 8_192),
    ("high", 24_576),
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
    generation_config: Config<'a>,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    parts: Vec<Item<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<FileData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileData<'a> {
    file_uri: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'static str>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    id: &'a str,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    id: &'a str,
    name: &'a str,
    response: Response,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Response {
    /// A result that is a JSON object already.
    Object(Box<RawValue>),
    Output {
        output: String,
    },
    Error {
        error: String,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig<'a> {
    function_calling_config: Calling<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Calling<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Config<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop_sequences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    thinking_budget: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
}

/// The body of a request, and what it cannot say.
pub(crate) fn write_ask(
    ask: &Ask,
    manner: &Manner<'_>,
    lost: &mut Lost,
) -> Result<Vec<u8>, Unable> {
    let contents = contents(&ask.turns, lost);
    if contents.is_empty() {
        return Err(Unable("a conversation without a turn of the user"));
    }
    let system_instruction = (!ask.system.is_empty()).then(|| Content {
        role: None,
        parts: ask.system.iter().map(|system| text(system)).collect(),
    });
    let request = Request {
        contents,
        system_instruction,
        tools: tools(ask, lost),
        tool_config: tool_config(ask, lost),
        generation_config: config(ask, manner, lost),
    };
    serde_json::to_vec(&request).map_err(|_| Unable("a request that cannot be written as JSON"))
}

fn text(text: &str) -> Item<'_> {
    Item {
        text: Some(text),
        ..Item::default()
    }
}

fn contents<'a>(turns: &'a [Turn], lost: &mut Lost) -> Vec<Content<'a>> {
    let mut names = HashMap::new();
    let mut contents: Vec<Content<'a>> = Vec::new();
    for turn in turns {
        let role = match turn.role {
            Role::Assistant => "model",
            Role::User => "user",
            Role::System => {
                // Said by the user, which weighs less.
                lost.add("messages.system");
                "user"
            }
        };
        let mut parts = Vec::new();
        let mut signed = false;
        for part in &turn.parts {
            match part {
                Part::Text(said) => parts.push(text(said)),
                Part::Image(media) | Part::File { media, .. } => parts.push(media_item(media)),
                Part::ToolCall {
                    id,
                    name,
                    arguments,
                } => {
                    names.insert(id.as_str(), name.as_str());
                    let first = !std::mem::replace(&mut signed, true);
                    parts.push(Item {
                        function_call: Some(FunctionCall {
                            id,
                            name,
                            args: arguments,
                        }),
                        thought_signature: first.then_some(FOREIGN_CALL),
                        ..Item::default()
                    });
                }
                Part::ToolResult {
                    id,
                    parts: result,
                    is_error,
                } => {
                    let name = names.get(id.as_str()).copied().unwrap_or(id);
                    parts.push(Item {
                        function_response: Some(FunctionResponse {
                            id,
                            name,
                            response: response(result, *is_error),
                        }),
                        ..Item::default()
                    });
                    let media = result.iter().filter_map(|part| match part {
                        Part::Image(media) | Part::File { media, .. } => Some(media_item(media)),
                        _ => None,
                    });
                    parts.extend(media);
                }
            }
        }
        match contents.last_mut() {
            Some(last) if last.role == Some(role) => last.parts.append(&mut parts),
            _ => contents.push(Content {
                role: Some(role),
                parts,
            }),
        }
    }
    contents
}

fn media_item(media: &Media) -> Item<'_> {
    match media {
        Media::Data { media_type, base64 } => Item {
            inline_data: Some(InlineData {
                mime_type: media_type,
                data: base64,
            }),
            ..Item::default()
        },
        Media::Url(url) => Item {
            file_data: Some(FileData {
                file_uri: url,
                mime_type: media_type_of(url),
            }),
            ..Item::default()
        },
    }
}

/// The media type that a URL's ending tells.
fn media_type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or(url);
    let (_, ending) = path.rsplit_once('.')?;
    Some(match ending.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        _ => return None,
    })
}

/// What a tool gave, as an object: Gemini takes nothing else.
fn response(parts: &[Part], is_error: bool) -> Response {
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            _ => None,
        })
        .collect();
    let said = texts.join("\n");
    if is_error {
        return Response::Error { error: said };
    }
    if said.trim_start().starts_with('{')
        && let Ok(object) = serde_json::from_str(&said)
    {
        return Response::Object(object);
    }
    Response::Output { output: said }
}

fn tools<'a>(ask: &'a Ask, lost: &mut Lost) -> Vec<Tools<'a>> {
    if ask.tools.is_empty() {
        return Vec::new();
    }
    if ask.tools.iter().any(|tool| tool.strict == Some(true)) {
        lost.add("tools.strict");
    }
    let function_declarations = ask
        .tools
        .iter()
        .map(|tool| Declaration {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters_json_schema: tool.schema.as_deref(),
        })
        .collect();
    vec![Tools {
        function_declarations,
    }]
}

fn tool_config<'a>(ask: &'a Ask, lost: &mut Lost) -> Option<ToolConfig<'a>> {
    if ask.parallel_tools == Some(false) {
        lost.add("parallel_tool_calls");
    }
    let (mode, allowed_function_names) = match ask.tool_choice.as_ref()? {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::Nothing => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Named(name) => ("ANY", Some([&**name])),
    };
    Some(ToolConfig {
        function_calling_config: Calling {
            mode,
            allowed_function_names,
        },
    })
}

fn config<'a>(ask: &'a Ask, manner: &Manner<'_>, lost: &mut Lost) -> Config<'a> {
    if ask.user.is_some() {
        lost.add("user");
    }
    let (response_mime_type, response_json_schema) = match &ask.format {
        Format::Text => (None, None),
        Format::Json => (Some("application/json"), None),
        Format::Schema { schema, .. } if manner.json_schema => {
            (Some("application/json"), Some(&**schema))
        }
        Format::Schema { .. } => {
            lost.add("response_format.json_schema");
            (Some("application/json"), None)
        }
    };
    let limit = manner.output_limit.unwrap_or(u64::MAX);
    Config {
        max_output_tokens: ask.max_tokens.map(|tokens| tokens.min(limit)),
        temperature: ask.temperature,
        top_p: ask.top_p,
        top_k: ask.top_k,
        seed: ask.seed,
        presence_penalty: ask.presence_penalty,
        frequency_penalty: ask.frequency_penalty,
        stop_sequences: &ask.stop,
        response_mime_type,
        response_json_schema,
        thinking_config: ask.thinking.as_ref().map(thinking),
    }
}

fn thinking(thinking: &Thinking) -> ThinkingConfig {
    let (thinking_budget, include_thoughts) = match thinking {
        Thinking::Off => (0, false),
        Thinking::Adaptive => (-1, true),
        Thinking::Budget(tokens) => (i64::try_from(*tokens).unwrap_or(i64::MAX), true),
        Thinking::Effort(effort) => {
            let known = EFFORTS.iter().find(|(name, _)| name == effort);
            // What is not known is more than high.
            (known.map_or(24_576, |(_, budget)| *budget), false)
        }
    };
    ThinkingConfig {
        thinking_budget,
        include_thoughts,
    }
}
