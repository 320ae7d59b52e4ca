//! Snapshots of a full exchange, written and loaded with every check.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use journaler::storage::{RealStorage, SharedStorage};
use protocol::Term;
use snapshots::SnapshotStore;

use crate::full::{SESSIONS, filled, resident_bytes};
use crate::table::{Row, Table};

const INSTRUMENTS: u32 = 1000;
/// Seconds that the write and the load of five million orders aim at.
const SECONDS_AIMED_AT: f64 = 2.0;

/// Runs the rows `snapshot/*` for each number of resting orders.
pub(crate) fn run(table: &mut Table, folder: &Path, orders: &[u64]) -> Result<(), Box<dyn Error>> {
    for &orders in orders {
        let before = resident_bytes();
        let exchange = filled(u32::try_from(orders)?, INSTRUMENTS, SESSIONS)?;
        let resident = (resident_bytes() - before) >> 20;
        let data = folder.join("snapshots");
        let storage: SharedStorage = Arc::new(RealStorage::create(&data)?);
        let store = SnapshotStore::open(storage, 1)?;
        let writing = Instant::now();
        let header = store.write(&exchange, Term(1), &mut |_| ControlFlow::Continue(()))?;
        let aim = format!("{SECONDS_AIMED_AT} s aimed at for 5 M");
        table.push(
            Row::new(format!("snapshot/write-{orders}"), writing.elapsed().as_secs_f64(), "s")
                .against(aim.clone(), SECONDS_AIMED_AT)
                .note(format!("{} bytes, fsynced; the exchange takes {resident} MiB", header.file_bytes)),
        );
        let hash = exchange.state_hash();
        drop(exchange);
        let loading = Instant::now();
        let (loaded, _) = store.load(header.sequence)?;
        table.push(
            Row::new(format!("snapshot/load-{orders}"), loading.elapsed().as_secs_f64(), "s")
                .against(aim, SECONDS_AIMED_AT)
                .note("with all checksums and the state hash recomputed"),
        );
        assert_eq!(loaded.state_hash(), hash);
        std::fs::remove_dir_all(&data)?;
    }
    Ok(())
}
