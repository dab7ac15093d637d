//! What a file resolves to, what is wrong with it, and what is said of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "tests are exempt"
)]

mod choice;
mod common;
mod discovery;
mod edge;
mod forms;
mod forms_scheduling;
mod hints;
mod kv_events;
mod problems;
mod problems_routes;
mod ranks;
mod robust;
mod schema;
mod scrape;
mod tls;
mod validate;
mod warnings;
mod warnings_labels;
