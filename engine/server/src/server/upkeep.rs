//! What a server looks at while it runs: the space on its disk.

use std::path::Path;

use journaler::SharedStorage;

use crate::error::CommandError;
use crate::reserve::{Change, Reserve};

/// Keeps the reserve as the disk's free space asks for, and tells what that does.
pub(super) fn look_after(reserve: &Reserve, storage: &SharedStorage) -> Result<(), CommandError> {
    let changed = storage.free_space().and_then(|free| Ok((free, reserve.look(free)?)));
    match changed
        .map_err(|error| CommandError::failed(format!("fatal: the reserve of disk space: {error}")))?
    {
        (_, None) => {}
        (free, Some(Change::GivenUp)) => {
            tracing::error!(
                free,
                "the disk is nearly full: the reserve is given up, and only cancels are taken"
            );
        }
        (free, Some(Change::Held)) => tracing::info!(free, "the reserve of disk space is held"),
        (free, Some(Change::Spent)) => {
            tracing::error!(free, "the disk is full: nothing is taken until space is freed");
        }
        (free, Some(Change::Eased)) => tracing::warn!(free, "the disk has space for cancels again"),
    }
    Ok(())
}

/// Tells at the start that the disk is too full for orders: [`look_after`] tells only of changes.
pub(super) fn warn_if_low(reserve: &Reserve, storage: &SharedStorage, data: &Path) {
    if reserve.is_held() {
        return;
    }
    let taken = if reserve.is_spent() { "nothing is" } else { "only cancels are" };
    let (free, needed) = (storage.free_space().unwrap_or_default(), reserve.held_from());
    tracing::warn!(data = %data.display(), free, needed, "the disk is nearly full: {taken} taken until more is free");
}
