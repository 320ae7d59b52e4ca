//! `ringpit cluster status`: the members of a cluster as one of them sees them.

use std::time::Duration;

use replicator::{Member, MemberId};
use serde::Deserialize;
use serde_json::Value;

use super::wishes::Asked;
use crate::commands::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::ready::Ready;
use crate::say;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Say how the cluster is, as a member on this machine sees it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  ringpit cluster status --data data

The exit status is 0 if there is a leader and this member knows of a quorum, else 1.")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The part of a member's word on its cluster that commands use.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Seen {
    pub(super) member: MemberId,
    pub(super) cluster: String,
    pub(super) role: String,
    pub(super) term: u64,
    pub(super) leader: Option<Member>,
    pub(super) confirmed: bool,
    pub(super) last_index: Option<u64>,
    pub(super) committed_index: Option<u64>,
    /// It is no member any more. Earlier versions did not say so.
    #[serde(default)]
    pub(super) removed: bool,
    pub(super) durability: String,
    pub(super) members: Vec<SeenMember>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SeenMember {
    #[serde(flatten)]
    pub(super) member: SeenAddress,
    pub(super) voter: bool,
    pub(super) reachable: bool,
    pub(super) trouble: Option<String>,
    pub(super) last_index: Option<u64>,
    pub(super) lag_entries: Option<u64>,
    pub(super) forgetful: bool,
    pub(super) versions: SeenVersions,
    pub(super) catching_up: Option<(u64, u64)>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SeenAddress {
    pub(super) id: MemberId,
    pub(super) address: String,
    pub(super) client_address: String,
    pub(super) zone: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct SeenVersions {
    pub(super) binary: String,
}

/// All that a member says of itself.
pub(super) fn ask(ready: &Ready) -> Result<Value, CommandError> {
    data::ask(ready, "/status", TIMEOUT)
}

/// The cluster as the member sees it.
pub(super) fn parse(status: &Value) -> Result<Seen, CommandError> {
    let cluster = status.get("cluster").ok_or_else(|| {
        CommandError::failed(
            "this server is no member of a cluster; [cluster] in its configuration would make it one",
        )
    })?;
    Seen::deserialize(cluster).map_err(|error| {
        CommandError::failed(format!("the member's answer is of another version of the program: {error}"))
    })
}

/// Runs the command.
pub(super) fn run(args: &StatusArgs) -> Result<(), CommandError> {
    let status = Asked::find(&args.data)?.status()?;
    let seen = parse(&status)?;
    for line in table(&seen) {
        say!("{line}");
    }
    if let Some(cluster) = status.get("cluster") {
        args.output.last_line(cluster);
    }
    match objection(&seen) {
        None => Ok(()),
        Some(objection) => Err(CommandError::failed(objection)),
    }
}

/// What keeps the cluster from taking orders, as far as this member knows.
fn objection(seen: &Seen) -> Option<String> {
    if seen.role == "blank" {
        return Some(format!(
            "member {} is in no cluster yet; `ringpit cluster init` founds one, `ringpit cluster add` on a member adds this one",
            seen.member
        ));
    }
    if seen.removed {
        return Some(format!(
            "member {} was removed from this cluster: stop it, and don't start it again with this data directory",
            seen.member
        ));
    }
    let voters = seen.members.iter().filter(|member| member.voter);
    let (all, reachable) = (voters.clone().count(), voters.filter(|voter| voter.reachable).count());
    if reachable * 2 <= all {
        return Some(format!("only {reachable} of {all} voters can be reached, which is no quorum"));
    }
    let Some(leader) = &seen.leader else { return Some("there is no leader".to_owned()) };
    if leader.id == seen.member {
        return (!seen.confirmed).then(|| "this member leads, and no quorum confirms it".to_owned());
    }
    let there = seen.members.iter().any(|member| member.member.id == leader.id && member.reachable);
    (!there).then(|| format!("the leader, member {}, can't be reached", leader.id))
}

fn table(seen: &Seen) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let mut lines = vec![format!(
        "cluster {} (durability {}), term {}, {} entries, {} committed, as member {} sees it",
        if seen.cluster.is_empty() { "-" } else { &seen.cluster },
        seen.durability,
        seen.term,
        number(seen.last_index),
        number(seen.committed_index),
        seen.member,
    )];
    let mut rows = vec![
        ["member", "role", "address", "clients", "zone", "last entry", "lag", "version", ""]
            .map(str::to_owned),
    ];
    let leader = seen.leader.as_ref().map(|leader| leader.id);
    for there in &seen.members {
        let SeenMember { member, voter, .. } = there;
        let role = match (leader == Some(member.id), voter) {
            (true, _) => "leader",
            (false, true) => "follower",
            (false, false) => "learner",
        };
        let dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        rows.push([
            member.id.to_string(),
            role.to_owned(),
            member.address.clone(),
            member.client_address.clone(),
            dash(&member.zone),
            number(there.last_index),
            number(there.lag_entries),
            dash(&there.versions.binary),
            note(there),
        ]);
    }
    let width =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..9).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        lines.push(cells.collect::<Vec<_>>().join("  ").trim_end().to_owned());
    }
    lines
}

fn note(there: &SeenMember) -> String {
    match there {
        SeenMember { reachable: false, trouble, .. } => {
            format!("not reachable: {}", trouble.as_deref().unwrap_or("nothing heard yet"))
        }
        SeenMember { catching_up: Some((done, total)), .. } => {
            format!("takes a snapshot: {} of {} MiB", done >> 20, total >> 20)
        }
        SeenMember { forgetful: true, voter: false, .. } => {
            "no vote can be given to it until it has caught up".to_owned()
        }
        SeenMember { forgetful: true, .. } => "lost a part of its log: no vote until it caught up".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn member(id: u64, voter: bool, reachable: bool) -> Value {
        json!({
            "id": id, "address": format!("m{id}:7301"), "client_address": format!("m{id}:4410"), "zone": "",
            "voter": voter, "reachable": reachable, "trouble": null, "last_index": 7, "applied_index": 7,
            "lag_entries": 2, "forgetful": false, "catching_up": null,
            "versions": { "binary": "1.0", "journal": 1, "rulebook": 1 },
        })
    }

    fn seen(members: &[Value]) -> Seen {
        let leader = json!({ "id": 1, "address": "m1:7301", "client_address": "m1:4410", "zone": "" });
        parse(&json!({ "cluster": {
            "member": 2, "cluster": "c0ffee", "incarnation": 0, "role": "follower", "term": 3, "leader": leader,
            "confirmed": false, "forgetful": false, "last_index": 9, "committed_index": 8, "applied_index": 8,
            "durability": "quorum", "members": members,
        }}))
        .expect("a status")
    }

    #[test]
    fn the_table_lines_up_and_says_what_is_wrong() {
        let mut taking = member(4, false, true);
        taking["catching_up"] = json!([1 << 20, 5 << 20]);
        let lines = table(&seen(&[member(1, true, true), member(2, true, false), taking]));
        assert_eq!(
            lines,
            [
                "cluster c0ffee (durability quorum), term 3, 9 entries, 8 committed, as member 2 sees it",
                "member  role      address  clients  zone  last entry  lag  version",
                "1       leader    m1:7301  m1:4410  -     7           2    1.0",
                "2       follower  m2:7301  m2:4410  -     7           2    1.0      not reachable: nothing heard yet",
                "4       learner   m4:7301  m4:4410  -     7           2    1.0      takes a snapshot: 1 of 5 MiB",
            ]
        );
    }

    #[test]
    fn a_quorum_of_voters_and_a_leader_make_it_well() {
        let well = seen(&[member(1, true, true), member(2, true, true), member(3, true, false)]);
        assert_eq!(objection(&well), None);
        let lost = seen(&[
            member(1, true, false),
            member(2, true, true),
            member(3, true, false),
            member(4, false, true),
        ]);
        assert_eq!(
            objection(&lost).as_deref(),
            Some("only 1 of 3 voters can be reached, which is no quorum")
        );
        let silent = seen(&[member(1, true, false), member(2, true, true), member(3, true, true)]);
        assert_eq!(objection(&silent).as_deref(), Some("the leader, member 1, can't be reached"));
        let alone = Seen { member: MemberId(1), ..well.clone() };
        assert_eq!(objection(&alone).as_deref(), Some("this member leads, and no quorum confirms it"));
        assert_eq!(objection(&Seen { confirmed: true, ..alone }), None);
        let removed = Seen { removed: true, ..well.clone() };
        assert!(objection(&removed).is_some_and(|text| text.contains("member 2 was removed")));
        let headless = Seen { leader: None, ..well.clone() };
        assert_eq!(objection(&headless).as_deref(), Some("there is no leader"));
        let blank = Seen { role: "blank".to_owned(), members: Vec::new(), ..well };
        assert!(objection(&blank).is_some_and(|text| text.contains("in no cluster yet")));
        assert!(parse(&json!({ "ready": true })).is_err());
    }
}
