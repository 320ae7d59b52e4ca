//! `ringpit cluster rebuild`: goes on with one survivor where the others are gone for good, or begins a cluster with what a
//! backup or a server alone has. It says first what may be lost.

use std::path::PathBuf;

use replicator::RebuildPlan;
use serde_json::json;

use crate::commands::data;
use crate::config::{Config, Overrides};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{assembly, say};

/// Go on with this member alone after the quorum is lost for good. Says what may be lost; does it with --yes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit cluster rebuild --config ringpit.toml          what would be lost, changing nothing
  ringpit cluster rebuild --config ringpit.toml --yes

Run it on each survivor without --yes first, with all members stopped, and choose the one with the highest last frame. The
others must never be started again with the data that they have: wipe them and add them to the rebuilt cluster.

The data directory of a server alone, and one restored from a backup, become the first member of a cluster the same way.")]
pub(super) struct RebuildArgs {
    /// The survivor's configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Do it
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
pub(super) fn run(args: &RebuildArgs) -> Result<(), CommandError> {
    let config = Config::load(Some(&args.config), &Overrides::default())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let cluster = super::of_member(&config)?;
    let storage = data::open(&config.data)?;
    let journal = assembly::engine(&config, 0).journal;
    let failed =
        |error: &dyn std::fmt::Display| CommandError::failed(format!("{}: {error}", config.data.display()));
    let plan =
        replicator::plan_rebuild(&storage, &journal, cluster.member.id).map_err(|error| failed(&error))?;
    if plan.member != cluster.member.id {
        return Err(failed(&format!(
            "is member {}'s, the configuration says member {}: a wrong data directory?",
            plan.member, cluster.member.id
        )));
    }
    tell(&plan);
    if args.yes {
        replicator::rebuild(&storage, &journal, &cluster.member).map_err(|error| failed(&error))?;
        say!("done: start member {}, then wipe and add the others one by one", plan.member);
    } else if plan.cut > 0 {
        say!("nothing but that is changed; --yes does it");
    } else {
        say!("nothing is changed; --yes does it");
    }
    args.output.last_line(&json!({
        "done": args.yes,
        "member": plan.member,
        "cluster": format!("{:032x}", plan.cluster),
        "was_member": plan.was_member,
        "incarnation": plan.incarnation,
        "last_sequence": plan.last_sequence.0,
        "committed_sequence": plan.committed_sequence.0,
        "forgetful": plan.forgetful,
        "cut": plan.cut,
    }));
    Ok(())
}

fn tell(plan: &RebuildPlan) {
    let RebuildPlan { member, cluster, incarnation, last_sequence, committed_sequence, term, .. } = plan;
    if !plan.was_member {
        say!(
            "cluster {cluster:032x} would begin with member {member} as its only voter, and go on behind frame {last_sequence}"
        );
        say!(
            "this is a server alone's data or a backup: lost is what it had not yet taken when it was stopped or copied"
        );
        return;
    }
    say!(
        "cluster {cluster:032x} would go on as incarnation {incarnation}, with member {member} as its only voter"
    );
    say!(
        "its log ends with frame {last_sequence} of term {term}; up to frame {committed_sequence} it is known to be committed"
    );
    let open = last_sequence.0.saturating_sub(committed_sequence.0);
    if open > 0 {
        say!(
            "the {open} frames behind that take effect, though some may never have been acknowledged to anybody"
        );
    }
    say!(
        "lost is what the others acknowledged and this member had not received: orders that clients were told of may be gone"
    );
    if plan.forgetful {
        say!(
            "this member had lost a part of its own log besides, and had not caught up again: prefer any other survivor"
        );
    }
    if plan.cut > 0 {
        say!("the end of its log was torn, and was cut: prefer a survivor without that");
    }
}
