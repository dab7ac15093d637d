//! What policies are tried on.
