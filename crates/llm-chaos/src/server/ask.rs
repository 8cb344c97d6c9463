//! What a request asks for, as far as a fake provider needs to know.

use serde_json::Value;

use crate::Api;

/// The text of the `n`-th token of an answer that starts at token 1.
pub(super) fn token_text(n: u32) -> String {
    if n == 1 {
        "token1".to_owned()
    } else {
        format!(" token{n}")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ask {
    pub(super) api: Api,
    pub(super) model: String,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) max_tokens: Option<u32>,
    /// The text of a last message that is the assistant's.
    pub(super) prefill: Option<String>,
    pub(super) prompt_tokens: u32,
}

impl Ask {
    /// Reads a body; the error is what OpenAI would say to it.
    pub(super) fn parse(api: Api, body: &[u8]) -> Result<Self, String> {
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            format!(
                "We could not parse the JSON body of your request. (HINT: This likely means you aren't \
                 using your HTTP library correctly. {error})"
            )
        })?;
        let Some(model) = body["model"].as_str() else {
            return Err("you must provide a model parameter".to_owned());
        };
        let conversation = match api {
            Api::Responses => &body["input"],
            Api::Chat | Api::Messages => &body["messages"],
        };
        match conversation {
            Value::Array(messages) if !messages.is_empty() => {}
            Value::String(_) if api == Api::Responses => {}
            _ if api == Api::Responses => {
                return Err("Missing required parameter: 'input'.".to_owned());
            }
            _ => return Err("Missing required parameter: 'messages'.".to_owned()),
        }
        if api == Api::Messages && body["max_tokens"].as_u64().is_none() {
            return Err("max_tokens: Field required".to_owned());
        }
        let prefill = prefill(conversation);
        if api == Api::Messages
            && prefill
                .as_deref()
                .is_some_and(|text| text.ends_with(char::is_whitespace))
        {
            return Err(
                "messages: final assistant content cannot end with trailing whitespace".to_owned(),
            );
        }
        let max_tokens = ["max_completion_tokens", "max_tokens", "max_output_tokens"]
            .iter()
            .find_map(|key| body[*key].as_u64())
            .map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        // A word a token is near enough for a count that must only be stable.
        let words = conversation.to_string().split_whitespace().count();
        Ok(Self {
            api,
            model: model.to_owned(),
            stream: body["stream"].as_bool().unwrap_or(false),
            include_usage: body["stream_options"]["include_usage"]
                .as_bool()
                .unwrap_or(false),
            max_tokens,
            prefill,
            prompt_tokens: u32::try_from(words).unwrap_or(u32::MAX),
        })
    }

    /// How many tokens of our usual answer the prefill already has.
    pub(super) fn prefilled_tokens(&self) -> u32 {
        let last = self
            .prefill
            .as_deref()
            .and_then(|text| text.split_whitespace().next_back());
        last.and_then(|word| word.strip_prefix("token"))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    }
}

fn prefill(conversation: &Value) -> Option<String> {
    let last = conversation.as_array()?.last()?;
    if last["role"] != "assistant" {
        return None;
    }
    Some(match &last["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailing_assistant_message_is_a_prefill() {
        let body = br#"{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},
            {"role":"assistant","content":[{"type":"text","text":"token1 token2"}]}]}"#;
        let ask = Ask::parse(Api::Messages, body).unwrap();
        assert_eq!(ask.prefilled_tokens(), 2);
        assert_eq!(ask.max_tokens, Some(5));
    }

    #[test]
    fn a_body_that_is_not_json_gets_openais_words() {
        let error = Ask::parse(Api::Chat, b"{\"model\":").unwrap_err();
        assert!(
            error.starts_with("We could not parse the JSON body of your request."),
            "{error}"
        );
    }
}
