//! What must hold of every prompt: equal texts are equal however they are written, a longer conversation keeps the blocks of a
//! shorter one, and no body does harm.

use crate::recorded;
use proptest::collection::vec;
use proptest::prelude::*;
use weighbridge_wire::prompt::{Cut, Prompt};
use weighbridge_wire::{Api, body_usage};

const CUT: Cut = Cut {
    seed: 7,
    block_bytes: 32,
};
const APIS: [Api; 4] = [
    Api::ChatCompletions,
    Api::Completions,
    Api::Responses,
    Api::Messages,
];

fn read(body: &str, api: Api) -> Prompt {
    let mut prompt = Prompt::default();
    prompt.read(body, api, Some(CUT));
    prompt
}

/// A JSON string of `text`, in which `choices` say which characters are escaped and how.
fn escaped(text: &str, choices: &[u8]) -> String {
    let mut written = "\"".to_owned();
    for (place, character) in text.chars().enumerate() {
        let choice = choices.get(place % choices.len().max(1)).copied().unwrap_or(0);
        let must = matches!(character, '"' | '\\' | '\0'..='\x1f');
        match (choice % 4, character) {
            (0, '"' | '\\' | '/') => written.extend(['\\', character]),
            (0, '\n') => written.push_str("\\n"),
            (0, '\t') => written.push_str("\\t"),
            (1, _) | (0, '\0'..='\x1f') => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
            (2, _) if must || place % 5 == 0 => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    written.push_str(&format!("\\u{unit:04X}"));
                }
            }
            _ if must => written.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => written.push(character),
        }
    }
    written + "\""
}

fn messages() -> impl Strategy<Value = Vec<(&'static str, String)>> {
    let role = prop_oneof![Just("system"), Just("user"), Just("assistant"), Just("tool")];
    let text = prop_oneof!["\\PC{0,200}", "[a-z \n\"\\\\/]{0,300}", "[你好世界，。]{0,80}"];
    vec((role, text), 1..8)
}

/// A body in one of the ways to write it: `choices` decide escapes, the order of fields, space, and parts.
fn written(messages: &[(&str, String)], choices: &[u8]) -> String {
    let pick = |place: usize| choices.get(place % choices.len().max(1)).copied().unwrap_or(0) / 4;
    let messages: Vec<String> = messages
        .iter()
        .enumerate()
        .map(|(place, (role, text))| {
            let content = if pick(place) % 3 == 0 {
                let middle = text.floor_char_boundary(text.len() / 2);
                let (first, second) = text.split_at(middle);
                format!(
                    "[{{\"type\":\"text\",\"text\":{}}}, {{\"text\":{},\"type\":\"text\"}}]",
                    escaped(first, choices),
                    escaped(second, choices)
                )
            } else {
                escaped(text, choices)
            };
            if pick(place) % 2 == 0 {
                format!(r#"{{"role":"{role}","content":{content}}}"#)
            } else {
                format!(
                    r#"{{ "content" : {content} , "role" : {} }}"#,
                    escaped(role, choices)
                )
            }
        })
        .collect();
    if pick(0) % 2 == 0 {
        format!(r#"{{"messages":[{}],"stream":true}}"#, messages.join(","))
    } else {
        format!(r#"{{"model":"m", "messages" : [ {} ] }}"#, messages.join(" , "))
    }
}

proptest! {
    #[test]
    fn however_it_is_written_a_prompt_is_the_same(
        messages in messages(),
        one in vec(any::<u8>(), 1..20),
        other in vec(any::<u8>(), 1..20),
    ) {
        let (first, second) = (written(&messages, &one), written(&messages, &other));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&first).is_ok(), "{first}");
        let (a, b) = (read(&first, Api::ChatCompletions), read(&second, Api::ChatCompletions));
        prop_assert_eq!(&a, &b, "{} and {}", first, second);
        let bytes: usize = messages.iter().map(|(role, text)| role.len() + 2 + text.len()).sum();
        prop_assert_eq!(a.blocks.len(), bytes / CUT.block_bytes);
    }

    #[test]
    fn a_longer_conversation_keeps_the_blocks_of_a_shorter(
        messages in messages(),
        turns in 0_usize..8,
        choices in vec(any::<u8>(), 1..20),
    ) {
        let turns = turns.min(messages.len());
        let shorter = read(&written(&messages[..turns], &choices), Api::ChatCompletions);
        let longer = read(&written(&messages, &choices), Api::ChatCompletions);
        prop_assert!(longer.blocks.starts_with(&shorter.blocks));
        prop_assert!(longer.tokens >= shorter.tokens);
    }

    #[test]
    fn another_text_is_another_from_its_block_on(
        messages in messages(),
        place in any::<prop::sample::Index>(),
        choices in vec(any::<u8>(), 1..20),
    ) {
        let mut other = messages.clone();
        let changed = place.index(messages.len());
        other[changed].1.push_str(" and so on, for longer than a block is");
        let (a, b) = (read(&written(&messages, &choices), Api::ChatCompletions), read(&written(&other, &choices), Api::ChatCompletions));
        let before: usize = messages[..changed].iter().map(|(role, text)| role.len() + 2 + text.len()).sum();
        let own = messages[changed].0.len() + 2 + messages[changed].1.len();
        let same = a.blocks.iter().zip(&b.blocks).take_while(|(a, b)| a == b).count();
        prop_assert!(same >= before / CUT.block_bytes);
        prop_assert!(same <= (before + own) / CUT.block_bytes);
    }

    #[test]
    fn no_text_does_harm(body in "\\PC{0,400}") {
        for api in APIS {
            read(&body, api);
        }
    }

    #[test]
    fn no_cut_and_no_change_of_a_body_does_harm(
        messages in messages(),
        choices in vec(any::<u8>(), 1..20),
        cut in any::<prop::sample::Index>(),
        put in "[\\PC\"{}\\[\\],:\\\\]{0,4}",
    ) {
        let body = written(&messages, &choices);
        let at = body.floor_char_boundary(cut.index(body.len()));
        prop_assert_eq!(read(&body[..at], Api::Messages), Prompt::default());
        let changed = format!("{}{put}{}", &body[..at], &body[at..]);
        for api in APIS {
            let prompt = read(&changed, api);
            prop_assert!(prompt.blocks.len() <= changed.len() * 3);
        }
    }
}

/// What the servers of the recordings counted for prompts of text, which is near what is estimated.
#[test]
fn recorded_prompts_are_counted_as_their_servers_did() {
    let mut errors = Vec::new();
    for path in recorded::ending(".request.json") {
        let body = String::from_utf8(recorded::read(&path)).unwrap();
        let api = if path.contains("/completion-") {
            Api::Completions
        } else if path.contains("responses") {
            Api::Responses
        } else {
            Api::ChatCompletions
        };
        let prompt = read(&body, api);
        let answer = path.replace(".request.json", ".json");
        let Some(usage) = recorded::found(&answer).and_then(|answer| body_usage(api, &answer)) else {
            continue;
        };
        let counted = f64::from(u32::try_from(usage.prompt_tokens).unwrap());
        let error = f64::from(u32::try_from(prompt.tokens).unwrap()) / counted - 1.0;
        println!("{path}: {} for {counted}, {:?}", prompt.tokens, prompt.needs);
        errors.push(error.abs());
    }
    errors.sort_by(f64::total_cmp);
    assert!(errors.len() >= 10, "{errors:?}");
    assert!(errors[errors.len() / 2] < 0.3, "{errors:?}");
}
