//! Names of things that outlive a configuration: small, copyable, stable across reloads.

use serde::{Deserialize, Serialize};

/// A request, numbered by the driver; never used twice in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u64);

/// A route; stays the same across reloads for as long as the route's name is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RouteId(pub u32);

/// An endpoint; stays the same across reloads for as long as its pool has an endpoint of that name and URL.
///
/// The generation tells an endpoint from an earlier one that had the same place in the table, so a late event about
/// a removed endpoint never touches its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointId {
    /// Place in the scheduler's table; small, so a driver may index by it.
    pub slot: u32,
    /// How many endpoints had this place before.
    pub generation: u32,
}
