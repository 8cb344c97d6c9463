//! The incident: read, checked, put on the play's clocks, and told as phases.

use std::{path::Path, time::Duration};

use llm_call::BoxError;
use llm_chaos::{Count, Pace, Script, Spread};

use crate::clocks::Clocks;

const REGIONAL_OUTAGE: &str = include_str!("../incidents/regional_outage.toml");

/// The provider that is asked first, and the one that helps out.
pub(crate) const PRIMARY: &str = "primary";
pub(crate) const SECONDARY: &str = "secondary";

/// An incident in its own time.
#[derive(Debug)]
pub(crate) struct Incident {
    script: Script,
    /// From its beginning to some time after the last fault.
    pub(crate) length: Duration,
}

/// A span of the incident during which the primary behaves the same.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    pub(crate) name: &'static str,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// Share of the primary's requests that meet a fault.
    pub(crate) faults: f64,
}

impl Incident {
    /// Reads a file, or the regional outage where there is none.
    pub(crate) fn read(file: Option<&Path>) -> Result<Incident, BoxError> {
        let Some(file) = file else {
            return Incident::new(REGIONAL_OUTAGE);
        };
        let named = |error: String| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(file).map_err(|error| named(error.to_string()))?;
        Incident::new(&text).map_err(|error| named(error.to_string()).into())
    }

    fn new(text: &str) -> Result<Incident, BoxError> {
        let script = Script::from_toml(text)?;
        let Some(first) = script.phases.iter().map(|phase| phase.from).min() else {
            return Err("there is no [[phase]], so nothing would happen".into());
        };
        let targets = script.targets();
        if let Some(other) = targets
            .iter()
            .find(|name| ![PRIMARY, SECONDARY].contains(name))
        {
            return Err(format!(
                "there is no target {other:?} in the drill; use {PRIMARY:?} or {SECONDARY:?}"
            )
            .into());
        }
        let last = script.phases.iter().filter_map(|phase| phase.to).max();
        let length = match (script.length, last) {
            (Some(length), _) => length,
            // As much calm after it as before, so that one sees the recovery.
            (None, Some(last)) => last + first.max(last / 10),
            (None, None) => {
                return Err("it never ends; give it a `length`, or a phase a `to`".into());
            }
        };
        if length.is_zero() {
            return Err("its `length` is 0".into());
        }
        if script
            .phases
            .iter()
            .any(|phase| phase.every.is_some_and(|every| every < length / 1000))
        {
            return Err(
                "an `every` is below a thousandth of the length: too short to be played".into(),
            );
        }
        Ok(Incident { script, length })
    }

    pub(crate) fn about(&self) -> &str {
        &self.script.about
    }

    /// The script as the providers play it: its phases on the incident's clock, and whatever
    /// happens within a request on the requests' clock.
    pub(crate) fn on(&self, clocks: Clocks) -> Script {
        let of_requests = self.script.scaled(clocks.request, Duration::ZERO);
        let mut script = self.script.scaled(clocks.incident, Duration::ZERO);
        script.pace = Some(
            of_requests
                .pace
                .unwrap_or_else(|| usual_pace(clocks.request)),
        );
        for (phase, of_requests) in script.phases.iter_mut().zip(of_requests.phases) {
            phase.delay = of_requests.delay;
            phase.gap = of_requests.gap;
        }
        script
    }

    /// When a phase of the script is open.
    fn open_spans(&self, phase: &llm_chaos::Phase) -> impl Iterator<Item = (Duration, Duration)> {
        let end = phase.to.unwrap_or(self.length);
        let (every, lasts) = phase.every.zip(phase.lasts).unwrap_or((end, end));
        let openings = std::iter::successors(Some(phase.from), move |from| Some(*from + every));
        (openings.take_while(move |from| *from < end))
            .map(move |from| (from, (from + lasts).min(end)))
    }

    /// What happens to the primary, from the beginning to the end without a gap.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let script = self.script.for_target(PRIMARY);
        let mut edges: Vec<_> = (script.phases.iter())
            .flat_map(|phase| self.open_spans(phase))
            .flat_map(|(from, to)| [from, to])
            .chain([Duration::ZERO, self.length])
            .filter(|edge| *edge <= self.length)
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let mut phases: Vec<Phase> = Vec::new();
        for span in edges.windows(2) {
            let &[from, to] = span else { continue };
            let open = |phase: &&llm_chaos::Phase| {
                let mut spans = self.open_spans(phase);
                spans.any(|(opens, closes)| (opens..closes).contains(&from))
            };
            let faults: f64 = script
                .phases
                .iter()
                .filter(open)
                .map(|phase| phase.rate)
                .sum();
            let broken_before = phases.iter().any(|phase| phase.faults >= 0.5);
            let name = match faults {
                0.5.. => "outage",
                0.005.. if broken_before => "recovering",
                0.005.. => "disturbed",
                _ if broken_before => "recovered",
                _ => "healthy",
            };
            match phases.last_mut() {
                // A change of the mixture is no new phase to users.
                Some(last) if last.name == name => {
                    last.to = to;
                    last.faults = last.faults.max(faults.min(1.0));
                }
                _ => phases.push(Phase {
                    name,
                    from,
                    to,
                    faults: faults.min(1.0),
                }),
            }
        }
        phases
    }
}

/// Where the incident does not say how fast its providers are: first token in 0.8 s, 50 tokens/s.
fn usual_pace(factor: f64) -> Pace {
    Pace {
        first_token: Spread::LogNormal {
            median: Duration::from_millis(800).div_f64(factor),
            sigma: 0.3,
        },
        token_gap: Spread::Constant(Duration::from_millis(20).div_f64(factor)),
        tokens: Count::Constant(60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn the_regional_outage_is_an_hour_of_calm_an_outage_and_calm_again() {
        let incident = Incident::read(None).unwrap();
        let phases = incident.phases();
        assert_eq!(phases[0].name, "healthy");
        assert_eq!((phases[0].from, phases[0].to), (Duration::ZERO, HOUR));
        let outage: Vec<_> = phases
            .iter()
            .filter(|phase| phase.name == "outage")
            .collect();
        assert_eq!(outage.len(), 1);
        assert_eq!(outage[0].from, HOUR);
        assert_eq!(phases.last().unwrap().to, incident.length);
    }

    #[test]
    fn phases_run_on_one_clock_and_requests_on_the_other() {
        let incident = Incident::new(
            "pace = { first_token = \"1s\" }\n[[phase]]\nfault = \"stall\"\ndelay = \"20s\"\n\
             from = \"1h\"\nto = \"2h\"",
        )
        .unwrap();
        let script = incident.on(Clocks {
            incident: 720.0,
            request: 20.0,
        });
        assert_eq!(script.phases[0].from, Duration::from_secs(5));
        assert_eq!(script.phases[0].delay, Some(Duration::from_secs(1)));
        let first_token = Spread::Constant(Duration::from_millis(50));
        assert_eq!(script.pace.unwrap().first_token, first_token);
    }

    #[test]
    fn an_aftermath_is_told_apart_from_the_outage() {
        let incident = Incident::new(
            "[[phase]]\nfault = \"reset\"\nfrom = \"1h\"\nto = \"2h\"\nrate = 0.4\n\
             [[phase]]\nfault = \"error_503\"\nfrom = \"1h\"\nto = \"2h\"\nrate = 0.6\n\
             [[phase]]\nfault = \"error_503\"\nfrom = \"2h\"\nto = \"3h\"\nrate = 0.1",
        )
        .unwrap();
        let phases = incident.phases();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| (phase.name, phase.faults))
            .collect();
        assert_eq!(
            names,
            [
                ("healthy", 0.0),
                ("outage", 1.0),
                ("recovering", 0.1),
                ("recovered", 0.0)
            ]
        );
        assert_eq!(incident.length, 4 * HOUR);
    }

    #[test]
    fn a_fault_that_comes_and_goes_is_many_phases() {
        let incident = Incident::new(
            "length = \"2m\"\n[[phase]]\nfault = \"reset\"\nfrom = \"20s\"\nto = \"100s\"\n\
             every = \"40s\"\nlasts = \"20s\"",
        )
        .unwrap();
        let phases = incident.phases();
        let names: Vec<_> = phases
            .iter()
            .map(|phase| (phase.name, phase.from.as_secs()))
            .collect();
        assert_eq!(
            names,
            [
                ("healthy", 0),
                ("outage", 20),
                ("recovered", 40),
                ("outage", 60),
                ("recovered", 80)
            ]
        );
    }

    #[test]
    fn what_cannot_be_played_is_refused_with_words() {
        let refused = |text: &str| Incident::new(text).unwrap_err().to_string();
        assert!(refused("").contains("no [[phase]]"));
        assert!(refused("[[phase]]\nfault = \"reset\"").contains("it never ends"));
        let elsewhere = "[[phase]]\nfault = \"reset\"\nto = \"1h\"\ntarget = \"moon\"";
        assert!(refused(elsewhere).contains("moon"));
        let missing = Incident::read(Some(Path::new("no/such.toml"))).unwrap_err();
        assert!(missing.to_string().contains("no/such.toml"));
    }
}
