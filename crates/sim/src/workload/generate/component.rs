//! Requests of one component: sizes, contents, conversations.

use super::chain::Chain;
use super::drafts::Drafts;
use crate::text::mix;
use crate::workload::Request;
use crate::workload::order::Draft;
use crate::workload::random::Stream;
use crate::workload::spec::{Choice, ClosedLoop, Component, Sessions, Shared, Spec, SpecError};
use std::time::Duration;

/// Whoever asks: one client, or one user of a closed loop.
#[derive(Clone, Copy)]
pub(super) struct Person {
    pub(super) number: u64,
    pub(super) tenant: u16,
}

/// What one component draws from. Sequences of their own for each thing keep the others as they are when one changes.
pub(super) struct Source<'a> {
    component: &'a Component,
    class: u16,
    block_tokens: u32,
    /// Stands for this component's contents under this seed.
    salt: u64,
    questions: Stream,
    outputs: Stream,
    turns: Stream,
    thinks: Stream,
    groups: Vec<Groups<'a>>,
    /// Conversations so far.
    talks: u64,
}

/// Chooses groups of one shared beginning.
struct Groups<'a> {
    shared: &'a Shared,
    chance: Stream,
    salt: u64,
    /// For those in turn: all of them in their order, and how many have been chosen.
    order: Vec<(u32, u32)>,
    chosen: usize,
}

impl<'a> Groups<'a> {
    fn new(shared: &'a Shared, seed: u64, purpose: &str) -> Self {
        let mut chance = Stream::new(seed, purpose);
        let salt = chance.bits();
        let mut order = Vec::new();
        if shared.choice == Choice::Cycle {
            let prompts = shared.prompts.unwrap_or(1);
            order
                .extend((0..shared.groups).flat_map(|group| (0..prompts).map(move |prompt| (group, prompt))));
            chance.shuffle(&mut order);
        }
        Self {
            shared,
            chance,
            salt,
            order,
            chosen: 0,
        }
    }

    /// The group, and the prompt among its own where prompts come again.
    fn choose(&mut self, tenant: u16) -> (u32, Option<u32>) {
        let groups = self.shared.groups;
        let group = match self.shared.choice {
            Choice::Uniform => self.chance.below(u64::from(groups)) as u32,
            Choice::Zipf => {
                let skew = self.shared.skew.unwrap_or(1.0);
                self.chance.zipf(u64::from(groups), skew) as u32
            }
            Choice::Tenant => u32::from(tenant) % groups,
            Choice::Cycle => {
                let (group, prompt) = self.order[self.chosen % self.order.len()];
                self.chosen += 1;
                return (group, self.shared.prompts.map(|_| prompt));
            }
        };
        let prompt = self.shared.prompts;
        (
            group,
            prompt.map(|prompts| self.chance.below(u64::from(prompts)) as u32),
        )
    }

    /// What stands for the contents of `group`, and its length: the same whenever it is asked for.
    fn content(&self, group: u32) -> (u64, u32) {
        let content = mix(self.salt ^ mix(u64::from(group)));
        let tokens = self.shared.tokens.whole(&mut Stream::new(content, "tokens"));
        (content, tokens)
    }
}

impl<'a> Source<'a> {
    pub(super) fn new(spec: &Spec, (place, component): (usize, &'a Component), seed: u64) -> Self {
        let stream = |purpose: &str| Stream::new(seed, &format!("{purpose} {}", component.name));
        let groups = component.shared.iter().enumerate();
        Self {
            component,
            class: u16::try_from(place).unwrap_or(u16::MAX),
            block_tokens: spec.block_tokens,
            salt: stream("contents").bits(),
            questions: stream("questions"),
            outputs: stream("outputs"),
            turns: stream("turns"),
            thinks: stream("thinks"),
            groups: groups
                .map(|(level, shared)| {
                    Groups::new(shared, seed, &format!("shared {level} {}", component.name))
                })
                .collect(),
            talks: 0,
        }
    }

    /// One request, or one conversation, that begins at `start`.
    pub(super) fn arrival(
        &mut self,
        (person, start): (Person, Duration),
        drafts: &mut Drafts,
    ) -> Result<(), SpecError> {
        let first = Next {
            at: start,
            after: None,
        };
        self.talk((person, u32::MAX), first, drafts)
    }

    /// All requests of one user of a closed loop.
    pub(super) fn user(
        &mut self,
        closed_loop: &ClosedLoop,
        (person, start): (Person, Duration),
        drafts: &mut Drafts,
    ) -> Result<(), SpecError> {
        let end = drafts.list.len() + closed_loop.requests as usize;
        let mut next = Next {
            at: start,
            after: None,
        };
        while drafts.list.len() < end {
            let left = u32::try_from(end - drafts.list.len()).unwrap_or(u32::MAX);
            self.talk((person, left), next, drafts)?;
            next = Next {
                at: closed_loop.think.time(&mut self.thinks),
                after: drafts.last(),
            };
        }
        Ok(())
    }

    /// One conversation of at most `most` turns. It has one at least, or a user would never come to an end.
    fn talk(
        &mut self,
        (person, most): (Person, u32),
        mut next: Next,
        drafts: &mut Drafts,
    ) -> Result<(), SpecError> {
        self.talks += 1;
        let own = mix(self.salt ^ mix(self.talks));
        let (mut chain, question) = self.begin(person.tenant);
        let sessions = self.component.sessions.as_ref();
        let turns = sessions
            .map_or(1, |sessions| sessions.turns.whole(&mut self.turns))
            .max(1);
        for turn in 0..turns.min(most) {
            let new = match &question {
                Some((_, tokens)) => *tokens,
                None => self.question(turn, sessions),
            };
            let output = self.component.output.whole(&mut self.outputs);
            let all = chain.tokens().saturating_add(new).saturating_add(output);
            let context_max = sessions.and_then(|sessions| sessions.context_max);
            if turn > 0 && context_max.is_some_and(|most| all > most) {
                return Ok(());
            }
            drafts.reserve(all / self.block_tokens)?;
            let content = question.map_or(mix(own ^ mix(u64::from(turn))), |(content, _)| content);
            chain.say(content, new);
            let prompt_tokens = chain.tokens();
            // Answers to one prompt differ, so a repeated question's answer is not its first one's.
            chain.say(mix(own ^ mix(!u64::from(turn))), output);
            let session = sessions.is_some() || self.component.closed_loop.is_some();
            let before = next.after.map(|before| drafts.list[before as usize].nominal);
            let request = Request {
                at: next.at,
                after: next.after,
                prompt_tokens,
                output_tokens: output,
                blocks: chain.blocks(),
                session: session.then_some(if sessions.is_some() { own } else { person.number }),
                tenant: person.tenant,
                class: self.class,
            };
            drafts.list.push(Draft {
                nominal: before.unwrap_or_default().saturating_add(next.at),
                request,
            });
            if let Some(sessions) = sessions {
                next = Next {
                    at: sessions.think.time(&mut self.thinks),
                    after: drafts.last(),
                };
            }
        }
        Ok(())
    }

    /// The shared beginning of a conversation, and the question where it is one that comes again.
    fn begin(&mut self, tenant: u16) -> (Chain, Option<(u64, u32)>) {
        let mut chain = Chain::new(self.block_tokens, self.salt);
        let mut question = None;
        for groups in &mut self.groups {
            let (group, prompt) = groups.choose(tenant);
            let (content, tokens) = groups.content(group);
            chain.say(content, tokens);
            question = prompt.map(|prompt| {
                let content = mix(content ^ mix(u64::from(prompt) + 1));
                let length = &self.component.question;
                (
                    content,
                    length.whole(&mut Stream::new(content, "question")).max(1),
                )
            });
        }
        (chain, question)
    }

    fn question(&mut self, turn: u32, sessions: Option<&Sessions>) -> u32 {
        let opening = sessions.and_then(|sessions| sessions.opening.as_ref());
        let length = opening.filter(|_| turn == 0).unwrap_or(&self.component.question);
        length.whole(&mut self.questions).max(1)
    }
}

/// When the next request comes, and after which.
#[derive(Clone, Copy)]
struct Next {
    at: Duration,
    after: Option<u32>,
}
