//! What an operator wants of a cluster: each command sends one wish to a member and tells what came of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use replicator::{Member, MemberId};
use serde_json::json;

use super::status::{self, Seen};
use crate::commands::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::membership::{Change, Wish};
use crate::progress::{Meter, Without};
use crate::ready::Ready;
use crate::say;

/// How long a member may take to fulfil a wish: longer than it gives itself.
const WISH_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a founded cluster may take to have a leader.
const LEADER_PATIENCE: Duration = Duration::from_secs(30);
/// How long a member that is added may be silent and make no progress.
const CATCH_UP_PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A member this close to the leader's end has caught up: the rest is on its way all the time.
const LAG_MAX: u64 = 100;

/// Found the cluster of the members that the configuration names. All must run and be in no cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringpit cluster init --config ringpit.toml

Start all members first. Run it on one of them; on a member that is in the cluster already it changes nothing.")]
pub(super) struct InitArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Found it even if its layout is unsafe: an even number of members, or a zone that holds a quorum
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Add a member without a vote, or give one other addresses. It gets all that the others have
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringpit cluster add 4 four.example:7301 four.example:4410 --zone d --wait

Start the new member, with an empty data directory and the same number and addresses in its configuration. With --wait, the
command ends when it has caught up; then `ringpit cluster promote 4` gives it a vote.")]
pub(super) struct AddArgs {
    /// Its number, never given to another one
    id: u64,
    /// Where members reach it, HOST:PORT
    address: String,
    /// Where clients reach it, HOST:PORT
    client_address: String,
    /// What it may fail together with
    #[arg(long, default_value = "")]
    zone: String,
    /// Wait until it has caught up
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct ChangeArgs {
    /// Number of the member
    id: u64,
    /// Do it even if the layout is unsafe then: an even number of voters, or a zone that holds a quorum
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Give a member a vote, once it has caught up
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit cluster promote 4")]
pub(super) struct PromoteArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Take a member its vote. It stays in the cluster and keeps up
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit cluster demote 4")]
pub(super) struct DemoteArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Remove a member from the cluster. Stop it afterwards
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ringpit cluster remove 4\n\nIt never starts again with its data directory; to have it back, empty that, start it, and add it."
)]
pub(super) struct RemoveArgs {
    #[command(flatten)]
    change: ChangeArgs,
}

/// Make another member the leader, without losing or delaying an order
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ringpit cluster hand-over\n  ringpit cluster hand-over 2")]
pub(super) struct HandOverArgs {
    /// Number of the member that shall lead; without it, the one that is furthest
    id: Option<u64>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A member on this machine.
pub(super) struct Asked {
    data: PathBuf,
    ready: Ready,
}

impl Asked {
    /// The member that runs on a data directory.
    pub(super) fn find(data: &DataArgs) -> Result<Self, CommandError> {
        Self::of(&data.existing()?)
    }

    /// As [`find`](Self::find), for a directory that is known to be there.
    pub(super) fn of(data: &Path) -> Result<Self, CommandError> {
        let ready = data::server_of(data)?.ok_or_else(|| {
            CommandError::failed(format!(
                "no server runs on {}; start the member with `ringpit serve --config FILE`, or ask another one",
                data.display()
            ))
        })?;
        Ok(Self { data: data.to_path_buf(), ready })
    }

    /// Sends a wish; gives what was done.
    pub(super) fn wish(&self, wish: &Wish) -> Result<String, CommandError> {
        let body = serde_json::to_string(wish).map_err(|error| CommandError::failed(error.to_string()))?;
        let answer = data::administer(&self.ready, &self.data, "/cluster", &body, WISH_TIMEOUT)?;
        Ok(answer.get("done").and_then(|done| done.as_str()).unwrap_or("done").to_owned())
    }

    /// All that this member says of itself.
    pub(super) fn status(&self) -> Result<serde_json::Value, CommandError> {
        status::ask(&self.ready)
    }

    /// The cluster as this member sees it.
    pub(super) fn look(&self) -> Result<Seen, CommandError> {
        status::parse(&self.status()?)
    }

    /// Waits until the cluster has a leader; gives its number.
    pub(super) fn wait_for_leader(&self) -> Result<MemberId, CommandError> {
        let started = Instant::now();
        loop {
            // A member that enters a cluster may be too busy to answer.
            let leader = self.look().ok().and_then(|seen| seen.leader);
            if let Some(leader) = leader {
                return Ok(leader.id);
            }
            if started.elapsed() > LEADER_PATIENCE {
                return Err(CommandError::failed(format!(
                    "no leader after {} s; see `ringpit cluster status` and the members' logs",
                    LEADER_PATIENCE.as_secs()
                )));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

pub(super) fn init(args: &InitArgs) -> Result<(), CommandError> {
    let asked = Asked::find(&args.data)?;
    let done = asked.wish(&Wish::Init { force: args.force })?;
    say!("{done}");
    let leader = asked.wait_for_leader()?;
    say!("member {leader} leads");
    args.output.last_line(&json!({ "done": done, "leader": leader }));
    Ok(())
}

pub(super) fn add(args: &AddArgs) -> Result<(), CommandError> {
    let asked = Asked::find(&args.data)?;
    let member = Member {
        id: number(args.id)?,
        address: address(&args.address)?,
        client_address: address(&args.client_address)?,
        zone: args.zone.clone(),
    };
    let id = member.id;
    let done = asked.wish(&Wish::Add(member))?;
    say!("{done}");
    if args.wait {
        catch_up(&asked, id)?;
        say!("member {id} has caught up");
    }
    args.output.last_line(&json!({ "done": done, "caught_up": args.wait }));
    Ok(())
}

/// Shows how far a member is until it has all that the leader has.
fn catch_up(asked: &Asked, id: MemberId) -> Result<(), CommandError> {
    let mut meter = Meter::new("catching up", Without::Nothing);
    let mut moved = Instant::now();
    let mut before = None;
    loop {
        let seen = asked.look()?;
        let Some(member) = seen.members.iter().find(|member| member.member.id == id) else {
            return Err(CommandError::failed(format!("member {id} was removed meanwhile")));
        };
        // One that is not in the cluster yet answers, too, and has no last entry.
        let lag = member.lag_entries.filter(|_| member.reachable && member.last_index.is_some());
        if lag.is_some_and(|lag| lag <= LAG_MAX) && member.catching_up.is_none() {
            let _ = meter.finish();
            return Ok(());
        }
        let (done, total) = member.catching_up.unwrap_or_else(|| {
            let last = seen.last_index.unwrap_or_default();
            (last.saturating_sub(member.lag_entries.unwrap_or(last)), last)
        });
        meter.show(done, total);
        if before != Some((done, total)) {
            before = Some((done, total));
            moved = Instant::now();
        }
        if moved.elapsed() > CATCH_UP_PATIENCE {
            let trouble = member.trouble.as_deref().unwrap_or("it makes no progress");
            return Err(CommandError::failed(format!(
                "member {id} is added, but did not catch up: {trouble}; is it started, with {} as its address and an empty \
                 data directory? Repeat the command to wait on",
                member.member.address
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

pub(super) fn promote(args: &PromoteArgs) -> Result<(), CommandError> {
    change(&args.change, Wish::Promote)
}

pub(super) fn demote(args: &DemoteArgs) -> Result<(), CommandError> {
    change(&args.change, Wish::Demote)
}

pub(super) fn remove(args: &RemoveArgs) -> Result<(), CommandError> {
    change(&args.change, Wish::Remove)
}

pub(super) fn hand_over(args: &HandOverArgs) -> Result<(), CommandError> {
    let to = args.id.map(number).transpose()?;
    tell(&Asked::find(&args.data)?, &Wish::HandOver { to }, args.output)
}

fn change(args: &ChangeArgs, wish: impl Fn(Change) -> Wish) -> Result<(), CommandError> {
    let change = Change { member: number(args.id)?, force: args.force };
    tell(&Asked::find(&args.data)?, &wish(change), args.output)
}

fn tell(asked: &Asked, wish: &Wish, output: OutputArgs) -> Result<(), CommandError> {
    let done = asked.wish(wish)?;
    say!("{done}");
    output.last_line(&json!({ "done": done }));
    Ok(())
}

fn number(id: u64) -> Result<MemberId, CommandError> {
    if id == 0 { Err(CommandError::usage("members are numbered from 1")) } else { Ok(MemberId(id)) }
}

fn address(text: &str) -> Result<String, CommandError> {
    crate::config::host_and_port(text).map_err(CommandError::usage)?;
    Ok(text.to_owned())
}
