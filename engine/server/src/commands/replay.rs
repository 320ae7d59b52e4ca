//! `ringpit replay`: the journal through the business logic again, to the hashes that two runs are compared by.

use protocol::Sequence;

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::progress::{Meter, Without};
use crate::replay::{self, From};
use crate::{identity, say, text};

/// Replay the journal and print the hashes it ends with
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit replay --data data --json\n\nReads only; a running server is not disturbed. outcome_hash is null where the replay began with a snapshot, since it covers every report."
)]
pub struct ReplayArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Begin with the newest snapshot that verifies instead of the first frame
    #[arg(long)]
    from_snapshot: bool,
    /// Stop behind this frame; without it, behind the last
    #[arg(long, value_name = "SEQUENCE")]
    to: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// The journal is damaged or does not reach back far enough, or a tick in it contradicts the replay.
pub fn run(args: &ReplayArgs) -> Result<(), CommandError> {
    let data = args.data.existing()?;
    let storage = data::open(&data)?;
    let cluster_id = identity::existing(&data, &storage)?;
    let mut meter = Meter::new("checking", Without::Nothing);
    let stat =
        journaler::verify(&storage, Some(cluster_id), &mut |at| meter.at(at.bytes_done, at.bytes_total))
            .map_err(|error| data::failed(&storage, &error))?;
    let _: crate::progress::Rate = meter.finish();
    let end = match args.to.map(Sequence) {
        Some(to) if to > stat.last_sequence => {
            return Err(CommandError::usage(format!(
                "--to {to}: the journal ends with sequence {}",
                stat.last_sequence
            )));
        }
        to => to.unwrap_or(stat.last_sequence),
    };
    let from = if args.from_snapshot { From::Snapshot } else { From::Beginning };
    let mut meter = Meter::new("replaying", Without::Nothing);
    let replayed = replay::replay(&storage, cluster_id, from, end, &mut |done, total| meter.at(done, total))?;
    let rate = meter.finish();
    let outcome = replayed.from_snapshot.is_none().then_some(&replayed.tally.outcome);
    let mut object = replay::hashes(&replayed.exchange, outcome);
    object["from_snapshot"] = replayed.from_snapshot.map(|sequence| sequence.0).into();
    object["frames"] = replayed.frames.into();
    object["reports"] = replayed.tally.reports.into();
    object["trades"] = replayed.tally.trades.into();
    object["rejects"] = replayed.tally.rejects.into();
    object["skipped"] = text::skips_json(&replayed.skipped);
    object["seconds"] = rate.seconds.into();
    object["frames_per_second"] = rate.per_second().into();
    say!(
        "{} frames in {:.3} s: {:.0} a second; {} reports, {} trades, {} rejects",
        replayed.frames,
        rate.seconds,
        rate.per_second(),
        replayed.tally.reports,
        replayed.tally.trades,
        replayed.tally.rejects,
    );
    data::tell_skips(&replayed.skipped);
    data::tell_hashes(&object);
    args.output.last_line(&object);
    Ok(())
}
