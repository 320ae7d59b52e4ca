//! `[cluster]`: who this member is, where it is reached, and how fast it gives a leader up. What could lose orders or let
//! strangers in is refused here. How members agree is the replicator's.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use replicator::tcp::{Security, TlsOptions};
use replicator::{Member, MemberId};

use super::check::{Refusal, non_empty, within};
use super::raw::{ClusterDurability, Durability, RawCluster, RawTls};

const HEARTBEAT_MS: RangeInclusive<u64> = 5..=5_000;
const ELECTION_MS: RangeInclusive<u64> = 15..=60_000;
/// A leader must be silent for at least so many heartbeats before others stand for election.
const HEARTBEATS_MISSED: u64 = 3;

/// See `[cluster]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterConfig {
    /// This member as the others know it.
    pub member: Member,
    /// Where it takes connections of other members.
    pub listen: SocketAddr,
    /// What a frame must have reached on a majority.
    pub durability: ClusterDurability,
    /// Time between two signs of life of a leader.
    pub heartbeat: Duration,
    /// How long a leader may be silent before an election: a random time between the two.
    pub election: RangeInclusive<Duration>,
    /// How members know each other.
    pub security: Security,
    /// Whether clear text was asked for though others may be reached over a network: it is warned of.
    pub allow_clear_text: bool,
    /// The members that a new cluster is founded with; empty on one that is added later.
    pub founders: Vec<Member>,
}

/// Checks the section. `clients` is where order entry listens.
pub(super) fn check(
    raw: RawCluster,
    folder: &Path,
    clients: SocketAddr,
    journal: Durability,
) -> Result<ClusterConfig, Refusal> {
    if journal == Durability::Memory {
        let problem = "cluster.durability takes its place on a member of a cluster; leave the key out";
        return Err(("journal.durability", problem.to_owned()));
    }
    if raw.member == 0 {
        let problem = "0 is no member; give each one a number of its own, from 1";
        return Err(("cluster.member", problem.to_owned()));
    }
    let address = advertised("cluster.address", raw.address, "cluster.listen", raw.listen)?;
    let client_address = advertised("cluster.client_address", raw.client_address, "gateway.listen", clients)?;
    let member = Member { id: MemberId(raw.member), address, client_address, zone: raw.zone };
    let (heartbeat, election) = timing(raw.heartbeat_ms, raw.election_ms)?;
    founders(&raw.members, &member)?;
    let security = security(raw.tls, raw.allow_clear_text, folder)?;
    if matches!(security, Security::Clear) && !raw.allow_clear_text {
        all_on_loopback(raw.listen, &member, &raw.members)?;
    }
    Ok(ClusterConfig {
        member,
        listen: raw.listen,
        durability: raw.durability,
        heartbeat,
        election,
        security,
        allow_clear_text: raw.allow_clear_text,
        founders: raw.members,
    })
}

/// The address that others are told: the one given, or the one listened at where others can reach that.
fn advertised(
    key: &'static str,
    given: Option<String>,
    from: &str,
    listen: SocketAddr,
) -> Result<String, Refusal> {
    match given {
        Some(address) => {
            host_and_port(&address).map_err(|problem| (key, problem))?;
            Ok(address)
        }
        None if listen.ip().is_unspecified() || listen.port() == 0 => {
            let problem = format!("must be given, since nobody can be told to connect to {from} = {listen}");
            Err((key, problem))
        }
        None => Ok(listen.to_string()),
    }
}

/// Checks an address that others are to connect to.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn host_and_port(address: &str) -> Result<(), String> {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0);
    let unspecified = address.parse().is_ok_and(|address: SocketAddr| address.ip().is_unspecified());
    match port {
        Some(_) if unspecified => Err(format!("`{address}` is no address that others can connect to")),
        Some(_) => Ok(()),
        None => Err(format!("`{address}` is not of the form host:port")),
    }
}

fn timing(heartbeat: u64, election: [u64; 2]) -> Result<(Duration, RangeInclusive<Duration>), Refusal> {
    within("cluster.heartbeat_ms", heartbeat, &HEARTBEAT_MS)?;
    let [least, most] = election;
    within("cluster.election_ms", least, &ELECTION_MS)?;
    within("cluster.election_ms", most, &ELECTION_MS)?;
    if least >= most {
        let problem =
            format!("[{least}, {most}] is no range; members that wait equally long split their votes");
        return Err(("cluster.election_ms", problem));
    }
    if least < HEARTBEATS_MISSED * heartbeat {
        let problem = format!(
            "[{least}, {most}] begins within {HEARTBEATS_MISSED} heartbeats of {heartbeat} ms, so that a leader that is \
             well would be given up; give at least {}",
            HEARTBEATS_MISSED * heartbeat
        );
        return Err(("cluster.election_ms", problem));
    }
    Ok((Duration::from_millis(heartbeat), Duration::from_millis(least)..=Duration::from_millis(most)))
}

/// The founding members are told apart by number and address, and this one is among them as it says of itself.
fn founders(members: &[Member], own: &Member) -> Result<(), Refusal> {
    const KEY: &str = "cluster.members";
    for (at, member) in members.iter().enumerate() {
        let id = member.id;
        if id.0 == 0 {
            return Err((KEY, "0 is no member; give each one a number of its own, from 1".to_owned()));
        }
        for address in [&member.address, &member.client_address] {
            host_and_port(address).map_err(|problem| (KEY, format!("member {id}: {problem}")))?;
        }
        let before = &members[..at];
        if before.iter().any(|other| other.id == id) {
            return Err((KEY, format!("member {id} is there twice")));
        }
        for address in [&member.address, &member.client_address] {
            let has = |other: &Member| other.address == *address || other.client_address == *address;
            if before.iter().any(has) {
                return Err((KEY, format!("member {id}: another one has the address {address} too")));
            }
        }
        if member.address == member.client_address {
            let address = &member.address;
            return Err((KEY, format!("member {id}: {address} can't be for members and for clients")));
        }
    }
    match members.iter().find(|member| member.id == own.id) {
        Some(there) if there != own => {
            let problem = format!(
                "member {} is {} for members, {} for clients and in zone `{}` there, but {}, {} and `{}` by cluster.address, \
                 cluster.client_address and cluster.zone; make them equal",
                own.id,
                there.address,
                there.client_address,
                there.zone,
                own.address,
                own.client_address,
                own.zone
            );
            Err((KEY, problem))
        }
        None if !members.is_empty() => {
            let problem = format!(
                "member {} is not among them; add it, or leave the key out on a member that is added to a running cluster",
                own.id
            );
            Err((KEY, problem))
        }
        _ => Ok(()),
    }
}

fn security(tls: Option<RawTls>, allow_clear_text: bool, folder: &Path) -> Result<Security, Refusal> {
    let Some(RawTls { ca, certificate, key }) = tls else { return Ok(Security::Clear) };
    if allow_clear_text {
        let problem = "excludes cluster.tls: with certificates nothing goes in the clear; leave it out";
        return Err(("cluster.allow_clear_text", problem.to_owned()));
    }
    Ok(Security::Tls(TlsOptions {
        ca: folder.join(non_empty("cluster.tls.ca", ca)?),
        certificate: folder.join(non_empty("cluster.tls.certificate", certificate)?),
        key: folder.join(non_empty("cluster.tls.key", key)?),
    }))
}

/// Without certificates, whoever reaches the members' port is a member.
fn all_on_loopback(listen: SocketAddr, own: &Member, members: &[Member]) -> Result<(), Refusal> {
    let listen = listen.to_string();
    let addresses = members.iter().chain([own]).map(|member| &member.address).chain([&listen]);
    for address in addresses {
        if !is_loopback(address) {
            let problem = format!(
                "must be given, since {address} is not on loopback and whoever reaches it could take the venue over; set \
                 cluster.tls.ca, .certificate and .key, or cluster.allow_clear_text = true if nobody else is on the network"
            );
            return Err(("cluster.tls", problem));
        }
    }
    Ok(())
}

fn is_loopback(address: &str) -> bool {
    address.parse().map_or_else(
        |_| address.rsplit_once(':').is_some_and(|(host, _)| host == "localhost"),
        |address: SocketAddr| address.ip().is_loopback(),
    )
}
