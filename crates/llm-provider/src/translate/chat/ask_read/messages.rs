//! The messages of a request.

use serde_json::value::RawValue;

use super::{check_function, lose_rest, text};
use crate::translate::{
    ask::{Ask, Media, Part, Role, Turn, Unable, Untranslatable},
    fields::{Field, Invalid, Object},
    lost::Lost,
};

/// Reads the conversation: instructions before it, and its turns.
pub(super) fn messages(
    field: &Field<'_>,
    ask: &mut Ask,
    lost: &mut Lost,
) -> Result<(), Untranslatable> {
    // Results that stand together belong to one turn.
    let mut after_result = false;
    for message in field.list()? {
        let mut message = message.object()?;
        let role = message.need("role")?;
        let kind = role.text()?;
        let parts = match kind.as_str() {
            "system" | "developer" | "user" => content(&message.need("content")?, lost)?,
            "assistant" => assistant(&mut message, lost)?,
            "tool" => {
                let result = Part::ToolResult {
                    id: message.need("tool_call_id")?.text()?,
                    parts: content(&message.need("content")?, lost)?,
                    is_error: false,
                };
                // The call has it, too.
                text(&mut message, "name")?;
                vec![result]
            }
            "function" => return Err(Unable("functions of the old form (`function`)").into()),
            _ => {
                return Err(role
                    .invalid("expected system, developer, user, assistant or tool")
                    .into());
            }
        };
        lose_rest(&message, "messages", lost);
        let role = match kind.as_str() {
            "system" | "developer" => Role::System,
            "assistant" => Role::Assistant,
            _ => Role::User,
        };
        if role != Role::User
            && parts
                .iter()
                .any(|part| matches!(part, Part::Image(_) | Part::File { .. }))
        {
            return Err(message
                .invalid("only a user can show an image or a file")
                .into());
        }
        if role == Role::System && ask.turns.is_empty() {
            ask.system
                .extend(parts.into_iter().filter_map(|part| match part {
                    Part::Text(text) => Some(text),
                    _ => None,
                }));
        } else if !parts.is_empty() {
            match ask.turns.last_mut() {
                Some(turn) if after_result && kind == "tool" => turn.parts.extend(parts),
                _ => ask.turns.push(Turn { role, parts }),
            }
        }
        after_result = kind == "tool";
    }
    if ask.system.is_empty() && ask.turns.is_empty() {
        return Err(field
            .invalid("expected a message that says something")
            .into());
    }
    Ok(())
}

fn assistant(message: &mut Object<'_>, lost: &mut Lost) -> Result<Vec<Part>, Untranslatable> {
    if message.take("audio").is_some() {
        return Err(Unable("an earlier answer in audio (`audio`)").into());
    }
    if message.take("function_call").is_some() {
        return Err(Unable("functions of the old form (`function_call`)").into());
    }
    for name in ["reasoning_content", "reasoning", "reasoning_details"] {
        if message.take(name).is_some() {
            lost.add("reasoning");
        }
    }
    if let Some(annotations) = message.take("annotations")
        && !annotations.list()?.is_empty()
    {
        lost.add("annotations");
    }
    let mut parts = match message.take("content") {
        Some(field) => content(&field, lost)?,
        None => Vec::new(),
    };
    if let Some(refusal) = text(message, "refusal")?.filter(|text| !text.is_empty()) {
        lost.add("refusal");
        parts.push(Part::Text(refusal));
    }
    if let Some(calls) = message.take("tool_calls") {
        for call in calls.list()? {
            parts.push(tool_call(&call, lost)?);
        }
    }
    Ok(parts)
}

fn tool_call(field: &Field<'_>, lost: &mut Lost) -> Result<Part, Untranslatable> {
    let mut call = field.object()?;
    let id = call.need("id")?.text()?;
    check_function(&mut call)?;
    // Some clients send back the place that the call had in the stream.
    call.take("index").map(|f| f.count()).transpose()?;
    let mut function = call.need("function")?.object()?;
    let name = function.need("name")?.text()?;
    let arguments = function.need("arguments")?;
    let arguments = object_in(arguments.text()?)
        .ok_or_else(|| arguments.invalid("expected a JSON object in a string"))?;
    lose_rest(&function, "tool_calls", lost);
    lose_rest(&call, "tool_calls", lost);
    Ok(Part::ToolCall {
        id,
        name,
        arguments,
    })
}

/// The JSON object in a text. No text is no arguments.
fn object_in(mut text: String) -> Option<Box<RawValue>> {
    if text.trim_ascii().is_empty() {
        text = "{}".to_owned();
    }
    let raw = RawValue::from_string(text).ok()?;
    raw.get().starts_with('{').then_some(raw)
}

/// The text, image and file parts of a message.
fn content(field: &Field<'_>, lost: &mut Lost) -> Result<Vec<Part>, Untranslatable> {
    let mut parts = Vec::new();
    if field.is_text() {
        parts.push(Part::Text(field.text()?));
    } else if field.is_list() {
        for part in field.list()? {
            parts.push(read_part(&part, lost)?);
        }
    } else {
        return Err(field.invalid("expected a string or a list").into());
    }
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    Ok(parts)
}

fn read_part(field: &Field<'_>, lost: &mut Lost) -> Result<Part, Untranslatable> {
    let mut part = field.object()?;
    let kind = part.need("type")?;
    let read = match kind.text()?.as_str() {
        "text" => Part::Text(part.need("text")?.text()?),
        "refusal" => {
            lost.add("refusal");
            Part::Text(part.need("refusal")?.text()?)
        }
        "image_url" => Part::Image(image(&part.need("image_url")?, lost)?),
        "file" => file(&part.need("file")?, lost)?,
        "input_audio" => return Err(Unable("a question in audio (`input_audio`)").into()),
        _ => {
            return Err(kind
                .invalid("expected text, image_url, file or refusal")
                .into());
        }
    };
    for name in part.rest() {
        lost.add_unknown(name);
    }
    Ok(read)
}

fn image(field: &Field<'_>, lost: &mut Lost) -> Result<Media, Invalid> {
    let mut image = field.object()?;
    let url = image.need("url")?;
    let media = match data_url(url.text()?) {
        Ok(data) => data,
        Err(text) if text.starts_with("data:") => {
            return Err(url.invalid("expected base64 in the data URL"));
        }
        Err(text) => Media::Url(text),
    };
    if text(&mut image, "detail")?.is_some_and(|detail| detail != "auto") {
        lost.add("image_url.detail");
    }
    lose_rest(&image, "image_url", lost);
    Ok(media)
}

fn file(field: &Field<'_>, lost: &mut Lost) -> Result<Part, Untranslatable> {
    let mut file = field.object()?;
    if file.take("file_id").is_some() {
        return Err(Unable("a file that only one provider has (`file_id`)").into());
    }
    let name = text(&mut file, "filename")?.filter(|name| !name.is_empty());
    let data = file.need("file_data")?;
    let media = match data_url(data.text()?) {
        Ok(data) => data,
        Err(text) if text.starts_with("data:") => {
            return Err(data.invalid("expected base64 in the data URL").into());
        }
        Err(text) if text.starts_with("https://") || text.starts_with("http://") => {
            Media::Url(text)
        }
        // Bare base64 says nothing of its type, and is a PDF as a rule.
        Err(base64) => Media::Data {
            media_type: "application/pdf".to_owned(),
            base64,
        },
    };
    lose_rest(&file, "file", lost);
    Ok(Part::File { name, media })
}

/// The parts of `data:image/png;base64,…`; gives the text back if it is no such URL.
fn data_url(mut url: String) -> Result<Media, String> {
    let Some((head, _)) = url.split_once(',') else {
        return Err(url);
    };
    let Some(description) = head.strip_prefix("data:") else {
        return Err(url);
    };
    let mut words = description.split(';').map(str::trim);
    let media_type = words.next().unwrap_or_default().to_ascii_lowercase();
    let is_base64 = words.any(|word| word.eq_ignore_ascii_case("base64"));
    if !is_base64 || media_type.is_empty() {
        return Err(url);
    }
    let base64 = url.split_off(head.len() + 1);
    Ok(Media::Data { media_type, base64 })
}
