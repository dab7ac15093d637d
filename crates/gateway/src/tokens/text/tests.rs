use super::template::Template;
use super::*;
use minijinja::Value;

fn template(source: &str) -> Template {
    let config: Value =
        serde_json::from_str(r#"{"bos_token": "<s>", "eos_token": {"content": "</s>"}}"#).unwrap();
    Template::new(source, &config).unwrap()
}

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Of a template that looks into parts, calls methods of Python and writes JSON (as Llama's and Qwen's do).
const LONG: &str = "{{- bos_token }}
{%- if tools %}
    {{- '<tools>' }}
    {%- for tool in tools %}
        {{- \"\\n\" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- '</tools>' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.content is string %}
        {{- message.role + ': ' + message.content.strip() }}
    {%- elif message.content %}
        {%- for item in message.content %}{{ item.text }}|{% endfor %}
    {%- endif %}
    {%- for call in message.tool_calls or [] %}
        {%- for name, value in call.function.arguments.items() %}
            {{- '<' ~ name ~ '=' ~ value ~ '>' }}
        {%- endfor %}
    {%- endfor %}
    {{- eos_token }}
{%- endfor %}
{%- if enable_thinking is defined and enable_thinking is false %}<no_think>{% endif %}";

#[test]
fn a_chat_is_rendered_as_by_its_engine() {
    let body = br#"{"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}"#;
    let chat = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(template(CHATML).render(body).as_deref(), Some(chat));
    let without = br#"{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
        "add_generation_prompt": false}"#;
    assert_eq!(
        template(CHATML).render(without).as_deref(),
        Some("<|im_start|>user\na\nb<|im_end|>\n")
    );
}

#[test]
fn tools_calls_parts_and_switches_are_rendered() {
    let body = r#"{"messages": [
        {"role": "user", "content": "  what? "},
        {"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": \"z\"}"}}]}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "é <b>", "parameters": {}}}],
        "chat_template_kwargs": {"enable_thinking": false}}"#;
    let expected = "<s><tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"é <b>\", \
                    \"parameters\": {}}}</tools>user: what?</s>x|y|</s><b=1><a=z></s><no_think>";
    assert_eq!(template(LONG).render(body.as_bytes()).as_deref(), Some(expected));
}

#[test]
fn what_is_not_followed_is_not_rendered() {
    let chat = template(CHATML);
    for more in [
        r#""chat_template": "x""#,
        r#""continue_final_message": true"#,
        r#""documents": []"#,
    ] {
        let body = format!(r#"{{"messages": [{{"role": "user", "content": "a"}}], {more}}}"#);
        assert_eq!(chat.render(body.as_bytes()), None, "{more}");
    }
    let image =
        br#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}"#;
    assert_eq!(chat.render(image), None);
    assert_eq!(
        template("{{ raise_exception('no') }}").render(br#"{"messages": []}"#),
        None
    );
    assert_eq!(chat.render(b"{}"), None);
}

#[test]
fn json_is_written_as_by_python() {
    let body = br#"{"messages": [], "tools": [{"a": [1, 2.5, true, null], "b": {}}]}"#;
    let shown = template("{{ tools | tojson(indent=2) }}").render(body).unwrap();
    let expected =
        "[\n  {\n    \"a\": [\n      1,\n      2.5,\n      true,\n      null\n    ],\n    \"b\": {}\n  }\n]";
    assert_eq!(shown, expected);
}

/// A tokenizer of whole words, as a file.
fn words() -> (tempfile::TempDir, Tokenizer) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let json = r#"{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
        {"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
        "normalizer": null, "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": null,
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}], "pair": [{"Sequence": {"id": "A", "type_id": 0}},
            {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "model": {"type": "WordLevel", "vocab": {"<s>": 0, "one": 1, "two": 2, "user": 3, "?": 4}, "unk_token": "?"}}"#;
    std::fs::write(&path, json).unwrap();
    let template = folder.path().join("chat.jinja");
    std::fs::write(
        &template,
        "{{ bos_token }}{% for m in messages %}{{ m.role }} {{ m.content }} {% endfor %}",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("tokenizer_config.json"),
        r#"{"bos_token": "<s>"}"#,
    )
    .unwrap();
    let tokenizer = Tokenizer::load(&Config {
        path,
        chat_template: Some(template),
    })
    .unwrap();
    (folder, tokenizer)
}

#[test]
fn texts_begin_with_what_begins_a_text_and_chats_with_what_their_template_writes() {
    let (_folder, words) = words();
    assert_eq!(words.text("one two x"), Some(vec![0, 1, 2, 4]));
    let chat = br#"{"messages": [{"role": "user", "content": "two"}]}"#;
    assert_eq!(words.chat(chat), Some(vec![0, 3, 2]));
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let (folder, _words) = words();
    let load = |path: &str, template: Option<&str>| {
        let at = |name: &str| folder.path().join(name);
        Tokenizer::load(&Config {
            path: at(path),
            chat_template: template.map(at),
        })
        .err()
        .unwrap()
    };
    assert!(load("missing.json", None).contains("missing.json"));
    assert!(load("tokenizer.json", Some("missing.jinja")).contains("missing.jinja"));
    assert!(load("tokenizer.json", Some("tokenizer_config.json")).contains("holds no `chat_template`"));
    std::fs::write(folder.path().join("bad.jinja"), "{% for %}").unwrap();
    assert!(load("tokenizer.json", Some("bad.jinja")).contains("bad.jinja"));
}
