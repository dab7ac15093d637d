//! From the user's file to a resolved configuration.
//!
//! [`load`] reads a YAML file and gives either a [`Config`] that is valid by construction, or every [`Problem`] of the
//! file at once. The way is: text → located tree (`yaml`) → sections (`model`, declared with a macro that also gives the
//! JSON [`schema`]) → [`Config`] (`resolve`).

pub mod discovery;
pub mod kv_events;
pub mod problems;
pub mod resolved;
pub mod scrape;

mod address;
mod certificates;
mod diff;
mod forms;
mod hints;
mod identity;
mod kinds;
mod leaf;
mod load;
mod mask;
mod model;
mod paths;
mod ranks;
mod read;
mod resolve;
mod schema;
mod secret;
mod stand_ins;
mod units;
mod unlabelled;
mod urls;
mod vars;
mod warnings;
mod yaml;

pub use certificates::{tls_error, tls_io_error};
pub use diff::{diff, refuses_reload};
pub use identity::Identity;
pub use load::{Loaded, hash_file, load, load_beside, load_str, text_hash};
pub use mask::masked;
pub use paths::{OWN_PATHS, PassedPath};
pub use problems::{Problem, Problems};
pub use resolved::Config;
pub use schema::schema;
pub use stand_ins::{Checked, Written, check_blind};
pub use units::{parse_duration, show_duration};
