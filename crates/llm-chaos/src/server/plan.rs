//! A request and a fault become steps. Pure: no socket, no clock.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::answer::{Answer, Event, Finish, Part};
use super::ask::Ask;
use super::pace::Pace;
use super::phase::Phase;
use super::pieces::{drip, garble, resplit};
use super::wire::{Head, Step};
use crate::reply::stream_error;
use crate::{Api, Fault, Reply};

/// What a provider does with a conversation that ends with the assistant's message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Goes on from the last `tokenN` in it.
    #[default]
    Continue,
    /// Answers from the start.
    Restart,
    /// 400.
    Refuse,
}

/// Who answers, and how.
pub(super) struct Plan<'a> {
    pub(super) ask: &'a Ask,
    pub(super) server: &'a str,
    pub(super) n: u64,
    pub(super) pace: Pace,
    pub(super) prefill: Prefill,
    pub(super) phase: Option<&'a Phase>,
}

impl Plan<'_> {
    pub(super) fn steps(&self, rng: &mut fastrand::Rng) -> Vec<Step> {
        let fault = self.phase.map(|phase| phase.fault);
        match fault {
            Some(Fault::BlackHole) => return vec![Step::BlackHole],
            Some(Fault::NoResponse | Fault::NeverRead) => return vec![Step::Silence],
            Some(Fault::Reset) => return vec![Step::Reset],
            Some(Fault::Close) => return vec![Step::Close],
            _ => {}
        }
        let refuses = self.prefill == Prefill::Refuse || fault == Some(Fault::RefusePrefill);
        if refuses && self.ask.prefill.is_some() {
            return self.whole(Fault::RefusePrefill);
        }
        if let Some(fault) = fault.filter(|fault| *fault != Fault::RefusePrefill) {
            let whole = self.whole(fault);
            if !whole.is_empty() {
                return whole;
            }
        }
        let (answer, after) = self.answer(rng);
        let mut steps = Vec::new();
        if let Some(phase) = self.phase.filter(|phase| phase.fault == Fault::Latency) {
            steps.push(Step::Wait(phase.delay()));
        }
        if self.ask.stream && fault != Some(Fault::TruncatedJson) {
            self.stream(&answer, after, rng, &mut steps);
        } else {
            self.plain(&answer, rng, &mut steps);
        }
        match self.phase {
            Some(phase) if phase.fault == Fault::SplitEvents => resplit(steps, phase.piece()),
            Some(phase) if phase.fault == Fault::SlowDrip => {
                drip(steps, phase.piece(), phase.gap())
            }
            _ => steps,
        }
    }

    /// The steps of a fault that is a whole answer; none if it is not.
    fn whole(&self, fault: Fault) -> Vec<Step> {
        let retry_after = self.phase.map_or(Duration::ZERO, Phase::retry_after);
        let Some(reply) = Reply::of_fault(fault, self.ask.api, &self.ask.model, retry_after) else {
            return Vec::new();
        };
        if fault != Fault::EndlessError {
            return of_reply(reply, self.server);
        }
        // Valid JSON up to a text that never ends.
        let key = "\"message\":\"";
        let open = reply.body.find(key).map_or(0, |at| at + key.len());
        let open = reply.body[..open].to_owned();
        vec![
            Step::Head(self.head(reply.status, reply.headers, None)),
            Step::Data {
                bytes: open.into(),
                tokens: 0,
            },
            Step::Repeat {
                bytes: Bytes::from_static(b"The server had an error. "),
                gap: Duration::from_millis(50),
            },
        ]
    }

    /// The healthy answer, and the number of tokens after which a fault strikes.
    fn answer(&self, rng: &mut fastrand::Rng) -> (Answer<'_>, u32) {
        let prefilled = match self.prefill {
            Prefill::Restart => 0,
            Prefill::Continue | Prefill::Refuse => self.ask.prefilled_tokens(),
        };
        let left = self.pace.tokens.sample(rng).saturating_sub(prefilled);
        let allowed = self.ask.max_tokens.unwrap_or(u32::MAX);
        let finish = if allowed < left {
            Finish::Length
        } else {
            Finish::Stop
        };
        let mut answer = Answer {
            ask: self.ask,
            server: self.server,
            n: self.n,
            first: prefilled.saturating_add(1),
            count: left.min(allowed),
            finish,
        };
        let wanted = self
            .phase
            .and_then(|phase| phase.after_tokens)
            .map_or(40, |count| count.sample(rng));
        let after = wanted.min(answer.count.saturating_sub(1));
        match self.phase.map(|phase| phase.fault) {
            Some(Fault::ContentFilterFinish) => {
                answer.count = after;
                answer.finish = Finish::ContentFilter;
            }
            Some(Fault::FinishWithoutContent) => {
                answer.count = 0;
                answer.finish = Finish::Stop;
            }
            _ => {}
        }
        (answer, after)
    }

    fn first_token(&self, rng: &mut fastrand::Rng) -> Duration {
        let usual = self.pace.first_token.sample(rng);
        match self
            .phase
            .filter(|phase| phase.fault == Fault::SlowFirstToken)
        {
            Some(phase) => phase
                .factor
                .map_or_else(|| phase.delay(), |factor| usual.mul_f64(factor)),
            None => usual,
        }
    }

    fn stream(
        &self,
        answer: &Answer<'_>,
        after: u32,
        rng: &mut fastrand::Rng,
        steps: &mut Vec<Step>,
    ) {
        let fault = self.phase.map(|phase| phase.fault);
        let headers = content_type("text/event-stream; charset=utf-8");
        steps.push(Step::Head(self.head(StatusCode::OK, headers, None)));
        match fault {
            Some(Fault::HeadersThenSilence) => return steps.push(Step::Silence),
            Some(Fault::EmptyStream) => return steps.push(Step::End),
            Some(Fault::KeepAliveOnly) => return steps.push(self.pings()),
            _ => {}
        }
        steps.push(Step::Wait(self.first_token(rng)));
        if fault == Some(Fault::ErrorEventFirst) {
            return steps.extend([self.error_event(), Step::End]);
        }
        let (mut sent, mut struck) = (0, false);
        for event in answer.events() {
            let body = matches!(event.part, Part::Token | Part::Finish);
            if body && fault == Some(Fault::RoleThenSilence) {
                return steps.push(Step::Silence);
            }
            if event.part == Part::Token && sent > 0 {
                steps.push(Step::Wait(self.pace.token_gap.sample(rng)));
            }
            if body && sent == after && !struck {
                struck = true;
                if self.strike(&event, steps) {
                    return;
                }
            }
            if event.part == Part::End && fault == Some(Fault::NoEndMarker) {
                continue;
            }
            let tokens = u32::from(event.part == Part::Token);
            sent += tokens;
            let garbled = fault == Some(Fault::Garbled) && struck;
            let bytes = if garbled {
                garble(event.text.as_bytes())
            } else {
                event.text.into()
            };
            steps.push(Step::Data { bytes, tokens });
        }
        steps.push(if fault == Some(Fault::MissingFinalChunk) {
            Step::Close
        } else {
            Step::End
        });
    }

    /// The fault in the middle of a stream, before `event`; true if it is the end of it.
    fn strike(&self, event: &Event, steps: &mut Vec<Step>) -> bool {
        let Some(phase) = self.phase else {
            return false;
        };
        let end = match phase.fault {
            Fault::Cut => vec![Step::Close],
            Fault::CutReset => vec![Step::Reset],
            Fault::HalfChunk => {
                vec![Step::HalfChunk(Bytes::copy_from_slice(
                    &event.text.as_bytes()[..event.text.len() / 2],
                ))]
            }
            Fault::SilentEnd => vec![Step::End],
            Fault::ErrorEventMid => vec![self.error_event(), Step::End],
            Fault::ErrorThenDone => vec![self.error_event(), self.end_marker(), Step::End],
            Fault::Stall => {
                steps.push(Step::Wait(phase.delay()));
                return false;
            }
            Fault::MalformedEvent => {
                let half = event.text.trim_end();
                let half: String = half.chars().take(half.chars().count() / 2).collect();
                steps.push(Step::Data {
                    bytes: format!("{half}\n\n").into(),
                    tokens: 0,
                });
                return false;
            }
            _ => return false,
        };
        steps.extend(end);
        true
    }

    fn plain(&self, answer: &Answer<'_>, rng: &mut fastrand::Rng, steps: &mut Vec<Step>) {
        let fault = self.phase.map(|phase| phase.fault);
        let body = Bytes::from(answer.json());
        let (first, rest) = (body.slice(..body.len() / 2), body.slice(body.len() / 2..));
        let head = |length| {
            Step::Head(self.head(StatusCode::OK, content_type(crate::reply::JSON), length))
        };
        let declared = head(Some(body.len()));
        let half = Step::Data {
            bytes: first.clone(),
            tokens: 0,
        };
        let full = Step::Data {
            bytes: body.clone(),
            tokens: answer.count,
        };

        let first_token = Step::Wait(self.first_token(rng));
        let token_gaps = (1..answer.count)
            .map(|_| self.pace.token_gap.sample(rng))
            .sum();
        if fault == Some(Fault::SlowFirstToken) {
            return steps.extend([
                declared,
                first_token,
                Step::Wait(token_gaps),
                full,
                Step::End,
            ]);
        }
        steps.extend([first_token, Step::Wait(token_gaps)]);
        match (fault, self.phase) {
            (Some(Fault::HeadersThenSilence | Fault::RoleThenSilence), _) => {
                steps.extend([declared, Step::Silence]);
            }
            (Some(Fault::KeepAliveOnly), _) => steps.extend([head(None), self.pings()]),
            (Some(Fault::EmptyStream), _) => steps.extend([head(Some(0)), Step::End]),
            (Some(Fault::ErrorEventFirst | Fault::ErrorEventMid | Fault::ErrorThenDone), _) => {
                steps.extend(self.whole(Fault::Error200));
            }
            (Some(Fault::Cut), _) => steps.extend([declared, half, Step::Close]),
            (Some(Fault::CutReset), _) => steps.extend([declared, half, Step::Reset]),
            (Some(Fault::HalfChunk), _) => steps.extend([head(None), Step::HalfChunk(first)]),
            (Some(Fault::MissingFinalChunk), _) => steps.extend([head(None), full, Step::Close]),
            (
                Some(
                    Fault::SilentEnd
                    | Fault::NoEndMarker
                    | Fault::MalformedEvent
                    | Fault::TruncatedJson,
                ),
                _,
            ) => steps.extend([head(Some(first.len())), half, Step::End]),
            (Some(Fault::Garbled), _) => {
                let bytes = garble(&body);
                steps.extend([
                    head(Some(bytes.len())),
                    Step::Data {
                        bytes,
                        tokens: answer.count,
                    },
                    Step::End,
                ]);
            }
            (Some(Fault::Stall), Some(phase)) => {
                let rest = Step::Data {
                    bytes: rest,
                    tokens: answer.count,
                };
                steps.extend([declared, half, Step::Wait(phase.delay()), rest, Step::End]);
            }
            _ => steps.extend([declared, full, Step::End]),
        }
    }

    fn pings(&self) -> Step {
        let bytes: &'static [u8] = match (self.ask.stream, self.ask.api) {
            (false, _) => b"\n",
            (true, Api::Messages) => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
            (true, _) => b": keep-alive\n\n",
        };
        let gap = self.phase.map_or(Duration::from_secs(1), Phase::gap);
        Step::Repeat {
            bytes: Bytes::from_static(bytes),
            gap,
        }
    }

    fn error_event(&self) -> Step {
        let error = stream_error(self.ask.api);
        let name = if self.ask.api == Api::Chat {
            ""
        } else {
            "event: error\n"
        };
        Step::Data {
            bytes: format!("{name}data: {error}\n\n").into(),
            tokens: 0,
        }
    }

    fn end_marker(&self) -> Step {
        let text: &'static str = match self.ask.api {
            Api::Chat | Api::Responses => "data: [DONE]\n\n",
            Api::Messages => "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        };
        Step::Data {
            bytes: text.into(),
            tokens: 0,
        }
    }

    fn head(&self, status: StatusCode, headers: HeaderMap, length: Option<usize>) -> Head {
        let mut headers = sign(headers, self.server);
        let name = if self.ask.api == Api::Messages {
            "request-id"
        } else {
            "x-request-id"
        };
        if let Ok(id) = HeaderValue::try_from(format!("req_{}_{}", self.server, self.n)) {
            headers.insert(name, id);
        }
        Head {
            status,
            headers,
            length,
        }
    }
}

/// A complete answer as steps.
pub(super) fn of_reply(reply: Reply, server: &str) -> Vec<Step> {
    let length = Some(reply.body.len());
    let head = Head {
        status: reply.status,
        headers: sign(reply.headers, server),
        length,
    };
    vec![
        Step::Head(head),
        Step::Data {
            bytes: reply.body.into(),
            tokens: 0,
        },
        Step::End,
    ]
}

/// Every answer says which provider gave it.
fn sign(mut headers: HeaderMap, server: &str) -> HeaderMap {
    if let Ok(name) = HeaderValue::try_from(server) {
        headers.insert("x-chaos-provider", name);
    }
    headers
}

fn content_type(value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(value))])
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
