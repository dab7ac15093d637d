//! What the routers are told. All of them balance over four endpoints of each upstream, which are one address four
//! times over, so that there is a choice to make and one cheap server behind it.

use std::fmt::Write;
use std::path::Path;

/// Endpoints per upstream.
const ENDPOINTS: usize = 4;

/// The client's key, which only the gateway looks at.
pub(super) const KEY: &str = "wb-bench-key";

/// Where the two upstreams listen.
pub(super) struct Addresses<'a> {
    pub(super) fast: &'a str,
    pub(super) paced: &'a str,
}

/// nginx as a careful person sets it up for streams: no buffering, connections kept on both sides.
pub(super) fn nginx(ports: [u16; 2], upstreams: &Addresses<'_>, dir: &Path, log: bool) -> String {
    let dir = dir.display();
    let log = match log {
        true => format!("access_log {dir}/access.log combined;"),
        false => "access_log off;".to_owned(),
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {dir}/{kind};\n"))
        .collect();
    let mut servers = String::new();
    for (name, address, port) in [
        ("fast", upstreams.fast, ports[0]),
        ("paced", upstreams.paced, ports[1]),
    ] {
        let endpoints = format!("    server {address};\n").repeat(ENDPOINTS);
        // Writing to a String cannot fail.
        let _ = write!(
            servers,
            "  upstream {name} {{\n    least_conn;\n{endpoints}    keepalive 256;\n    keepalive_requests 100000000;\n  }}\n  \
             server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    location / {{\n      proxy_pass http://{name};\n      \
             proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n      \
             proxy_read_timeout 120s;\n    }}\n  }}\n"
        );
    }
    format!(
        "worker_processes 1;\npid {dir}/nginx.pid;\nerror_log {dir}/error.log warn;\n\
         events {{ worker_connections 4096; }}\nhttp {{\n  {log}\n{temporary}  tcp_nodelay on;\n  \
         keepalive_timeout 120s;\n  keepalive_requests 100000000;\n{servers}}}\n"
    )
}

/// The gateway with everything on that a user has on: keys, policies, probes, metrics, a log line per request.
pub(super) fn weighbridge(upstreams: &Addresses<'_>) -> String {
    let mut text = format!(
        "server: {{listen: 127.0.0.1:0}}\nadmin: {{listen: 127.0.0.1:0, token: bench}}\nauth: keys\n\
         keys:\n  - {{name: bench, key: {KEY}, tenant: bench}}\npools:\n"
    );
    for (name, address) in [("fast", upstreams.fast), ("paced", upstreams.paced)] {
        let _ = writeln!(text, "  - name: {name}-pool\n    kind: vllm\n    endpoints:");
        for endpoint in 1..=ENDPOINTS {
            let _ = writeln!(
                text,
                "      - {{name: {name}-{endpoint}, url: \"http://{address}\"}}"
            );
        }
    }
    text += "routes:\n";
    for name in ["fast", "paced"] {
        let _ = writeln!(
            text,
            "  - name: {name}\n    targets: [{name}-pool]\n    policies: {{session_affinity: {{}}, least_inflight: {{}}}}"
        );
    }
    text
}
