//! Endpoints by the name `POOL/ENDPOINT`, and commands to them.

use super::Api;
use crate::exit::Failure;
use http::Method;
use serde_json::Value;

/// An endpoint of a running gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Named {
    pool: String,
    name: String,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.pool, self.name)
    }
}

impl Named {
    /// The endpoint of `all`, as the API lists them, that `wanted` names. Both names may hold slashes, so the whole is
    /// compared and never divided.
    pub(crate) fn find(wanted: &str, all: &Value) -> Result<Self, String> {
        let mut all: Vec<Self> = list(all)
            .filter(|endpoint| endpoint["removed"] != true)
            .flat_map(|endpoint| [Some(of(endpoint)), all_ranks(endpoint)])
            .flatten()
            .collect();
        let mut seen = std::collections::HashSet::new();
        all.retain(|named| seen.insert(named.clone()));
        let fits: Vec<&Self> = all
            .iter()
            .filter(|endpoint| endpoint.to_string() == wanted || endpoint.encoded() == wanted)
            .collect();
        match fits.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                let names: Vec<String> = all.iter().map(ToString::to_string).collect();
                Err(format!(
                    "there is no endpoint `{wanted}`; there are: {}",
                    names.join(", ")
                ))
            }
            several => {
                let meant: Vec<String> = several
                    .iter()
                    .map(|one| format!("`{}` of pool `{}` (write {})", one.name, one.pool, one.encoded()))
                    .collect();
                Err(format!(
                    "`{wanted}` may mean the endpoint {}",
                    meant.join(", or ")
                ))
            }
        }
    }

    /// As it stands in paths: slashes that belong to a name are encoded.
    pub(crate) fn encoded(&self) -> String {
        format!("{}/{}", encode(&self.pool), encode(&self.name))
    }

    /// Whether it is this endpoint of the API, or all ranks of its URL.
    fn means(&self, endpoint: &Value) -> bool {
        of(endpoint) == *self || all_ranks(endpoint).as_ref() == Some(self)
    }

    /// Its state in the list of the API; none: it has gone.
    pub(crate) fn state<'a>(&self, all: &'a Value) -> Option<&'a Value> {
        list(all).find(|endpoint| endpoint["removed"] != true && self.means(endpoint))
    }

    /// Requests that it still answers, those included that it had before it was removed from the config.
    pub(crate) fn inflight(&self, all: &Value) -> u64 {
        let same = list(all).filter(|endpoint| self.means(endpoint));
        same.filter_map(|endpoint| endpoint["inflight"].as_u64()).sum()
    }

    /// Sends it a change and gives its state after it. What the change brought about is told to the person.
    pub(crate) fn change(&self, api: &Api, change: &Value) -> Result<Value, Failure> {
        let path = format!("/api/endpoints/{}", self.encoded());
        let mut answer = api.send(Method::PATCH, &path, change.to_string())?;
        for warning in answer["warnings"].as_array().into_iter().flatten() {
            warn(warning.as_str().unwrap_or_default());
        }
        Ok(answer["endpoint"].take())
    }
}

#[expect(
    clippy::print_stderr,
    reason = "for the person; standard output has the result"
)]
fn warn(warning: &str) {
    eprintln!("warning: {}", super::table::printable(warning));
}

/// The endpoints in an answer of the API.
pub(crate) fn list(answer: &Value) -> impl Iterator<Item = &Value> {
    answer["endpoints"].as_array().into_iter().flatten()
}

fn of(endpoint: &Value) -> Named {
    let text = |key: &str| endpoint[key].as_str().unwrap_or_default().to_owned();
    Named {
        pool: text("pool"),
        name: text("name"),
    }
}

/// All ranks of the URL of which `endpoint` is one; none: it is no rank.
fn all_ranks(endpoint: &Value) -> Option<Named> {
    Some(Named {
        pool: endpoint["pool"].as_str()?.to_owned(),
        name: endpoint["rank_of"].as_str()?.to_owned(),
    })
}

/// Percent-encodes everything but what no part of a path needs encoded.
pub(crate) fn encode(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_endpoint_is_found_whatever_slashes_its_names_hold() {
        let all = json!({"endpoints": [
            {"pool": "p", "name": "127.0.0.1:1", "removed": false},
            {"pool": "org/m", "name": "h:1/base", "removed": false},
            {"pool": "a", "name": "b/c", "removed": false},
            {"pool": "a/b", "name": "c", "removed": false},
            {"pool": "p", "name": "gone", "removed": true},
        ]});
        let check = |wanted: &str| Named::find(wanted, &all).map(|found| (found.pool, found.name));
        let named = |pool: &str, name: &str| Ok((pool.to_owned(), name.to_owned()));
        assert_eq!(check("p/127.0.0.1:1"), named("p", "127.0.0.1:1"));
        assert_eq!(check("org/m/h:1/base"), named("org/m", "h:1/base"));
        assert_eq!(check("org%2Fm/h:1%2Fbase"), named("org/m", "h:1/base"));
        assert_eq!(check("a/b%2Fc"), named("a", "b/c"));
        assert_eq!(check("a%2Fb/c"), named("a/b", "c"));
        let error = check("a/b/c").unwrap_err();
        assert!(
            error.contains("write a/b%2Fc") && error.contains("write a%2Fb/c"),
            "{error}"
        );
        let error = check("p/gone").unwrap_err();
        assert!(
            error.contains("there is no endpoint `p/gone`; there are: p/127.0.0.1:1"),
            "{error}"
        );
    }
}
