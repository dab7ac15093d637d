//! What is known of each kind of upstream.

use crate::resolved::{Kind, Probe};
use weighbridge_core::spec::Protocols;

impl Kind {
    /// The word of the config file.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llamacpp",
            Self::Tgi => "tgi",
            Self::Ollama => "ollama",
            Self::TrtLlm => "trtllm",
            Self::MistralRs => "mistralrs",
            Self::LmDeploy => "lmdeploy",
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Azure => "azure",
            Self::Generic => "generic",
        }
    }

    /// The API dialects that clients can use with it.
    #[must_use]
    pub const fn protocols(self) -> Protocols {
        match self {
            Self::Vllm | Self::Sglang | Self::LlamaCpp | Self::Generic => Protocols::ANY,
            Self::Tgi
            | Self::Ollama
            | Self::TrtLlm
            | Self::MistralRs
            | Self::LmDeploy
            | Self::OpenAi
            | Self::Azure => Protocols::OPENAI,
            Self::Anthropic => Protocols::ANTHROPIC,
            Self::Gemini => Protocols::NONE,
        }
    }

    /// How it is probed unless the config says otherwise; none: it is not, as providers are not.
    #[must_use]
    pub fn probe(self) -> Option<Probe> {
        let path = match self {
            Self::Vllm
            | Self::Sglang
            | Self::LlamaCpp
            | Self::Tgi
            | Self::TrtLlm
            | Self::MistralRs
            | Self::LmDeploy => "/health",
            Self::Ollama => "/",
            Self::Generic => return Some(Probe::Tcp),
            Self::OpenAi | Self::Anthropic | Self::Gemini | Self::Azure => return None,
        };
        Some(Probe::Http {
            path: path.to_owned(),
            expect: Vec::new(),
        })
    }

    /// Path of its metrics; none: it has none that tell of its load.
    #[must_use]
    pub const fn metrics(self) -> Option<&'static str> {
        match self {
            Self::Vllm | Self::Sglang | Self::LlamaCpp | Self::Tgi | Self::MistralRs | Self::LmDeploy => {
                Some("/metrics")
            }
            Self::TrtLlm => Some("/prometheus/metrics"),
            Self::Ollama | Self::OpenAi | Self::Anthropic | Self::Gemini | Self::Azure | Self::Generic => {
                None
            }
        }
    }

    /// Whether it refuses requests for a model under a name that it does not know, or may do so. The others serve what they have,
    /// whatever it is called.
    #[must_use]
    pub const fn asks_for_its_model(self) -> bool {
        !matches!(self, Self::Sglang | Self::LlamaCpp | Self::Tgi | Self::TrtLlm)
    }

    /// Whether it is somebody else's service.
    #[must_use]
    pub const fn is_provider(self) -> bool {
        matches!(self, Self::OpenAi | Self::Anthropic | Self::Gemini | Self::Azure)
    }
}
