//! `ringpit backup` and `ringpit restore`: a copy of a data directory, made while its server runs, and the way back from
//! one. A backup is itself a data directory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use journaler::{RealStorage, SharedStorage};
use serde_json::{Value, json};
use snapshots::{Backup, SnapshotStore};

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::progress::{Meter, Without};
use crate::{identity, replay, say};

/// Copy journal, snapshots and report log into an empty directory, while the server runs or not
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit backup --data data --to /backup/monday\n  ringpit restore --from /backup/monday --check\n\nThe copy is durable and was read back when the command ends with status 0."
)]
pub struct BackupArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Directory to copy into: empty, or not there yet
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

/// Check a backup as a start would, and copy it into a new data directory
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit restore --from /backup/monday --check\n  ringpit restore --from /backup/monday --to data\n\nUsers keep their passwords; demonstration users get new ones at the next start."
)]
pub struct RestoreArgs {
    /// The backup
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// The new data directory: empty, or not there yet
    #[arg(long, value_name = "DIR", required_unless_present = "check")]
    to: Option<PathBuf>,
    /// Only check
    #[arg(long, conflicts_with = "to")]
    check: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `backup`.
///
/// # Errors
/// The target is not empty, or something can't be read or written.
pub fn run(args: &BackupArgs) -> Result<(), CommandError> {
    let copied = copy(&args.data.existing()?, &args.to)?;
    tell(&copied, &args.to);
    args.output.last_line(&copied_json(&copied));
    Ok(())
}

/// Runs `restore`.
///
/// # Errors
/// The backup is damaged, or the target is not empty or can't be written.
pub fn run_restore(args: &RestoreArgs) -> Result<(), CommandError> {
    let storage = data::open(&args.from)?;
    let cluster_id = identity::existing(&args.from, &storage)?;
    let mut meter = Meter::new("checking", Without::Nothing);
    let checked = snapshots::check(&storage, cluster_id, &mut |at| meter.at(at.done, at.total))
        .map_err(|error| CommandError::failed(format!("{}: {error}", args.from.display())))?;
    let rate = meter.finish();
    for refused in &checked.recovered.refused {
        say!("snapshot {} would not be used: {}", refused.file, refused.reason);
    }
    say!(
        "valid: {} frames replayed in {:.3} s, {} reports read",
        checked.recovered.replayed,
        rate.seconds,
        checked.reports
    );
    data::tell_skips(&checked.recovered.skipped);
    let mut object = replay::hashes(&checked.recovered.exchange, None);
    data::tell_hashes(&object);
    if let Some(to) = &args.to {
        let copied = copy(&args.from, to)?;
        tell(&copied, to);
        object["restored"] = copied_json(&copied);
    }
    args.output.last_line(&object);
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<Backup, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(format!("{}: {error}", to.display()));
    let storage = data::open(from)?;
    let store = SnapshotStore::new(Arc::clone(&storage), identity::existing(from, &storage)?);
    let target: SharedStorage = Arc::new(RealStorage::create(to).map_err(|error| failed(&error))?);
    snapshots::back_up(&store, &target, None).map_err(|error| failed(&error))
}

fn tell(copied: &Backup, to: &Path) {
    say!(
        "{}: frames {} to {} in {} segments, {} snapshots, {} report files",
        to.display(),
        copied.journal.first_sequence,
        copied.journal.last_sequence,
        copied.journal.segments,
        copied.snapshots.len(),
        copied.report_files,
    );
}

fn copied_json(copied: &Backup) -> Value {
    json!({
        "first_sequence": copied.journal.first_sequence.0,
        "last_sequence": copied.journal.last_sequence.0,
        "segments": copied.journal.segments,
        "bytes": copied.journal.bytes,
        "snapshots": copied.snapshots.iter().map(|sequence| sequence.0).collect::<Vec<_>>(),
        "reported_sequence": copied.reported.0,
        "report_files": copied.report_files,
    })
}
