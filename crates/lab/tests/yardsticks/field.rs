//! The yardsticks by name.

use weighbridge_lab::yardsticks::{Make, Yardstick, all};

/// Those with the settings that their projects ship.
pub(crate) fn shipped() -> Vec<Yardstick> {
    all().into_iter().filter(|one| one.shipped).collect()
}

/// The one of this name, as it is shipped.
pub(crate) fn named(name: &str) -> Make {
    let found = shipped().into_iter().find(|one| one.family == name);
    found.unwrap_or_else(|| panic!("no yardstick {name:?}")).make
}

/// The one of this name with these settings.
pub(crate) fn with(name: &str, settings: &str) -> Make {
    let found = all()
        .into_iter()
        .find(|one| one.family == name && one.settings == settings);
    found
        .unwrap_or_else(|| panic!("no yardstick {name:?} with {settings:?}"))
        .make
}
