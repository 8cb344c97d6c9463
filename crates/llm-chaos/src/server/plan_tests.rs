use super::*;
use crate::server::Count;

const APIS: [Api; 3] = [Api::Chat, Api::Responses, Api::Messages];

fn ask(api: Api, stream: bool, max_tokens: u32) -> Ask {
    Ask {
        api,
        model: "m".to_owned(),
        stream,
        include_usage: false,
        max_tokens: Some(max_tokens),
        prefill: None,
        prompt_tokens: 3,
    }
}

fn steps(ask: &Ask, phase: Option<&Phase>) -> Vec<Step> {
    let plan = Plan {
        ask,
        server: "s",
        n: 1,
        pace: Pace::default(),
        prefill: Prefill::Continue,
        phase,
    };
    plan.steps(&mut fastrand::Rng::with_seed(3))
}

fn sent(steps: &[Step]) -> (String, u32) {
    let mut bytes = Vec::new();
    let mut count = 0;
    for step in steps {
        if let Step::Data {
            bytes: data,
            tokens,
        } = step
        {
            bytes.extend_from_slice(data);
            count += tokens;
        }
    }
    (String::from_utf8_lossy(&bytes).into_owned(), count)
}

#[test]
fn every_plan_ends_and_declares_its_length_rightly() {
    for fault in Fault::ALL {
        for api in APIS {
            for (stream, max_tokens) in [
                (true, 60),
                (false, 60),
                (true, 0),
                (false, 0),
                (true, 1),
                (false, 1),
            ] {
                let steps = steps(&ask(api, stream, max_tokens), Some(&Phase::new(*fault)));
                let context = format!("{fault} {api:?} stream {stream} max {max_tokens}");
                let last = steps.last().expect("a plan has steps");
                let ends = !matches!(last, Step::Wait(_) | Step::Head(_) | Step::Data { .. });
                assert!(
                    ends || matches!(fault, Fault::SlowDrip),
                    "{context}: {last:?}"
                );
                let declared = steps.iter().find_map(|step| match step {
                    Step::Head(head) => head.length,
                    _ => None,
                });
                let length: usize = steps
                    .iter()
                    .map(|step| {
                        if let Step::Data { bytes, .. } = step {
                            bytes.len()
                        } else {
                            0
                        }
                    })
                    .sum();
                match (declared, last) {
                    (Some(declared), Step::End) => assert_eq!(declared, length, "{context}"),
                    (Some(declared), _) => assert!(length < declared, "{context}"),
                    (None, _) => {}
                }
            }
        }
    }
}

#[test]
fn a_fault_in_the_middle_comes_before_the_last_token_of_a_short_answer() {
    for api in APIS {
        let (_, tokens) = sent(&steps(&ask(api, true, 10), Some(&Phase::new(Fault::Cut))));
        assert_eq!(tokens, 9, "{api:?}");
    }
    let phase = Phase {
        after_tokens: Some(Count::Constant(4)),
        ..Phase::new(Fault::Cut)
    };
    assert_eq!(sent(&steps(&ask(Api::Chat, true, 10), Some(&phase))).1, 4);
}

#[test]
fn splits_and_drips_change_no_byte() {
    for api in APIS {
        let ask = ask(api, true, 5);
        let whole = sent(&steps(&ask, None));
        for fault in [Fault::SplitEvents, Fault::SlowDrip] {
            assert_eq!(
                sent(&steps(&ask, Some(&Phase::new(fault)))),
                whole,
                "{fault} {api:?}"
            );
        }
    }
}

#[test]
fn the_end_marker_of_each_api_is_what_is_missing() {
    for (api, marker) in [
        (Api::Chat, "[DONE]"),
        (Api::Responses, "response.completed"),
        (Api::Messages, "message_stop"),
    ] {
        // 60 tokens are the whole answer: it is complete, not cut by its limit.
        let ask = ask(api, true, 60);
        assert!(sent(&steps(&ask, None)).0.contains(marker));
        let (text, tokens) = sent(&steps(&ask, Some(&Phase::new(Fault::NoEndMarker))));
        assert!(!text.contains(marker) && tokens == 60, "{api:?}");
    }
}

#[test]
fn a_prefill_that_is_the_whole_answer_is_finished() {
    let mut ask = ask(Api::Chat, true, 60);
    ask.prefill = Some("token59 token60".to_owned());
    let (text, tokens) = sent(&steps(&ask, None));
    assert!(tokens == 0 && text.contains(r#""finish_reason":"stop""#));
}

#[test]
fn the_same_seed_makes_the_same_plan() {
    let pace = Pace {
        first_token: crate::server::Spread::Exponential {
            mean: Duration::from_secs(1),
        },
        tokens: Count::Uniform { min: 1, max: 60 },
        ..Pace::default()
    };
    let ask = ask(Api::Chat, true, 60);
    let plan = Plan {
        ask: &ask,
        server: "s",
        n: 1,
        pace,
        prefill: Prefill::Continue,
        phase: None,
    };
    let draw = |seed| format!("{:?}", plan.steps(&mut fastrand::Rng::with_seed(seed)));
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}
