//! A request into another dialect.

use llm_call::{Abilities, Dialect};

use super::{
    ask::{Ask, Manner, Part, Role, Turn, Unable, Untranslatable},
    chat, gemini,
    lost::Lost,
    messages,
};

/// A request in the dialect of a target.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The path of a target at the root of its API, with what belongs into the query.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    /// Whether the caller's stream ends with a chunk of usage.
    pub(crate) wants_usage: bool,
}

/// Whether requests of one dialect can be made into ones of another.
pub(crate) fn translates(from: Dialect, to: Dialect) -> bool {
    use Dialect::{Anthropic, Gemini, OpenAiChat};
    from != to
        && matches!(from, OpenAiChat | Anthropic)
        && matches!(to, OpenAiChat | Anthropic | Gemini)
}

/// Translates a request.
pub(crate) fn ask(
    from: Dialect,
    to: Dialect,
    body: &[u8],
    manner: &Manner<'_>,
    abilities: &Abilities,
    lost: &mut Lost,
) -> Result<Asked, Untranslatable> {
    let mut ask = match from {
        Dialect::OpenAiChat => chat::read_ask(body, lost)?,
        Dialect::Anthropic => messages::read_ask(body, lost)?,
        _ => return Err(no_words().into()),
    };
    if !abilities.takes_system() && !ask.system.is_empty() {
        let parts = ask.system.drain(..).map(Part::Text).collect();
        let role = Role::User;
        ask.turns.insert(0, Turn { role, parts });
        lost.add("system");
    }
    if !abilities.takes_parallel_tools() && ask.parallel_tools == Some(false) {
        // It never does.
        ask.parallel_tools = None;
    }
    let body = match to {
        Dialect::OpenAiChat => chat::write_ask(&ask, manner, lost)?,
        Dialect::Anthropic => messages::write_ask(&ask, manner, lost)?,
        Dialect::Gemini => gemini::write_ask(&ask, manner, lost)?,
        _ => return Err(no_words().into()),
    };
    let path = path(to, &ask)?;
    let wants_usage = ask.wants_usage;
    Ok(Asked {
        path,
        body,
        wants_usage,
    })
}

fn path(to: Dialect, ask: &Ask) -> Result<String, Unable> {
    Ok(match to {
        Dialect::OpenAiChat => "/v1/chat/completions".to_owned(),
        Dialect::Anthropic => "/v1/messages".to_owned(),
        Dialect::Gemini => gemini::path(ask.streamed).to_owned(),
        _ => return Err(no_words()),
    })
}

fn no_words() -> Unable {
    Unable("requests are translated between chat completions, messages and Gemini's alone")
}
