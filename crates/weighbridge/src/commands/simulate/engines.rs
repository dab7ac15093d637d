//! Which engines serve: `--engine`.

use super::workloads::read_small;
use crate::exit::Failure;
use std::path::Path;
use weighbridge_sim::catalogue::{Basis, CatalogueEngine, engine, engine_from_json};
use weighbridge_sim::drive::EngineSpec;

/// The engine that is simulated without any being named: one that was measured, and that the usual workload keeps busy.
const USUAL: &str = "qwen3-32b@rtx-pro-6000x2";

/// An engine for one pool, or for all.
pub(super) struct Assigned {
    pub(super) pool: Option<String>,
    chosen: Chosen,
}

/// An engine and where its speed is known from.
#[derive(Clone)]
pub(super) struct Chosen {
    pub(super) spec: EngineSpec,
    pub(super) basis: String,
}

/// The engines that `--engine` names: `[POOL=]MODEL@GPU[xN]` or `[POOL=]FILE.json`.
pub(super) fn chosen(given: &[String]) -> Result<Vec<Assigned>, Failure> {
    let one = |text: &String| {
        let bad = |what: String| Failure::BadInput(format!("--engine {text}: {what}"));
        let (pool, name) = match text.split_once('=') {
            Some((pool, name)) => (Some(pool.to_owned()), name),
            None => (None, text.as_str()),
        };
        let found = match Path::new(name).extension().is_some_and(|end| end == "json") {
            true => engine_from_json(&read_small(Path::new(name)).map_err(bad)?),
            false => engine(name),
        };
        Ok(Assigned {
            pool,
            chosen: known(found.map_err(|error| bad(error.to_string()))?),
        })
    };
    given.iter().map(one).collect()
}

/// The engine of this pool.
pub(super) fn for_pool(assigned: &[Assigned], pool: &str) -> Result<Chosen, Failure> {
    let own = assigned
        .iter()
        .rev()
        .find(|one| one.pool.as_deref() == Some(pool));
    match own.or(assigned.iter().rev().find(|one| one.pool.is_none())) {
        Some(one) => Ok(one.chosen.clone()),
        None => Ok(known(
            engine(USUAL).map_err(|error| Failure::Failed(error.to_string()))?,
        )),
    }
}

fn known(engine: CatalogueEngine) -> Chosen {
    let basis = match engine.basis {
        Basis::Measured => "measured",
        Basis::Extrapolated => "extrapolated",
    };
    Chosen {
        spec: engine.spec,
        basis: format!("{basis}: {}", engine.source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_its_own_comes_before_all() {
        let given = ["llama-3.1-8b@h100", "p=llama-3.1-8b@a100"].map(str::to_owned);
        let assigned = chosen(&given).unwrap();
        let label = |pool: &str| for_pool(&assigned, pool).unwrap().spec.label.to_string();
        assert!(label("p").contains("a100"), "{}", label("p"));
        assert!(label("q").contains("h100"), "{}", label("q"));
        assert!(
            for_pool(&[], "q").unwrap().basis.starts_with("measured"),
            "the usual engine is a measured one"
        );
    }

    #[test]
    fn unknown_engines_are_named() {
        for text in ["gpt-9@h100", "llama-3.1-8b@toaster", "nonsense", "missing.json"] {
            let Err(Failure::BadInput(told)) = chosen(&[text.to_owned()]) else {
                panic!("{text}")
            };
            assert!(told.starts_with(&format!("--engine {text}: ")), "{told}");
        }
    }
}
