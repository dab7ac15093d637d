//! Seeds of both edges: connections of clients, and answers of upstreams.

use super::with_signs;

/// The connections, on gateways of several kinds, and with clients and gateways that leave.
pub(super) fn requests() -> Vec<Vec<u8>> {
    let signs = [
        ("<REQUEST>", 0xfa),
        ("<BODY>", 0xfb),
        ("<LONG>", 0xfc),
        ("<MANY>", 0xfd),
    ];
    let texts: Vec<_> = REQUESTS.iter().map(|text| with_signs(text, &signs)).collect();
    let of = |begin: [u8; 2], cuts: &[u8], text: &[u8]| [&begin, cuts, text].concat();
    let mut seeds = Vec::new();
    for (place, text) in texts.iter().enumerate() {
        seeds.push(of([0, 0], &[0], text));
        seeds.push(of([2, 0], &[0], text));
        seeds.push(of([1, 0], &[0], text));
        seeds.push(of([3, 0], &[1, 0, 0x60], text));
        // Those in each of the last phases of their life take turns.
        let turn = [4, 5, 6][place % 3];
        seeds.push(of([turn, 0], &[2, 0, 0x40, 0, 0xa0], text));
        let leaves = [2, 3][place % 2];
        let kind = [2, 3][place / 2 % 2];
        seeds.push(of([kind, leaves], &[1, 0, 0xc0], text));
    }
    // Waiting, and ending: what takes long.
    for text in [&texts[0], &texts[1], &texts[3], &texts[24], &texts[39]] {
        for (kind, how) in [(2, 0xf8), (2, 0xfa), (2, 0xfb), (3, 0xf8), (3, 0xfb)] {
            seeds.push(of([kind, how], &[0], text));
        }
        for how in [0x10, 0x04, 0x18, 0x0b] {
            seeds.push(of([7, how], &[2, 0, 0xa0, 0, 0xc0], text));
        }
    }
    // Bodies that still arrive when the gateway ends.
    for text in [&texts[16], &texts[31], &texts[22]] {
        seeds.push(of([7, 0x08], &[1, 0xff, 0xff], text));
        seeds.push(of([7, 0x08], &[2, 0xff, 0xff, 0xff, 0xff], text));
    }
    seeds
}

/// The answers, each asked for in several ways.
pub(super) fn answers() -> Vec<Vec<u8>> {
    let signs = [("<LONG>", 0xfc), ("<KEY>", 0xfd)];
    let texts: Vec<_> = ANSWERS.iter().map(|text| with_signs(text, &signs)).collect();
    let mut seeds: Vec<_> = texts.iter().flat_map(|text| answer(text)).collect();
    seeds.extend([0xa0, 0xa1, 0xc0, 0xe0].map(|way| [&[0, way, 0, 0], &*texts[0]].concat()));
    for (place, text) in texts.iter().enumerate() {
        let of = |begin: [u8; 3], cuts: &[u8]| [&begin, cuts, text].concat();
        let path = u8::try_from(place % 8).unwrap_or_default();
        seeds.push(of([2, path | 8, 0xa0 | 6], &[0]));
        seeds.push(of([2, path | 8, 0xa0 | 7], &[1, 0, 0xc0]));
        // Waiting takes long.
        if place >= texts.len() - 16 || place % 4 == 0 {
            let kind = [8, 16][place % 2];
            seeds.push(of([2, kind | (path % 4), 0xf8], &[1, 0, 0xd0]));
            let ends = u8::try_from(place % 3).unwrap_or_default();
            seeds.push(of([2, 8, 0xf0 | ends], &[1, 0, 0xd0]));
        }
    }
    seeds
}

/// An answer to requests of every kind, from upstreams that end in every way.
pub(super) fn answer(text: &[u8]) -> Vec<Vec<u8>> {
    let of = |flags: u8, way: u8| [&[flags, way, 0, 0], text].concat();
    let mut seeds: Vec<_> = (0_u8..64)
        .step_by(5)
        .map(|flags| of(flags, flags / 5 % 8))
        .collect();
    // Streams on every path that has them, and a form.
    seeds.extend((0..8).map(|path| of([2, 11, 14, 130][usize::from(path % 4)], path | 8)));
    seeds.extend([0x42, 0x51, 0x62, 0x70].map(|flags| of(flags, 0)));
    seeds
}

const REQUESTS: [&str; 42] = [
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}GET /health HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nd;x=y\r\n{\"model\":\"m\"}\r\n0\r\nt: 1\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/completions?a=b HTTP/1.0\r\nconnection: keep-alive\r\ncontent-length: 27\r\n\r\n{\"model\":\"m\",\"stream\":true}",
    "HEAD /v1/models HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/models/m%2Fx HTTP/1.1\r\nhost: x\r\nanthropic-version: 1\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/embeddings HTTP/1.1\r\nhost: x\r\nconnection: close, x-a\r\nconnection: te\r\nx-a: 1\r\nte: trailers\r\nupgrade: h2c\r\ncookie: a\r\nauthorization: Bearer wb-client-key\r\nx-request-id: abc\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/responses HTTP/1.1\r\nhost: a\r\nhost: b\r\nx-forwarded-for: 1.2.3.4, 127.0.0.1\r\nx-model: m\r\nx-weighbridge-explain: 1\r\napi-key: wb-old-key\r\ncontent-length: 2\r\n\r\n{}",
    "POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: wb-client-key\r\nx-forwarded-for: 1.2.3.4, fd00::1, 10.0.0.1, 127.0.0.2\r\ntransfer-encoding: chunked\r\n\r\n12000\r\n{\"model\":\"m\"}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n{}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n folded: 1\r\nx : 1\r\n\r\n",
    "GET http://other/v1/models HTTP/1.1\r\nhost: x\r\n\r\nOPTIONS * HTTP/1.1\r\nhost: x\r\n\r\nCONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n",
    "\r\n\nGET /ready HTTP/1.1\nhost: x\n\n",
    "POST /v1/messages/count_tokens HTTP/1.1\r\nhost: x\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: identity, chunked\r\n\r\nzz\r\n",
    "DELETE /v1/files/x HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n{\"model\":",
    "<MANY>POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n<MANY>content-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\na: <LONG>\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\na: <LONG><LONG>\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n11170\r\n<LONG>\r\n0\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{\"mo\r\n9\r\ndel\":\"m\"}\r\n0\r\n\r\n",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n{}",
    "<REQUEST><REQUEST><REQUEST>",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\nx-model-name: m\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ncontent-length: 27\r\n\r\n{\"model\":\"q\",\"stream\":true}",
    "OPTIONS /v1/messages HTTP/1.1\r\nhost: x\r\norigin: https://a.example\r\naccess-control-request-method: POST\r\naccess-control-request-headers: x-a, authorization\r\n\r\n",
    "OPTIONS /v1/messages HTTP/1.1\r\nhost: x\r\norigin: https://b.example\r\naccess-control-request-method: POST\r\n\r\nGET /v1/files/x HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}GET /v1/responses/resp_1?stream=true HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/responses HTTP/1.1\r\nhost: x\r\ncontent-length: 45\r\n\r\n{\"model\":\"m\",\"previous_response_id\":\"resp_1\"}GET /v1/responses/resp_1/input_items HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/responses/resp_1/cancel HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\nDELETE /v1/responses/resp_1 HTTP/1.1\r\nhost: x\r\n\r\nPUT /v1/responses/resp_1 HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/responses/resp_2 HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nwordsGET /classify/a?b=c HTTP/1.1\r\nhost: x\r\n\r\nPUT /tokenize HTTP/1.1\r\nhost: x\r\n\r\nPOST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"model\":POST /tokenize HTTP/1.1\r\nhost: x\r\ncontent-length: 11\r\n\r\n{\"model\":1}",
    "POST /v1/audio/transcriptions HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b0\r\ntransfer-encoding: chunked\r\n\r\n37\r\n--b0\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--b\r\n6\r\n0--\r\n\r\n\r\n0\r\n\r\n",
    "POST /v1/images/edits HTTP/1.1\r\nhost: x\r\nx-model: m\r\ncontent-type: multipart/form-data; boundary=b0\r\ncontent-length: 61\r\n\r\n--b0\r\ncontent-disposition:form-data;name=model\r\n\r\nq\r\n--b0--\r\n",
    "POST /v1/images/variations HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b0\r\ncontent-length: 600\r\n\r\n--b0\r\ncontent-disposition:form-data;name=model\r\n\r\nm\r\n--b0",
    "POST /v1/audio/translations HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=b0\r\ncontent-length: 12\r\n\r\n--b1\r\n\r\n\r\n--b",
    "POST /v1/audio/translations HTTP/1.1\r\nhost: x\r\ncontent-type: multipart/form-data; boundary=\r\ncontent-length: 2\r\n\r\n{}",
    "POST /v1/audio/translations HTTP/1.1\r\nhost: x\r\nx-model: m\r\ncontent-type: multipart/form-data; boundary=b0\r\ncontent-length: 70000\r\n\r\n--b0\r\n",
    "POST /v1/rerank/ HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}POST /v2/rerank HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}GET /score HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/score HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"n\"}GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\nPOST /v1/models HTTP/1.1\r\nhost: x\r\n\r\nGET /v1/models/%ff HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /v1/moderations HTTP/1.1\r\nhost: x\r\nauthorization: Basic x\r\nx-api-key: wb-unknown\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/audio/speech HTTP/1.1\r\nhost: x\r\nauthorization: bearer wb-old-key\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}",
    "POST /v1/images/generations HTTP/1.1\r\nhost: x\r\nx-request-id: a b\r\nx-forwarded-for: nonsense, 127.0.0.1\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}",
    "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 13\r\n\r\n{\"model\":\"m\"}POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 27\r\n\r\n{\"model\":\"m\",\"stream\":true}POST /v1/mess",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u{0}\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{0}\u{0}",
    "PRI * HTTP/2.0\r\n\r\nS",
];

const ANSWERS: [&str; 44] = [
    "HTTP/1.1 400 Bad\r\ncontent-type: application/json\r\ncontent-length: 64\r\n\r\n{\"error\":{\"message\":\"the key wbSECRETupstream\",\"type\":\"t\",\"code\":1}}",
    "HTTP/1.1 401 No\r\ncontent-type: application/json\r\ncontent-length: 70\r\n\r\n{\"type\":\"error\",\"error\":{\"message\":\"wbSECRETupstream\",\"type\":\"typed\"}}",
    "HTTP/1.1 200 OK\r\nx-a: wbSECRETupstream\r\ncontent-type: application/json\r\ncontent-length: 45\r\n\r\n{\"error\":{\"message\":\"wbSECRETupstream\",\"a\":1}}",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 60\r\n\r\ndata: {\"error\":{\"message\":\"wbSECRETupstream\",\"code\":500}}\n\n ",
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\nkeep-alive: timeout=5\r\n\r\n{}HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nt: 1\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\nb\r\ndata: {}\r\n\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 429 Too Many Requests\r\nretry-after: 2.5\r\ncontent-length: 28\r\ncontent-type: application/json\r\n\r\n{\"error\":{\"message\":\"slow\"}}",
    "HTTP/1.1 503 X\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 302 Found\r\nlocation: http://x/\r\nset-cookie: a\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.0 200 OK\r\n\r\n{\"choices\":[]}",
    "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\ncontent-length: 11\r\n\r\n{}",
    "HTTP/1.1 200 OK\r\nx: a\r\n b\r\ncontent-length: 2\r\nconnection: x-drop\r\nx-drop: 1\r\nx-weighbridge-route: r\r\n\r\n{}",
    "HTTP/1.1 204 No Content\r\n\r\n",
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\nabc",
    "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\n\u{1f}ab",
    "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: x\r\ncontent-type: text/html\r\ncontent-length: 26\r\n\r\n<title>wbSECRET no</title>",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 44\r\n\r\ndata: {\"error\":{\"message\":\"m\",\"code\":500}}\n\n",
    "garbage\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n\"<LONG><LONG>\"",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 300000\r\n\r\n<LONG><LONG>",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n249f0\r\n<LONG>\r\n249f0\r\n<LONG>\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-type: audio/wav\r\ntransfer-encoding: chunked\r\n\r\n4\r\nRIFF\r\n4\r\nabcd\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\na: <LONG>\r\ncontent-length: 2\r\n\r\n{}",
    "HTTP/1.1 500 X\r\ncontent-type: text/plain\r\ncontent-length: 150000\r\n\r\n<LONG>",
    "HTTP/1.1 529 X\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\nretry-after: 0\r\n\r\nabc",
    "HTTP/1.1 400 X\r\ncontent-type: application/json\r\ncontent-length: 101\r\n\r\n{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 9 > 5 maximum\"}}",
    "HTTP/1.1 404 X\r\ncontent-type: application/json\r\ncontent-length: 45\r\n\r\n{\"error\":{\"type\":\"x\",\"message\":\"no model m\"}}",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: c\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n\u{feff}id: 1\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"cho",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 500\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\nda",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"error\":{\"message\":\"<KEY> is wrong\",\"code\":401}}\n\ndata: [DONE]\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {\"choices\":[]}\n\ndata: \"<LONG><LONG>\n\ndata: [DONE]\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: \"<LONG>",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n\u{1f}abc\n\ndata: [DONE]\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r1\"}}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: keep-alive\r\nkeep-alive: timeout=0, max=5\r\ncontent-length: 97\r\n\r\n{\"id\":\"r2\",\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n<LONG>",
    "HTTP/1.1 2",
    "",
];
