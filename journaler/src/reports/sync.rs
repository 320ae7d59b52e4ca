//! Making reports durable and forgetting old days: a low-priority thread's end.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use protocol::planted::{Bug, is_on};
use protocol::{Sequence, TradingDay};

use super::{DAY_PREFIX, Key, REPORTS_FOLDER, Shared, day_folder};
use crate::error::{Context, Result};

pub(super) fn sync(shared: &Shared, sequence: Sequence) -> Result<()> {
    // Held throughout, so that of two callers the later mark can't overtake the earlier's fsyncs.
    let mut mark = shared.mark.lock().unwrap_or_else(PoisonError::into_inner);
    let oldest = TradingDay(shared.current_day.load(Ordering::Relaxed).saturating_sub(1));
    let unsynced = shared.files.take_unsynced();
    for key in unsynced.files.into_iter().filter(|key| key.day >= oldest) {
        if !is_on(Bug::ReportMarkAhead) {
            sync_file(shared, key)?;
        }
    }
    let folders: Vec<TradingDay> = unsynced.folders.into_iter().filter(|day| *day >= oldest).collect();
    for day in &folders {
        let folder = day_folder(*day);
        shared.storage.sync_dir(&folder).context("sync", &folder)?;
    }
    if !folders.is_empty() {
        shared.storage.sync_dir(REPORTS_FOLDER).context("sync", REPORTS_FOLDER)?;
    }
    mark.set(sequence)?;
    remove_before(shared, oldest)
}

pub(super) fn sync_early(shared: &Shared) -> Result<()> {
    // Held, so that no file is removed meanwhile.
    let _mark = shared.mark.lock().unwrap_or_else(PoisonError::into_inner);
    for key in shared.files.take_early() {
        if let Some(available) = shared.files.available(key) {
            available.unsynced.store(0, Ordering::Relaxed);
        }
        let path = key.path();
        // It stays on the list of those to be synced, whose sync then finds little.
        shared.files.existing(key)?.sync_data().context("sync", &path)?;
    }
    Ok(())
}

fn sync_file(shared: &Shared, key: Key) -> Result<()> {
    if let Some(available) = shared.files.available(key) {
        available.dirty.swap(false, Ordering::AcqRel);
        available.unsynced.store(0, Ordering::Relaxed);
    }
    let path = key.path();
    shared.files.existing(key)?.sync_data().context("sync", &path)
}

/// Removes the days before `oldest`.
fn remove_before(shared: &Shared, oldest: TradingDay) -> Result<()> {
    let storage = &shared.storage;
    let names = storage.list(REPORTS_FOLDER).context("list", REPORTS_FOLDER)?;
    let days = names.iter().filter_map(|name| name.strip_prefix(DAY_PREFIX)?.parse().ok()).map(TradingDay);
    let old: Vec<TradingDay> = days.filter(|day| *day < oldest).collect();
    if old.is_empty() {
        return Ok(());
    }
    shared.files.forget_before(oldest);
    for day in old {
        let folder = day_folder(day);
        for name in storage.list(&folder).context("list", &folder)? {
            let path = format!("{folder}/{name}");
            storage.remove(&path).context("remove", &path)?;
        }
        storage.remove_dir(&folder).context("remove", &folder)?;
    }
    storage.sync_dir(REPORTS_FOLDER).context("sync", REPORTS_FOLDER)
}
