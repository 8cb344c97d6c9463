//! [`Abilities`]: what a model can do, and what it costs.

use std::fmt;

use crate::Facts;

/// What a model can do, and what it costs: who may be asked what.
///
/// Everything is possible and nothing is known until it is said.
///
/// # Example
///
/// ```
/// use llm_call::{Abilities, Prices};
///
/// let small = Abilities::new()
///     .context_window(128_000)
///     .output_limit(16_384)
///     .images(false)
///     .prices(Prices { input: 0.4, cached_input: 0.1, output: 1.6 });
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Abilities {
    context_window: Option<u64>,
    output_limit: Option<u64>,
    streaming: bool,
    tools: bool,
    parallel_tools: bool,
    json: bool,
    json_schema: bool,
    images: bool,
    system: bool,
    prices: Option<Prices>,
}

/// Prices in money per million tokens, in whichever currency all prices are in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Tokens of the prompt.
    pub input: f64,
    /// Tokens of the prompt that come from a cache.
    pub cached_input: f64,
    /// Tokens of the answer.
    pub output: f64,
}

impl Prices {
    /// What a call costs that uses so many tokens.
    pub fn of(&self, input: u64, cached_input: u64, output: u64) -> f64 {
        let fresh = input.saturating_sub(cached_input) as f64;
        let cached = cached_input.min(input) as f64;
        (fresh * self.input + cached * self.cached_input + output as f64 * self.output) / 1e6
    }
}

/// What a model lacks that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Lack {
    /// Answers event by event.
    Streaming,
    /// Tools.
    Tools,
    /// Answers that are JSON.
    Json,
    /// Answers by a schema.
    JsonSchema,
    /// Images in the request.
    Images,
    /// A context window that holds the request, by an estimate.
    ContextWindow,
}

impl Lack {
    /// The name used in metrics and ledgers: `json_schema`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Lack::Streaming => "streaming",
            Lack::Tools => "tools",
            Lack::Json => "json",
            Lack::JsonSchema => "json_schema",
            Lack::Images => "images",
            Lack::ContextWindow => "context_window",
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Abilities {
    /// Everything, with windows and prices that are not known.
    pub const fn new() -> Abilities {
        Abilities {
            context_window: None,
            output_limit: None,
            streaming: true,
            tools: true,
            parallel_tools: true,
            json: true,
            json_schema: true,
            images: true,
            system: true,
            prices: None,
        }
    }

    /// The tokens of prompt and answer together. Default: not known, and so never too small.
    #[must_use]
    pub const fn context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// The most tokens of an answer. More is asked for as that. Default: not known.
    #[must_use]
    pub const fn output_limit(mut self, tokens: u64) -> Self {
        self.output_limit = Some(tokens);
        self
    }

    /// Whether it answers event by event. Default: `true`.
    #[must_use]
    pub const fn streaming(mut self, can: bool) -> Self {
        self.streaming = can;
        self
    }

    /// Whether it calls tools. Default: `true`.
    #[must_use]
    pub const fn tools(mut self, can: bool) -> Self {
        self.tools = can;
        self
    }

    /// Whether it calls several tools at once; one that does not is still asked, and calls them one
    /// after another. Default: `true`.
    #[must_use]
    pub const fn parallel_tools(mut self, can: bool) -> Self {
        self.parallel_tools = can;
        self
    }

    /// Whether it can be held to answer in JSON. Default: `true`.
    #[must_use]
    pub const fn json(mut self, can: bool) -> Self {
        self.json = can;
        self
    }

    /// Whether it can be held to a schema. Default: `true`.
    #[must_use]
    pub const fn json_schema(mut self, can: bool) -> Self {
        self.json_schema = can;
        self
    }

    /// Whether it reads images. Default: `true`.
    #[must_use]
    pub const fn images(mut self, can: bool) -> Self {
        self.images = can;
        self
    }

    /// Whether it takes a system prompt. Without, a translation puts it before the first turn of the
    /// user. Default: `true`.
    #[must_use]
    pub const fn system(mut self, can: bool) -> Self {
        self.system = can;
        self
    }

    /// What it costs. Default: not known.
    #[must_use]
    pub const fn prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// What a request needs and this model lacks; the first of it. What is not known of the request
    /// is not needed.
    pub fn lack(&self, facts: &Facts) -> Option<Lack> {
        if !self.streaming && facts.streamed == Some(true) {
            return Some(Lack::Streaming);
        }
        if !self.tools && facts.tools {
            return Some(Lack::Tools);
        }
        if !self.json_schema && facts.json_schema {
            return Some(Lack::JsonSchema);
        }
        if !self.json && facts.json {
            return Some(Lack::Json);
        }
        if !self.images && facts.images {
            return Some(Lack::Images);
        }
        let window = self.context_window?;
        let tokens = facts
            .input_tokens
            .saturating_add(facts.max_tokens.unwrap_or(0));
        (tokens > window).then_some(Lack::ContextWindow)
    }

    /// The tokens of prompt and answer together, if known.
    pub const fn window(&self) -> Option<u64> {
        self.context_window
    }

    /// The most tokens of an answer, if known.
    pub const fn most_output(&self) -> Option<u64> {
        self.output_limit
    }

    /// What it costs, if known.
    pub const fn price(&self) -> Option<Prices> {
        self.prices
    }

    /// Whether it takes a system prompt.
    pub const fn takes_system(&self) -> bool {
        self.system
    }

    /// Whether it can be held to a schema.
    pub const fn takes_schema(&self) -> bool {
        self.json_schema
    }

    /// Whether it calls several tools at once.
    pub const fn takes_parallel_tools(&self) -> bool {
        self.parallel_tools
    }
}

impl Default for Abilities {
    fn default() -> Self {
        Abilities::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f09_a_request_needs_what_it_says() {
        let facts = Facts {
            streamed: Some(true),
            tools: true,
            json: true,
            json_schema: true,
            images: true,
            input_tokens: 900,
            max_tokens: Some(101),
            ..Facts::default()
        };
        let able = Abilities::new();
        assert_eq!(able.lack(&facts), None);
        for (less, lack) in [
            (able.clone().streaming(false), Lack::Streaming),
            (able.clone().tools(false), Lack::Tools),
            (able.clone().json(false), Lack::Json),
            (able.clone().json_schema(false), Lack::JsonSchema),
            (able.clone().images(false), Lack::Images),
            (able.clone().context_window(1_000), Lack::ContextWindow),
        ] {
            assert_eq!(less.lack(&facts), Some(lack));
            assert_eq!(less.lack(&Facts::default()), None, "{lack}");
        }
        assert_eq!(able.context_window(1_001).lack(&facts), None);
    }

    #[test]
    fn cached_tokens_cost_what_they_cost() {
        let prices = Prices {
            input: 2.0,
            cached_input: 0.5,
            output: 8.0,
        };
        assert_eq!(prices.of(1_000_000, 400_000, 500_000), 1.2 + 0.2 + 4.0);
        assert_eq!(prices.of(10, 20, 0), 5e-6);
    }
}
