//! What an answer will be. A simulated answer is known before it starts: its length, its words and why it ends.

use super::EngineConfig;
use super::driver::Reason;
use super::http::Fault;
use super::prompt::with_answer;
use super::tools::{ToolCall, demanded};
use serde::Deserialize;
use serde_json::Value;
use weighbridge_sim::engine::{Refusal, Work, WorkId};
use weighbridge_sim::text::{Generated, Tokenizer, draw_output_tokens, generate, mix};

/// One string or several.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(super) fn into_list(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(list) => list,
        }
    }
}

/// What the request says about the answer's length.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) max_tokens: Option<u32>,
    pub(super) min_tokens: u32,
    pub(super) ignore_eos: bool,
    pub(super) stop: Vec<String>,
    pub(super) seed: i64,
}

/// The tools of a request, as it gives them.
#[derive(Default)]
pub(super) struct Tools<'a> {
    pub(super) offered: Option<&'a Value>,
    pub(super) choice: Option<&'a Value>,
}

/// Why an answer ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// It is complete; its last token is the mark of that and has no text.
    Stop,
    /// It reached its greatest length.
    Length,
    /// It contains one of the request's stop sequences.
    Sequence(String),
}

/// An answer before it is given.
pub(super) struct Plan {
    pub(super) prompt_tokens: u32,
    pub(super) output_tokens: u32,
    pub(super) finish: Finish,
    /// The name of the tool that the answer calls; its text is then the arguments.
    pub(super) tool: Option<String>,
    words: Generated,
    /// Where the visible text ends, in bytes.
    visible: usize,
    prompt: Tokenizer,
}

impl Plan {
    /// Decides the answer to a prompt.
    pub(super) fn new(
        config: &EngineConfig,
        prompt: Tokenizer,
        limits: &Limits,
        tools: &Tools<'_>,
    ) -> Result<Self, Fault> {
        let prompt_tokens = prompt.tokens();
        let longest = config.settings.longest_sequence();
        let asked = limits.max_tokens.unwrap_or(1);
        if asked == 0 {
            return Err(Fault::bad_request("max_tokens must be at least 1, got 0.").about("max_tokens"));
        }
        config
            .settings
            .check(prompt_tokens, asked)
            .map_err(|refusal| too_long(refusal, prompt_tokens, asked))?;
        let rest = u32::try_from(longest - u64::from(prompt_tokens)).unwrap_or(u32::MAX);
        let most = limits.max_tokens.unwrap_or(rest);
        let seed = mix(config.seed ^ prompt.fingerprint() ^ mix(limits.seed.cast_unsigned()));
        if let Some(call) = demanded(tools.offered, tools.choice, seed)? {
            return Ok(Self::of_call(call, prompt, most));
        }
        let natural = draw_output_tokens(seed).max(limits.min_tokens);
        let (output_tokens, finish) = if limits.ignore_eos || natural > most {
            (most, Finish::Length)
        } else {
            (natural, Finish::Stop)
        };
        let words = generate(seed, output_tokens - u32::from(finish == Finish::Stop));
        let visible = words.text.len();
        let mut plan = Self {
            prompt_tokens,
            output_tokens,
            finish,
            tool: None,
            words,
            visible,
            prompt,
        };
        plan.apply_stop(limits);
        Ok(plan)
    }

    /// An answer that is a tool call, cut where it is longer than `most` tokens.
    fn of_call(call: ToolCall, prompt: Tokenizer, most: u32) -> Self {
        let words = Generated::from_text(call.arguments);
        let natural = u32::try_from(words.ends.len())
            .unwrap_or(u32::MAX)
            .saturating_add(1);
        let finish = if natural > most {
            Finish::Length
        } else {
            Finish::Stop
        };
        let output_tokens = natural.min(most);
        let visible = words.piece(0, output_tokens as usize).len();
        Self {
            prompt_tokens: prompt.tokens(),
            output_tokens,
            finish,
            tool: Some(call.name),
            words,
            visible,
            prompt,
        }
    }

    /// Ends the answer with the token that completes the first stop sequence in it.
    fn apply_stop(&mut self, limits: &Limits) {
        let text = &self.words.text;
        let from = self.words.piece(0, limits.min_tokens as usize).len();
        let hits = limits
            .stop
            .iter()
            .filter(|stop| !stop.is_empty())
            .filter_map(|stop| {
                let rest = text.get(from..)?;
                Some((from + rest.find(stop.as_str())?, stop))
            });
        if let Some((start, stop)) = hits.min_by_key(|(start, stop)| (start + stop.len(), *start)) {
            let tokens = self.words.ends.partition_point(|end| *end < start + stop.len()) + 1;
            self.output_tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
            self.finish = Finish::Sequence(stop.clone());
            self.visible = start;
        }
    }

    /// The work for the engine.
    pub(super) fn work(&self) -> Work {
        let said = self.words.piece(0, self.output_tokens as usize);
        Work {
            id: WorkId(0),
            blocks: with_answer(&self.prompt, said).blocks().into(),
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
        }
    }

    /// How `/metrics` counts its end.
    pub(super) fn reason(&self) -> Reason {
        if self.finish == Finish::Length {
            Reason::Length
        } else {
            Reason::Stop
        }
    }

    /// The visible text.
    pub(super) fn text(&self) -> &str {
        self.words.text.get(..self.visible).unwrap_or_default()
    }

    /// The visible text of the token at `index`, which may be none.
    pub(super) fn token(&self, index: u32) -> &str {
        let (from, to) = (index as usize, index as usize + 1);
        let piece = self.words.piece(from, to);
        let start = self.words.piece(0, from).len();
        piece
            .get(..self.visible.saturating_sub(start).min(piece.len()))
            .unwrap_or_default()
    }
}

/// The error for a prompt that is empty, or too long together with the answer it asks for.
pub(super) fn too_long(refusal: Refusal, prompt_tokens: u32, output_tokens: u32) -> Fault {
    match refusal {
        Refusal::EmptyPrompt => Fault::bad_request("The prompt is empty."),
        Refusal::TooLong { tokens, limit } => Fault::bad_request(format!(
            "This model's maximum context length is {limit} tokens. However, you requested {tokens} tokens \
             ({prompt_tokens} in the prompt, {output_tokens} for the answer). Shorten the prompt or lower max_tokens."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weighbridge_sim::engine::Settings;

    fn plan(limits: &Limits) -> Plan {
        let config = EngineConfig {
            models: vec!["m".into()],
            speed: 1.0,
            seed: 5,
            settings: Settings::default(),
        };
        let mut prompt = Tokenizer::new(16, 0);
        prompt.text("Tell me about the sea.");
        Plan::new(&config, prompt, limits, &Tools::default()).unwrap()
    }

    fn tokens(plan: &Plan) -> String {
        (0..plan.output_tokens).map(|index| plan.token(index)).collect()
    }

    #[test]
    fn tokens_make_up_the_text_whatever_ends_it() {
        let whole = plan(&Limits {
            max_tokens: Some(40),
            ignore_eos: true,
            ..Limits::default()
        });
        assert_eq!((whole.output_tokens, &whole.finish), (40, &Finish::Length));
        assert_eq!(tokens(&whole), whole.text());
        let natural = plan(&Limits {
            min_tokens: 3,
            ..Limits::default()
        });
        assert_eq!(natural.finish, Finish::Stop);
        assert_eq!(
            natural.token(natural.output_tokens - 1),
            "",
            "the mark of the end has no text"
        );
        assert_eq!(tokens(&natural), natural.text());
    }

    #[test]
    fn the_first_stop_sequence_ends_the_answer_and_is_not_shown() {
        let open = plan(&Limits {
            max_tokens: Some(40),
            ignore_eos: true,
            ..Limits::default()
        });
        let stop = open.text()[30..33].to_owned();
        let limits = Limits {
            max_tokens: Some(40),
            ignore_eos: true,
            stop: vec!["no such words".into(), stop.clone()],
            ..Limits::default()
        };
        let stopped = plan(&limits);
        assert_eq!(stopped.finish, Finish::Sequence(stop.clone()));
        assert_eq!(stopped.text(), &open.text()[..open.text().find(&stop).unwrap()]);
        assert_eq!(tokens(&stopped), stopped.text());
        assert!(stopped.output_tokens < 40);
    }

    #[test]
    fn the_requests_seed_changes_the_words() {
        let with = |seed| {
            plan(&Limits {
                max_tokens: Some(30),
                ignore_eos: true,
                seed,
                ..Limits::default()
            })
        };
        assert_eq!(with(1).text(), with(1).text());
        assert_ne!(with(1).text(), with(2).text());
    }
}
