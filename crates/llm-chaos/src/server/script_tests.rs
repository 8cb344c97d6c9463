use super::*;
use crate::Api;
use crate::server::Count;
use crate::window::rng_of;

fn ask(model: &str, stream: bool) -> Ask {
    let body = format!(
        r#"{{"model":"{model}","stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#
    );
    Ask::parse(Api::Chat, body.as_bytes()).unwrap()
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The fault of a request at `at` with nothing taken before.
fn fault_at(script: &Script, at: Duration, draw: f64, ask: &Ask) -> Option<Fault> {
    let hits = vec![0; script.phases.len()];
    script
        .decide(&hits, at, draw, ask)
        .map(|index| script.phases[index].fault)
}

#[test]
fn phases_follow_one_another() {
    let script = Script::from_toml(
        "[[phase]]\nfault = \"error_503\"\nat = \"10s\"\nuntil = \"1m\"\n\
         [[phase]]\nfault = \"cut\"\nfrom = \"1m\"\nto = \"2m\"\nstream = true",
    )
    .unwrap();
    let m = ask("m", true);
    let at = |seconds| fault_at(&script, secs(seconds), 0.5, &m);
    assert_eq!(
        [at(0), at(10), at(59)],
        [None, Some(Fault::Error503), Some(Fault::Error503)]
    );
    assert_eq!(
        [at(60), at(119), at(120)],
        [Some(Fault::Cut), Some(Fault::Cut), None]
    );
    assert_eq!(
        fault_at(&script, secs(60), 0.5, &ask("m", false)),
        None,
        "only streams are cut"
    );
}

#[test]
fn a_phase_can_be_for_one_model_and_takes_no_share_of_others() {
    let script = Script::from_toml(
        "[[phase]]\nfault = \"reset\"\nmodel = \"a\"\nrate = 0.5\n[[phase]]\nfault = \"error_500\"\nrate = 0.5",
    )
    .unwrap();
    let with = |model, draw| fault_at(&script, secs(0), draw, &ask(model, false));
    assert_eq!(
        [with("a", 0.4), with("a", 0.6)],
        [Some(Fault::Reset), Some(Fault::Error500)]
    );
    assert_eq!(
        [with("b", 0.4), with("b", 0.6)],
        [Some(Fault::Error500), None]
    );
}

#[test]
fn mistakes_are_refused_with_words() {
    let phase = |rest: &str| format!("[[phase]]\nfault = \"cut\"\n{rest}");
    for (text, words) in [
        (
            phase("rate = 1.5"),
            "rate is 1.5; it must be between 0 and 1",
        ),
        (phase("from = \"2m\"\nto = \"1m\""), "before it starts"),
        (phase("from = 5"), "invalid type: integer"),
        (phase("from = \"5 parsecs\""), "is not a duration such as"),
        (
            phase("delay = \"5s\""),
            "phase `cut`: it has no parameter `delay`",
        ),
        (phase("every = \"5s\""), "every and lasts need each other"),
        (phase("every = \"5s\"\nlasts = \"5s\""), "below every"),
        (phase("colour = \"red\""), "unknown field `colour`"),
        (
            "[[phase]]\nfault = \"cutt\"".to_owned(),
            "no fault is called `cutt`",
        ),
        ("[[phase]]\nrate = 1".to_owned(), "missing field `fault`"),
        (
            "[[phase]]\nfault = \"split_events\"\nbytes = 0".to_owned(),
            "a piece has at least one byte",
        ),
        (
            "[[phase]]\nfault = \"never_read\"\nmodel = \"m\"".to_owned(),
            "before a byte is read",
        ),
    ] {
        let error = Script::from_toml(&text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}\n{error}");
    }
}

#[test]
fn a_model_name_is_a_phase_with_parameters() {
    assert!(Phase::of_model("gpt-5.2").is_none());
    let phase = Phase::of_model("fault-cut?after_tokens=5&times=2")
        .unwrap()
        .unwrap();
    let expected = Phase {
        after_tokens: Some(Count::Constant(5)),
        times: Some(2),
        ..Phase::new(Fault::Cut)
    };
    assert_eq!(phase, expected);
    let phase = Phase::of_model("fault-slow_first_token?factor=2.5&rate=0.5")
        .unwrap()
        .unwrap();
    assert_eq!((phase.factor, phase.rate), (Some(2.5), 0.5));
    let error = Phase::of_model("fault-cut?after=5")
        .unwrap()
        .unwrap_err()
        .to_string();
    assert!(error.contains("unknown field `after`"), "{error}");
}

#[test]
fn scaling_divides_times_but_keeps_a_floor_under_first_tokens() {
    let script = Script::from_toml(
        "length = \"2h\"\n[pace]\nfirst_token = \"600ms\"\ntoken_gap = \"12ms\"\ntokens = 60\n\
         [[phase]]\nfault = \"slow_first_token\"\nfrom = \"1h\"\nto = \"2h\"\n\
         [[phase]]\nfault = \"slow_first_token\"\nfactor = 10\nevery = \"1m\"\nlasts = \"30s\"\n\
         [[phase]]\nfault = \"stall\"",
    )
    .unwrap();
    let fast = script.scaled(60.0, Duration::from_millis(200));
    assert_eq!(fast.length, Some(secs(120)));
    let pace = fast.pace.unwrap();
    assert_eq!(
        pace.first_token,
        super::super::Spread::Constant(Duration::from_millis(200))
    );
    assert_eq!(
        pace.token_gap,
        super::super::Spread::Constant(Duration::from_micros(200))
    );
    let [slow, factor, stall] = &fast.phases[..] else {
        panic!("{fast:?}")
    };
    assert_eq!((slow.from, slow.to), (secs(60), Some(secs(120))));
    assert_eq!(
        slow.delay.unwrap().as_millis(),
        333,
        "the default of 20 s is scaled too"
    );
    assert_eq!((factor.delay, factor.factor), (None, Some(10.0)));
    assert_eq!(
        (factor.every, factor.lasts),
        (Some(secs(1)), Some(Duration::from_millis(500)))
    );
    assert_eq!(stall.delay, Some(Duration::from_millis(500)));
}

#[test]
fn a_target_plays_its_own_phases_and_those_of_nobody() {
    let script = Script::default()
        .with(Phase {
            target: Some("primary".to_owned()),
            ..Phase::new(Fault::Reset)
        })
        .with(Phase {
            target: Some("fallback".to_owned()),
            ..Phase::new(Fault::Cut)
        })
        .with(Phase::new(Fault::Latency));
    assert_eq!(script.targets(), ["primary", "fallback"]);
    let faults: Vec<_> = script
        .for_target("fallback")
        .phases
        .iter()
        .map(|phase| phase.fault)
        .collect();
    assert_eq!(faults, [Fault::Cut, Fault::Latency]);
}

#[test]
fn scripts_print_and_parse_back() {
    for (name, script) in super::super::sixteen_faults() {
        let text = toml::to_string(&script).unwrap();
        assert_eq!(Script::from_toml(&text).unwrap(), script, "{name}\n{text}");
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(Script::from_json(&text).unwrap(), script, "{name}\n{text}");
    }
    assert_eq!(super::super::sixteen_faults().len(), 16);
}

/// The shares of faults over many requests at one time of an incident.
fn shares(
    script: &Script,
    at: Duration,
    ask: &Ask,
) -> std::collections::BTreeMap<Option<Fault>, f64> {
    let mut shares = std::collections::BTreeMap::new();
    for n in 0..10_000 {
        let fault = fault_at(script, at, rng_of(script.seed, n).f64(), ask);
        *shares.entry(fault).or_default() += 1e-4;
    }
    shares
}

fn incident(name: &str) -> Script {
    let path = format!(
        "{}/../../examples/incidents/{name}.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    Script::from_toml(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn every_incident_file_parses_and_says_how_long_it_is() {
    let folder = format!("{}/../../examples/incidents", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path())
        .inspect(|path| {
            let script = Script::from_toml(&std::fs::read_to_string(path).unwrap());
            let script = script.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let length = script.length.expect("an incident has a length");
            assert!(
                script
                    .phases
                    .iter()
                    .filter_map(|phase| phase.to)
                    .all(|to| to <= length)
            );
            assert!(
                !script.about.is_empty() && script.pace.is_some() && !script.targets().is_empty()
            );
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "brown_out",
            "cut_streams",
            "flap",
            "rate_limit_day",
            "regional_outage"
        ]
    );
}

#[test]
fn the_regional_outage_is_the_mix_that_it_says_for_its_whole_length() {
    let script = incident("regional_outage");
    let (primary, m) = (script.for_target("primary"), ask("m", true));
    let hour = secs(3600);
    for at in [Duration::ZERO, hour - secs(1), hour + secs(355 * 60)] {
        assert!(
            shares(&primary, at, &m).keys().eq([&None]),
            "healthy at {at:?}"
        );
    }
    for at in [hour, 4 * hour, hour + secs(355 * 60 - 1)] {
        let shares = shares(&primary, at, &m);
        let share = |faults: &[Fault]| {
            faults
                .iter()
                .filter_map(|fault| shares.get(&Some(*fault)))
                .sum::<f64>()
        };
        let near = |share: f64, wanted: f64| {
            assert!((share - wanted).abs() < 0.02, "{share} for {wanted}");
        };
        near(
            share(&[Fault::Error500, Fault::Error502, Fault::Error503]),
            0.4,
        );
        near(share(&[Fault::SlowFirstToken]), 0.2);
        near(share(&[Fault::NoResponse, Fault::HeadersThenSilence]), 0.3);
        near(share(&[Fault::Reset]), 0.1);
        assert_eq!(shares.get(&None), None);
    }
    assert!(script.for_target("fallback").phases.is_empty());
}

#[test]
fn flap_is_twenty_seconds_up_and_twenty_seconds_down() {
    let script = incident("flap");
    let (primary, m) = (script.for_target("primary"), ask("m", true));
    for cycle in 0..30_u64 {
        let up = |second| fault_at(&primary, secs(40 * cycle + second), 0.5, &m).is_none();
        assert!(up(0) && up(19) && !up(20) && !up(39), "cycle {cycle}");
    }
    assert_eq!(fault_at(&primary, secs(1205), 0.5, &m), None);
}
