//! One policy on one workload with one seed.
