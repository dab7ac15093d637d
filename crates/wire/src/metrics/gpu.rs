//! GPU exporters: memory and utilisation of the cards that an engine runs on.

use super::signal::known;
use super::text::{Labels, samples};

/// Labels that hold a card's UUID, and those that hold its number on the machine.
const UUIDS: &[&str] = &["UUID", "uuid", "gpu_uuid"];
const INDEXES: &[&str] = &["gpu", "index", "minor_number"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    Used,
    Free,
    Total,
    Utilisation,
    Index,
    Card,
}

struct Known {
    name: &'static str,
    quantity: Quantity,
    scale: f64,
    /// As in a table's entry: 0 is believed first.
    place: u8,
}

const fn known_name(name: &'static str, quantity: Quantity, scale: f64, place: u8) -> Known {
    Known {
        name,
        quantity,
        scale,
        place,
    }
}

/// The DCGM exporter, nvidia_gpu_exporter (nvidia-smi), the NVML exporter for Kubernetes, and Triton. The share of
/// time in which the graphics engine is active is the better measure of DCGM's two, and the only one of a MIG slice.
const NAMES: &[Known] = &[
    known_name("DCGM_FI_DEV_FB_USED", Quantity::Used, 1.0, 0),
    known_name("DCGM_FI_DEV_FB_FREE", Quantity::Free, 1.0, 0),
    known_name("DCGM_FI_PROF_GR_ENGINE_ACTIVE", Quantity::Utilisation, 1.0, 0),
    known_name("DCGM_FI_DEV_GPU_UTIL", Quantity::Utilisation, 0.01, 1),
    known_name("nvidia_smi_memory_used_bytes", Quantity::Used, 1.0, 0),
    known_name("nvidia_smi_memory_total_bytes", Quantity::Total, 1.0, 0),
    known_name("nvidia_smi_utilization_gpu_ratio", Quantity::Utilisation, 1.0, 0),
    known_name("nvidia_smi_index", Quantity::Index, 1.0, 0),
    known_name("nvidia_smi_gpu_info", Quantity::Card, 1.0, 0),
    known_name("nvidia_gpu_memory_used_bytes", Quantity::Used, 1.0, 0),
    known_name("nvidia_gpu_memory_total_bytes", Quantity::Total, 1.0, 0),
    known_name("nvidia_gpu_duty_cycle", Quantity::Utilisation, 0.01, 0),
    known_name("nv_gpu_memory_used_bytes", Quantity::Used, 1.0, 0),
    known_name("nv_gpu_memory_total_bytes", Quantity::Total, 1.0, 0),
    known_name("nv_gpu_utilization", Quantity::Utilisation, 1.0, 0),
];

/// Which cards an endpoint runs on; with neither, all that the exporter shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GpuSelect {
    /// Their numbers on the machine.
    pub indexes: Vec<u32>,
    /// Their UUIDs, with or without `GPU-`, in any case.
    pub uuids: Vec<String>,
}

/// What an exporter says of the selected cards together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct GpuReading {
    /// Share of memory in use, of the fullest card: it is the one that runs out.
    pub memory: Option<f64>,
    /// Mean share of time at work.
    pub utilisation: Option<f64>,
    /// How many cards were found.
    pub cards: u32,
}

#[derive(Debug, Default)]
struct Card {
    uuid: Option<String>,
    index: Option<u32>,
    used: Option<f64>,
    free: Option<f64>,
    total: Option<f64>,
    utilisation: Option<(u8, f64)>,
}

/// Reads an exporter's page.
#[must_use]
pub fn read_gpus(page: &[u8], select: &GpuSelect) -> GpuReading {
    let mut cards: Vec<Card> = Vec::new();
    let find = |name: &[u8]| NAMES.iter().find(|known| known.name.as_bytes() == name);
    for (what, sample) in samples(page, find) {
        if let Some(card) = card_of(&mut cards, sample.labels) {
            card.take(what, sample.value);
        }
    }
    let chosen: Vec<&Card> = cards.iter().filter(|card| card.is_in(select)).collect();
    let memory = chosen.iter().filter_map(|card| card.memory());
    let (sum, count) = chosen
        .iter()
        .filter_map(|card| card.utilisation)
        .fold((0.0, 0.0), |(sum, count), (_, share)| (sum + share, count + 1.0));
    GpuReading {
        memory: memory.max_by(f64::total_cmp),
        utilisation: (count > 0.0).then(|| sum / count),
        cards: u32::try_from(chosen.len()).unwrap_or(u32::MAX),
    }
}

/// The card of a series: the same UUID, or the same number where there is no UUID.
fn card_of<'c>(cards: &'c mut Vec<Card>, labels: Labels<'_>) -> Option<&'c mut Card> {
    let uuid = UUIDS
        .iter()
        .find_map(|label| labels.get(label))
        .map(|text| plain_uuid(&text));
    let index = INDEXES
        .iter()
        .find_map(|label| labels.get(label))
        .and_then(|text| text.trim_start_matches("nvidia").parse().ok());
    let place = match (&uuid, index) {
        (None, None) => return None,
        (Some(_), _) => cards.iter().position(|card| card.uuid == uuid),
        (None, Some(_)) => cards.iter().position(|card| card.index == index),
    };
    let place = place.unwrap_or_else(|| {
        cards.push(Card::default());
        cards.len() - 1
    });
    let card = cards.get_mut(place)?;
    card.uuid = card.uuid.take().or(uuid);
    card.index = card.index.or(index);
    Some(card)
}

fn plain_uuid(text: &str) -> String {
    let lower = text.trim().to_ascii_lowercase();
    lower.strip_prefix("gpu-").unwrap_or(&lower).to_owned()
}

impl Card {
    fn take(&mut self, what: &Known, value: f64) {
        let Some(value) = known(value * what.scale) else {
            return;
        };
        // Slices of one card (MIG) share its UUID: the fullest and the busiest of them speaks for it.
        let most = |old: Option<f64>| Some(old.map_or(value, |old| old.max(value)));
        match what.quantity {
            Quantity::Used => self.used = most(self.used),
            Quantity::Free => self.free = most(self.free),
            Quantity::Total => self.total = most(self.total),
            Quantity::Utilisation => {
                let old = self.utilisation.filter(|(place, _)| *place <= what.place);
                let value = value.min(1.0);
                self.utilisation = match old {
                    Some((place, old)) if place < what.place => Some((place, old)),
                    Some((place, old)) => Some((place, old.max(value))),
                    None => Some((what.place, value)),
                };
            }
            Quantity::Index => self.index = Some(value as u32),
            Quantity::Card => {}
        }
    }

    fn memory(&self) -> Option<f64> {
        let used = self.used?;
        let total = self
            .total
            .or_else(|| self.free.map(|free| used + free))
            .filter(|total| *total > 0.0)?;
        Some((used / total).min(1.0))
    }

    fn is_in(&self, select: &GpuSelect) -> bool {
        let by_uuid = select
            .uuids
            .iter()
            .any(|uuid| self.uuid.as_deref() == Some(plain_uuid(uuid).as_str()));
        let by_index = self.index.is_some_and(|index| select.indexes.contains(&index));
        by_uuid || by_index || (select.uuids.is_empty() && select.indexes.is_empty())
    }
}

/// The names this module reads, what each says, and the factor to a share or a plain number.
#[must_use]
pub fn names() -> Vec<(&'static str, String)> {
    let said = |known: &Known| match (known.quantity, known.scale == 1.0) {
        (Quantity::Used, _) => "memory used".to_owned(),
        (Quantity::Free, _) => "memory free".to_owned(),
        (Quantity::Total, _) => "memory in all".to_owned(),
        (Quantity::Utilisation, true) => "utilisation".to_owned(),
        (Quantity::Utilisation, false) => "utilisation, in percent".to_owned(),
        (Quantity::Index | Quantity::Card, _) => "the card's number".to_owned(),
    };
    NAMES.iter().map(|known| (known.name, said(known))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DCGM: &str = r#"# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa11",device="nvidia0"} 87
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bb22",device="nvidia1"} 40
DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="1", UUID="GPU-bb22"} 0.25
DCGM_FI_DEV_FB_USED{gpu="0", UUID="GPU-aa11",pod=""} 30000
DCGM_FI_DEV_FB_FREE{gpu="0", UUID="GPU-aa11",pod=""} 10000
DCGM_FI_DEV_FB_USED{gpu="1", UUID="GPU-bb22"} 10000
DCGM_FI_DEV_FB_FREE{gpu="1", UUID="GPU-bb22"} 30000
DCGM_FI_DEV_FB_USED{gpu="2", UUID="GPU-cc33"} 9223372036854775794
DCGM_FI_DEV_FB_FREE{gpu="2", UUID="GPU-cc33"} 9223372036854775794
"#;

    fn select(indexes: &[u32], uuids: &[&str]) -> GpuSelect {
        GpuSelect {
            indexes: indexes.to_vec(),
            uuids: uuids.iter().map(|&uuid| uuid.to_owned()).collect(),
        }
    }

    #[test]
    fn a_card_is_found_by_number_or_uuid() {
        let first = GpuReading {
            memory: Some(0.75),
            utilisation: Some(0.87),
            cards: 1,
        };
        assert_eq!(read_gpus(DCGM.as_bytes(), &select(&[0], &[])), first);
        assert_eq!(read_gpus(DCGM.as_bytes(), &select(&[], &["gpu-AA11"])), first);
        assert_eq!(read_gpus(DCGM.as_bytes(), &select(&[], &["aa11"])), first);
        let second = read_gpus(DCGM.as_bytes(), &select(&[1], &[]));
        assert_eq!(
            second.utilisation,
            Some(0.25),
            "engine-active is believed before the percentage"
        );
        assert_eq!(
            read_gpus(DCGM.as_bytes(), &select(&[7], &[])),
            GpuReading::default()
        );
    }

    #[test]
    fn several_cards_are_as_full_as_the_fullest() {
        let both = read_gpus(DCGM.as_bytes(), &select(&[0, 1], &[]));
        assert_eq!(both.memory, Some(0.75));
        assert_eq!(both.utilisation, Some((0.87 + 0.25) / 2.0));
        assert_eq!(read_gpus(DCGM.as_bytes(), &GpuSelect::default()).cards, 3);
    }

    #[test]
    fn a_placeholder_is_no_value() {
        let third = read_gpus(DCGM.as_bytes(), &select(&[2], &[]));
        assert_eq!((third.memory, third.utilisation, third.cards), (None, None, 1));
    }

    #[test]
    fn nvidia_smi_tells_numbers_apart_from_uuids() {
        let page = "nvidia_smi_index{uuid=\"1c67\"} 0\nnvidia_smi_index{uuid=\"ef42\"} 1\n\
                    nvidia_smi_memory_total_bytes{uuid=\"ef42\"} 1.5e+11\nnvidia_smi_memory_used_bytes{uuid=\"ef42\"} 3e+10\n\
                    nvidia_smi_utilization_gpu_ratio{uuid=\"ef42\"} 0.42\nnvidia_smi_utilization_gpu_ratio{uuid=\"1c67\"} 1\n";
        let wanted = GpuReading {
            memory: Some(0.2),
            utilisation: Some(0.42),
            cards: 1,
        };
        assert_eq!(read_gpus(page.as_bytes(), &select(&[1], &[])), wanted);
        assert_eq!(read_gpus(page.as_bytes(), &select(&[], &["GPU-ef42"])), wanted);
    }
}
