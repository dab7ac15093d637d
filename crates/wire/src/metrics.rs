//! What engines and GPU exporters say of themselves on `/metrics`.
//!
//! Text in the Prometheus or OpenMetrics form goes in, the few values that routing needs come out. The names to look
//! for are data: a [`Table`] per engine ([`engines`]), extended by [`Entry::custom`] for an engine of one's own. The
//! scan looks at the name of each line and reads no further where no table wants it, because nine lines of ten are
//! buckets of histograms: a page of 30 KB costs some 10 µs, so that a thousand engines a second are a hundredth of a
//! core.
//!
//! Nothing a page says is trusted: what is no number, not finite, negative, or one of the placeholders by which
//! exporters say "no value" is *not known*, never zero. A last line without its end is taken to be cut off.

pub mod engines;
mod gpu;
mod names;
mod reading;
mod signal;
mod text;

pub use gpu::{GpuReading, GpuSelect, names as gpu_names, read_gpus};
pub use names::{Entry, Names, Origin, Read, Table};
pub use reading::{Adapters, Reading, read};
pub use signal::{Signal, Values};
pub use text::{Labels, Sample, samples};
