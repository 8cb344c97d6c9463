//! How fast and how long answers are: distributions, and how scripts write them.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A distribution of durations.
///
/// In scripts: `"50ms"`, `{ uniform = { min = "10ms", max = "90ms" } }`,
/// `{ exponential = { mean = "20ms" } }` or `{ log_normal = { median = "500ms", sigma = 0.6 } }`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// Always the same.
    Constant(Duration),
    /// Evenly between two durations.
    Uniform {
        /// The shortest.
        min: Duration,
        /// The longest.
        max: Duration,
    },
    /// Many short ones, few long ones.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// The usual shape of first-token times.
    LogNormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
}

impl Spread {
    /// One draw.
    #[must_use]
    pub fn sample(self, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Constant(value) => value,
            Self::Uniform { min, max } => min + max.saturating_sub(min).mul_f64(rng.f64()),
            // 1 - f64() is in (0, 1], whose logarithm is finite.
            Self::Exponential { mean } => mean.mul_f64(-(1.0 - rng.f64()).ln()),
            Self::LogNormal { median, sigma } => {
                median.mul_f64((sigma * normal(rng)).exp().min(1e6))
            }
        }
    }

    pub(super) fn map(self, scale: impl Fn(Duration) -> Duration) -> Self {
        match self {
            Self::Constant(value) => Self::Constant(scale(value)),
            Self::Uniform { min, max } => Self::Uniform {
                min: scale(min),
                max: scale(max),
            },
            Self::Exponential { mean } => Self::Exponential { mean: scale(mean) },
            Self::LogNormal { median, sigma } => Self::LogNormal {
                median: scale(median),
                sigma,
            },
        }
    }
}

/// A standard normal draw (Box and Muller).
fn normal(rng: &mut fastrand::Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

/// A number of tokens: `40`, or `{ min = 1, max = 200 }` for an even draw, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Always the same.
    Constant(u32),
    /// Evenly between two numbers, both included.
    Uniform {
        /// The smallest.
        min: u32,
        /// The largest.
        max: u32,
    },
}

impl Count {
    /// One draw.
    #[must_use]
    pub fn sample(self, rng: &mut fastrand::Rng) -> u32 {
        match self {
            Self::Constant(value) => value,
            Self::Uniform { min, max } => rng.u32(min..=max.max(min)),
        }
    }
}

/// How fast and how long healthy answers are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pace {
    /// From the request to the first token; default 5 ms.
    pub first_token: Spread,
    /// Between two tokens; default 1 ms.
    pub token_gap: Spread,
    /// Tokens of an answer, unless the request allows fewer; default 60.
    pub tokens: Count,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_token: Spread::Constant(Duration::from_millis(5)),
            token_gap: Spread::Constant(Duration::from_millis(1)),
            tokens: Count::Constant(60),
        }
    }
}

/// Durations in scripts: `"5h55m"`, `"300ms"`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| {
        format!("`{text}` is not a duration such as \"5h55m\" or \"300ms\": {error}")
    })
}

#[derive(Clone, Copy)]
pub(super) struct Human(pub(super) Duration);

impl Serialize for Human {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&humantime::format_duration(self.0))
    }
}

impl<'de> Deserialize<'de> for Human {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_duration(&text).map(Human).map_err(D::Error::custom)
    }
}

/// `#[serde(with)]` for `Duration`.
pub(super) mod duration {
    use super::{Deserialize, Deserializer, Duration, Human, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Human(*value).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        Human::deserialize(deserializer).map(|human| human.0)
    }
}

/// `#[serde(with)]` for `Option<Duration>`.
pub(super) mod maybe_duration {
    use super::{Deserialize, Deserializer, Duration, Human, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(Human).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Human>::deserialize(deserializer)?.map(|human| human.0))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum SpreadTable {
    Uniform {
        #[serde(with = "duration")]
        min: Duration,
        #[serde(with = "duration")]
        max: Duration,
    },
    Exponential {
        #[serde(with = "duration")]
        mean: Duration,
    },
    LogNormal {
        #[serde(with = "duration")]
        median: Duration,
        sigma: f64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CountTable {
    min: u32,
    max: u32,
}

impl From<SpreadTable> for Spread {
    fn from(table: SpreadTable) -> Self {
        match table {
            SpreadTable::Uniform { min, max } => Self::Uniform { min, max },
            SpreadTable::Exponential { mean } => Self::Exponential { mean },
            SpreadTable::LogNormal { median, sigma } => Self::LogNormal { median, sigma },
        }
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Constant(value) => return Human(value).serialize(serializer),
            Self::Uniform { min, max } => SpreadTable::Uniform { min, max },
            Self::Exponential { mean } => SpreadTable::Exponential { mean },
            Self::LogNormal { median, sigma } => SpreadTable::LogNormal { median, sigma },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainOrTable::<Self, SpreadTable>(PhantomData))
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::Constant(value) => serializer.serialize_u32(value),
            Self::Uniform { min, max } => CountTable { min, max }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainOrTable::<Self, CountTable>(PhantomData))
    }
}

/// A value written plainly, or as a table; an untagged enum would lose the error of either.
struct PlainOrTable<T, Table>(PhantomData<(T, Table)>);

trait Plain: Sized {
    const EXPECTING: &'static str;
    fn from_text(text: &str) -> Result<Self, String>;
    fn from_number(number: u64) -> Result<Self, String>;
}

impl Plain for Spread {
    const EXPECTING: &'static str =
        "a duration such as \"50ms\", or a table `uniform`, `exponential` or `log_normal`";

    fn from_text(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self::Constant)
    }

    fn from_number(number: u64) -> Result<Self, String> {
        Err(format!("{number} has no unit; write {}", Self::EXPECTING))
    }
}

impl Plain for Count {
    const EXPECTING: &'static str = "a number of tokens, or `{ min = 1, max = 200 }`";

    fn from_text(text: &str) -> Result<Self, String> {
        Err(format!("\"{text}\" is a text; write {}", Self::EXPECTING))
    }

    fn from_number(number: u64) -> Result<Self, String> {
        u32::try_from(number)
            .map(Self::Constant)
            .map_err(|_| format!("{number} tokens are too many"))
    }
}

impl From<CountTable> for Count {
    fn from(table: CountTable) -> Self {
        Self::Uniform {
            min: table.min,
            max: table.max,
        }
    }
}

impl<'de, T: Plain + From<Table>, Table: Deserialize<'de>> Visitor<'de> for PlainOrTable<T, Table> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTING)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<T, E> {
        T::from_number(number).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<T, E> {
        let number =
            u64::try_from(number).map_err(|_| E::custom(format!("{number} is below zero")))?;
        self.visit_u64(number)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map)).map(T::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn draws_have_the_mean_that_they_say() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut mean = |spread: Spread| {
            (0..20_000)
                .map(|_| spread.sample(&mut rng).as_secs_f64())
                .sum::<f64>()
                / 20_000.0
                * 1e3
        };
        assert!(
            (mean(Spread::Uniform {
                min: 10 * MS,
                max: 30 * MS
            }) - 20.0)
                .abs()
                < 0.5
        );
        assert!((mean(Spread::Exponential { mean: 20 * MS }) - 20.0).abs() < 0.8);
        // The mean of a log-normal is its median times e^(sigma²/2).
        assert!(
            (mean(Spread::LogNormal {
                median: 100 * MS,
                sigma: 0.5
            }) - 113.3)
                .abs()
                < 2.5
        );
    }

    #[test]
    fn written_forms_parse_and_print_back() {
        let pace: Pace = toml::from_str(
            "first_token = { log_normal = { median = \"500ms\", sigma = 0.6 } }\n\
             token_gap = \"20ms\"\ntokens = { min = 1, max = 200 }",
        )
        .unwrap();
        assert_eq!(
            pace.first_token,
            Spread::LogNormal {
                median: 500 * MS,
                sigma: 0.6
            }
        );
        assert_eq!(pace.tokens, Count::Uniform { min: 1, max: 200 });
        assert_eq!(
            toml::from_str::<Pace>(&toml::to_string(&pace).unwrap()).unwrap(),
            pace
        );
    }

    #[test]
    fn a_duration_without_a_unit_is_refused_with_words() {
        let error = toml::from_str::<Pace>("token_gap = 20")
            .unwrap_err()
            .to_string();
        assert!(error.contains("20 has no unit"), "{error}");
    }
}
