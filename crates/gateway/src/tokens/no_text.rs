//! Without the feature `tokenizers`: a config that needs it is refused.

/// Stands for one; there is none.
pub(super) enum Tokenizer {}

impl Tokenizer {
    /// Says what is missing.
    ///
    /// # Errors
    /// Always.
    pub(super) fn load(_: &weighbridge_config::kv_events::Tokenizer) -> Result<Self, String> {
        Err("this program was built without tokenizers; build it with `cargo build --release --features tokenizers`, \
             or remove the key"
            .to_owned())
    }

    pub(super) fn text(&self, _: &str) -> Option<Vec<u32>> {
        match *self {}
    }

    pub(super) fn chat(&self, _: &[u8]) -> Option<Vec<u32>> {
        match *self {}
    }
}
