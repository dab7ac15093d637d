use super::*;
use crate::TextTokens;

const CUT: Cut = Cut {
    seed: 1,
    block_bytes: 16,
};

fn read(body: &str) -> Prompt {
    let mut prompt = Prompt::default();
    prompt.read(body, Api::ChatCompletions, Some(CUT));
    prompt
}

fn text_tokens(text: &str) -> u64 {
    let mut counted = TextTokens::default();
    counted.add(text);
    counted.tokens()
}

/// As many characters as three blocks.
const LONG: &str = "one two three four five six seven eight nine ten";

/// A conversation of these roles and contents, which are raw JSON.
fn chat(messages: &[(&str, &str)]) -> String {
    let messages: Vec<String> = messages
        .iter()
        .map(|(role, content)| format!(r#"{{"role":"{role}","content":{content}}}"#))
        .collect();
    format!(r#"{{"model":"m","messages":[{}]}}"#, messages.join(","))
}

fn check_same(bodies: &[&str]) {
    let first = read(bodies[0]);
    assert!(!first.blocks.is_empty(), "{}", bodies[0]);
    for body in bodies {
        let other = read(body);
        assert_eq!(first.blocks, other.blocks, "{} and {body}", bodies[0]);
        assert_eq!(first.tokens, other.tokens, "{} and {body}", bodies[0]);
    }
}

/// None shares its last block with another.
fn check_different(bodies: &[&str]) {
    let mut last: Vec<_> = bodies.iter().map(|body| read(body).blocks.pop()).collect();
    assert!(!last.contains(&None));
    last.sort_unstable();
    last.dedup();
    assert_eq!(last.len(), bodies.len(), "{bodies:?}");
}

#[test]
fn what_is_equal_to_a_model_is_equal_here() {
    let text = format!(r#""{LONG} naïve 🙂 a/b\n""#);
    let escaped =
        r#""\u006fne two three four five six seven eight nine ten na\u00efve \ud83d\ude42 a\/b\u000a""#;
    let parts = r#"[{"type":"text","text":"one two three four five six "}, {"type":"text","text":"seven eight nine ten naïve 🙂 a/b\n","cache_control":{"type":"ephemeral"}}]"#;
    let turned = format!(r#"{{"messages":[{{"content":{text},"role":"user"}}]}}"#);
    let spaced = format!(
        "{{ \"messages\" :\n[ {{ \"role\" : \"user\" ,\t\"content\" : {text} }} ] , \"stream\":true }}"
    );
    let named = format!(r#"{{"m\u0065ssages":[{{"rol\u0065":"user","content":{text}}}]}}"#);
    check_same(&[
        &chat(&[("user", &text)]),
        &chat(&[("user", escaped)]),
        &chat(&[("user", parts)]),
        &turned,
        &spaced,
        &named,
    ]);
}

#[test]
fn tools_by_their_json_and_calls_without_their_ids() {
    let with = |tools: &str, id: &str| {
        format!(
            r#"{{"tools":{tools},"messages":[{{"role":"user","content":"{LONG}"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"{id}","type":"function","function":{{"name":"weather","arguments":"{{\"city\":\"Paris\"}}"}}}}]}},{{"role":"tool","tool_call_id":"{id}","content":"{LONG}"}}]}}"#
        )
    };
    let tools = r#"[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]"#;
    let spaced = r#"[ { "type":"function", "function": {"name" : "weather","parameters": { "type":"object" } } , "cache_control":{"type":"ephemeral"}} ]"#;
    check_same(&[
        &with(tools, "call_1"),
        &with(tools, "call_2"),
        &with(spaced, "call_1"),
    ]);
    let other = tools.replace("weather", "whether");
    let kind = tools.replacen("function", "web_search", 1);
    let body = with(tools, "call_1");
    let arguments = body.replace("Paris", "Milan");
    check_different(&[&body, &with(&other, "call_1"), &with(&kind, "call_1"), &arguments]);
    assert_eq!(read(&body).needs, Needs::TOOLS);
    assert_eq!(read(&body).turns, 1);
}

#[test]
fn roles_order_and_boundaries_matter() {
    let (one, two) = (format!("\"{LONG}\""), "\"and then some more of it\"");
    check_different(&[
        &chat(&[("user", &one), ("assistant", two)]),
        &chat(&[("assistant", two), ("user", &one)]),
        &chat(&[("user", &one), ("user", two)]),
        &chat(&[("user", &format!("\"{LONG}and then some more of it\""))]),
        &chat(&[("system", &one), ("assistant", two)]),
        &format!(r#"{{"system":{one},"messages":[{{"role":"user","content":{two}}}]}}"#),
        &format!(r#"{{"prompt":[{one},{two}]}}"#),
        &format!(r#"{{"prompt":[{two},{one}]}}"#),
    ]);
}

#[test]
fn dialects_name_the_same_things_differently() {
    let text = format!("\"{LONG}\"");
    check_same(&[
        &chat(&[("system", &text), ("user", "\"go\"")]),
        &format!(
            r#"{{"messages":[{{"role":"user","content":"go"}}],"system":[{{"type":"text","text":{text}}}]}}"#
        ),
        &format!(r#"{{"instructions":{text},"input":"go"}}"#),
        &format!(
            r#"{{"input":[{{"type":"message","role":"user","content":[{{"type":"input_text","text":"go"}}]}}],"instructions":{text}}}"#
        ),
    ]);
}

#[test]
fn media_count_by_a_hash_of_what_they_are() {
    let with = |part: &str| chat(&[("user", &format!(r#"[{{"type":"text","text":"look"}},{part}]"#))]);
    let image = with(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA/BBB"}}"#);
    check_same(&[
        &image,
        &with(r#"{"image_url": {"url":"data:image\/png;base64,AAAA\/BBB"},"type":"image_url"}"#),
    ]);
    let other = image.replace("BBB", "BBC");
    check_different(&[&image, &other]);
    let (image, other) = (read(&image), read(&other));
    assert_eq!(image.tokens, other.tokens);
    assert!(image.tokens > 700);
    // As many bytes as the tokens stand for.
    assert_eq!(image.blocks.len(), 200);
    for (part, need) in [
        (
            r#"{"type":"input_image","image_url":"https://x/y.png"}"#,
            Needs::IMAGE,
        ),
        (r#"{"type":"input_image","file_id":"file-1"}"#, Needs::IMAGE),
        (
            r#"{"type":"image","source":{"type":"url","url":"https://x/y"}}"#,
            Needs::IMAGE,
        ),
        (
            r#"{"source":{"type":"url","url":"https://x/y"},"type":"image"}"#,
            Needs::IMAGE,
        ),
        (
            r#"{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}"#,
            Needs::AUDIO,
        ),
        (r#"{"type":"video_url","video_url":{"url":"x"}}"#, Needs::VIDEO),
        (r#"{"type":"file","file":{"file_data":"AAAA"}}"#, Needs::FILE),
        (
            r#"{"type":"document","source":{"type":"base64","data":"AAAA"}}"#,
            Needs::FILE,
        ),
        (
            r#"{"type":"tool_result","content":[{"type":"image","source":{"type":"base64","data":"AAAA"}}]}"#,
            Needs::IMAGE,
        ),
        (
            r#"{"type":"search_result","source":"https://x/y","title":"t"}"#,
            Needs::default(),
        ),
        (
            r#"{"type":"tool_use","name":"x","input":{"image_url":"y"}}"#,
            Needs::default(),
        ),
    ] {
        assert_eq!(read(&with(part)).needs, need, "{part}");
    }
}

#[test]
fn schemas_are_asked_for_in_many_ways() {
    for field in [
        r#""response_format":{"type":"json_schema","json_schema":{"schema":{}}}"#,
        r#""text":{"format":{"type":"json_schema","schema":{}}}"#,
        r#""output_config":{"format":{"type":"json_schema"}}"#,
        r#""output_format":{"type":"json_schema"}"#,
        r#""guided_json":{"type":"object"}"#,
        r#""structured_outputs":{"json":{"type":"object"}}"#,
    ] {
        assert_eq!(
            read(&format!(r#"{{{field},"messages":[]}}"#)).needs,
            Needs::JSON_SCHEMA,
            "{field}"
        );
    }
    for field in [
        r#""response_format":{"type":"json_object"}"#,
        r#""text":{"format":{"type":"text"}}"#,
        r#""tools":[]"#,
        r#""guided_json":null"#,
    ] {
        assert!(
            read(&format!(r#"{{{field},"messages":[]}}"#)).needs.is_empty(),
            "{field}"
        );
    }
}

#[test]
fn token_ids_count_one_each() {
    let ids: Vec<String> = (1000..1040).map(|id| id.to_string()).collect();
    let body = format!(r#"{{"prompt":[{}],"max_tokens":7}}"#, ids.join(", "));
    let prompt = read(&body);
    assert_eq!(
        (prompt.tokens, prompt.blocks.len(), prompt.max_tokens),
        (40, 10, Some(7))
    );
    let longer = read(&body.replace("1039]", "1039,5,6,7,8]"));
    assert_eq!(longer.blocks[..10], prompt.blocks);
    let batch = read(&format!(r#"{{"prompt":[[{0}],[{0}]]}}"#, ids.join(",")));
    assert_eq!(batch.tokens, 80);
}

#[test]
fn prompts_of_every_dialect_are_counted() {
    let fox = "the quick brown fox";
    let text = text_tokens(fox);
    for (body, expect) in [
        (chat(&[("user", "\"the quick brown fox\"")]), text + 7),
        (format!(r#"{{"prompt":"{fox}"}}"#), text),
        (format!(r#"{{"prompt":["{fox}","{fox}"]}}"#), 2 * text),
        (r#"{"prompt":[1,2,3,40000]}"#.to_owned(), 4),
        (
            format!(r#"{{"instructions":"{fox}","input":"{fox}"}}"#),
            2 * text + 11,
        ),
        ("[]".to_owned(), 0),
        ("\u{1}".to_owned(), 0),
        ("{}".to_owned(), 0),
    ] {
        assert_eq!(
            prompt_tokens(Api::ChatCompletions, body.as_bytes()),
            expect,
            "{body}"
        );
    }
    assert_eq!(prompt_tokens(Api::ChatCompletions, b"\xff"), 0);
}

#[test]
fn a_sample_stands_for_a_long_prompt() {
    let samples = [
        include_str!("../estimate/texts/english.txt"),
        include_str!("../estimate/texts/chinese.txt"),
        include_str!("../estimate/texts/rust.txt"),
        include_str!("../estimate/texts/records.txt"),
    ];
    for text in samples {
        for (turns, times) in [(1, 400), (20, 20), (200, 2)] {
            let text = text.repeat(times);
            let content = serde_json::to_string(&text).unwrap();
            let body = chat(&vec![("user", &*content); turns]);
            let whole = text_tokens(&text.repeat(turns)) + 4 * turns as u64 + 3;
            let sampled = read(&body).tokens;
            assert!(
                sampled.abs_diff(whole) * 16 < whole,
                "{turns}: {sampled} for {whole}"
            );
        }
    }
}

#[test]
fn seeds_salts_and_sizes_keep_prompts_apart() {
    let body = chat(&[("user", &format!("\"{LONG}\""))]);
    let mut prompt = Prompt::default();
    let mut all = Vec::new();
    for (body, cut) in [
        (body.clone(), CUT),
        (body.clone(), Cut { seed: 2, ..CUT }),
        (body.replacen('{', r#"{"cache_salt":"a","#, 1), CUT),
        (body.replacen('{', r#"{"cache_salt":"b","#, 1), CUT),
    ] {
        prompt.read(&body, Api::ChatCompletions, Some(cut));
        assert_eq!(prompt.blocks.len(), 3);
        all.extend_from_slice(&prompt.blocks);
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 12);
    prompt.read(&body, Api::ChatCompletions, None);
    assert!(prompt.blocks.is_empty() && prompt.tokens > 10);
    prompt.read(&body, Api::Moderations, Some(CUT));
    assert_eq!((prompt.tokens, prompt.turns), (0, 0));
}

#[test]
fn texts_to_embed_or_to_rank_have_tokens_and_no_blocks() {
    let text = text_tokens(LONG);
    for (api, body, expect) in [
        (Api::Embeddings, format!(r#"{{"input":"{LONG}"}}"#), text),
        (
            Api::Embeddings,
            format!(r#"{{"input":["{LONG}","{LONG}"]}}"#),
            2 * text,
        ),
        (Api::Embeddings, r#"{"input":[[1,2],[3]]}"#.to_owned(), 3),
        (
            Api::Rerank,
            format!(r#"{{"query":"{LONG}","documents":["{LONG}",{{"text":"{LONG}"}}]}}"#),
            3 * text,
        ),
        (
            Api::Score,
            format!(r#"{{"text_1":"{LONG}","text_2":["{LONG}"]}}"#),
            2 * text,
        ),
    ] {
        let mut prompt = Prompt::default();
        prompt.read(&body, api, Some(CUT));
        assert!(prompt.blocks.is_empty());
        assert!(
            prompt.tokens.abs_diff(expect) <= 2,
            "{body}: {} for {expect}",
            prompt.tokens
        );
    }
}

#[test]
fn a_block_has_its_share_of_the_tokens() {
    let text = "one two three four five six seven eight nine ten ".repeat(40);
    let body = chat(&[("user", &format!("\"{text}\""))]);
    let mut prompt = Prompt::default();
    let cut = Cut {
        seed: 0,
        block_bytes: BLOCK_BYTES,
    };
    prompt.read(&body, Api::ChatCompletions, Some(cut));
    // 1,960 bytes of 400 tokens or so.
    assert_eq!(prompt.blocks.len(), 7);
    assert!(
        (48..=60).contains(&prompt.block_tokens()),
        "{}",
        prompt.block_tokens()
    );
    assert!(prompt.block_tokens() * 7 <= prompt.tokens + 7);
    prompt.read(&body, Api::ChatCompletions, None);
    assert_eq!(prompt.block_tokens(), 0);
}

#[test]
fn what_cannot_be_read_says_nothing() {
    let body = chat(&[("user", &format!("\"{LONG}\""))]);
    let mut prompt = Prompt::default();
    for end in 0..body.len() {
        prompt.read(&body[..end], Api::ChatCompletions, Some(CUT));
        assert_eq!(prompt, Prompt::default(), "{end}");
    }
    for bad in [
        r#"{"messages":"text of a user that is more than sixteen bytes"}"#,
        r#"{"messages":{"role":"user"}}"#,
        r#"{"messages":[1,null,[]],"prompt":7,"system":null,"tools":"x"}"#,
        r#"{"messages":[{"role":7,"content":{"a":[[[[[[[[1]]]]]]]]}}]}"#,
        r#"{"messages":[{"role":"user","content":"\ud800 a lone half of a pair \udc00"}]}"#,
    ] {
        prompt.read(bad, Api::ChatCompletions, Some(CUT));
    }
    let lone = read(r#"{"messages":[{"role":"user","content":"\ud800 a lone half of a pair"}]}"#);
    assert_eq!(
        lone.blocks,
        read(r#"{"messages":[{"role":"user","content":"\ufffd a lone half of a pair"}]}"#).blocks
    );
}

#[test]
fn the_longest_prompt_has_a_bound() {
    let text = "x".repeat(BLOCKS_MAX * 16 * 2);
    let prompt = read(&chat(&[("user", &format!("\"{text}\""))]));
    assert_eq!(prompt.blocks.len(), BLOCKS_MAX);
    // Both halves count for the size of a block.
    assert!((prompt.block_tokens() * 2 * BLOCKS_MAX as u64).abs_diff(prompt.tokens) * 3 < prompt.tokens);
    let image = r#"{"type":"image_url","image_url":{"url":"x"}}"#;
    let images = vec![image; 3000].join(",");
    let prompt = read(&chat(&[("user", &format!("[{images}]"))]));
    assert_eq!(prompt.tokens, 3000 * 800 + 7);
    assert!(prompt.blocks.len() < 64 * 201 + 3000, "{}", prompt.blocks.len());
}

#[test]
fn all_turns_of_a_conversation_have_the_opening_of_the_first() {
    let system = ("system", r#""You are kind and brief.""#);
    let hello = ("user", r#""What does a mill do?""#);
    let first = read(&chat(&[system, hello]));
    let opening = first.opening.unwrap();
    assert_eq!(opening.blocks, first.blocks.len(), "nothing was answered yet");
    assert!(!first.blocks.contains(&opening.hash), "its end is no whole block");
    for later in [
        vec![
            system,
            hello,
            ("assistant", r#""It grinds.""#),
            ("user", r#""What?""#),
        ],
        vec![
            system,
            hello,
            ("assistant", r#""""#),
            ("tool", r#""5""#),
            ("user", r#""And now?""#),
            ("assistant", r#""No""#),
        ],
    ] {
        let later = read(&chat(&later));
        assert_eq!(later.opening, Some(opening));
        assert!(later.blocks.len() > first.blocks.len());
    }
    for other in [
        vec![system, ("user", r#""What does a mill do!""#)],
        vec![system, hello, hello],
        vec![("system", r#""You are kind and brief!""#), hello],
        vec![hello],
    ] {
        let other = read(&chat(&other)).opening;
        assert!(other.is_some_and(|other| other.hash != opening.hash), "{other:?}");
    }
    let empty = read(r#"{"model": "m"}"#);
    assert_eq!(empty.opening, None);
    let mut prompt = Prompt::default();
    prompt.read(&chat(&[system, hello]), Api::ChatCompletions, None);
    assert_eq!(prompt.opening, None, "nothing is hashed");
    prompt.read(
        &chat(&[hello]),
        Api::ChatCompletions,
        Some(Cut { seed: 2, ..CUT }),
    );
    assert_ne!(
        prompt.opening.map(|one| one.hash),
        read(&chat(&[hello])).opening.map(|one| one.hash),
        "another model"
    );
}

/// Items of the Responses API, several of which may come from the user before the first answer; and what is no conversation.
#[test]
fn the_opening_ends_where_the_model_first_speaks() {
    let opening = |json: &str, api| {
        let mut prompt = Prompt::default();
        prompt.read(json, api, Some(CUT));
        (prompt.opening.unwrap(), prompt.blocks.len())
    };
    let asked = r#"{"role":"user","content":"where I am: in a shop"},{"role":"user","content":"Sell!"}"#;
    let (first, _) = opening(&format!(r#"{{"input":[{asked}]}}"#), Api::Responses);
    for answer in [
        r#"{"type":"function_call","name":"sell","arguments":"{}"}"#,
        r#"{"type":"reasoning","summary":[]}"#,
        r#"{"type":"message","role":"assistant","content":"Sold."}"#,
    ] {
        let (later, blocks) = opening(
            &format!(r#"{{"input":[{asked},{answer},{asked}]}}"#),
            Api::Responses,
        );
        assert_eq!(later, first, "{answer}");
        assert!(blocks > first.blocks);
    }
    let (said, _) = opening(&format!(r#"{{"input":{LONG:?}}}"#), Api::Responses);
    let (item, _) = opening(
        &format!(r#"{{"input":[{{"role":"user","content":{LONG:?}}}]}}"#),
        Api::Responses,
    );
    assert_eq!(said, item, "a text is one message");
    let anthropic = r#"{"system":"Be kind.","messages":[{"role":"user","content":"Hello, you there"}"#;
    let (first, _) = opening(&format!("{anthropic}]}}"), Api::Messages);
    let more = r#",{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{}}]}]}"#;
    assert_eq!(opening(&format!("{anthropic}{more}"), Api::Messages).0, first);
    let (plain, blocks) = opening(&format!(r#"{{"prompt":{LONG:?}}}"#), Api::Completions);
    assert_eq!(plain.blocks, blocks);
}
