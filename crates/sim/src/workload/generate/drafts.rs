//! Requests so far, within what fits into memory.

use crate::workload::REQUESTS_MAX;
use crate::workload::order::Draft;
use crate::workload::spec::SpecError;

pub(super) struct Drafts {
    pub(super) list: Vec<Draft>,
    blocks_left: usize,
}

impl Drafts {
    pub(super) fn new(blocks_max: usize) -> Self {
        Self {
            list: Vec::new(),
            blocks_left: blocks_max,
        }
    }

    /// Takes room for one more request of so many blocks, before they are made.
    pub(super) fn reserve(&mut self, blocks: u32) -> Result<(), SpecError> {
        if self.list.len() >= REQUESTS_MAX {
            return Err(SpecError::TooManyRequests(REQUESTS_MAX));
        }
        let left = self.blocks_left.checked_sub(blocks as usize);
        self.blocks_left = left.ok_or(SpecError::TooManyBlocks)?;
        Ok(())
    }

    /// Place of the last request.
    pub(super) fn last(&self) -> Option<u32> {
        u32::try_from(self.list.len()).ok()?.checked_sub(1)
    }
}
