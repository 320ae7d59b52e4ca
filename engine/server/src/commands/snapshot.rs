//! `ringpit snapshot`: lists and verifies snapshots, and makes one.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use journaler::{Journal, JournalOptions, Preparation, ReportLog, ReportLogOptions, SharedStorage};
use protocol::Sequence;
use serde_json::{Value, json};
use snapshots::{MakerOptions, Marks, SnapshotMaker, SnapshotStore};

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{identity, replay, say, text};

/// A replay of everything since the last snapshot may take this long.
const MAKE_TIMEOUT: Duration = Duration::from_secs(3600);

/// List, verify or make snapshots
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit snapshot list --data data\n  ringpit snapshot verify --data data --json\n  ringpit snapshot make --data data"
)]
pub struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the snapshots, oldest first
    #[command(after_help = "Example:\n  ringpit snapshot list --data data")]
    List(CommonArgs),
    Verify(VerifyArgs),
    /// Make a snapshot now: by the running server, or here if none runs
    #[command(after_help = "Example:\n  ringpit snapshot make --data data --json")]
    Make(CommonArgs),
}

#[derive(Debug, clap::Args)]
struct CommonArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Load snapshots with every check and print their hashes
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit snapshot verify --data data --json\n\nThe object has the numbers of the newest one. outcome_hash is always null: it covers every report, and a snapshot holds none."
)]
struct VerifyArgs {
    #[command(flatten)]
    common: CommonArgs,
    /// Only the one of this sequence; without it, all
    #[arg(long)]
    sequence: Option<u64>,
}

/// Runs the command.
///
/// # Errors
/// A snapshot is damaged, or none could be made.
pub fn run(args: &SnapshotArgs) -> Result<(), CommandError> {
    match &args.action {
        Action::List(args) => list(args),
        Action::Verify(args) => verify(args),
        Action::Make(args) => make(args),
    }
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::failed(error.to_string())
}

fn store_of(data: &Path) -> Result<(SharedStorage, SnapshotStore), CommandError> {
    let storage = data::open(data)?;
    let cluster_id = identity::existing(data, &storage)?;
    let store = SnapshotStore::new(Arc::clone(&storage), cluster_id);
    Ok((storage, store))
}

fn list(args: &CommonArgs) -> Result<(), CommandError> {
    let (_, store) = store_of(&args.data.existing()?)?;
    let mut all = Vec::new();
    for sequence in store.list().map_err(failed)? {
        match store.header(sequence) {
            Ok(header) => {
                let made = text::time(header.log_time);
                say!(
                    "{sequence:>16}  {made}  {:>12} records {:>14} bytes",
                    header.records,
                    header.file_bytes
                );
                all.push(json!({
                    "sequence": sequence.0,
                    "log_time_ns": header.log_time.0,
                    "trading_day": header.trading_day.0,
                    "records": header.records,
                    "bytes": header.file_bytes,
                }));
            }
            Err(error) => {
                say!("{sequence:>16}  {error}");
                all.push(json!({ "sequence": sequence.0, "error": error.to_string() }));
            }
        }
    }
    if all.is_empty() {
        say!("no snapshots");
    }
    args.output.last_line(&json!({ "snapshots": all }));
    Ok(())
}

fn verify(args: &VerifyArgs) -> Result<(), CommandError> {
    let (_, store) = store_of(&args.common.data.existing()?)?;
    let wanted = match args.sequence {
        Some(sequence) => vec![Sequence(sequence)],
        None => store.list().map_err(failed)?,
    };
    if wanted.is_empty() {
        return Err(CommandError::failed("there are no snapshots; make one with `ringpit snapshot make`"));
    }
    let mut newest = Value::Null;
    let mut bad = Vec::new();
    for sequence in &wanted {
        match store.load(*sequence) {
            Ok((exchange, _)) => {
                say!("{sequence}: valid");
                newest = replay::hashes(&exchange, None);
            }
            Err(error) => bad.push(error.to_string()),
        }
    }
    if let Value::Object(object) = &mut newest {
        data::tell_hashes(&Value::Object(object.clone()));
        object.insert("valid".to_owned(), (wanted.len() - bad.len()).into());
        object.insert("damaged".to_owned(), json!(bad));
    } else {
        newest = json!({ "valid": 0, "damaged": bad });
    }
    args.common.output.last_line(&newest);
    match bad.first() {
        None => Ok(()),
        Some(first) => Err(CommandError::failed(format!(
            "{} of {} snapshots are damaged: {first}; a start uses the newest that is not",
            bad.len(),
            wanted.len()
        ))),
    }
}

fn make(args: &CommonArgs) -> Result<(), CommandError> {
    let data = args.data.existing()?;
    let made = match data::running_server(&data)? {
        Some(ready) => data::administer(&ready, &data, "/snapshot", "", MAKE_TIMEOUT)?,
        None => make_here(&data)?,
    };
    say!("snapshot at sequence {} made", made["sequence"]);
    args.output.last_line(&made);
    Ok(())
}

/// Makes a snapshot while no server runs. Opening the journal takes the directory's lock, so that none can start
/// meanwhile.
fn make_here(data: &Path) -> Result<Value, CommandError> {
    let (storage, store) = store_of(data)?;
    let options =
        JournalOptions { preparation: Preparation::Inline, ..JournalOptions::new(store.cluster_id()) };
    let (journal, _) = Journal::open(Arc::clone(&storage), options).map_err(failed)?;
    let reports = ReportLog::open(Arc::clone(&storage), &ReportLogOptions::default()).map_err(failed)?;
    let store = SnapshotStore::open(storage, store.cluster_id()).map_err(failed)?;
    let keep = store.list().map_err(failed)?.len();
    let marks = Marks { journaled: journal.journaled_sequence(), reported: reports.durable_mark() };
    let made = SnapshotMaker::new(store, MakerOptions { keep, ..MakerOptions::default() })
        .run_once(marks, &mut |_| ControlFlow::Continue(()))
        .map_err(failed)?
        .ok_or_else(|| CommandError::failed("the log has no checkpoint behind the last snapshot"))?;
    journal.close().map_err(failed)?;
    Ok(replay::made_json(&made))
}
