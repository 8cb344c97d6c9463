//! A chat completion request for a target.

mod wire;

use self::wire::{
    Body, Call, Called, Choice, Content, ContentPart, Definition, File, Function, Image, Message,
    Name, ResponseFormat, Schema, StreamOptions, Url,
};
use crate::translate::{
    ask::{Ask, Format, Manner, Media, Part, Role, Thinking, Tool, ToolChoice, Unable},
    lost::Lost,
};

/// The most stop sequences that are taken.
const MOST_STOPS: usize = 4;

/// Writes the body of a request.
pub(crate) fn write_ask(
    ask: &Ask,
    manner: &Manner<'_>,
    lost: &mut Lost,
) -> Result<Vec<u8>, Unable> {
    let (response_format, instruction) = format(&ask.format, manner, lost);
    let messages = messages(ask, instruction.as_deref(), lost)?;
    let max_tokens = ask
        .max_tokens
        .map(|most| manner.output_limit.map_or(most, |limit| most.min(limit)));
    if ask.top_k.is_some() {
        lost.add("top_k");
    }
    if ask.stop.len() > MOST_STOPS {
        lost.add("stop_sequences");
    }
    let has_tools = !ask.tools.is_empty();
    let body = Body {
        model: manner.model,
        messages,
        max_completion_tokens: max_tokens.filter(|_| !manner.old_max_tokens),
        max_tokens: max_tokens.filter(|_| manner.old_max_tokens),
        stop: ask.stop.get(..MOST_STOPS).unwrap_or(&ask.stop),
        temperature: ask.temperature,
        top_p: ask.top_p,
        seed: ask.seed,
        presence_penalty: ask.presence_penalty,
        frequency_penalty: ask.frequency_penalty,
        tools: ask.tools.iter().map(tool).collect(),
        tool_choice: ask.tool_choice.as_ref().and_then(|choice| match choice {
            // Without tools these are refused, and say nothing.
            ToolChoice::Auto | ToolChoice::Nothing if !has_tools => None,
            ToolChoice::Auto => Some(Choice::Word("auto")),
            ToolChoice::Nothing => Some(Choice::Word("none")),
            ToolChoice::Required => Some(Choice::Word("required")),
            ToolChoice::Named(name) => Some(Choice::Named(Function::new(Name { name }))),
        }),
        parallel_tool_calls: ask.parallel_tools.filter(|_| has_tools),
        response_format,
        reasoning_effort: ask
            .thinking
            .as_ref()
            .and_then(|thinking| effort(thinking, lost)),
        user: ask.user.as_deref(),
        stream: ask.streamed,
        // The layers around count tokens, whether the caller does or not.
        stream_options: ask.streamed.then_some(StreamOptions {
            include_usage: true,
        }),
    };
    serde_json::to_vec(&body).map_err(|_| Unable("what cannot be written as JSON"))
}

fn tool(tool: &Tool) -> Function<Definition<'_>> {
    Function::new(Definition {
        name: &tool.name,
        description: tool.description.as_deref(),
        parameters: tool.schema.as_deref(),
        strict: tool.strict,
    })
}

/// The format, and an instruction where the target takes no schema.
fn format<'a>(
    format: &'a Format,
    manner: &Manner<'_>,
    lost: &mut Lost,
) -> (Option<ResponseFormat<'a>>, Option<String>) {
    match format {
        Format::Text => (None, None),
        Format::Json => (Some(ResponseFormat::JsonObject), None),
        Format::Schema {
            name,
            schema,
            strict,
        } if manner.json_schema => {
            let json_schema = Schema {
                name: name.as_deref().unwrap_or("answer"),
                schema,
                strict: *strict,
            };
            (Some(ResponseFormat::JsonSchema { json_schema }), None)
        }
        Format::Schema { schema, .. } => {
            lost.add("output_config.format");
            let instruction = format!(
                "Answer with one JSON object and nothing else. It must fit this JSON schema:\n{schema}"
            );
            (Some(ResponseFormat::JsonObject), Some(instruction))
        }
    }
}

fn effort<'a>(thinking: &'a Thinking, lost: &mut Lost) -> Option<&'a str> {
    match thinking {
        Thinking::Off => Some("none"),
        Thinking::Effort(effort) => Some(effort),
        Thinking::Budget(..2048) => Some("low"),
        Thinking::Budget(..16384) => Some("medium"),
        Thinking::Budget(_) => Some("high"),
        Thinking::Adaptive => {
            lost.add("thinking");
            None
        }
    }
}

fn messages<'a>(
    ask: &'a Ask,
    instruction: Option<&str>,
    lost: &mut Lost,
) -> Result<Vec<Message<'a>>, Unable> {
    let mut messages = Vec::with_capacity(ask.turns.len() + 1);
    let system: Vec<&str> = ask
        .system
        .iter()
        .map(String::as_str)
        .chain(instruction)
        .collect();
    if !system.is_empty() {
        messages.push(Message::System {
            content: system.join("\n\n"),
        });
    }
    for turn in &ask.turns {
        match turn.role {
            Role::System => messages.push(Message::System {
                content: texts(&turn.parts)?.join("\n\n"),
            }),
            Role::User => user(&turn.parts, &mut messages, lost)?,
            Role::Assistant => messages.push(assistant(&turn.parts)?),
        }
    }
    Ok(messages)
}

fn texts(parts: &[Part]) -> Result<Vec<&str>, Unable> {
    parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => Ok(text.as_str()),
            _ => Err(Unable("an instruction that is not text")),
        })
        .collect()
}

/// Results come first, since they must follow their calls; what in them is no text comes after.
fn user<'a>(
    parts: &'a [Part],
    messages: &mut Vec<Message<'a>>,
    lost: &mut Lost,
) -> Result<(), Unable> {
    let (mut shown, mut said) = (Vec::new(), Vec::new());
    for part in parts {
        let Part::ToolResult {
            id,
            parts,
            is_error,
        } = part
        else {
            said.push(content_part(part)?);
            continue;
        };
        let mut texts = Vec::new();
        for part in parts {
            match part {
                Part::Text(text) => texts.push(text.as_str()),
                _ => shown.push(content_part(part)?),
            }
        }
        let mut content = texts.join("\n\n");
        if *is_error {
            lost.add("is_error");
            content.insert_str(0, "Error: ");
        }
        messages.push(Message::Tool {
            tool_call_id: id,
            content,
        });
    }
    if !shown.is_empty() {
        lost.add("tool_result.content");
    }
    shown.append(&mut said);
    match shown[..] {
        [] => {}
        [ContentPart::Text { text }] => messages.push(Message::User {
            content: Content::Text(text),
        }),
        _ => messages.push(Message::User {
            content: Content::Parts(shown),
        }),
    }
    Ok(())
}

fn content_part(part: &Part) -> Result<ContentPart<'_>, Unable> {
    match part {
        Part::Text(text) => Ok(ContentPart::Text { text }),
        Part::Image(media) => Ok(ContentPart::ImageUrl {
            image_url: Image { url: Url(media) },
        }),
        Part::File {
            media: Media::Url(_),
            ..
        } => Err(Unable("a document by its URL")),
        Part::File {
            name,
            media: media @ Media::Data { media_type, .. },
        } => {
            let default = match media_type.as_str() {
                "application/pdf" => "document.pdf",
                "text/plain" => "document.txt",
                _ => "document",
            };
            Ok(ContentPart::File {
                file: File {
                    filename: name.as_deref().unwrap_or(default),
                    file_data: Url(media),
                },
            })
        }
        Part::ToolCall { .. } => Err(Unable("a call of a tool by the user")),
        Part::ToolResult { .. } => Err(Unable("a result of a tool inside another")),
    }
}

fn assistant(parts: &[Part]) -> Result<Message<'_>, Unable> {
    let (mut content, mut tool_calls) = (None::<String>, Vec::new());
    for part in parts {
        match part {
            Part::Text(text) => content.get_or_insert_default().push_str(text),
            Part::ToolCall {
                id,
                name,
                arguments,
            } => tool_calls.push(Call {
                id,
                function: Function::new(Called {
                    name,
                    arguments: arguments.get(),
                }),
            }),
            Part::Image(_) | Part::File { .. } => {
                return Err(Unable("an image or a file in an answer"));
            }
            Part::ToolResult { .. } => return Err(Unable("a result of a tool in an answer")),
        }
    }
    Ok(Message::Assistant {
        content,
        tool_calls,
    })
}
