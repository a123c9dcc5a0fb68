//! A provider's refusal of a call, and what it means.
//!
//! The status alone does not say: a 429 may be a rate limit that heals in seconds, a daily quota
//! or an empty account, and a 400 may be the fault of one ticket or of the whole configuration. The
//! meaning is read from status, error code, error type, details and, last, the prose.
//!
//! Sources: the error pages of the providers, summed up in `docs/PROVIDERS.md`.

use std::time::Duration;

/// What a provider said when it refused a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rejection {
    /// The HTTP status, or the status that an error inside a 200 stands for.
    pub status: u16,
    /// Whether the error came inside a 200.
    pub in_band: bool,
    /// `error.code`, lower case.
    pub code: Option<String>,
    /// `error.type` or `error.status`, lower case.
    pub kind: Option<String>,
    /// The parameter that the provider objects to.
    pub param: Option<String>,
    /// A finer code inside the details (Anthropic's `error_code`, Azure's `innererror.code`).
    pub detail_code: Option<String>,
    /// Ids of the quotas that were used up (Gemini).
    pub quota_ids: Vec<String>,
    /// The provider's words: cleaned, on one line, capped.
    pub message: String,
    /// How long the provider asks us to wait.
    pub retry_after: Option<Duration>,
    /// `x-should-retry`, which OpenAI and Anthropic set and their own clients obey.
    pub should_retry: Option<bool>,
}

/// What a rejection means for the ticket, the lane and the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Too many calls; heals by waiting.
    RateLimited,
    /// The account has no money or no quota left; heals by a person.
    QuotaExhausted,
    /// The provider has no capacity; heals by waiting.
    Overloaded,
    /// The provider failed; heals by another try.
    ProviderError,
    /// The key is wrong or may not do this.
    CredentialRefused,
    /// No such model, deployment or path.
    NotFound,
    /// The address answers with a redirect.
    Redirected,
    /// The ticket does not fit into the model's context.
    InputTooLarge,
    /// The way in which the schema was asked for is not supported.
    SchemaRefused,
    /// Another part of the configuration is not supported.
    Misconfigured,
    /// A filter blocked the ticket.
    ContentFiltered,
    /// The provider objects to this request for a reason that we cannot name.
    RequestRefused,
}

/// Codes that mean that money or quota is gone, whatever the status.
const MONEY_CODES: [&str; 8] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "enforced_spend_limit_reached",
    "credit_balance_too_low",
    "insufficient_credits",
    "payment_required",
];
/// Prose that means the same where the code is only `invalid_request_error` (Anthropic's 400).
const MONEY_PROSE: [&str; 5] = [
    "credit balance is too low",
    "spend limit",
    "specified api usage limits",
    "insufficient credits",
    "insufficient balance",
];
const TOO_LARGE_CODES: [&str; 3] =
    ["context_length_exceeded", "string_above_max_length", "request_too_large"];
const TOO_LARGE_PROSE: [&str; 9] = [
    "context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "input length",
    "too many tokens",
    "request too large",
    "reduce the length",
];
const FILTER_CODES: [&str; 4] =
    ["content_filter", "content_policy_violation", "responsibleaipolicyviolation", "data_inspection_failed"];
const CREDENTIAL_CODES: [&str; 5] =
    ["invalid_api_key", "authentication_error", "permission_error", "permission_denied", "api_key_invalid"];
const CREDENTIAL_PROSE: [&str; 4] =
    ["api key not valid", "invalid api key", "organization has been disabled", "account is not active"];
const NOT_FOUND_CODES: [&str; 4] =
    ["model_not_found", "deploymentnotfound", "not_found_error", "model_not_supported"];
const SCHEMA_WORDS: [&str; 9] = [
    "response_format",
    "json_schema",
    "output_config",
    "output_format",
    "structured output",
    "compiled grammar",
    "grammar",
    "tool_choice",
    "schema",
];
const PARAMETER_CODES: [&str; 4] =
    ["unsupported_parameter", "unsupported_value", "unknown_parameter", "invalid_model"];
const PARAMETER_PROSE: [&str; 5] = [
    "unsupported parameter",
    "unrecognized request argument",
    "unknown name",
    "extra inputs are not permitted",
    "anthropic-version",
];

impl Rejection {
    /// What it means. Named codes win over the status, the status over the prose.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        self.meaning_by_code().unwrap_or_else(|| self.meaning_by_status())
    }

    fn meaning_by_code(&self) -> Option<Meaning> {
        if self.has_code(&MONEY_CODES) || self.daily_quota_is_gone() {
            return Some(Meaning::QuotaExhausted);
        }
        if self.has_code(&FILTER_CODES) {
            return Some(Meaning::ContentFiltered);
        }
        if self.has_code(&TOO_LARGE_CODES) {
            return Some(Meaning::InputTooLarge);
        }
        if self.has_code(&CREDENTIAL_CODES) {
            return Some(Meaning::CredentialRefused);
        }
        if self.has_code(&NOT_FOUND_CODES) {
            return Some(Meaning::NotFound);
        }
        None
    }

    fn meaning_by_status(&self) -> Meaning {
        match self.status {
            300..=399 => Meaning::Redirected,
            401 | 403 => Meaning::CredentialRefused,
            402 => Meaning::QuotaExhausted,
            404 | 405 | 410 => Meaning::NotFound,
            413 => Meaning::InputTooLarge,
            // One ticket over a tokens-per-minute limit can never pass, however long it waits.
            429 if self.says(&["request too large"]) => Meaning::InputTooLarge,
            429 if self.says(&MONEY_PROSE) => Meaning::QuotaExhausted,
            429 => Meaning::RateLimited,
            498 | 503 | 529 => Meaning::Overloaded,
            408 | 409 | 425 | 500..=599 => Meaning::ProviderError,
            _ => self.meaning_of_bad_request(),
        }
    }

    fn meaning_of_bad_request(&self) -> Meaning {
        if self.says(&MONEY_PROSE) {
            return Meaning::QuotaExhausted;
        }
        if self.says(&CREDENTIAL_PROSE) {
            return Meaning::CredentialRefused;
        }
        if self.says(&TOO_LARGE_PROSE) {
            return Meaning::InputTooLarge;
        }
        let param_is_schema =
            self.param.as_deref().is_some_and(|param| SCHEMA_WORDS.iter().any(|word| param.contains(word)));
        if param_is_schema || self.says(&SCHEMA_WORDS) {
            return Meaning::SchemaRefused;
        }
        let names_parameter =
            self.param.as_deref().is_some_and(|param| !param.is_empty() && !param.starts_with("messages"));
        if self.has_code(&PARAMETER_CODES) || self.says(&PARAMETER_PROSE) || names_parameter {
            return Meaning::Misconfigured;
        }
        Meaning::RequestRefused
    }

    /// A quota by the day without a moment at which it heals. Where the provider names a window
    /// or a delay, that wins: Gemini sends the same prose about billing with both.
    fn daily_quota_is_gone(&self) -> bool {
        let names = |part: &str| self.quota_ids.iter().any(|id| id.contains(part));
        self.retry_after.is_none() && names("PerDay") && !names("PerMinute")
    }

    fn has_code(&self, codes: &[&str]) -> bool {
        let given = [&self.code, &self.kind, &self.detail_code];
        given.into_iter().flatten().any(|code| codes.contains(&code.as_str()))
    }

    fn says(&self, phrases: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        phrases.iter().any(|phrase| message.contains(phrase))
    }
}
