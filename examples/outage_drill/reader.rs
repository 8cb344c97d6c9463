//! Reads a streamed chat completion as a user's program would, and believes nothing.

use serde_json::Value;

/// What has come of one answer. It knows nothing of the layers under test.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// The piece of a line that has not ended yet.
    line: Vec<u8>,
    content: String,
    finished: bool,
    broken: Option<&'static str>,
}

impl Reader {
    /// Takes the next bytes, cut wherever they were cut.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if *byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.event(line.strip_suffix(b"\r").unwrap_or(&line));
            } else {
                self.line.push(*byte);
            }
        }
    }

    fn event(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data: ") else {
            return;
        };
        if data == b"[DONE]" {
            return;
        }
        let Ok(chunk) = serde_json::from_slice::<Value>(data) else {
            self.broken = Some("malformed_event");
            return;
        };
        if !chunk["error"].is_null() {
            self.broken = Some("error_event");
        }
        let choice = &chunk["choices"][0];
        self.content
            .push_str(choice["delta"]["content"].as_str().unwrap_or(""));
        self.finished |= choice["finish_reason"].is_string();
    }

    /// Whether a first token has come.
    pub(crate) fn has_content(&self) -> bool {
        !self.content.is_empty()
    }

    /// Judges the answer once its body has ended: the finish reason came, and every token once and
    /// in order.
    pub(crate) fn verdict(&self) -> Result<(), &'static str> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        if !self.finished {
            return Err("no_finish_reason");
        }
        let words = self.content.split_whitespace();
        let in_order = (1..)
            .zip(words)
            .all(|(n, word)| word == format!("token{n}"));
        match (self.has_content(), in_order) {
            (true, true) => Ok(()),
            (true, false) => Err("wrong_content"),
            (false, _) => Err("no_content"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(content: &str, finish: &str) -> String {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":{content:?}}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    }

    fn verdict(text: &str) -> Result<(), &'static str> {
        let mut bytewise = Reader::default();
        text.bytes().for_each(|byte| bytewise.push(&[byte]));
        let mut whole = Reader::default();
        whole.push(text.as_bytes());
        assert_eq!(whole.verdict(), bytewise.verdict());
        whole.verdict()
    }

    #[test]
    fn an_answer_counts_only_with_all_its_tokens_and_its_finish_reason() {
        let (one, two) = (chunk("token1", "null"), chunk(" token2", "null"));
        let finish = chunk("", "\"stop\"");
        assert_eq!(
            verdict(&format!("{one}{two}{finish}data: [DONE]\n\n")),
            Ok(())
        );
        assert_eq!(verdict(&format!("{one}{two}")), Err("no_finish_reason"));
        assert_eq!(
            verdict(&format!("{one}{one}{finish}")),
            Err("wrong_content")
        );
        assert_eq!(verdict(&format!("{two}{finish}")), Err("wrong_content"));
        assert_eq!(verdict(&finish), Err("no_content"));
        assert_eq!(
            verdict(&format!("{one}data: {{\n\n{finish}")),
            Err("malformed_event")
        );
        let error = "data: {\"error\":{\"message\":\"overloaded\"}}\n\n";
        assert_eq!(verdict(&format!("{one}{error}")), Err("error_event"));
    }
}
