//! Text and chats to tokens, as the model's own tokenizer and chat template make them.

mod template;

use template::Template;
use weighbridge_config::kv_events::Tokenizer as Config;

/// The tokenizer of a model, with its chat template.
pub(super) struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
    template: Option<Template>,
}

impl Tokenizer {
    /// Loads it.
    ///
    /// # Errors
    /// What cannot be loaded, for a person.
    pub(super) fn load(config: &Config) -> Result<Self, String> {
        let path = &config.path;
        // The library says what is wrong with a file that is there, but not which file it is.
        let tokenizer =
            tokenizers::Tokenizer::from_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let beside = path.with_file_name("tokenizer_config.json");
        let template = config
            .chat_template
            .as_ref()
            .map(|path| Template::load(path, &beside))
            .transpose()?;
        Ok(Self { tokenizer, template })
    }

    /// The tokens of a text, with those that begin one.
    pub(super) fn text(&self, text: &str) -> Option<Vec<u32>> {
        self.encode(text, true)
    }

    /// The tokens of a chat, as the engine renders it.
    pub(super) fn chat(&self, body: &[u8]) -> Option<Vec<u32>> {
        let rendered = self.template.as_ref()?.render(body)?;
        // The template writes what begins a text itself.
        self.encode(&rendered, false)
    }

    fn encode(&self, text: &str, begin: bool) -> Option<Vec<u32>> {
        let encoding = self.tokenizer.encode_fast(text, begin).ok()?;
        Some(encoding.get_ids().to_vec())
    }
}

#[cfg(test)]
mod tests;
