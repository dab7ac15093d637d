//! Weights where nothing was measured: from what the labels of an endpoint say of its GPUs.
//!
//! Decoding reads the whole model once per step, so at small batches an engine is about as fast as its memory: the weight is
//! the memory bandwidth of the GPU's type times the number of GPUs. That is rough. It knows nothing of interconnects, of
//! number formats, of prefill and of how the engine is set up; `weighbridge calibrate` measures.

use crate::spec::{EndpointSpec, PoolSpec, Weight};

/// Label of the GPU's type, such as `A100` or `NVIDIA L40S`.
const TYPE: &str = "gpu";
/// Label of the number of GPUs.
const COUNT: &str = "gpus";
/// Most GPUs of one endpoint that are believed.
const COUNT_MAX: u64 = 1024;

/// Memory bandwidth in GB/s by type, from the makers' data sheets; where a type has several forms, the fastest usual one.
pub const BANDWIDTHS: &[(&str, u32)] = &[
    ("T4", 320),
    ("L4", 300),
    ("A10", 600),
    ("A10G", 600),
    ("A30", 933),
    ("V100", 900),
    ("A6000", 768),
    ("L20", 864),
    ("L40", 864),
    ("L40S", 864),
    ("3090", 936),
    ("4090", 1008),
    ("5090", 1792),
    ("A100", 2039),
    ("H20", 4000),
    ("H100", 3350),
    ("H200", 4800),
    ("GH200", 4900),
    ("B200", 8000),
    ("GB200", 8000),
    ("MI210", 1638),
    ("MI250X", 3277),
    ("MI300X", 5300),
    ("MI325X", 6000),
    ("MI350X", 8000),
    ("MI355X", 8000),
    ("GAUDI2", 2450),
    ("GAUDI3", 3700),
];

/// Memory bandwidth of the GPU that `label` names, GB/s: a word of it must be a known type, `RTX` before a number aside.
#[must_use]
pub fn bandwidth(label: &str) -> Option<u32> {
    let mut words = label.split(|c: char| !c.is_ascii_alphanumeric());
    words.find_map(|word| {
        let word = word.to_ascii_uppercase();
        let word = word.strip_prefix("RTX").unwrap_or(&word);
        let known = BANDWIDTHS.iter().find(|(name, _)| *name == word);
        known.map(|(_, bandwidth)| *bandwidth)
    })
}

/// The number of GPUs that `label` tells of; none: it is no whole number from 1 to 1024.
#[must_use]
pub fn count(label: &str) -> Option<u64> {
    let count = label.trim().parse().ok();
    count.filter(|count| (1..=COUNT_MAX).contains(count))
}

impl EndpointSpec {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(known, _)| **known == *name);
        found.map(|(_, value)| &**value)
    }

    /// Memory bandwidth of its GPU's type, GB/s; none: its labels name none that is known.
    #[must_use]
    pub fn bandwidth(&self) -> Option<u32> {
        self.label(TYPE).and_then(bandwidth)
    }

    /// GPUs that its labels tell of, else 1.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.label(COUNT).and_then(count).unwrap_or(1)
    }
}

impl PoolSpec {
    /// Gives every endpoint of weight 1 the weight that its labels stand for: bandwidth in TB/s times GPUs; where the type
    /// of any is not known, the number of GPUs alone, since the two cannot be compared.
    pub fn weigh_by_labels(&mut self) {
        let known = self
            .endpoints
            .iter()
            .all(|endpoint| endpoint.bandwidth().is_some());
        for endpoint in &mut self.endpoints {
            if endpoint.weight == Weight::ONE {
                let each = endpoint.bandwidth().filter(|_| known).unwrap_or(1_000);
                endpoint.weight = Weight(u64::from(each) * endpoint.gpus() * 1_000);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(labels: &[&[(&str, &str)]]) -> Vec<f64> {
        let endpoint = |(place, labels): (usize, &&[(&str, &str)])| EndpointSpec {
            labels: (labels.iter())
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect(),
            ..EndpointSpec::new(format!("e{place}"), "http://e")
        };
        let mut pool = PoolSpec::new("p", labels.iter().enumerate().map(endpoint).collect());
        pool.weigh_by_labels();
        pool.endpoints
            .iter()
            .map(|endpoint| endpoint.weight.as_f64())
            .collect()
    }

    #[test]
    fn type_times_count() {
        let pool: [&[(&str, &str)]; 3] = [
            &[("gpu", "A100")],
            &[("gpu", "NVIDIA A100-SXM4-80GB"), ("gpus", "4")],
            &[("gpu", "h100"), ("gpus", "2")],
        ];
        assert_eq!(weights(&pool), [2.039, 8.156, 6.7]);
    }

    #[test]
    fn an_unknown_type_leaves_the_counts() {
        let pool: [&[(&str, &str)]; 3] = [
            &[("gpu", "A100"), ("gpus", "2")],
            &[("gpu", "abacus")],
            &[("gpus", "eight")],
        ];
        assert_eq!(weights(&pool), [2.0, 1.0, 1.0]);
    }

    #[test]
    fn a_weight_of_its_own_stays() {
        let mut pool = PoolSpec::new(
            "p",
            vec![
                EndpointSpec::new("a", "http://a"),
                EndpointSpec::new("b", "http://b"),
            ],
        );
        pool.endpoints[0].weight = Weight(500_000);
        pool.endpoints[1].weight = Weight::ZERO;
        pool.weigh_by_labels();
        assert_eq!(pool.endpoints[0].weight, Weight(500_000));
        assert_eq!(pool.endpoints[1].weight, Weight::ZERO);
    }

    #[test]
    fn types_are_found_as_words() {
        for (label, expect) in [
            ("Tesla T4", Some(320)),
            ("NVIDIA L40S", Some(864)),
            ("rtx-4090", Some(1008)),
            ("NVIDIA GeForce RTX4090", Some(1008)),
            ("A1000", None),
            ("", None),
        ] {
            assert_eq!(bandwidth(label), expect, "{label}");
        }
    }
}
