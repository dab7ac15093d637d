//! Engines on addresses of their own with one port, and the name that leads to them.

use crate::shared::SOON;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use weighbridge_test_engine::harness::Gateway;
use weighbridge_test_engine::upstream::Options;
use weighbridge_test_engine::{DnsServer, Upstream, eventually};

/// The name of all engines.
pub(crate) const NAME: &str = "engines.test";

/// Engines `E1`, `E2` … at 127.0.0.1, 127.0.0.2 …, all on the port of the first.
pub(crate) fn engines(count: u8) -> Vec<Upstream> {
    let at = |number: u8, port| {
        Upstream::start_with(&Options {
            host: IpAddr::V4(Ipv4Addr::new(127, 0, 0, number)),
            port,
            ..Options::new(&format!("E{number}"))
        })
    };
    let first = at(1, 0);
    let port = first.port();
    std::iter::once(first)
        .chain((2..=count).map(|number| at(number, port)))
        .collect()
}

/// Addresses of the engines of these numbers.
pub(crate) fn addresses(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| format!("127.0.0.{number}")).collect()
}

/// Says that the engines of these numbers are there, for `ttl` seconds.
pub(crate) fn say(dns: &DnsServer, ttl: u32, numbers: &[u8]) {
    let addresses = addresses(numbers);
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    dns.addresses(NAME, ttl, &addresses);
}

/// A pool `p` that follows the name, and a route `r` to it.
pub(crate) fn by_name(dns: &DnsServer, port: u16, (more, route): (&str, &str)) -> String {
    format!(
        "pools:\n  - name: p\n    discovery: {{dns: {{name: {NAME}, port: {port}, resolver: \"{}\", ttl_min: 100ms{more}}}}}\n    \
         health: false\n    ramp: 0s\nroutes:\n  - {{name: r, targets: [p]{route}}}\n",
        dns.address()
    )
}

/// A value of the only source.
pub(crate) fn source(gateway: &Gateway, name: &str) -> f64 {
    gateway
        .metrics()
        .sum(&format!("weighbridge_discovery_{name}"), &[])
}

/// Names of the endpoints in service.
pub(crate) fn serving(gateway: &Gateway) -> Vec<String> {
    let shown = gateway.api("/api/endpoints");
    let serving = shown["endpoints"].as_array().unwrap().iter();
    let mut names: Vec<_> = serving
        .filter(|endpoint| endpoint["removed"] == false)
        .map(|endpoint| endpoint["name"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Waits until exactly the engines of these numbers are in service.
pub(crate) fn wait_serving(gateway: &Gateway, port: u16, numbers: &[u8]) {
    let wanted: Vec<_> = addresses(numbers)
        .iter()
        .map(|address| format!("{address}:{port}"))
        .collect();
    assert!(
        eventually(SOON, || serving(gateway) == wanted),
        "{:?} and not {wanted:?}",
        serving(gateway)
    );
}

/// How the only source is doing.
pub(crate) fn shown(gateway: &Gateway) -> Value {
    gateway.api("/api/pools")["pools"][0]["discovery"].clone()
}

/// Waits until the gateway's log holds this.
pub(crate) fn wait_said(gateway: &Gateway, text: &str) {
    assert!(eventually(SOON, || gateway.stderr().contains(text)), "{text}");
}
