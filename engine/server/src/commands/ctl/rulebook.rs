//! Whether the rulebook may be switched: what members don't know must not get into their log, since it stops them. It must
//! not ask anybody but the server of the data directory, which knows its cluster.

use std::time::Duration;

use replicator::MemberId;
use serde::Deserialize;
use serde_json::Value;

use crate::commands::connect::ConnectArgs;
use crate::commands::data;
use crate::error::CommandError;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What a server says of itself and its cluster, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Seen {
    rulebook_known: u32,
    cluster: Option<SeenCluster>,
}

#[derive(Debug, Deserialize)]
struct SeenCluster {
    members: Vec<SeenMember>,
}

#[derive(Debug, Deserialize)]
struct SeenMember {
    id: MemberId,
    address: String,
    client_address: String,
    reachable: bool,
    versions: SeenVersions,
}

#[derive(Debug, Deserialize)]
struct SeenVersions {
    rulebook: u32,
}

/// Where to log in to switch to a version: the server of the data directory, or all members of its cluster.
///
/// # Errors
/// It is not known that everybody knows the version.
pub(super) fn checked(connect: &ConnectArgs, version: u32) -> Result<ConnectArgs, CommandError> {
    if !connect.address.is_empty() {
        return Err(CommandError::usage(
            "rulebook goes to the server of --data, or to its cluster, after it asked that server who knows the version: \
             leave --address out and name the data directory",
        ));
    }
    let ready = data::server_of(&connect.data)?.ok_or_else(|| {
        CommandError::failed(format!(
            "no server runs on {}: name the data directory of a running one with --data DIR",
            connect.data.display()
        ))
    })?;
    let seen = parse(&data::ask(&ready, "/status", TIMEOUT)?)?;
    if let Some(objection) = objection(&seen, version) {
        return Err(CommandError::failed(format!(
            "the rulebook can't be switched to version {version}: {objection}; nothing was logged. Upgrade all first, see \
             the rolling upgrade in docs/runbook.md"
        )));
    }
    let address = match seen.cluster {
        Some(cluster) => cluster.members.into_iter().map(|member| member.client_address).collect(),
        None => vec![ready.native.to_string()],
    };
    Ok(ConnectArgs { address, ..connect.clone() })
}

fn parse(status: &Value) -> Result<Seen, CommandError> {
    Seen::deserialize(status).map_err(|error| {
        CommandError::failed(format!("the server's answer is of another version of the program: {error}"))
    })
}

/// Who keeps a version from being switched to; everybody who is in the log must know it.
fn objection(seen: &Seen, version: u32) -> Option<String> {
    let Some(cluster) = &seen.cluster else {
        return (seen.rulebook_known < version)
            .then(|| format!("this server knows it up to version {}", seen.rulebook_known));
    };
    if cluster.members.is_empty() {
        return Some("this member is in no cluster yet".to_owned());
    }
    let lacking = cluster.members.iter().filter_map(|member| {
        let SeenMember { id, address, reachable, versions, .. } = member;
        match (reachable, versions.rulebook >= version) {
            (true, true) => None,
            (true, false) => {
                Some(format!("member {id} ({address}) knows it up to version {}", versions.rulebook))
            }
            (false, _) => Some(format!("member {id} ({address}) can't be reached")),
        }
    });
    let lacking: Vec<String> = lacking.collect();
    (!lacking.is_empty()).then(|| lacking.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(status: &Value, version: u32, expected: Option<&str>) {
        let seen = parse(status).expect("a status");
        assert_eq!(objection(&seen, version).as_deref(), expected, "version {version} of {status}");
    }

    fn cluster(members: &[(u64, bool, u32)]) -> Value {
        let member = |&(id, reachable, rulebook): &(u64, bool, u32)| {
            json!({
                "id": id, "address": format!("m{id}:7301"), "client_address": format!("m{id}:4410"),
                "reachable": reachable, "versions": { "binary": "1.0", "journal": 1, "rulebook": rulebook },
            })
        };
        let members: Vec<Value> = members.iter().map(member).collect();
        json!({ "rulebook_known": 2, "cluster": { "members": members } })
    }

    #[test]
    fn all_members_must_be_there_and_know_the_version() {
        check(&json!({ "rulebook_known": 2 }), 2, None);
        check(&json!({ "rulebook_known": 2 }), 3, Some("this server knows it up to version 2"));
        check(&cluster(&[(1, true, 2), (2, true, 3), (3, true, 2)]), 2, None);
        let mixed = cluster(&[(1, true, 2), (2, true, 1), (3, false, 2)]);
        check(
            &mixed,
            2,
            Some("member 2 (m2:7301) knows it up to version 1, member 3 (m3:7301) can't be reached"),
        );
        check(&mixed, 1, Some("member 3 (m3:7301) can't be reached"));
        check(&cluster(&[]), 1, Some("this member is in no cluster yet"));
        assert!(parse(&json!({ "version": "0.1.0" })).is_err(), "one that doesn't say what it knows");
    }
}
