//! The part of the page that a member of a cluster adds: where it stands, and where the others are as it sees them.

use std::fmt;
use std::time::Duration;

use pipeline::HistogramSnapshot;
use replicator::{ClusterStatus, MemberRole, MemberStatus};

use super::{NANOSECONDS, TIMES, Writer};

const ROLES: [(MemberRole, &str); 5] = [
    (MemberRole::Leader, "leader"),
    (MemberRole::Follower, "follower"),
    (MemberRole::Candidate, "candidate"),
    (MemberRole::Learner, "learner"),
    (MemberRole::Blank, "blank"),
];

pub(super) fn encode(
    writer: &mut Writer<'_>,
    status: &ClusterStatus,
    commit_ns: &HistogramSnapshot,
) -> fmt::Result {
    let flag = u64::from;
    writer.gauge("cluster_member", "Number of this member", status.member.0)?;
    let roles = ROLES.map(|(role, name)| (name, flag(status.role == role)));
    writer.gauges("cluster_role", "1 for what this member does in its cluster", "role", &roles)?;
    writer.gauge(
        "cluster_confirmed",
        "1 while this member leads and a quorum confirms it",
        flag(status.confirmed),
    )?;
    let leader = status.leader.as_ref().map_or(0, |leader| leader.id.0);
    writer.gauge("cluster_leader_member", "Number of the member that leads, 0 if none is known", leader)?;
    writer.gauge("cluster_term", "Current term", status.term)?;
    writer.gauge(
        "cluster_incarnation",
        "Rises whenever a lost quorum is given up",
        status.incarnation.into(),
    )?;
    writer.gauge(
        "cluster_forgetful",
        "1 while this member has no vote since it lost a part of its log",
        flag(status.forgetful),
    )?;
    let positions = [
        ("last", status.last_index),
        ("committed", status.committed_index),
        ("applied", status.applied_index),
    ]
    .map(|(name, index)| (name, index.unwrap_or_default()));
    writer.gauges("cluster_entry", "Last entry of this member's log in each state", "state", &positions)?;
    let numbers: Vec<String> = status.members.iter().map(|member| member.member.id.to_string()).collect();
    let of_each = |value: &dyn Fn(&MemberStatus) -> Option<u64>| -> Vec<(&str, u64)> {
        let values = numbers.iter().map(String::as_str).zip(status.members.iter().map(value));
        values.filter_map(|(number, value)| Some((number, value?))).collect()
    };
    let voters = of_each(&|member| Some(flag(member.voter)));
    writer.gauges("cluster_voter", "1 if the member has a vote", "member", &voters)?;
    let reachable = of_each(&|member| Some(flag(member.reachable)));
    writer.gauges("cluster_reachable", "1 if the member answered this one lately", "member", &reachable)?;
    let lags = of_each(&|member| member.lag_entries);
    writer.gauges(
        "cluster_lag_entries",
        "Entries of this member's log that the member lacks",
        "member",
        &lags,
    )?;
    writer.seconds(
        "cluster_disk_lag_seconds",
        "How long the oldest committed entry has been waiting for this member's own disk",
        Duration::from_millis(status.disk_lag_ms),
    )?;
    writer.gauge("cluster_disk_low", "1 while this member's disk is nearly full", flag(status.disk_low))?;
    writer.histogram(
        "cluster_commit_seconds",
        "From a proposal of this leader's until it was committed and given to its engine",
        commit_ns,
        NANOSECONDS,
        &TIMES,
    )
}
