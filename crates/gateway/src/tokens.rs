//! The blocks of a request's prompt by the names that engines' events give them.
//!
//! That takes the tokens of the prompt as the engine counts them. A prompt of `/v1/completions` may be tokens already; text
//! takes the model's tokenizer, and a chat its template as well, both of which the pool names and the feature `tokenizers`
//! reads ([`text`]). Tokenizing is slow (a few MB/s), so that what is long leaves the worker; where that has no room or
//! takes too long the request goes on without. Whatever is tokenised otherwise than by the engine gives other names and so no
//! match, never a wrong one.

mod prompt;
#[cfg_attr(not(feature = "tokenizers"), path = "tokens/no_text.rs")]
mod text;
mod told;

pub(crate) use told::Told;

use crate::exchange::intake::Intake;
use prompt::Asked;
use std::sync::Arc;
use std::time::Duration;
use text::Tokenizer;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use weighbridge_config::Config;
use weighbridge_core::prefix::BlockHash;
use weighbridge_core::work::Needs;
use weighbridge_wire::kv_events::chain;

/// Longest text that a worker tokenizes itself, bytes: about a millisecond.
const SHORT: usize = 4 * 1024;
/// Longest wait for a text that is tokenised elsewhere.
const LONGEST: Duration = Duration::from_secs(1);

/// What turns prompts of one pool into names of blocks.
pub(crate) struct PromptBlocks {
    /// What its engines' events say of their blocks; carried over from config to config.
    pub(crate) told: Arc<Told>,
    tokenizer: Option<Arc<Tokenizer>>,
    /// How many texts may be tokenised at once outside of the workers.
    elsewhere: Arc<Semaphore>,
}

/// A prompt in blocks.
struct Named {
    blocks: Box<[BlockHash]>,
    block_tokens: u32,
    prompt_tokens: u32,
}

impl Default for PromptBlocks {
    fn default() -> Self {
        Self {
            told: Arc::default(),
            tokenizer: None,
            elsewhere: Arc::new(Semaphore::new(0)),
        }
    }
}

impl PromptBlocks {
    /// Loads what `pool` names.
    ///
    /// # Errors
    /// What of it cannot be loaded, for a person.
    pub(crate) fn load(pool: &weighbridge_config::resolved::Pool, told: Arc<Told>) -> Result<Self, String> {
        let load = |tokenizer| Tokenizer::load(tokenizer).map(Arc::new);
        let tokenizer = pool.tokenizer.as_ref().map(load).transpose();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            told,
            tokenizer: tokenizer.map_err(|error| format!("pool `{}`: tokenizer: {error}", pool.name))?,
            elsewhere: Arc::new(Semaphore::new(threads)),
        })
    }

    fn name(&self, model: &str, asked: Asked<'_>) -> Option<Named> {
        let block_tokens = self.told.block_tokens();
        let root = self.told.root(model);
        let first = asked
            .salt
            .as_deref()
            .map_or(0, |salt| chain::add(0, salt.as_bytes()));
        let tokens = match asked.what {
            prompt::What::Tokens(tokens) => tokens,
            prompt::What::Text(text) => self.tokenizer.as_ref()?.text(&text)?,
            prompt::What::Chat(body) => self.tokenizer.as_ref()?.chat(body)?,
        };
        let mut names = Vec::new();
        chain::salted_blocks((root, first), &tokens, block_tokens as usize, &mut names);
        Some(Named {
            blocks: names.into_iter().map(BlockHash).collect(),
            block_tokens,
            prompt_tokens: u32::try_from(tokens.len()).unwrap_or(u32::MAX),
        })
    }
}

/// Whether everything that `config` names for tokenizing can be loaded.
///
/// # Errors
/// What cannot, for a person.
pub fn check(config: &Config) -> Result<(), String> {
    for pool in config.pools.iter().filter(|pool| pool.tokenizer.is_some()) {
        PromptBlocks::load(pool, Arc::default())?;
    }
    Ok(())
}

/// Names the blocks of the prompt, where the route looks at them and its engines tell of theirs.
pub(crate) async fn name_blocks(intake: &mut Intake) {
    let Some(blocks) = intake.route.exact.clone() else {
        return;
    };
    if !intake.route.needs.meets(Needs::BLOCKS) || blocks.told.block_tokens() == 0 {
        return;
    }
    let Some(asked) = Asked::read(intake.api, &intake.body) else {
        return;
    };
    let model = intake.route.upstream_model(&intake.model).to_owned();
    let named = if asked.is_tokens() || intake.body.len() <= SHORT {
        blocks.name(&model, asked)
    } else {
        elsewhere(blocks, (model, intake)).await
    };
    if let (Some(named), Some(work)) = (named, &mut intake.work) {
        let work = Arc::make_mut(work);
        work.exact = named.blocks;
        work.exact_tokens = named.block_tokens;
        work.prompt_tokens = named.prompt_tokens;
    }
}

/// The same on a thread that no connection waits for.
async fn elsewhere(blocks: Arc<PromptBlocks>, (model, intake): (String, &Intake)) -> Option<Named> {
    blocks.tokenizer.as_ref()?;
    let permit = blocks.elsewhere.clone().try_acquire_owned().ok()?;
    let (api, body) = (intake.api, intake.body.clone());
    let task = tokio::task::spawn_blocking(move || {
        let named = Asked::read(api, &body).and_then(|asked| blocks.name(&model, asked));
        drop(permit);
        named
    });
    timeout(LONGEST, task).await.ok()?.ok()?
}
