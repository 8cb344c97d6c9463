//! An answer back into the dialect of the caller.

use llm_call::{Dialect, Kind};

use super::{
    Stream, chat, gemini, messages,
    piece::{Garbled, Piece},
};

/// How the answer to a translated request is to be read and written.
#[derive(Clone, Debug)]
pub(crate) struct Answering {
    pub(crate) caller: Dialect,
    pub(crate) target: Dialect,
    /// The model that was asked, where the answer names none.
    pub(crate) model: String,
    /// Seconds since 1970.
    pub(crate) created: u64,
    pub(crate) wants_usage: bool,
}

impl Answering {
    /// A stream that has not begun.
    pub(crate) fn stream(&self) -> Stream {
        Stream::new(self)
    }

    /// A whole answer, and what of it was lost.
    pub(crate) fn whole(&self, json: &[u8]) -> Result<(Vec<u8>, Vec<&'static str>), Garbled> {
        match self.caller {
            Dialect::Anthropic => {
                let mut writer =
                    messages::WholeWriter::new(&self.model, self.created, self.wants_usage);
                let lost = self.read_whole(json, |piece| writer.piece(piece))?;
                Ok((writer.finish()?, lost))
            }
            _ => {
                let mut writer =
                    chat::WholeWriter::new(&self.model, self.created, self.wants_usage);
                let lost = self.read_whole(json, |piece| writer.piece(piece))?;
                Ok((writer.finish()?, lost))
            }
        }
    }

    fn read_whole(
        &self,
        json: &[u8],
        mut write: impl FnMut(Piece<'_>),
    ) -> Result<Vec<&'static str>, Garbled> {
        let mut lost = Vec::new();
        let mut out = |piece: Piece<'_>| match piece {
            Piece::Lost(name) => {
                if !lost.contains(&name) {
                    lost.push(name);
                }
            }
            piece => write(piece),
        };
        match self.target {
            Dialect::Anthropic => messages::Reader::default().whole(json, &mut out)?,
            Dialect::Gemini => gemini::Reader::default().whole(json, &mut out)?,
            _ => chat::Reader::default().whole(json, &mut out)?,
        }
        Ok(lost)
    }

    /// The JSON of an answer that failed, with the provider's own words where there are some.
    pub(crate) fn failure(&self, kind: Kind, theirs: &[u8]) -> Vec<u8> {
        let told = llm_call::error_message(theirs);
        let message = told.as_deref().unwrap_or_else(|| kind.describe());
        self.caller.error_body(kind, message)
    }
}
