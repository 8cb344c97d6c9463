use llm_call::PeekLayer;
use tower_layer::Layer;

use crate::{Hedge, Hedges, Measure};

/// Sends a second request when the first token is late. See the [crate docs](crate) for an example.
#[derive(Clone, Debug)]
pub struct HedgeLayer {
    hedges: Hedges,
    rules: Rules,
}

/// Which calls may be hedged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) whole_answers: bool,
    pub(crate) max_input_tokens: u64,
}

/// What is known of a call that may be hedged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    /// What it waits for.
    pub(crate) measure: Measure,
    /// How many attempts it has left.
    pub(crate) attempts: u32,
}

impl HedgeLayer {
    /// Hedges of streamed calls of up to 16,000 input tokens.
    pub fn new(hedges: Hedges) -> HedgeLayer {
        HedgeLayer {
            hedges,
            rules: Rules {
                whole_answers: false,
                max_input_tokens: 16_000,
            },
        }
    }

    /// Whether calls are hedged that do not ask for a stream, by the time to the whole answer.
    /// Default: `false`: most providers bill what they have begun to write, and the loser of a whole
    /// answer has often written most of it.
    #[must_use]
    pub fn whole_answers(mut self, on: bool) -> Self {
        self.rules.whole_answers = on;
        self
    }

    /// The largest request that is hedged, in input tokens as estimated from its bytes. The loser's
    /// prompt is paid for, so this and the budget bound what hedging costs. Default: 16,000.
    #[must_use]
    pub fn max_input_tokens(mut self, tokens: u64) -> Self {
        self.rules.max_input_tokens = tokens;
        self
    }

    /// This layer above a `PeekLayer` with default settings: for use without the rest of the family.
    /// An `IdentifyLayer` above reads whether a stream is asked for.
    pub fn alone(self) -> (HedgeLayer, PeekLayer) {
        (self, PeekLayer::new())
    }
}

impl<S> Layer<S> for HedgeLayer {
    type Service = Hedge<S>;

    fn layer(&self, inner: S) -> Hedge<S> {
        Hedge::new(inner, self.hedges.clone(), self.rules)
    }
}
