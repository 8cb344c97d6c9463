//! Writes an answer as a stream.
//!
//! Blocks of this dialect stand one after another, while other dialects may mix the calls of tools.
//! So blocks wait in a line: the first is written as it comes, the others are held until it ends.

use std::collections::VecDeque;

use llm_call::Dialect;

use super::{
    super::piece::{Counts, Finish, Garbled, Piece},
    events_write::{
        write_bare, write_delta, write_message_delta, write_message_start, write_start, write_stop,
    },
    wire::{Stop, Usage},
};

/// The most that is held of blocks that wait, in bytes.
const MOST_HELD: usize = 8 * 1024 * 1024;

/// Writes whole SSE events.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    model: String,
    created: u64,
    started: bool,
    ended: bool,
    /// Blocks written or being written.
    blocks: usize,
    line: VecDeque<Block>,
    held: usize,
    calls: usize,
    refused: bool,
    finish: Option<Finish>,
    usage: Counts,
}

#[derive(Debug)]
struct Block {
    what: What,
    begun: bool,
    /// Nothing more comes.
    ended: bool,
    /// What waits to be written; empty in the first of the line.
    held: String,
}

#[derive(Debug)]
pub(super) enum What {
    Text,
    Thinking,
    Tool {
        call: usize,
        id: String,
        name: String,
        json: Nesting,
    },
}

/// Whether a JSON object that comes in fragments is whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
    whole: bool,
}

impl Nesting {
    fn read(&mut self, json: &str) {
        for byte in json.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.whole |= self.depth == 0;
                }
                _ => {}
            }
        }
    }
}

impl Block {
    fn new(what: What) -> Block {
        Block {
            what,
            begun: false,
            ended: false,
            held: String::new(),
        }
    }

    /// Whether the next in line may begin.
    fn makes_way(&self) -> bool {
        match &self.what {
            What::Text | What::Thinking => true,
            What::Tool { json, .. } => self.ended || json.whole,
        }
    }

    fn size(&self) -> usize {
        let names = match &self.what {
            What::Tool { id, name, .. } => id.len() + name.len(),
            _ => 0,
        };
        size_of::<Block>() + names
    }
}

impl StreamWriter {
    /// `wants_usage` is of no account: a stream of this dialect always tells it.
    pub(crate) fn new(model: &str, created: u64, _wants_usage: bool) -> StreamWriter {
        StreamWriter {
            model: model.to_owned(),
            created,
            started: false,
            ended: false,
            blocks: 0,
            line: VecDeque::new(),
            held: 0,
            calls: 0,
            refused: false,
            finish: None,
            usage: Counts::default(),
        }
    }

    /// Writes what a piece makes certain. After the end, or a failure, nothing is written.
    pub(crate) fn piece(&mut self, piece: Piece<'_>, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if self.ended {
            return Ok(());
        }
        match piece {
            Piece::Start { id, model } => self.start(&id, &model, out),
            Piece::Ping => write_bare("ping", out),
            Piece::Text(text) => self.say(What::Text, &text, out),
            Piece::Reasoning(text) => self.say(What::Thinking, &text, out),
            Piece::Refusal(text) => {
                self.refused = true;
                self.say(What::Text, &text, out)
            }
            Piece::ToolCall { call, id, name } => {
                let id = match &*id {
                    "" => format!("toolu_{:x}_{}", self.created, self.calls),
                    id => id.to_owned(),
                };
                self.calls += 1;
                self.join(
                    What::Tool {
                        call,
                        id,
                        name: name.into_owned(),
                        json: Nesting::default(),
                    },
                    out,
                )
            }
            Piece::Arguments { call, json } => self.argue(call, &json, out),
            Piece::ToolEnd { call } => {
                if let Some((_, block)) = self.tool(call) {
                    block.ended = true;
                }
                self.advance(out)
            }
            Piece::Finish(finish) => {
                self.finish = Some(finish);
                self.close(out)
            }
            Piece::Usage(counts) => {
                self.usage = counts.or(self.usage);
                Ok(())
            }
            Piece::Failed { kind, message } => {
                self.ended = true;
                out.extend(Dialect::Anthropic.error_event(kind, &message));
                Ok(())
            }
            Piece::End => self.end(out),
            Piece::Lost(_) => Ok(()),
        }
    }

    fn start(&mut self, id: &str, model: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if self.started {
            return Ok(());
        }
        self.started = true;
        let made;
        let id = if id.is_empty() {
            made = format!("msg_{:x}_0", self.created);
            &made
        } else {
            id
        };
        let model = if model.is_empty() { &self.model } else { model };
        write_message_start(id, model, &Usage::of(self.usage), out)
    }

    /// Text or thinking.
    fn say(&mut self, what: What, text: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if text.is_empty() {
            return Ok(());
        }
        let same =
            |block: &Block| std::mem::discriminant(&block.what) == std::mem::discriminant(&what);
        if !self.line.back().is_some_and(same) {
            self.join(what, out)?;
        }
        let last = self.line.len().saturating_sub(1);
        self.add(last, text, out)
    }

    fn tool(&mut self, number: usize) -> Option<(usize, &mut Block)> {
        let is_it = |block: &Block| matches!(block.what, What::Tool { call, .. } if call == number);
        self.line
            .iter_mut()
            .enumerate()
            .find(|(_, block)| is_it(block))
    }

    fn argue(&mut self, call: usize, fragment: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if fragment.is_empty() {
            return Ok(());
        }
        let Some((i, block)) = self.tool(call) else {
            return if fragment.trim().is_empty() {
                Ok(())
            } else {
                Err(Garbled("arguments of a call that is not open".into()))
            };
        };
        if let What::Tool { json, .. } = &mut block.what {
            json.read(fragment);
        }
        self.add(i, fragment, out)?;
        self.advance(out)
    }

    /// A block takes its place at the end of the line.
    fn join(&mut self, what: What, out: &mut Vec<u8>) -> Result<(), Garbled> {
        self.start("", "", out)?;
        let block = Block::new(what);
        self.hold(block.size())?;
        self.line.push_back(block);
        self.advance(out)
    }

    fn hold(&mut self, size: usize) -> Result<(), Garbled> {
        self.held = self.held.saturating_add(size);
        if self.held > MOST_HELD {
            return Err(Garbled(
                "too much of tools is mixed to be set in order".into(),
            ));
        }
        Ok(())
    }

    /// Adds to a block: writes it if it is the first.
    fn add(&mut self, i: usize, fragment: &str, out: &mut Vec<u8>) -> Result<(), Garbled> {
        if i > 0 {
            self.hold(fragment.len())?;
        }
        match self.line.get_mut(i) {
            Some(block) if i == 0 => write_delta(self.blocks, &block.what, fragment, out),
            Some(block) => {
                block.held.push_str(fragment);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Writes as far as the first of the line lets.
    fn advance(&mut self, out: &mut Vec<u8>) -> Result<(), Garbled> {
        while let Some(block) = self.line.front_mut() {
            if !block.begun {
                block.begun = true;
                write_start(self.blocks, &block.what, out)?;
                let held = std::mem::take(&mut block.held);
                self.held = self.held.saturating_sub(held.len());
                if !held.is_empty() {
                    write_delta(self.blocks, &block.what, &held, out)?;
                }
            }
            let (ended, makes_way) = (block.ended, block.makes_way());
            let size = block.size();
            let others_wait = self.line.len() > 1;
            if !(ended || makes_way && others_wait) {
                break;
            }
            self.held = self.held.saturating_sub(size);
            self.line.pop_front();
            write_stop(self.blocks, out)?;
            self.blocks += 1;
        }
        Ok(())
    }

    fn close(&mut self, out: &mut Vec<u8>) -> Result<(), Garbled> {
        for block in &mut self.line {
            block.ended = true;
        }
        self.advance(out)
    }

    fn end(&mut self, out: &mut Vec<u8>) -> Result<(), Garbled> {
        let Some(finish) = self.finish.take() else {
            return Err(Garbled("the answer ends without a reason".into()));
        };
        self.start("", "", out)?;
        self.close(out)?;
        let stop = Stop::of(&finish, self.calls > 0, self.refused);
        write_message_delta(stop, Usage::of(self.usage), out)?;
        self.ended = true;
        write_bare("message_stop", out)
    }
}
