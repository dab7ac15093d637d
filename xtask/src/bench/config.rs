//! What the routers are told. nginx, haproxy and Weighbridge balance over four endpoints of the upstream, which are one
//! address four times over, so that there is a choice to make and one cheap server behind it; the others, some of which take
//! equal addresses for one, have one endpoint.

use std::fmt::Write;
use std::path::Path;

/// Endpoints of the upstream.
const ENDPOINTS: usize = 4;

/// The client's key, which only the gateway looks at.
pub(super) const KEY: &str = "wb-bench-key";

/// nginx as a careful person sets it up for streams: no buffering, connections kept on both sides.
pub(super) fn nginx(port: u16, upstream: &str, dir: &Path, log: bool) -> String {
    let dir = dir.display();
    let log = match log {
        true => format!("access_log {dir}/access.log combined;"),
        false => "access_log off;".to_owned(),
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {dir}/{kind};\n"))
        .collect();
    let endpoints = format!("    server {upstream};\n").repeat(ENDPOINTS);
    format!(
        "worker_processes 1;\npid {dir}/nginx.pid;\nerror_log {dir}/error.log error;\n\
         events {{ worker_connections 32768; }}\nhttp {{\n  {log}\n{temporary}  tcp_nodelay on;\n  \
         keepalive_timeout 300s;\n  keepalive_requests 100000000;\n  client_max_body_size 32m;\n  client_body_buffer_size 1m;\n  \
         upstream u {{\n    least_conn;\n{endpoints}    keepalive 1024;\n    keepalive_requests 100000000;\n  }}\n  \
         server {{\n    listen 127.0.0.1:{port} backlog=4096;\n    location / {{\n      proxy_pass http://u;\n      \
         proxy_http_version 1.1;\n      proxy_set_header Connection \"\";\n      proxy_buffering off;\n      \
         proxy_read_timeout 3600s;\n    }}\n  }}\n}}\n"
    )
}

pub(super) fn haproxy(port: u16, upstream: &str) -> String {
    let servers: String = (1..=ENDPOINTS)
        .map(|index| format!("  server s{index} {upstream} pool-max-conn 1024\n"))
        .collect();
    format!(
        "global\n  nbthread 1\n  maxconn 9900\n  no strict-limits\ndefaults\n  mode http\n  timeout connect 5s\n  \
         timeout client 3600s\n  timeout server 3600s\n  timeout http-keep-alive 300s\n  option http-keep-alive\n  \
         option http-no-delay\n  http-reuse always\nfrontend f\n  bind 127.0.0.1:{port} backlog 4096\n  \
         default_backend b\nbackend b\n  balance leastconn\n{servers}"
    )
}

pub(super) fn caddy(port: u16, upstream: &str) -> String {
    format!(
        "{{\n  admin off\n  auto_https off\n}}\nhttp://127.0.0.1:{port} {{\n  reverse_proxy {upstream} {{\n    \
         flush_interval -1\n    transport http {{\n      keepalive_idle_conns_per_host 1024\n    }}\n  }}\n}}\n"
    )
}

pub(super) fn envoy(port: u16, upstream: &str) -> String {
    let (host, upstream_port) = upstream.rsplit_once(':').unwrap_or((upstream, "80"));
    let api = "type.googleapis.com/envoy.extensions.filters";
    format!(
        r#"static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": {api}.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          codec_type: HTTP1
          generate_request_id: false
          http_filters: [{{name: envoy.filters.http.router, typed_config: {{"@type": {api}.http.router.v3.Router}}}}]
          route_config:
            virtual_hosts:
            - {{name: all, domains: ["*"], routes: [{{match: {{prefix: "/"}}, route: {{cluster: u, timeout: 0s}}}}]}}
  clusters:
  - name: u
    type: STATIC
    lb_policy: LEAST_REQUEST
    circuit_breakers:
      thresholds: [{{max_connections: 100000, max_pending_requests: 100000, max_requests: 100000}}]
    load_assignment:
      cluster_name: u
      endpoints:
      - lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {host}, port_value: {upstream_port}}}}}}}}}]
"#
    )
}

/// The gateway with everything on that a user has on: keys, these policies, probes, metrics, a log line per request, usage
/// asked for.
pub(super) fn weighbridge(upstream: &str, policies: &str) -> String {
    let mut text = format!(
        "server: {{listen: 127.0.0.1:0}}\nadmin: {{listen: 127.0.0.1:0, token: bench}}\nauth: keys\n\
         keys:\n  - {{name: bench, key: {KEY}, tenant: bench}}\npools:\n  - name: pool\n    kind: vllm\n    \
         timeouts: {{first_byte: 3600s, idle: 3600s}}\n    endpoints:\n"
    );
    for endpoint in 1..=ENDPOINTS {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "      - {{name: e{endpoint}, url: \"http://{upstream}\"}}");
    }
    let _ = writeln!(
        text,
        "routes:\n  - name: fast\n    targets: [pool]\n    usage: inject\n    policies: {{{policies}}}"
    );
    text
}
