//! The catalogue of filters: what keeps a candidate from serving a request, beside its state.
//!
//! Adding a filter is one file with its config struct, docs and tests, and one line in the `catalogue!` call below. A hard
//! filter says that a candidate cannot serve the request; a soft one, that another can do it better now. All run before
//! orders are compared, so a later order serves where a hard filter has emptied an earlier one.

pub mod context_length;
pub mod kv_fits;
pub mod labels;
pub mod modality;

use crate::explain::Dropped;
use crate::policies::{Candidates, Guide, Request};
use crate::work::Needs;
use serde::{Deserialize, Serialize};

/// Declares the filters: name in the config and module; the module holds `Config`, which implements [`FilterConfig`], and
/// `GUIDE`.
macro_rules! catalogue {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// The `filters` of a route.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Filters {
            $($(#[doc = $doc])+ #[serde(skip_serializing_if = "Option::is_none")] pub $name: Option<$name::Config>,)+
        }

        impl Filters {
            /// The filters in use, in the order in which they run.
            pub fn configs(&self) -> impl Iterator<Item = &dyn FilterConfig> {
                [$(self.$name.as_ref().map(|config| config as &dyn FilterConfig)),+].into_iter().flatten()
            }

            /// What the reference says of each, in the order of [`Self::NAMES`].
            pub const GUIDES: &'static [Guide] = &[$(Guide {
                name: stringify!($name),
                summary: concat!($($doc),+),
                text: $name::GUIDE,
            }),+];

            /// Names of all filters of the catalogue.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];
        }
    };
}

catalogue! {
    /// Drops models that cannot take what the request holds: images, audio, files, tools, a JSON schema.
    modality,
    /// Drops endpoints that do not carry the labels that rules or the request ask for.
    labels,
    /// Drops models whose context is too small for the prompt and its answer.
    context_length,
    /// Drops engines without room for the request in their KV cache while another has it.
    kv_fits,
}

impl Filters {
    /// Whether no filter is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.configs().next().is_none()
    }

    /// Facts that any of them looks at.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.configs()
            .fold(Needs::NONE, |needs, config| needs.and(config.needs()))
    }
}

/// What every filter's config can say of itself.
pub trait FilterConfig {
    /// The name in the catalogue.
    fn name(&self) -> &'static str;
    /// Facts that it looks at, beyond those that every request comes with.
    fn needs(&self) -> Needs;
    /// Builds the filter.
    fn build(&self) -> Box<dyn Filter>;
}

/// Drops candidates.
pub trait Filter: Send + Sync {
    /// Writes into `dropped` why candidates are not considered, one entry per candidate of the route. A hard filter may say so
    /// where [`says`] allows it, a soft one only where nothing is said yet.
    fn filter(&self, request: &Request<'_>, candidates: &Candidates<'_>, dropped: &mut [Option<Dropped>]);

    /// Whether it compares candidates that are live otherwise, and drops never the last of an order.
    fn is_soft(&self) -> bool {
        false
    }
}

/// Whether a hard filter's word counts: nothing was said, or nothing but that the endpoint takes no requests for now.
#[must_use]
pub(crate) fn says(reason: Option<Dropped>) -> bool {
    matches!(reason, None | Some(Dropped::State(_)))
}
