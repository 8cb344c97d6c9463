//! From a status and a fault to a [`Kind`]: the rules, in the order in which they hold.
//!
//! The order matters: providers reuse statuses and types for failures that need opposite answers,
//! so names and sentences that are certain come before the status.

use super::{Fault, LONGEST_WAIT, hinted};
use crate::{Kind, Phase};

/// Nobody gets an answer now.
const CAPACITY: &[&str] = &[
    "server_is_overloaded",
    "overloaded_error",
    "capacity_exceeded",
    "capacity_exhausted",
    "MODEL_CAPACITY_EXHAUSTED",
    "ModelNotReadyException",
    "serviceUnavailableException",
    "provider_overloaded",
    "temporarily_unavailable",
    "compaction_unavailable",
    "unavailable_error",
    "resource_unavailable",
];

/// Money is spent, or a quota that lasts.
const MONEY: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "billing_error",
    "enforced_spend_limit_reached",
    "contract_spend_limit_reached",
    "usage_limit_reached",
    "usage_not_included",
    "ServiceQuotaExceededException",
];

const SIZE: &[&str] = &[
    "request_too_large",
    "payload_too_large",
    "request_body_too_large_after_decoding",
];

const CONTEXT: &[&str] = &["context_length_exceeded", "exceed_context_size_error"];

const POLICY: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "ResponsibleAIPolicyViolation",
    "cyber_policy",
    "bio_policy",
    "invalid_prompt",
    "misalignment_policy_violation",
    "image_content_policy_violation",
    "refusal",
];

/// A bad key, whatever the status: Gemini answers 400, AWS 403.
const IDENTITY: &[&str] = &[
    "API_KEY_INVALID",
    "API_KEY_SERVICE_BLOCKED",
    "UnrecognizedClientException",
    "ExpiredTokenException",
];

const PERMISSION: &[&str] = &[
    "organization_on_hold",
    "region_restricted",
    "FAILED_PRECONDITION",
];

const MODEL: &[&str] = &[
    "model_not_found",
    "model_deprecated",
    "DeploymentNotFound",
    "unknown_model",
    "invalid_model",
    "no_endpoints",
    "NotFoundError",
    "ResourceNotFoundException",
];

/// What a name means in a stream, or in a 200, where no status says it.
const IN_BAND: &[(&[&str], Kind)] = &[
    (
        &[
            "rate_limit_error",
            "rate_limit_exceeded",
            "rate_limited",
            "slow_down",
            "throttlingException",
            "RESOURCE_EXHAUSTED",
        ],
        Kind::RateLimited,
    ),
    (
        &["UNAVAILABLE", "service_unavailable_error"],
        Kind::Overloaded,
    ),
    (
        &[
            "timeout",
            "timeout_error",
            "modelTimeoutException",
            "DEADLINE_EXCEEDED",
        ],
        Kind::TimedOut(Phase::Upstream),
    ),
    (
        &[
            "api_error",
            "server_error",
            "internalServerException",
            "modelStreamErrorException",
            "provider_unavailable",
        ],
        Kind::ServerError,
    ),
    (&["payment_required"], Kind::QuotaExhausted),
    (
        &[
            "authentication",
            "authentication_error",
            "invalid_api_key",
            "UNAUTHENTICATED",
        ],
        Kind::Authentication,
    ),
    (
        &[
            "permission_error",
            "permission_denied",
            "accessDeniedException",
        ],
        Kind::Permission,
    ),
    (&["not_found_error", "NOT_FOUND"], Kind::NotFound),
    (&["conflict_error"], Kind::Conflict),
    (
        &[
            "validationException",
            "invalid_request",
            "invalid_request_error",
            "BadRequestError",
            "INVALID_ARGUMENT",
        ],
        Kind::InvalidRequest,
    ),
];

/// The kind of a fault. `status` is 200 for a fault in a good answer that names no status of its
/// own.
pub(super) fn kind(status: u16, fault: &Fault<'_>) -> Kind {
    let message = fault.message.to_ascii_lowercase();
    let says = |words: &str| message.contains(words);
    let says_any = |sentences: &[&str]| sentences.iter().any(|words| says(words));

    if fault.is(CAPACITY)
        || says_any(&[
            "service tier capacity exceeded",
            "experiencing high demand",
            "the model is overloaded",
        ])
    {
        return Kind::Overloaded;
    }
    // The one 402 that clears by itself, as running requests settle.
    if fault.is(&["in_flight_budget_exhausted"]) {
        return Kind::RateLimited;
    }
    if fault.is(MONEY)
        || fault.has_quota("PerDay")
        || fault.has_quota("Daily")
        // Gemini's quotas by the hour and by the day come without a name at times.
        || (status == 429 && hinted(fault).is_some_and(|wait| wait > LONGEST_WAIT))
        || says_any(&[
            "credit balance is too low",
            "specified api usage limits",
            "specified workspace api usage limits",
            "prepayment credits are depleted",
            "insufficient balance",
            "tokens per day, please wait",
            "api calls / month",
        ])
    {
        return Kind::QuotaExhausted;
    }
    if fault.is(SIZE) || message.starts_with("request too large") || says("payload size exceeds") {
        return Kind::RequestTooLarge;
    }
    if fault.is(CONTEXT) || (says_too_long(&message) && !is_about_output(fault, &message)) {
        return Kind::ContextTooLong;
    }
    if fault.is(POLICY)
        || says("output blocked by content filtering policy")
        || (status == 403 && says_any(&["flagged", "request blocked"]))
    {
        return Kind::ContentFiltered;
    }
    if fault.is(IDENTITY) {
        return Kind::Authentication;
    }
    if fault.is(PERMISSION) {
        return Kind::Permission;
    }
    if fault.is(MODEL)
        || says_any(&[
            "model identifier is invalid",
            // The apostrophe after "isn" is a typographic one at times.
            "on-demand throughput isn",
        ])
        || (status == 404 && says("model"))
    {
        return Kind::UnknownModel;
    }
    match status {
        200..300 => in_band(fault, &message),
        498 if fault.declared => Kind::Overloaded,
        501 if fault.is(&["not_supported_error"]) => Kind::InvalidRequest,
        503 if says("upstream connect error") => Kind::ServerError,
        _ => by_status(status),
    }
}

fn in_band(fault: &Fault<'_>, message: &str) -> Kind {
    let named = fault.names.iter().find_map(|name| {
        let is_it = |other: &&str| other.eq_ignore_ascii_case(name);
        let (_, kind) = IN_BAND.iter().find(|(names, _)| names.iter().any(is_it))?;
        Some(*kind)
    });
    match named {
        Some(Kind::NotFound) if message.contains("model") => Kind::UnknownModel,
        Some(kind) => kind,
        None => Kind::ServerError,
    }
}

fn by_status(status: u16) -> Kind {
    match status {
        // A login page: what was sent did not count as a key.
        300..400 => Kind::Authentication,
        401 => Kind::Authentication,
        402 => Kind::QuotaExhausted,
        403 => Kind::Permission,
        404 => Kind::NotFound,
        408 => Kind::TimedOut(Phase::Upstream),
        409 => Kind::Conflict,
        413 | 431 => Kind::RequestTooLarge,
        // The model behind the API failed (Bedrock, Groq).
        424 => Kind::ServerError,
        425 => Kind::Overloaded,
        429 => Kind::RateLimited,
        // Cohere's invalid token.
        498 => Kind::Authentication,
        499 => Kind::Cancelled,
        503 | 529 => Kind::Overloaded,
        504 | 522 | 524 => Kind::TimedOut(Phase::Upstream),
        400..500 => Kind::InvalidRequest,
        500..600 => Kind::ServerError,
        _ => Kind::Unknown,
    }
}

/// Whether a message says that the prompt does not fit the window.
fn says_too_long(message: &str) -> bool {
    let says = |words: &str| message.contains(words);
    let counts = |words: &str| {
        message.match_indices(words).any(|(at, words)| {
            message[at + words.len()..].starts_with(|c: char| c.is_ascii_digit())
        })
    };
    says("prompt is too long")
        || says("input is too long for requested model")
        || says("exceeds the context window")
        || says("reduce the length of the messages or completion")
        || says("exceeds the available context size")
        || says("greater than the context length")
        || says("context length exceeded")
        || says("context_length_exceeded")
        || says("total number of tokens in the prompt cannot exceed")
        || counts("maximum prompt length is ")
        || counts("maximum context length is ")
        || (counts("too large for model with ") && says("maximum context length"))
        || message
            .split_once("input token count")
            .is_some_and(|(_, rest)| rest.contains("exceeds the maximum"))
}

/// Whether a message that speaks of the window is about the length of the answer, or of another
/// field: then a smaller number helps, not a larger window.
fn is_about_output(fault: &Fault<'_>, message: &str) -> bool {
    fault.is(&["string_above_max_length"])
        || message.starts_with("'max_tokens'")
        || message.contains("max tokens must be")
}
