//! `ringpit journal skip`: records that a frame must never be applied, since it ends the engine. It says first what that
//! means, and refuses whatever would change what clients were told already.

mod processed;

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use exchange::Exchange;
use journaler::{FrameHash, JournalError, JournalReader, JournalStat, SharedStorage, Skip, SkipFile};
use protocol::{Body, Command, Sequence, SessionId, Timestamp};
use serde_json::json;

use super::super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::progress::{Meter, Without};
use crate::replay::{self, From};
use crate::{identity, say, text};

/// File that tells a member's data directory.
const MEMBER_FILE: &str = "member";

/// Leave out a command that ends the engine at each start. Says what that means; does it with --yes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit journal skip --data data --sequence 4711 --who alice --why 'ends the engine, ticket 12'
  ringpit journal skip --data data --sequence 4711 --who alice --why 'ends the engine, ticket 12' --yes

The line with which the server ended names the sequence. The server must be stopped. In a cluster each member needs the same
skip: docs/runbook.md says in which order. `ringpit journal verify` lists what is skipped, and so does `ringpit status`.")]
pub(super) struct SkipArgs {
    #[command(flatten)]
    data: DataArgs,
    /// The frame
    #[arg(long, value_name = "SEQUENCE")]
    sequence: u64,
    /// Who orders it
    #[arg(long, value_name = "NAME")]
    who: String,
    /// Why, in a line
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Take back a skip that no start has followed yet
    #[arg(long)]
    withdraw: bool,
    /// Record it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A data directory that no server has meanwhile.
struct Site {
    storage: SharedStorage,
    cluster_id: u128,
    file: SkipFile,
    stat: JournalStat,
}

/// The frame that is to be skipped, and the state before it.
struct Found {
    command: Command,
    frame_hash: FrameHash,
    before: Exchange,
    /// Whether this member knows that it is committed; `None` on a server alone.
    committed: Option<bool>,
}

/// Runs the command.
pub(super) fn run(args: &SkipArgs) -> Result<(), CommandError> {
    let data = args.data.existing()?;
    let mut site = Site::open(&data)?;
    let sequence = Sequence(args.sequence);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let order = |frame_hash| Skip {
        sequence,
        frame_hash,
        who: args.who.clone(),
        why: args.why.clone(),
        at: Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
    };
    if args.withdraw {
        let skip = site.to_withdraw(sequence)?;
        say!("in force: {}", text::skip_line(&skip));
        if args.yes {
            site.file.withdraw(order(skip.frame_hash)).map_err(|error| site.failed(&error))?;
            say!("withdrawn: the next start applies frame {sequence} like any other");
        } else {
            say!("would be withdrawn: the next start would apply frame {sequence} like any other");
        }
        return tell_done(args, &json!({ "frame_hash": skip.frame_hash.to_string() }));
    }
    let found = site.to_skip(sequence, data.join(MEMBER_FILE).exists())?;
    found.tell(sequence, site.stat.last_sequence);
    if args.yes {
        site.file.record(order(found.frame_hash)).map_err(|error| site.failed(&error))?;
    }
    let object = json!({
        "frame_hash": found.frame_hash.to_string(),
        "command": text::command_json(sequence, &found.command),
        "committed": found.committed,
    });
    tell_done(args, &object)
}

fn tell_done(args: &SkipArgs, object: &serde_json::Value) -> Result<(), CommandError> {
    if args.yes {
        say!("recorded; the next start follows it");
    } else {
        say!("nothing is recorded; --yes does it");
    }
    let mut object = object.clone();
    object["sequence"] = args.sequence.into();
    object["withdraw"] = args.withdraw.into();
    object["recorded"] = args.yes.into();
    args.output.last_line(&object);
    Ok(())
}

impl Site {
    /// Takes the data directory's lock and reads the journal.
    fn open(data: &Path) -> Result<Self, CommandError> {
        let storage = data::open(data)?;
        let cluster_id = identity::existing(data, &storage)?;
        let file = SkipFile::open(Arc::clone(&storage), cluster_id).map_err(|error| match error {
            JournalError::Locked { .. } => {
                CommandError::failed(format!("{error}: stop it first, since skips are read at a start"))
            }
            error => data::failed(&storage, &error),
        })?;
        let stat = super::read_all(&storage, cluster_id, "reading")?;
        Ok(Self { storage, cluster_id, file, stat })
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> CommandError {
        data::failed(&self.storage, error)
    }

    /// The frame that may be skipped.
    fn to_skip(&self, sequence: Sequence, is_member: bool) -> Result<Found, CommandError> {
        if let Some(skip) = self.file.skips().at(sequence) {
            return Err(self.failed(&format!("nothing to do: {}", text::skip_line(skip))));
        }
        let (first, last) = (self.stat.first_sequence, self.stat.last_sequence);
        if !(first..=last).contains(&sequence) {
            return Err(self.failed(&format!(
                "frame {sequence} is not in the journal, which has {first} to {last}; on a member that does not have it yet, \
                 start it until it ends there"
            )));
        }
        self.refuse_applied(sequence)?;
        let before = self.state_before(sequence)?;
        self.refuse_reported(sequence, &before)?;
        let failed = |error: JournalError| self.failed(&error);
        let reader = JournalReader::open(Arc::clone(&self.storage)).map_err(failed)?;
        let mut cursor = reader.frames_from(sequence).map_err(failed)?;
        let frame = cursor.next_frame(sequence).map_err(failed)?.map(|(_, frame)| frame);
        let (command, frame_hash) = frame
            .and_then(|frame| Some((Command::decode(frame), FrameHash::of(frame)?)))
            .ok_or_else(|| self.failed(&format!("frame {sequence} can't be read")))?;
        let committed = if is_member { Some(self.is_committed(sequence)?) } else { None };
        Ok(Found { command, frame_hash, before, committed })
    }

    /// The skip that may be taken back.
    fn to_withdraw(&self, sequence: Sequence) -> Result<Skip, CommandError> {
        let skip = self.file.skips().at(sequence).cloned();
        let skip = skip.ok_or_else(|| self.failed(&format!("frame {sequence} is not skipped")))?;
        self.refuse_applied(sequence)?;
        if sequence <= self.stat.last_sequence {
            self.refuse_reported(sequence, &self.state_before(sequence)?)?;
        }
        Ok(skip)
    }

    /// Replays the log up to the frame. If an earlier one ends the engine, this process ends there too, and says so.
    fn state_before(&self, sequence: Sequence) -> Result<Exchange, CommandError> {
        let mut meter = Meter::new("replaying", Without::Nothing);
        let end = Sequence(sequence.0.saturating_sub(1));
        let replayed =
            replay::replay(&self.storage, self.cluster_id, From::Snapshot, end, &mut |done, total| {
                meter.at(done, total);
            })?;
        let _: crate::progress::Rate = meter.finish();
        Ok(replayed.exchange)
    }

    /// Whether the journal says that the frame's entry is committed.
    fn is_committed(&self, sequence: Sequence) -> Result<bool, CommandError> {
        let mut index = None;
        journaler::dump(&self.storage, Some(self.cluster_id), sequence, sequence, &mut |mut batch| {
            if batch.frames.any(|(at, _)| at == sequence) {
                index = Some(batch.header.index);
            }
        })
        .map_err(|error| self.failed(&error))?;
        Ok(index.is_some_and(|index| index <= self.stat.committed_index))
    }
}

impl Found {
    /// Says what the frame is, and what leaving it out means.
    fn tell(&self, sequence: Sequence, last: Sequence) {
        let Self { command, frame_hash, before, committed } = self;
        say!("{}", text::command_line(sequence, command));
        say!("frame {sequence} of {last}, BLAKE3 {frame_hash}");
        let user = before.users().find(|user| user.session == command.session);
        match (user, command.session) {
            (Some(user), session) => say!("sent by user {}, session {session}", user.name),
            (None, SessionId::SYSTEM) => say!("sent by the server itself"),
            (None, session) => say!("sent by session {session}, which does not exist"),
        }
        say!("skipped, it changes nothing but log time: {}", self.meaning(user.is_some()));
        if *committed == Some(false) {
            say!(
                "this member does not know yet that the frame is committed: skip it only if the other members have the same \
                 BLAKE3 at sequence {sequence}"
            );
        }
    }

    fn meaning(&self, has_user: bool) -> &'static str {
        match &self.command.body {
            Body::Login(_) | Body::Logout | Body::Disconnect(_) | Body::Start => {
                "connections end at the next start anyway, and clients log in again"
            }
            Body::Tick(_) => "timers that were due wait for the next tick",
            Body::EndOfDay => "the trading day does not end; end it again once the server runs",
            Body::SetRulebook(_) => "the rules stay as they are; switch again once the server runs",
            Body::SetCapacities(_)
            | Body::PutInstrument(_)
            | Body::SetPhase(..)
            | Body::PutUser(_)
            | Body::DisconnectUser(_) => "what it asks for does not happen; ask again if it is still wanted",
            _ if has_user => {
                "its sender gets `rejected` with the reason `skipped`, and its request id is used up"
            }
            _ => "nobody is answered",
        }
    }
}
