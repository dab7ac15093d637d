//! HTTP/2: connections that many exchanges share, each as a stream.

pub(super) mod connection;
pub(super) mod fault;
pub(super) mod hub;
pub(super) mod stream;
