//! The figures as a table and as JSON.

use std::{io, time::Duration};

use serde_json::{Value, json};

use crate::{
    circuit::{Change, Circuit},
    clocks::Limits,
    figures::{Figures, between},
    incident::Phase,
    play::{Play, Played, RATE},
    screen::Screen,
};

/// A moment of the incident: `1:05:00`.
pub(crate) fn clock(at: Duration) -> String {
    let seconds = at.as_secs();
    format!(
        "{}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// A length of time, as people say it: `310 ms`, `5.2 s`, `3 min 20 s`, `5 h 55 min`.
pub(crate) fn span(time: Duration) -> String {
    let tenths = (time.as_secs_f64() * 10.0).round() as u64;
    let seconds = (time.as_secs_f64()).round() as u64;
    match (tenths, seconds) {
        (..10, _) => format!("{} ms", time.as_millis()),
        (..600, _) => format!("{}.{} s", tenths / 10, tenths % 10).replace(".0 s", " s"),
        (_, ..3600) => format!("{} min {} s", seconds / 60, seconds % 60).replace(" 0 s", ""),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60).replace(" 0 min", ""),
    }
}

/// What is played, and by how much it is divided.
pub(crate) fn announce(play: &Play<'_>, screen: &mut Screen) -> io::Result<()> {
    let Play {
        incident,
        clocks,
        limits,
        seconds,
        seed,
        ..
    } = play;
    screen.line(incident.about())?;
    screen.line(&format!(
        "The incident's {} are divided by {:.0}, to {seconds} s. Times within a request are divided by {:.0}.",
        span(incident.length),
        clocks.incident,
        clocks.request,
    ))?;
    let named: Vec<_> = (Limits::REAL.named().into_iter().zip(limits.named()))
        .map(|((name, real), (_, limit))| format!("{name} {} -> {}", span(real), span(limit)))
        .collect();
    screen.line(&format!("Limits: {}.", named.join(", ")))?;
    screen.line(&format!(
        "Each arm gets the same {RATE} requests a second (seed {seed})."
    ))?;
    screen.line("")
}

/// The table.
pub(crate) fn print(
    play: &Play<'_>,
    arms: &[(&Played, &Figures)],
    screen: &mut Screen,
) -> io::Result<()> {
    let clocks = play.clocks;
    screen.line("")?;
    screen.line(&format!(
        "{:<6} {:>8} {:>18} {:>7} {:>19} {:>24}",
        "arm", "requests", "answered", "failed", "first token p50/p99", "upstream calls"
    ))?;
    for (played, figures) in arms {
        let calls = played.upstream_calls;
        screen.line(&format!(
            "{:<6} {:>8} {:>18} {:>7} {:>19} {:>24}",
            played.name,
            figures.requests,
            format!("{} ({:.2} %)", figures.answered, figures.percent()),
            figures.failed(),
            format!(
                "{} / {}",
                or_dash(figures.first_token_p50),
                or_dash(figures.first_token_p99)
            ),
            format!(
                "{calls} ({:.2} per request)",
                calls as f64 / figures.requests.max(1) as f64
            ),
        ))?;
    }
    screen.line("")?;
    for (played, figures) in arms {
        let failures: Vec<_> = (figures.failures.iter())
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        if !failures.is_empty() {
            screen.line(&format!("{} failed: {}", played.name, failures.join(", ")))?;
        }
    }
    for (played, figures) in arms {
        for (what, time) in [
            (
                "from the outage to the first answer by the secondary",
                figures.to_switch,
            ),
            (
                "from the recovery to the first answer by the primary",
                figures.to_return,
            ),
        ] {
            let Some(time) = time else { continue };
            screen.line(&format!(
                "{}: {what}: {} ({} on the requests' clock, {} of the incident)",
                played.name,
                span(time),
                span(time.mul_f64(clocks.request)),
                span(time.mul_f64(clocks.incident)),
            ))?;
        }
    }
    for (played, _) in arms {
        if let Some(circuit) = &played.circuit {
            explain(play, circuit, screen)?;
        }
    }
    Ok(())
}

fn times(n: usize) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// What the primary's circuit did, and which settings made it so.
fn explain(play: &Play<'_>, circuit: &Circuit, screen: &mut Screen) -> io::Result<()> {
    let Some((outage, recovery)) = play.outage() else {
        return Ok(());
    };
    if circuit.changes.is_empty() {
        return screen.line("stack: the primary's circuit stayed closed.");
    }
    let both = |time: Duration| {
        let real = time.mul_f64(play.clocks.request);
        format!("{} ({} on the requests' clock)", span(time), span(real))
    };
    if let Some((after, reason)) = circuit.opened_after(outage) {
        screen.line(&format!(
            "stack: the primary's circuit opened {} into the outage: {reason}. It opens at 25 % failures or \
             40 % slow calls of at least 10, or at 5 failures in a row; until then, and in each trial, \
             failover finds another target for the call.",
            both(after),
        ))?;
    }
    screen.line(&format!(
        "stack: it opened {}, stays open for {}, less up to a fifth, and then let trial calls through: {}.",
        times(circuit.outages()),
        both(play.limits.open),
        times(circuit.trials()),
    ))?;
    match circuit.closed_after(recovery) {
        Some((after, reason)) => screen.line(&format!(
            "stack: it closed {} after the recovery: {reason}. That is what was left of its open time, and \
             trials to the end of their answers; traffic then grows for {}.",
            both(after),
            both(play.limits.ramp),
        )),
        None => screen.line("stack: it did not close again before the end of the play."),
    }
}

fn or_dash(time: Option<Duration>) -> String {
    time.map_or_else(|| "-".to_owned(), span)
}

/// The same for programs. Times are the play's, unless the name says otherwise.
pub(crate) fn json(play: &Play<'_>, arms: &[(&Played, &Figures)]) -> Value {
    let phase = |phase: &Phase| {
        let (from, to) = play.span_of(phase);
        let arms: serde_json::Map<_, _> = (arms.iter())
            .map(|(played, _)| {
                let (requests, answered) = between(&played.records, from, to);
                let counts = json!({ "requests": requests, "answered": answered });
                (played.name.to_owned(), counts)
            })
            .collect();
        json!({
            "name": phase.name,
            "from": from.as_secs_f64(),
            "to": to.as_secs_f64(),
            "incident_from": phase.from.as_secs_f64(),
            "incident_to": phase.to.as_secs_f64(),
            "faults": phase.faults,
            "arms": arms,
        })
    };
    let arm = |(played, figures): &(&Played, &Figures)| {
        json!({
            "name": played.name,
            "requests": figures.requests,
            "answered": figures.answered,
            "failed": figures.failed(),
            "first_token_p50_ms": millis(figures.first_token_p50),
            "first_token_p99_ms": millis(figures.first_token_p99),
            "upstream_calls": played.upstream_calls,
            "seconds_to_switch": figures.to_switch.map(|time| time.as_secs_f64()),
            "seconds_to_return": figures.to_return.map(|time| time.as_secs_f64()),
            "failures": figures.failures,
            "served_by": figures.served_by,
            "circuit": played.circuit.as_ref().map(changes),
        })
    };
    let limits: serde_json::Map<_, _> = (play.limits.named().into_iter())
        .map(|(name, limit)| (format!("{name}_ms"), json!(millis(Some(limit)))))
        .collect();
    json!({
        "incident": play.incident.about(),
        "seconds": play.seconds,
        "seed": play.seed,
        "factor": play.clocks.incident,
        "request_factor": play.clocks.request,
        "limits": limits,
        "arms": arms.iter().map(arm).collect::<Vec<_>>(),
        "phases": play.phases.iter().map(phase).collect::<Vec<_>>(),
    })
}

fn changes(circuit: &Circuit) -> Vec<Value> {
    let change = |change: &Change| {
        json!({
            "at": change.at.as_secs_f64(),
            "to": change.to.to_string(),
            "reason": change.reason,
        })
    };
    circuit.changes.iter().map(change).collect()
}

fn millis(time: Option<Duration>) -> Option<f64> {
    // Microseconds are noise.
    time.map(|time| (time.as_secs_f64() * 1e4).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let read = |millis: u64| span(Duration::from_millis(millis));
        assert_eq!(
            [
                50, 1000, 1250, 59_999, 60_000, 200_000, 3_600_000, 21_300_000
            ]
            .map(read),
            [
                "50 ms",
                "1 s",
                "1.3 s",
                "1 min",
                "1 min",
                "3 min 20 s",
                "1 h",
                "5 h 55 min"
            ]
        );
        assert_eq!(clock(Duration::from_secs(3_900)), "1:05:00");
    }
}
