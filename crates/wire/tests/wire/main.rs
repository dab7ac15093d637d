//! Tests of the crate from outside: properties, real streams and bodies, and golden answers in every dialect.

#[cfg(test)]
mod answering;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod peeking;
#[cfg(test)]
mod prompting;
#[cfg(test)]
mod recorded;
#[cfg(test)]
mod recordings;
#[cfg(test)]
mod signals_doc;
#[cfg(test)]
mod splitting;
mod unasked;
