//! Data-parallel ranks: one URL that is several endpoints.

use crate::resolved::Endpoint;
use std::sync::Arc;
use weighbridge_core::spec::EndpointSpec;

/// Endpoints for the scheduler and for relaying, in the same order, with each that has ranks in its place: by its own word, else
/// `usual` of them. Those that are ranks already stay.
pub(crate) fn expand(
    (specs, endpoints): (Vec<EndpointSpec>, Vec<Endpoint>),
    usual: u32,
) -> (Vec<EndpointSpec>, Vec<Endpoint>) {
    let ranks = |endpoint: &Endpoint| match endpoint.rank {
        Some(_) => 1,
        None => endpoint.ranks.unwrap_or(usual),
    };
    if endpoints.iter().all(|endpoint| ranks(endpoint) == 1) {
        return (specs, endpoints);
    }
    let mut all = (Vec::new(), Vec::new());
    for (spec, endpoint) in specs.into_iter().zip(endpoints) {
        match ranks(&endpoint) {
            1 => {
                all.0.push(spec);
                all.1.push(endpoint);
            }
            count => (0..count).for_each(|rank| {
                let name: Arc<str> = format!("{}#{rank}", spec.name).into();
                all.0.push(EndpointSpec {
                    name: name.clone(),
                    address: format!("{}#{rank}", spec.address).into(),
                    rank: Some(rank),
                    ..spec.clone()
                });
                all.1.push(Endpoint {
                    name,
                    rank: Some(rank),
                    ranks: Some(count),
                    kv_events: (endpoint.kv_events.as_ref()).and_then(|events| events.of_rank(rank)),
                    ..endpoint.clone()
                });
            }),
        }
    }
    all
}

/// The endpoint that `name` would be a rank of.
pub(crate) fn base_of(name: &str) -> Option<&str> {
    let (base, number) = name.rsplit_once('#')?;
    (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(base)
}
