//! Where fuzzing starts: inputs written here, the examples of the repository, what was once found, and the public recordings
//! of real servers, which live outside the repository.

mod config;
mod http;

use std::fs;
use std::path::{Path, PathBuf};

/// Longest seed, bytes.
const BYTES_MAX: usize = 16 * 1024;

/// The seeds of a target that the repository holds.
#[must_use]
pub fn own(target: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = match target {
        "stream" => STREAMS.iter().flat_map(|text| stream(&long(text))).collect(),
        "body" => BODIES.iter().flat_map(|text| body(text.as_bytes())).collect(),
        "form" => forms().iter().flat_map(|text| form(text.as_bytes())).collect(),
        "http_request" => http::requests(),
        "http_answer" => http::answers(),
        "config" => config::all(),
        "kv_events" => kv_events(),
        _ => (1..60).map(noise).collect(),
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    seeds.extend(files(&root.join("seeds").join(target), ""));
    if target == "config" {
        seeds.extend(files(&root.join("../examples"), ".yaml"));
    }
    seeds
}

/// Batches in both their forms, the beginning of a connection with two messages, and histories.
fn kv_events() -> Vec<Vec<u8>> {
    let time = b"\x92\xcb\x40\x8f\x40\0\0\0\0\0";
    let arrays = b"\x93\x96\xabBlockStored\x92\x07\xcf\x80\0\0\0\0\0\0\x01\xc0\x94\x01\x02\x03\x04\x02\xc0\x92\xacBlockRemoved\x91\x07\x91\xb0AllBlocksCleared";
    let maps = b"\x91\x8a\xa4type\xabBlockStored\xacblock_hashes\x91\xc4\x04abcd\xb1parent_block_hash\xc0\xa9token_ids\x92\xcd\x01\x00\x02\xaablock_size\x02\xa7lora_id\xc0\xa6medium\xa3GPU\xa9lora_name\xa3law\xaaextra_keys\x91\x92\xa3law\xa4salt\xa9group_idx\x00";
    let messages =
        b"\x00\x00\x00\x01\x00\x01\x08\0\0\0\0\0\0\0\0\x00\x02\x90\x90\x04\x0b\x04PING\x00\x0aabcd\x00\x00";
    let of = |kind: u8, parts: &[&[u8]]| [&[kind][..], &parts.concat()].concat();
    let mut seeds = vec![
        of(0, &[time, arrays]),
        of(0, &[time, maps]),
        of(1, &[&[1, 1, 2, 0, 0x40, 0, 0x80], messages]),
        of(1, &[&[0, 1, 0], messages]),
    ];
    seeds.extend((1..40).map(|seed| of(2, &[&noise(seed)])));
    seeds
}

/// What only a fuzzer has the time for: what the tests of the config are about.
#[must_use]
pub fn borrowed(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates")
        .join(target)
        .join("tests");
    if target != "config" {
        return Vec::new();
    }
    let sources = files(&folder, ".rs");
    sources
        .iter()
        .flat_map(|source| literals(&String::from_utf8_lossy(source)))
        .collect()
}

/// The seeds of a target that come from the recordings; none where there are none.
#[must_use]
pub fn recorded(target: &str) -> Vec<Vec<u8>> {
    let root = std::env::var_os("WEIGHBRIDGE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let folders = fs::read_dir(root.join("wire")).into_iter().flatten().flatten();
    let mut folders: Vec<_> = folders.map(|folder| folder.path()).collect();
    folders.sort();
    let all =
        |ending: &str| -> Vec<Vec<u8>> { folders.iter().flat_map(|folder| files(folder, ending)).collect() };
    match target {
        "stream" => {
            let mut streams = all(".sse");
            streams.extend(all("_response.txt"));
            streams.extend(all(".chunks.txt").iter().map(|lines| events(lines)));
            streams.iter().flat_map(|text| stream(text)).collect()
        }
        "body" => all(".json").iter().flat_map(|text| body(text)).collect(),
        "http_request" => all(".request.json").iter().map(|body| request(body)).collect(),
        "http_answer" => {
            let streams = all(".sse")
                .iter()
                .flat_map(|text| http::answer(&framed("text/event-stream", text)))
                .collect::<Vec<_>>();
            let wholes = all(".json");
            let wholes = wholes
                .iter()
                .flat_map(|text| http::answer(&framed("application/json", text)));
            streams.into_iter().chain(wholes).collect()
        }
        _ => Vec::new(),
    }
}

fn files(folder: &Path, ending: &str) -> Vec<Vec<u8>> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = found
        .map(|file| file.path())
        .filter(|path| path.is_file() && path.to_string_lossy().ends_with(ending))
        .collect();
    paths.sort();
    paths.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// The pieces of config that the tests of a source file are about: its texts, as they are and as settings of a pool or a route.
fn literals(source: &str) -> Vec<Vec<u8>> {
    let lines = source
        .lines()
        .filter_map(|line| line.split_once('"')?.1.rsplit_once('"'));
    lines
        .flat_map(|(text, _)| {
            let text = text.replace("\\n", "\n").replace("\\\"", "\"");
            [
                format!("pools: [{{name: a, endpoints: [http://h:1]}}]\n{text}"),
                format!("pools: [{{name: a, endpoints: [http://h:1], {text}}}]\n"),
                format!("pools: [{{name: a, endpoints: [{text}]}}, {{name: b, endpoints: [http://h:1]}}]\n"),
                format!(
                    "pools: [{{name: a, endpoints: [http://h:1]}}, {{name: b, endpoints: [http://i:1]}}]\nroutes: [{{name: r, targets: [a, {{pool: b, order: 2}}], {text}}}]\n"
                ),
                text,
            ]
        })
        .map(String::into_bytes)
        .collect()
}

/// A recording of data lines as the stream it was.
fn events(lines: &[u8]) -> Vec<u8> {
    let lines = String::from_utf8_lossy(lines);
    let lines = lines.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| format!("data: {line}\n\n"))
        .collect::<String>()
        .into_bytes()
}

/// The stream's beginning and end, for an API each that it may be of.
fn stream(text: &[u8]) -> Vec<Vec<u8>> {
    let begin = &text[..text.len().min(BYTES_MAX)];
    let end = &text[text.len().saturating_sub(1500)..];
    let of = |api: u8, text: &[u8]| [&[api, 40, 2, 0, 0x40, 0x31, 0x80], text].concat();
    [0, 1, 2, 3, 4, 5, 6, 7, 0xf0]
        .into_iter()
        .flat_map(|api| [of(api, begin), of(api, end)])
        .collect()
}

fn body(text: &[u8]) -> Vec<Vec<u8>> {
    let text = &text[..text.len().min(BYTES_MAX)];
    let of = |flags: u8, path: &[u8], budget: u16| {
        let path = [&[path.len() as u8], path].concat();
        [&[flags], &b"\x05model"[..], &path, &budget.to_le_bytes(), text].concat()
    };
    vec![
        of(0, b"user", 255),
        of(1, b"a..b", 30),
        of(4, b"a.a.a.a.a.a.a.a.a.a", 0),
        of(12, b"", 60000),
    ]
}

/// The form in one piece and cut, as it is and with a stretch of it repeated.
fn form(text: &[u8]) -> Vec<Vec<u8>> {
    let of = |stretch: [u8; 4]| [&b"\x00\x03new\x02\x00\x30\x00\x90"[..], &stretch, text].concat();
    vec![of([0; 4]), of([0, 0x80, 30, 60]), of([0, 0xc0, 3, 250])]
}

/// Forms with the boundary `b0`.
fn forms() -> Vec<String> {
    let part = |name: &str, value: &str| {
        format!("--b0\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = "--b0\r\nContent-Disposition: form-data; name=\"file\"; filename=\"C:\\a\\\"b;name=model.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF\r\n--b\r\n--b\r--b0 --b0\r\n\r--b0\n--b0\r\n-\r\n";
    let (model, stream, end) = (part("model", "m/1"), part("stream", "True"), "--b0--\r\n");
    let long = "x".repeat(1100);
    let mut forms = vec![
        format!("{model}{file}{stream}{end}"),
        format!("{file}{stream}{model}{end}"),
        format!("{file}{stream}{end}"),
        format!("{model}{file}{model}{end}"),
        format!("{stream}{}{end}", part("stream", &long)),
        format!("a preamble\r\n{model}--b0--\r\nan epilogue\r\n--b0\r\n{model}"),
        format!("\r\n--b0 \t\r\nX: {long}\r\ncontent-disposition:form-data;NAME=model\r\n\r\nm\r\n--b0--"),
        format!("{model}{end}").replace("\r\n", "\n"),
        format!("{}{end}", part("model", &long)),
        format!("{}{end}", part("a", "--b0")),
        format!("{}{end}", part("a", "x\r\n--b0x")),
        end.to_owned(),
        format!("{model}--b0-"),
    ];
    forms.extend(
        [
            "Content-Disposition: form-data; name=model; name=other",
            "Content-Disposition: form-data; name=a; name*=utf-8''model",
            "Content-Disposition: form-data; name=model; filename*=a",
            "Content-Disposition: form-data; name=model\r\nContent-Transfer-Encoding: base64",
            "Content-Disposition: form-data; name=model\r\nContent-Transfer-Encoding: 8bit",
            "--b0: x\r\nContent-Disposition: form-data; name=a",
        ]
        .map(|head| format!("--b0\r\n{head}\r\n\r\nm\r\n{end}")),
    );
    // Read as the parameters of a content type too.
    forms.extend(
        [
            "boundary=abc",
            "charset=x; Boundary=\"a b;c\"",
            "boundary=a;boundary=b",
        ]
        .map(str::to_owned),
    );
    forms
}

fn request(body: &[u8]) -> Vec<u8> {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-model: m\r\ncontent-length: ";
    let body = &body[..body.len().min(BYTES_MAX)];
    [
        &[0, 0, 1, 0, 0x80],
        format!("{head}{}\r\n\r\n", body.len()).as_bytes(),
        body,
    ]
    .concat()
}

fn framed(content_type: &str, body: &[u8]) -> Vec<u8> {
    let body = &body[..body.len().min(BYTES_MAX)];
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// The text with the bytes that stand for long parts.
fn long(text: &str) -> Vec<u8> {
    with_signs(text, &[("<LONGER>", 0xfe), ("<LONG>", 0xff)])
}

/// The text with bytes in the place of these names.
fn with_signs(text: &str, signs: &[(&str, u8)]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for (name, byte) in signs {
        while let Some(at) = memchr::memmem::find(&bytes, name.as_bytes()) {
            bytes.splice(at..at + name.len(), [*byte]);
        }
    }
    bytes
}

/// Bytes that look random and are the same every day.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        // splitmix64, Steele, Lea and Flood 2014.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    (0..100 + seed * 30)
        .flat_map(|_| next().to_le_bytes().into_iter().take(1))
        .collect()
}

const STREAMS: [&str; 21] = [
    "data: {\"choices\":[],\"usage\":{}}\n\n: <LONG>\ndata: <LONG>\n\ndata: <LONGER>\n\n",
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":1}}}\n\ndata: [DONE]\n\n",
    "\u{feff}: c\r\ndata: {\"usage\":null,\r\ndata: \"choices\":[{\"text\":\"b\",\"finish_reason\":\"stop\"}]}\r\n\r\n",
    ": a\rdata: {\"choices\":[],\"usage\":{}}\r\rdata: 1",
    "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n",
    "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":1,\"cache_creation_input_tokens\":1}}}\n\nevent: message_delta\ndata: {\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":4}}\n\nevent: message_stop\ndata: {}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\nevent: content_block_delta\ndata: {\"delta\":{\"text\":\"x\"}}\n\n",
    "event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\nevent: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2,\"input_tokens_details\":{\"cached_tokens\":0}}}}\n\n",
    "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"m\"}}}\n\n",
    "data: {\"error\":{\"message\":\"m\",\"type\":\"t\",\"code\":\"429\",\"param\":\"p\"}}\n\n",
    "data: {\"object\":\"error\",\"message\":\"m\",\"code\":500}\n\ndata: {\"error\":\"busy\",\"error_type\":\"overloaded\"}\n\n",
    "data: {\"error\":{\"detail\":[{\"loc\":[\"body\",1],\"msg\":\"m\"},\"x\"]}}\n\ndata: {\"error\":{\"detail\":{\"msg\":\"m\"}}}\n\n",
    "data: {\"choices\":[{\"delta\":{\"reasoning\":\"r\",\"tool_calls\":[{\"function\":{\"arguments\":\"{}\"}}],\"audio\":{}}}]}\n\nevent: error\ndata: broken",
    "id: 1\nevent: x\nretry: 5\ndata\n\ndata:\n\n\n\n\r\n: c",
    "data: {\"error\":\"\\ud800\"}\n\ndata: {\"choices\":[{\"text\":\"\u{e9}\u{4f60}\u{1f642} 12,\\n\"}]}\n\n",
    "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"AA\"}\n\nevent: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"usage\":{\"input_tokens\":1,\"output_tokens\":2}}\n\n",
    "data: {\"type\":\"speech.audio.delta\",\"audio\":\"AA\"}\n\ndata: {\"type\":\"speech.audio.done\",\"usage\":{\"input_tokens\":1}}\n\ndata: {\"type\":\"error\",\"error\":{\"message\":\"m\"}}\n\n",
    "data: {\"type\":\"transcript.text.delta\",\"delta\":\"a\"}\n\ndata: {\"type\":\"transcript.text.done\",\"text\":\"a\"}\n\ndata: {\"type\":\"x.y\"}\n\ndata: {\"error\":{\"message\":\"m\"}}\n\ndata: {\"choices\":[]}\n\n",
    "id: 1\nevent: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"usage\":null}}\n\nevent: response.incomplete\ndata: {\"response\":{\"id\":\"resp_1\",\"usage\":{\"input_tokens\":1}}}\n\n",
    "{\"id\":\"r\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}",
    "{\"type\":\"message\",\"id\":\"m\",\"usage\": {\"input_tokens\":3,\"output_tokens\":4,\"cache_read_input_tokens\":1} }",
];

const BODIES: [&str; 37] = [
    r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":false},"user":" u "}"#,
    r#" {"stream":true,"stream_options":null,"metadata":{"user_id":"x","user_id":"y"},"max_tokens":1.0,"max_completion_tokens":9007199254740993}"#,
    r#"{"mod\u0065l":"a\"b","a":{"b":{"c":"\ud83d\ude42"}},"x":1e400,"y":-0.0E+1,"z":"\ud800"}"#,
    r#"{"model":"a","model":"b"}"#,
    r#"{"model":1,"stream":2}"#,
    r#"{"stream":true,"stream_options":{ }}"#,
    r#"{"stream":true,"stream_options":{"x":[{}]}}"#,
    "[1,2",
    "\u{feff}{}",
    r#"{"error":{"message":"m","type":"t"},"type":"error"}"#,
    r#"[{"error":{"code":429,"message":"m","status":"S"}}]"#,
    "<html><head><title>502 &amp; more</title></head></html>",
    r#"{"error":{"message": "cut of"#,
    r#"{"detail":[{"loc":["body","x"],"msg":"m"}],"tools":[{"type":"function"}],"prompt":[1,2],"input":["a","b"],"system":"s"}"#,
    "",
    " \n",
    r#"{"stream":1}"#,
    r#"{"stream":true,"stream_options":3,"model":"m"}"#,
    r#"{"stream":true,"stream_options":{"include_usage":1}}"#,
    r#"{"stream":true,"stream_options":{"include_usage":null},"previous_response_id":"r"}"#,
    r#"{"stream":true,"model":"m","stream_options":{"include_usage":false},"max_output_tokens":5}"#,
    r#"{"stream":true}"#,
    r#"{"messages":[{"role":"user","content":"caf\u00e9 café 你好 한국어 \uff01 ！ 12345 \n\n\t  x"},{"content":[{"type":"text","text":"Привет γειά ✓ \u2028 🙂🙂 “q” \u3000"},{"type":"image_url","image_url":{"url":"data:"}}]}],"functions":[{"name":"f"}]}"#,
    r#"{"prompt":"Привет café 你好 ✓ … 　x","instructions":[[[[[[[["deep"]]]]]]]],"input":[1,true,null,{"a":{"b":["c"]}}]}"#,
    r#"{"choices":[{"message":{"role":"assistant","content":"hello there 12","tool_calls":[{"function":{"arguments":"{}"}}]},"finish_reason":"stop"},{"text":"x"}],"output":[{"type":"message","content":[{"text":"y"}]}],"content":[{"type":"text","text":"z"}]}"#,
    r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}},"cache_control":{}}],"messages":[{"content":"a long enough text of a user","role":"user"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{\"a\": 1}"}}]},{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"done, and some more"}]}],"cache_salt":"s"}"#,
    r#"{"system":[{"type":"text","text":"sys"}],"messages":[{"role":"user","content":[{"source":{"type":"base64","data":"AAAA"},"type":"image"},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"}]},{"type":"tool_use","id":"t","name":"n","input":{"id":5,"type":[1, 2]}}]}],"output_config":{"format":{"type":"json_schema"}}}"#,
    r#"{"prompt":[[1,2,3],[4, 5]],"input":[{"type":"message","role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAAA"}}]},{"type":"function_call_output","call_id":"c","output":"o"}],"text":{"format":{"type":"json_schema"}}}"#,
    r#""a string as an error""#,
    r#""broken"#,
    "[]",
    "[1]",
    "[2026-11-29 10:00] ERROR the engine is down",
    "plain words\nof two lines",
    r#"{"error":{"message":"<!DOCTYPE html><html><head><title>Bad gateway</title></head></html>","type":"t"}}"#,
    r#"{"error":{"message":"the whole of it","type":"t"} and then broken"#,
    "<html><body>no title</body></html>",
];
