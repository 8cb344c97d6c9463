//! The timeline: a panel for each arm, one for first tokens, the incident's time below.

use std::time::Duration;

use llm_breaker::CircuitState;

use crate::{
    arm::Record,
    circuit::Circuit,
    clocks::Limits,
    figures::{Figures, buckets},
    incident::{Phase, SECONDARY},
    play::{Play, Played, RATE},
    report::span,
    svg::{Svg, Type},
};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 726.0;
const LEFT: f64 = 76.0;
/// To the right of it stand the figures.
const RIGHT: f64 = 1006.0;
const TOP: f64 = 154.0;
const PANEL: f64 = 148.0;
const GAP: f64 = 30.0;
const BOTTOM: f64 = TOP + 3.0 * PANEL + 2.0 * GAP;

// After Okabe and Ito: told apart by those who see fewer colours too.
const PRIMARY_COLOUR: &str = "#0072b2";
const SECONDARY_COLOUR: &str = "#56b4a0";
const FAILED_COLOUR: &str = "#d55e00";
const BARE_COLOUR: &str = "#9aa5b1";
const INK: &str = "#1f2933";
const GRID: &str = "#dde2e8";

const HEADING: Type = Type {
    size: 22,
    colour: INK,
    bold: true,
    anchor: "start",
};
const BOLD: Type = Type {
    size: 15,
    ..HEADING
};
const BODY: Type = Type {
    size: 13,
    bold: false,
    ..HEADING
};
const SMALL: Type = Type {
    size: 12,
    colour: "#52606d",
    bold: false,
    anchor: "start",
};

const TINY: Type = Type { size: 11, ..SMALL };

/// The scale of first-token times, on the requests' clock.
const FIRST_TOKENS: [f64; 2] = [0.2, 20.0];

/// Draws a play.
pub(crate) fn draw(play: &Play<'_>, arms: &[(&Played, &Figures)]) -> String {
    let title = "What users see while a provider is down";
    let mut chart = Chart {
        play,
        svg: Svg::new(WIDTH, HEIGHT, title),
    };
    chart.header(title);
    chart.phases();
    let mut top = TOP;
    for (played, figures) in arms {
        chart.answers(top, &played.records);
        if let Some(circuit) = &played.circuit {
            chart.circuit(top + PANEL + 6.0, circuit);
        }
        chart.verdict(top, played, figures);
        top += PANEL + GAP;
    }
    chart.first_tokens(top, arms);
    chart.time_axis();
    chart.svg.finish()
}

struct Chart<'a> {
    play: &'a Play<'a>,
    svg: Svg,
}

impl Chart<'_> {
    /// Where a moment of the play is.
    fn x(&self, at: Duration) -> f64 {
        let share = at.as_secs_f64() / f64::from(self.play.seconds);
        LEFT + share.min(1.0) * (RIGHT - LEFT)
    }

    fn header(&mut self, title: &str) {
        let play = self.play;
        self.svg.text(LEFT, 38.0, HEADING, title);
        for (row, text) in (0..).zip(rows(play.incident.about(), 130, 2)) {
            self.svg
                .text(LEFT, 60.0 + 18.0 * f64::from(row), BODY, &text);
        }
        let clocks = format!(
            "Played in {} s: the incident \u{f7} {:.0}, times within a request \u{f7} {:.0}.",
            play.seconds, play.clocks.incident, play.clocks.request,
        );
        let at_the_edge = Type {
            anchor: "end",
            ..SMALL
        };
        self.svg.text(WIDTH - 30.0, 38.0, at_the_edge, &clocks);
        let mut x = LEFT;
        for (colour, label) in [
            (PRIMARY_COLOUR, "answered by the primary"),
            (SECONDARY_COLOUR, "answered by the secondary"),
            (FAILED_COLOUR, "failed"),
        ] {
            self.svg.rect(x, 95.0, 12.0, 12.0, colour);
            self.svg.text(x + 18.0, 106.0, BODY, label);
            x += 46.0 + 7.0 * label.len() as f64;
        }
    }

    /// The phases, shaded through all panels.
    fn phases(&mut self) {
        for phase in self.play.phases {
            let (from, to) = self.play.span_of(phase);
            let (from, to) = (self.x(from), self.x(to));
            let top = TOP - 28.0;
            self.svg
                .rect(from, top, to - from, BOTTOM - top, shade(phase));
            let with_length = format!("{} \u{b7} {}", phase.name, span(phase.to - phase.from));
            let fits = |label: &str| label.len() as f64 * 7.0 < to - from;
            let label = [with_length.as_str(), phase.name]
                .into_iter()
                .find(|label| fits(label));
            let style = Type {
                anchor: "middle",
                bold: true,
                ..SMALL
            };
            self.svg
                .text((from + to) / 2.0, TOP - 12.0, style, label.unwrap_or(""));
        }
    }

    /// Columns: who answered what was sent then, and what failed.
    fn answers(&mut self, top: f64, records: &[Record]) {
        let foot = top + PANEL;
        let scale = Type {
            anchor: "end",
            ..SMALL
        };
        for rate in [0, RATE / 2, RATE] {
            let y = foot - f64::from(rate) / f64::from(RATE) * PANEL;
            self.svg.line((LEFT, y), (RIGHT, y), GRID, "");
            self.svg.text(LEFT - 8.0, y + 4.0, scale, &rate.to_string());
        }
        let middle = Type {
            anchor: "middle",
            ..SMALL
        };
        self.svg
            .upright(28.0, top + PANEL / 2.0, middle, "requests per second");
        // One column a second; in short plays narrower, in long ones wider, and always of a whole
        // number of requests, so that all are full.
        let each = column(self.play.seconds);
        let width = Duration::from_secs(u64::from(each)) / RATE;
        for (n, bucket) in (0..).zip(buckets(records, self.play.length(), width)) {
            let (left, right) = (self.x(width * n), self.x(width * (n + 1)));
            let gap = ((right - left) * 0.08).min(1.5);
            let mut y = foot;
            for (count, colour) in [
                (bucket.primary, PRIMARY_COLOUR),
                (bucket.secondary, SECONDARY_COLOUR),
                (bucket.failed, FAILED_COLOUR),
            ] {
                let height = f64::from(count) / f64::from(each) * PANEL;
                y -= height;
                self.svg
                    .rect(left + gap / 2.0, y, right - left - gap, height, colour);
            }
        }
    }

    /// The states of the primary's circuit, as a band below the columns.
    fn circuit(&mut self, top: f64, circuit: &Circuit) {
        const HEIGHT: f64 = 9.0;
        for (from, to, state) in circuit.spans(self.play.length()) {
            let (left, right) = (self.x(from), self.x(to));
            self.svg
                .rect(left, top, right - left, HEIGHT, state_colour(state));
        }
        let left = Type {
            anchor: "end",
            ..SMALL
        };
        let y = top + HEIGHT;
        self.svg.text(LEFT - 8.0, y, left, "circuit");
        let mut x = RIGHT + 22.0;
        for state in [
            CircuitState::Closed,
            CircuitState::Open,
            CircuitState::HalfOpen,
        ] {
            let label = state.to_string();
            self.svg.rect(x, top, HEIGHT, HEIGHT, state_colour(state));
            self.svg.text(x + 12.0, y, TINY, &label);
            x += 18.0 + 6.2 * label.len() as f64;
        }
    }

    /// One arm in figures.
    fn verdict(&mut self, top: f64, played: &Played, figures: &Figures) {
        let x = RIGHT + 22.0;
        let name = if played.name == "bare" {
            "Bare client"
        } else {
            "With the stack"
        };
        self.svg.text(x, top + 14.0, BOLD, name);
        let colour = if figures.percent() < 99.0 {
            FAILED_COLOUR
        } else {
            INK
        };
        let large = Type {
            size: 34,
            colour,
            ..HEADING
        };
        self.svg
            .text(x, top + 54.0, large, &rounded_down(figures.percent()));
        let calls = played.upstream_calls as f64 / figures.requests.max(1) as f64;
        let rows = [
            "of all requests answered".to_owned(),
            format!("{} of {} failed", figures.failed(), figures.requests),
            format!("{calls:.2} upstream calls each"),
        ];
        for (row, text) in (0..).zip(rows) {
            self.svg
                .text(x, top + 78.0 + 18.0 * f64::from(row), SMALL, &text);
        }
    }

    /// Every first token: when its request was sent, and how long it took.
    fn first_tokens(&mut self, top: f64, arms: &[(&Played, &Figures)]) {
        let factor = self.play.clocks.request;
        let y = |seconds: f64| {
            let [least, most] = FIRST_TOKENS.map(f64::ln);
            let share = (seconds.ln().clamp(least, most) - least) / (most - least);
            top + PANEL * (1.0 - share)
        };
        let scale = Type {
            anchor: "end",
            ..SMALL
        };
        for seconds in [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0] {
            self.svg
                .line((LEFT, y(seconds)), (RIGHT, y(seconds)), GRID, "");
            self.svg
                .text(LEFT - 8.0, y(seconds) + 4.0, scale, &format!("{seconds} s"));
        }
        let middle = Type {
            anchor: "middle",
            ..SMALL
        };
        self.svg
            .upright(28.0, top + PANEL / 2.0, middle, "first token after");
        for (played, _) in arms {
            let (mut primary, mut secondary) = (Vec::new(), Vec::new());
            for record in played
                .records
                .iter()
                .filter(|record| record.outcome.is_ok())
            {
                let Some(first_token) = record.first_token else {
                    continue;
                };
                let point = (self.x(record.sent), y(first_token.as_secs_f64() * factor));
                match record.served_by.as_deref() {
                    Some(SECONDARY) => secondary.push(point),
                    _ => primary.push(point),
                }
            }
            if played.name == "bare" {
                self.svg.dots(primary, 3.5, BARE_COLOUR);
            } else {
                self.svg.dots(primary, 3.5, PRIMARY_COLOUR);
                self.svg.dots(secondary, 3.5, SECONDARY_COLOUR);
            }
        }
        let limit = y(Limits::REAL.first_token.as_secs_f64());
        self.svg.line((LEFT, limit), (RIGHT, limit), INK, "5 4");

        let x = RIGHT + 22.0;
        self.svg.text(x, top + 14.0, BOLD, "First token");
        self.svg.text(x, top + 32.0, SMALL, "each dot is an answer");
        let kinds: [(&str, &[&str]); 2] = [
            ("bare client", &[BARE_COLOUR]),
            ("stack", &[PRIMARY_COLOUR, SECONDARY_COLOUR]),
        ];
        for (row, (name, colours)) in (0..).zip(kinds) {
            let y = top + 52.0 + 18.0 * f64::from(row);
            for (n, colour) in (0..).zip(colours) {
                self.svg
                    .dots([(x + 5.0 + 11.0 * f64::from(n), y - 4.0)], 9.0, colour);
            }
            self.svg.text(x + 26.0, y, SMALL, name);
        }
        let named = format!("- - the stack's limit: {}", span(Limits::REAL.first_token));
        self.svg.text(x, top + 88.0, SMALL, &named);
        self.svg
            .text(x, top + 106.0, SMALL, "on the requests' clock");
    }

    /// The incident's time.
    fn time_axis(&mut self) {
        let length = self.play.incident.length;
        let minutes = [1, 5, 10, 15, 30, 60, 120, 360, 720, 1440];
        let steps = minutes.map(|minutes| Duration::from_secs(60 * minutes));
        let step = steps
            .into_iter()
            .find(|step| length.div_duration_f64(*step) <= 12.0);
        let style = Type {
            anchor: "middle",
            ..SMALL
        };
        let step = step.unwrap_or(length);
        let mut at = Duration::ZERO;
        while at <= length {
            let x = self.x(self.play.in_play(at));
            self.svg.line((x, BOTTOM), (x, BOTTOM + 5.0), INK, "");
            let label = if at.is_zero() {
                "0".to_owned()
            } else {
                span(at)
            };
            self.svg.text(x, BOTTOM + 20.0, style, &label);
            at += step;
        }
        self.svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), INK, "");
        self.svg.text(
            (LEFT + RIGHT) / 2.0,
            BOTTOM + 40.0,
            style,
            "time in the incident",
        );
    }
}

/// How many requests a column holds.
fn column(seconds: u32) -> u32 {
    (seconds * RATE / seconds.clamp(40, 120)).max(1)
}

/// The first `rows` rows of a text of at most `width` characters each.
fn rows(text: &str, width: usize, rows: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = word.to_owned(),
            Some(line) if line.len() + word.len() < width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > rows {
        lines.truncate(rows);
        if let Some(line) = lines.last_mut() {
            *line += " ...";
        }
    }
    lines
}

/// Never 100 % while something failed.
fn rounded_down(percent: f64) -> String {
    format!("{:.1} %", (percent * 10.0).floor() / 10.0)
}

fn state_colour(state: CircuitState) -> &'static str {
    match state {
        CircuitState::Closed => PRIMARY_COLOUR,
        CircuitState::Open => INK,
        CircuitState::HalfOpen => "#e69f00",
    }
}

fn shade(phase: &Phase) -> &'static str {
    match phase.name {
        "outage" => "#fbe9dd",
        "recovering" | "disturbed" => "#fdf4dc",
        _ => "#eff5fa",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_play_has_a_column_a_second() {
        assert_eq!(column(40), RATE);
        assert_eq!(column(60), RATE);
        assert_eq!(column(20), RATE / 2);
        assert_eq!(column(5), RATE / 8);
        assert_eq!(column(3600), RATE * 30);
    }

    #[test]
    fn a_long_text_is_cut_between_words() {
        assert_eq!(
            rows("one two three four", 8, 3),
            ["one two", "three", "four"]
        );
        assert_eq!(rows("one two three four", 8, 1), ["one two ..."]);
        assert_eq!(rows("", 8, 1), [""]);
    }

    #[test]
    fn a_single_failure_is_not_rounded_away() {
        assert_eq!(rounded_down(100.0), "100.0 %");
        assert_eq!(rounded_down(99.99), "99.9 %");
    }
}
