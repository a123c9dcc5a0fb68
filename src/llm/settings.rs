//! The settings of a lane, and what can be wrong with them.

use std::num::NonZeroU32;
use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Map, Value};
use thiserror::Error;

use super::endpoint::EndpointFault;

/// The dialect that a lane speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// Chat completions, as OpenAI and the many servers that copy it answer them.
    OpenAi,
    /// Anthropic Messages.
    Anthropic,
    /// The sentence encoder inside this program: no key, no network.
    Offline,
}

impl LaneKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Anthropic, Self::Offline];

    /// The word used in configuration, metrics and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Offline => "offline",
        }
    }

    /// Where the kind is at home, used when no base URL is configured.
    #[must_use]
    pub fn default_base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("https://api.openai.com/v1"),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Offline => None,
        }
    }
}

/// How the shape of the answer is asked for, strictest first. It is asked for, never trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaMode {
    /// A strict JSON Schema. Some servers take it and ignore it; others refuse it with a 400.
    JsonSchema,
    /// A tool that the model is made to call, with the schema as its arguments.
    ForcedTool,
    /// Any JSON object. A dialect without such a mode sends the prompt alone.
    JsonObject,
    /// Nothing but the words of the prompt.
    PromptOnly,
}

impl SchemaMode {
    /// Every mode, strictest first.
    pub const ALL: [Self; 4] = [Self::JsonSchema, Self::ForcedTool, Self::JsonObject, Self::PromptOnly];

    /// The word used in configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JsonSchema => "json_schema",
            Self::ForcedTool => "forced_tool",
            Self::JsonObject => "json_object",
            Self::PromptOnly => "prompt_only",
        }
    }

    /// The next weaker mode.
    #[must_use]
    pub fn weaker(self) -> Option<Self> {
        match self {
            Self::JsonSchema => Some(Self::ForcedTool),
            Self::ForcedTool => Some(Self::JsonObject),
            Self::JsonObject => Some(Self::PromptOnly),
            Self::PromptOnly => None,
        }
    }
}

/// Which field carries the output limit in the `openai` dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputLimitField {
    /// `max_completion_tokens` at OpenAI and Azure, `max_tokens` everywhere else.
    ByHost,
    /// `max_tokens`, which OpenAI's reasoning models refuse.
    MaxTokens,
    /// `max_completion_tokens`, which older compatible servers do not know.
    MaxCompletionTokens,
    /// Send no limit at all.
    Omit,
}

/// Everything that makes a lane.
#[derive(Clone, Debug)]
pub struct LaneSettings {
    /// The lane's name in configuration, metrics and the API.
    pub name: String,
    /// The dialect.
    pub kind: LaneKind,
    /// Base URL; `None` takes the kind's own home.
    pub base_url: Option<String>,
    /// Model name, or the deployment at Azure.
    pub model: String,
    /// The credential. Local servers need none.
    pub api_key: Option<SecretString>,
    /// Header for the key where it is not the dialect's own, such as `api-key` at Azure.
    pub api_key_header: Option<String>,
    /// Calls a minute, spread evenly; `None` sets no limit.
    pub requests_per_minute: Option<NonZeroU32>,
    /// Most calls in flight at once.
    pub in_flight_max: NonZeroU32,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest silence while an answer comes in.
    pub read_timeout: Duration,
    /// Longest a call may take as a whole.
    pub total_timeout: Duration,
    /// Longest answer read, in bytes.
    pub answer_bytes_max: usize,
    /// Most tokens that the model may write.
    pub output_tokens_max: NonZeroU32,
    /// Which field carries that limit.
    pub output_limit_field: OutputLimitField,
    /// How the shape of the answer is asked for.
    pub schema_mode: SchemaMode,
    /// Whether a refused schema may step the lane down to the next weaker mode.
    pub schema_step_down: bool,
    /// More fields of the request body (`temperature`, `reasoning_effort`, `service_tier` …).
    /// The lane's own fields win.
    pub extra_body: Map<String, Value>,
    /// Whether the system's proxy settings apply. Loopback addresses never go through a proxy.
    pub use_proxy: bool,
}

impl LaneSettings {
    /// Settings with the defaults: 10 s to connect, 30 s of silence, 60 s in all, answers up to
    /// 1 MiB, 1,024 output tokens (hidden reasoning needs head-room), 8 calls in flight.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: LaneKind, model: impl Into<String>) -> Self {
        let in_flight_max = NonZeroU32::new(8).unwrap_or(NonZeroU32::MIN);
        let output_tokens_max = NonZeroU32::new(1_024).unwrap_or(NonZeroU32::MIN);
        Self {
            name: name.into(),
            kind,
            base_url: None,
            model: model.into(),
            api_key: None,
            api_key_header: None,
            requests_per_minute: None,
            in_flight_max,
            connect_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            total_timeout: Duration::from_secs(60),
            answer_bytes_max: 1024 * 1024,
            output_tokens_max,
            output_limit_field: OutputLimitField::ByHost,
            schema_mode: SchemaMode::JsonSchema,
            schema_step_down: true,
            extra_body: Map::new(),
            use_proxy: true,
        }
    }
}

/// Why a lane cannot be built from its settings.
#[derive(Debug, Error)]
pub enum LaneFault {
    /// The base URL cannot be used.
    #[error("lane {lane}: {source}")]
    Endpoint {
        /// The lane's name.
        lane: String,
        /// What is wrong with the URL.
        source: EndpointFault,
    },
    /// A remote lane has to name its model.
    #[error("lane {lane}: no model is set; name one as the provider spells it")]
    ModelMissing {
        /// The lane's name.
        lane: String,
    },
    /// The key holds characters that no header can carry, often a newline at its end.
    #[error(
        "lane {lane}: the API key has characters that a header cannot carry; check for spaces and newlines"
    )]
    KeyUnusable {
        /// The lane's name.
        lane: String,
    },
    /// The name of the key's header is no header name.
    #[error("lane {lane}: {header:?} is not the name of a header")]
    HeaderUnusable {
        /// The lane's name.
        lane: String,
        /// What was configured.
        header: String,
    },
    /// This binary has no sentence encoder.
    #[error(
        "lane {lane}: kind `offline` needs the feature `offline-encoder`, which this binary was built without; \
         build with it, or set a lane of kind `openai` or `anthropic`"
    )]
    EncoderMissing {
        /// The lane's name.
        lane: String,
    },
    /// The HTTP client could not be made, for example for want of root certificates.
    #[error("lane {lane}: the HTTP client could not be built: {source}")]
    Client {
        /// The lane's name.
        lane: String,
        /// What the client says.
        source: reqwest::Error,
    },
}
