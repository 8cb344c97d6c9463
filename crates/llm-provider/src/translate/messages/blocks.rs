//! Reads the content blocks of a caller's request.

use super::super::{
    ask::{Media, Part, Unable, Untranslatable},
    fields::{Field, Invalid, Object},
    lost::Lost,
};

/// Where a block stands: not every block may stand everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    System,
    User,
    Assistant,
    /// In the result of a tool.
    Result,
    /// In a document that is made of blocks, or in a search result.
    Document,
}

/// Blocks that are the state or the work of a server of this provider. Another one can do nothing
/// with them.
const PROVIDERS_OWN: &[&str] = &[
    "server_tool_use",
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "mcp_tool_use",
    "mcp_tool_result",
    "container_upload",
    "compaction",
    "tool_reference",
    "browser_state",
    "tool_addition",
    "tool_removal",
];

/// A content: a string, or a list of blocks. Empty texts are left out.
pub(super) fn read_parts(
    content: &Field<'_>,
    place: Place,
    lost: &mut Lost,
) -> Result<Vec<Part>, Untranslatable> {
    let mut parts = Vec::new();
    if content.is_text() {
        push_text(content.text()?, &mut parts);
    } else if content.is_list() {
        for block in content.list()? {
            read_block(&block, place, &mut parts, lost)?;
        }
    } else {
        return Err(content.invalid("expected a string or a list").into());
    }
    Ok(parts)
}

/// The same where only texts may stand.
pub(super) fn read_texts(
    content: &Field<'_>,
    place: Place,
    lost: &mut Lost,
) -> Result<Vec<String>, Untranslatable> {
    let parts = read_parts(content, place, lost)?;
    let text = |part| match part {
        Part::Text(text) => Some(text),
        _ => None,
    };
    Ok(parts.into_iter().filter_map(text).collect())
}

/// Notes what nobody has taken: `cache_control` by this name wherever it stands, the rest with the
/// place where it stood.
pub(super) fn lose_rest(object: &Object<'_>, place: &str, lost: &mut Lost) {
    for name in object.rest() {
        match name {
            "cache_control" => lost.add("cache_control"),
            _ => lost.add_unknown(&format!("{place}.{name}")),
        }
    }
}

fn push_text(text: String, parts: &mut Vec<Part>) {
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
}

/// Reads one block. A result of a tool and a document may hold blocks, which hold none.
fn read_block(
    block: &Field<'_>,
    place: Place,
    parts: &mut Vec<Part>,
    lost: &mut Lost,
) -> Result<(), Untranslatable> {
    let mut block = block.object()?;
    let field = block.need("type")?;
    let kind = field.text()?;
    let may_stand = match kind.as_str() {
        "text" => true,
        "image" => matches!(place, Place::User | Place::Result | Place::Document),
        "document" | "search_result" => matches!(place, Place::User | Place::Result),
        "tool_use" | "thinking" | "redacted_thinking" => place == Place::Assistant,
        "tool_result" => place == Place::User,
        kind if PROVIDERS_OWN.contains(&kind) => {
            lost.add_unknown(kind);
            return Ok(());
        }
        _ => return Err(field.invalid("no content block has this type").into()),
    };
    if !may_stand {
        return Err(field.invalid("such a block cannot stand here").into());
    }
    match kind.as_str() {
        "text" => {
            push_text(block.need("text")?.text()?, parts);
            lose_citations(&mut block, lost)?;
        }
        "image" => parts.push(Part::Image(read_image(&block.need("source")?)?)),
        "document" => read_document(&mut block, parts, lost)?,
        "search_result" => {
            let title = block.need("title")?.text()?;
            let source = block.need("source")?.text()?;
            let texts = read_texts(&block.need("content")?, Place::Document, lost)?;
            lose_citations(&mut block, lost)?;
            lost.add("search_result");
            push_text(format!("{title}\n{source}\n\n{}", texts.join("\n")), parts);
        }
        "tool_use" => parts.push(read_tool_use(&mut block, lost)?),
        "tool_result" => parts.push(read_tool_result(&mut block, lost)?),
        // Signed by its provider, and of no use to another one.
        _ => {
            lost.add("thinking");
            return Ok(());
        }
    }
    lose_rest(&block, &kind, lost);
    Ok(())
}

/// Citations of a text, or the wish for some.
fn lose_citations(block: &mut Object<'_>, lost: &mut Lost) -> Result<(), Invalid> {
    let Some(citations) = block.take("citations") else {
        return Ok(());
    };
    let matters = if citations.is_list() {
        !citations.list()?.is_empty()
    } else {
        let enabled = citations.object()?.take("enabled");
        enabled.is_some_and(|enabled| enabled.raw().get() == "true")
    };
    if matters {
        lost.add("citations");
    }
    Ok(())
}

fn read_image(source: &Field<'_>) -> Result<Media, Untranslatable> {
    let mut source = source.object()?;
    let kind = source.need("type")?;
    match kind.text()?.as_str() {
        "base64" => Ok(read_base64(&mut source)?),
        "url" => Ok(Media::Url(source.need("url")?.text()?)),
        "file" => Err(Unable("a file that only its provider has").into()),
        _ => Err(kind.invalid("expected base64, url or file").into()),
    }
}

fn read_base64(source: &mut Object<'_>) -> Result<Media, Invalid> {
    Ok(Media::Data {
        media_type: source.need("media_type")?.text()?,
        base64: source.need("data")?.text()?,
    })
}

fn read_document(
    block: &mut Object<'_>,
    parts: &mut Vec<Part>,
    lost: &mut Lost,
) -> Result<(), Untranslatable> {
    let mut source = block.need("source")?.object()?;
    lose_citations(block, lost)?;
    let kind = source.need("type")?;
    let media = match kind.text()?.as_str() {
        "base64" => read_base64(&mut source)?,
        "url" => Media::Url(source.need("url")?.text()?),
        // A title is lost with the rest.
        "text" => {
            push_text(source.need("data")?.text()?, parts);
            return Ok(());
        }
        "content" => {
            let content = source.need("content")?;
            parts.extend(read_parts(&content, Place::Document, lost)?);
            return Ok(());
        }
        "file" => return Err(Unable("a file that only its provider has").into()),
        _ => {
            return Err(kind
                .invalid("expected base64, url, text, content or file")
                .into());
        }
    };
    let title = block.take("title").map(|title| title.text()).transpose()?;
    parts.push(Part::File {
        name: title.filter(|title| !title.is_empty()),
        media,
    });
    Ok(())
}

fn read_tool_use(block: &mut Object<'_>, lost: &mut Lost) -> Result<Part, Invalid> {
    let id = block.need("id")?.text()?;
    let name = block.need("name")?.text()?;
    let input = block.need("input")?;
    if !input.is_object() {
        return Err(input.invalid("expected an object"));
    }
    if let Some(caller) = block.take("caller")
        && caller.object()?.need("type")?.text()? != "direct"
    {
        lost.add("tool_use.caller");
    }
    Ok(Part::ToolCall {
        id,
        name,
        arguments: input.raw().to_owned(),
    })
}

fn read_tool_result(block: &mut Object<'_>, lost: &mut Lost) -> Result<Part, Untranslatable> {
    let id = block.need("tool_use_id")?.text()?;
    let is_error = block.take("is_error").map(|flag| flag.flag()).transpose()?;
    let parts = match block.take("content") {
        Some(content) => read_parts(&content, Place::Result, lost)?,
        None => Vec::new(),
    };
    Ok(Part::ToolResult {
        id,
        parts,
        is_error: is_error.unwrap_or(false),
    })
}
