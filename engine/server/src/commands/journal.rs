//! `ringpit journal`: looks at a journal, of a running server too, cuts a damaged one where its operator says so, and has a
//! command left out that ends the engine.

mod skip;

use std::io::{self, BufWriter, Write};

use journaler::{CutPlan, JournalReader, JournalStat, SharedStorage, Skips};
use protocol::{Command, Sequence};
use serde_json::{Value, json};

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::progress::{Meter, Without};
use crate::{identity, say, text};

/// Look at the journal, cut a damaged one, or leave out a command that ends the engine
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit journal verify --data data\n  ringpit journal show --from 1 --to 20\n  ringpit journal cut --data data\n  ringpit journal skip --data data --sequence 4711 --who alice --why 'ends the engine, ticket 12'\n\nAll but `cut --yes` and `skip` only read, and may be used while the server runs."
)]
pub struct JournalArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Verify(VerifyArgs),
    #[command(alias = "dump")]
    Show(ShowArgs),
    Stat(StatArgs),
    Cut(CutArgs),
    Skip(skip::SkipArgs),
}

/// Read the whole journal and check every batch: checksums, chain, order; list the frames that are skipped
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit journal verify --data data --json\n\nThe exit status is 0 if nothing is damaged."
)]
struct VerifyArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Show the commands in the journal, one a line, with who sent them and the text that says why
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit journal show --data data --from 1000 --to 1010")]
struct ShowArgs {
    #[command(flatten)]
    data: DataArgs,
    /// First sequence to show
    #[arg(long, value_name = "SEQUENCE", default_value_t = 1)]
    from: u64,
    /// Last sequence to show; without it, the last there is
    #[arg(long, value_name = "SEQUENCE", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,
    /// Show the entries (batches of frames, blanks, memberships) and marks as well
    #[arg(long)]
    batches: bool,
    /// Every line is a JSON object, the last one a summary
    #[arg(long)]
    json: bool,
}

/// Show the journal's files in numbers
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit journal stat --data data")]
struct StatArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Say what cutting a damaged journal would lose; with --yes, do it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit journal cut --data data\n  ringpit journal cut --data data --yes\n\nWhat is cut was perhaps acknowledged to clients and is lost. Copy the data directory first."
)]
struct CutArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Cut
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// The journal is damaged or can't be read; the text says where and what to do.
pub fn run(args: &JournalArgs) -> Result<(), CommandError> {
    match &args.action {
        Action::Verify(args) => verify(args),
        Action::Show(args) => show(args),
        Action::Stat(args) => stat(args),
        Action::Cut(args) => cut(args),
        Action::Skip(args) => skip::run(args),
    }
}

fn verify(args: &VerifyArgs) -> Result<(), CommandError> {
    let (storage, cluster_id) = opened(&args.data)?;
    let stat = read_all(&storage, cluster_id, "verifying")?;
    let skips = Skips::load(&storage, cluster_id).map_err(|error| data::failed(&storage, &error))?;
    check_skips(&storage, &skips, &stat).map_err(|error| data::failed(&storage, &error))?;
    let (first, last) = (stat.first_sequence, stat.last_sequence);
    let (segments, index, chain) = (stat.segments.len(), stat.index, hex(&stat.chain));
    say!("valid: {segments} segments, frames {first} to {last}, entries to {index}, chain {chain}");
    data::tell_skips(skips.iter());
    tell_torn(&stat);
    let mut object = summary(&stat);
    object["valid"] = true.into();
    object["skips"] = text::skips_json(skips.iter());
    args.output.last_line(&object);
    Ok(())
}

/// Holds each skip against its frame, where the journal has it.
fn check_skips(storage: &SharedStorage, skips: &Skips, stat: &JournalStat) -> journaler::Result<()> {
    let reader = JournalReader::open(SharedStorage::clone(storage))?;
    let there = stat.first_sequence..=stat.last_sequence;
    for skip in skips.iter().filter(|skip| there.contains(&skip.sequence)) {
        let mut cursor = reader.frames_from(skip.sequence)?;
        if let Some((sequence, frame)) = cursor.next_frame(skip.sequence)? {
            skips.of(sequence, frame)?;
        }
    }
    Ok(())
}

fn stat(args: &StatArgs) -> Result<(), CommandError> {
    let (storage, cluster_id) = opened(&args.data)?;
    let stat = read_all(&storage, cluster_id, "reading")?;
    say!("{:<32} {:>12} {:>12} {:>9} {:>7} {:>12}", "segment", "first", "last", "entries", "marks", "bytes");
    for segment in &stat.segments {
        say!(
            "{:<32} {:>12} {:>12} {:>9} {:>7} {:>12}",
            segment.file,
            segment.first_sequence,
            segment.last_sequence,
            segment.batches,
            segment.marks,
            segment.bytes_used,
        );
    }
    // Alone, nothing is committed apart from being journaled.
    let committed = match stat.committed_index {
        0 => String::new(),
        index => format!(" (to {index} committed)"),
    };
    let JournalStat { prepared, term, index, clean_stop, .. } = &stat;
    say!("{prepared} prepared, term {term}, entries to {index}{committed}, clean stop: {clean_stop}");
    tell_torn(&stat);
    args.output.last_line(&summary(&stat));
    Ok(())
}

fn show(args: &ShowArgs) -> Result<(), CommandError> {
    let (storage, cluster_id) = opened(&args.data)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut written: io::Result<()> = Ok(());
    let mut shown = 0_u64;
    let (from, to) = (Sequence(args.from), Sequence(args.to));
    let stat = journaler::dump(&storage, Some(cluster_id), from, to, &mut |batch| {
        // After a failed write the rest is read without being shown.
        if written.is_err() {
            return;
        }
        written = (|| {
            if args.batches {
                let header = batch.header;
                let line = json!({
                    "file": batch.file,
                    "offset": batch.offset,
                    "batch": format!("{:?}", header.kind),
                    "term": header.term.0,
                    "index": header.index,
                    "committed_index": header.committed_index,
                    "payload_bytes": header.payload_bytes,
                    "first_sequence": header.first_sequence.0,
                    "last_sequence": header.last_sequence().0,
                });
                writeln!(out, "{line}")?;
            }
            for (sequence, frame) in batch.frames.filter(|(sequence, _)| (from..=to).contains(sequence)) {
                shown += 1;
                let command = Command::decode(frame);
                let why = Command::why(frame);
                if args.json {
                    let mut object = text::command_json(sequence, &command);
                    if let Some(why) = why {
                        object["why"] = why.into();
                    }
                    writeln!(out, "{object}")?;
                } else {
                    let line = text::command_line(sequence, &command);
                    match why {
                        Some(why) => writeln!(out, "{line} why {why:?}")?,
                        None => writeln!(out, "{line}")?,
                    }
                }
            }
            Ok(())
        })();
    })
    .map_err(|error| data::failed(&storage, &error))?;
    let written = written.and_then(|()| {
        if args.json {
            let mut object = summary(&stat);
            object["shown"] = shown.into();
            writeln!(out, "{object}")?;
        }
        out.flush()
    });
    match written {
        // Whoever read it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| CommandError::failed(format!("standard output: {error}"))),
    }
}

fn cut(args: &CutArgs) -> Result<(), CommandError> {
    let (storage, cluster_id) = opened(&args.data)?;
    let failed = |error: journaler::JournalError| data::failed(&storage, &error);
    let Some(plan) = journaler::plan_cut(&storage, Some(cluster_id)).map_err(failed)? else {
        say!("nothing is damaged, so there is nothing to cut");
        args.output.last_line(&json!({ "damaged": false, "cut": false }));
        return Ok(());
    };
    tell_plan(&plan);
    if args.yes {
        journaler::cut(&storage, Some(cluster_id), &plan).map_err(failed)?;
        say!("cut; the next start goes on from what stands before it");
    }
    args.output.last_line(&json!({
        "damaged": true,
        "cut": args.yes,
        "damage": plan.damage,
        "file": plan.file,
        "offset": plan.offset,
        "first_lost": plan.first_lost.map(|sequence| sequence.0),
        "last_lost": plan.last_lost.map(|sequence| sequence.0),
        "batches_lost": plan.batches_lost,
        "segments_removed": plan.segments_removed,
    }));
    if args.yes {
        return Ok(());
    }
    Err(CommandError::failed(
        "the journal is damaged and was not cut; copy the data directory, then repeat with --yes",
    ))
}

fn tell_plan(plan: &CutPlan) {
    say!("damage: {}", plan.damage);
    say!("a cut at {} offset {} would lose:", plan.file, plan.offset);
    match (plan.first_lost, plan.last_lost) {
        (Some(first), Some(last)) => say!("  frames {first} to at least {last}"),
        (Some(first), None) => say!("  frames from {first} on; how many can't be told"),
        _ => say!("  frames whose numbers can't be told"),
    }
    say!("  {} whole batches behind the damage", plan.batches_lost);
    for file in &plan.segments_removed {
        say!("  all of {file}");
    }
}

/// The data directory and its id: a damaged header is told from a torn one only with it.
fn opened(data: &DataArgs) -> Result<(SharedStorage, u128), CommandError> {
    let data = data.existing()?;
    let storage = data::open(&data)?;
    let cluster_id = identity::existing(&data, &storage)?;
    Ok((storage, cluster_id))
}

pub(super) fn read_all(
    storage: &SharedStorage,
    cluster_id: u128,
    what: &'static str,
) -> Result<JournalStat, CommandError> {
    let mut meter = Meter::new(what, Without::Nothing);
    let stat =
        journaler::verify(storage, Some(cluster_id), &mut |at| meter.at(at.bytes_done, at.bytes_total))
            .map_err(|error| data::failed(storage, &error))?;
    let _: crate::progress::Rate = meter.finish();
    Ok(stat)
}

fn tell_torn(stat: &JournalStat) {
    for torn in &stat.torn {
        say!(
            "behind the end: {} offset {}, {} bytes that are no batch: being written, or a torn tail that the next \
             start cuts",
            torn.file,
            torn.offset,
            torn.bytes,
        );
    }
}

fn summary(stat: &JournalStat) -> Value {
    json!({
        "cluster_id": stat.cluster_id.map(|id| format!("{id:032x}")),
        "segments": stat.segments.len(),
        "prepared": stat.prepared,
        "first_sequence": stat.first_sequence.0,
        "last_sequence": stat.last_sequence.0,
        "term": stat.term.0,
        "index": stat.index,
        "committed_index": stat.committed_index,
        "batches": stat.segments.iter().map(|segment| segment.batches).sum::<u64>(),
        "bytes": stat.segments.iter().map(|segment| segment.bytes_used).sum::<u64>(),
        "chain": hex(&stat.chain),
        "clean_stop": stat.clean_stop,
        "torn": stat.torn.iter().map(|torn| json!({
            "file": torn.file, "offset": torn.offset, "bytes": torn.bytes, "sequence": torn.sequence.0,
        })).collect::<Vec<_>>(),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
