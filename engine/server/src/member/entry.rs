//! How a process becomes a member: whose the data directory is, and the wait for a cluster where it is in none.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use journaler::storage::Lock;
use journaler::{JournalOptions, SharedStorage};
use replicator::tcp::{Handler, Security, ServeLimits, TcpTransport, serve};
use replicator::{Blank, MEMBER_FILE, PrepareError, Prepared, Start, Transport, prepare};

use super::versions;
use crate::config::{ClusterConfig, Config};
use crate::error::CommandError;
use crate::membership::{Founder, Membership};
use crate::oversight::{Oversight, Phase};
use crate::{assembly, identity};

/// How long the answers to those who founded the cluster may take to leave.
const LAST_ANSWERS: Duration = Duration::from_millis(300);

/// How long a process that was killed may take to let go of the data directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);

/// A member that is in a cluster, before its engine runs.
pub struct Entered {
    /// What its data directory says.
    pub prepared: Prepared,
    /// The port to the other members.
    pub listener: TcpListener,
    /// How they are reached.
    pub transport: TcpTransport,
}

/// Opens the port to the other members and looks whose the data directory is. Where it is in no cluster yet, waits until it
/// is founded with one or called into one; `ready` tells meanwhile where the process is to be found.
///
/// # Errors
/// One line that says what is in the way.
pub fn enter(
    config: &Config,
    cluster: &ClusterConfig,
    (data, storage): (&Path, &SharedStorage),
    oversight: &Oversight,
    ready: impl FnOnce() -> Result<(), CommandError>,
) -> Result<Entered, CommandError> {
    let transport =
        TcpTransport::new(&cluster.security).map_err(|error| CommandError::usage(error.to_string()))?;
    let listener = TcpListener::bind(cluster.listen).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = listener.map_err(|error| {
        let advice = "give an address of this machine at which nothing else listens";
        CommandError::failed(format!("cluster.listen: {}: {error}; {advice}", cluster.listen))
    })?;
    if cluster.allow_clear_text && matches!(cluster.security, Security::Clear) {
        tracing::warn!(
            "members talk in the clear (cluster.allow_clear_text): whoever reaches their ports can take the venue over"
        );
    }
    let (place, journal) = (place(data)?, assembly::engine(config, 0).journal);
    let look = || look(cluster, (data, storage), &journal, place);
    let prepared = match look()? {
        Start::Member(prepared) => *prepared,
        Start::Blank => {
            refuse_journal(data, storage)?;
            ready()?;
            wait_for_cluster(config, cluster, (data, storage), (&listener, &transport), oversight)?;
            match look()? {
                Start::Member(prepared) => *prepared,
                Start::Blank => {
                    return Err(CommandError::failed(format!(
                        "{}: the member's file is gone",
                        data.display()
                    )));
                }
            }
        }
    };
    Ok(Entered { prepared, listener, transport })
}

/// Whose the directory is. One that is in use is tried again for a moment: after a kill its process may still be on its way
/// out.
fn look(
    cluster: &ClusterConfig,
    (data, storage): (&Path, &SharedStorage),
    journal: &JournalOptions,
    place: u64,
) -> Result<Start, CommandError> {
    let started = Instant::now();
    loop {
        match prepare(storage, cluster.member.id, journal, place, false) {
            Err(PrepareError::Locked { .. }) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_LOOK_EVERY);
            }
            looked => return looked.map_err(|error| explain(data, &error)),
        }
    }
}

fn explain(data: &Path, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failed(format!("{}: {error}", data.display()))
}

/// A journal without a member's file is none that a cluster could go on with.
fn refuse_journal(data: &Path, storage: &SharedStorage) -> Result<(), CommandError> {
    if identity::existing(data, storage).is_err() {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "{}: holds the journal of a server alone, or of a member whose file `{MEMBER_FILE}` is lost, and a member begins \
         empty: give an empty directory, which the cluster fills; to begin a cluster with what is here, see `ringpit cluster \
         rebuild --help`",
        data.display()
    )))
}

/// A member's directory must not be served by a server alone: what it takes in would contradict the cluster.
///
/// # Errors
/// It is one.
pub fn refuse_members_directory(data: &Path) -> Result<(), CommandError> {
    if !data.join(MEMBER_FILE).exists() {
        return Ok(());
    }
    Err(CommandError::failed(format!(
        "{}: belongs to a member of a cluster, and the configuration has no [cluster] section: give the member's configuration",
        data.display()
    )))
}

/// Makes a copied or moved data directory the member's own.
///
/// # Errors
/// It is none, or another member's.
pub fn adopt(
    cluster: &ClusterConfig,
    data: &Path,
    storage: &SharedStorage,
    journal: &JournalOptions,
) -> Result<bool, CommandError> {
    let prepared = prepare(storage, cluster.member.id, journal, place(data)?, true);
    match prepared.map_err(|error| explain(data, &error))? {
        Start::Member(_) => Ok(true),
        Start::Blank => Ok(false),
    }
}

/// What tells a data directory from a copy of it: its number on its file system, and when that number was given.
fn place(data: &Path) -> Result<u64, CommandError> {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let metadata = std::fs::metadata(data).map_err(|error| explain(data, &error))?;
    // Not all file systems know it; there the number has to do.
    let made = metadata.created().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    let made =
        made.map_or(0, |since| since.as_secs().wrapping_mul(1_000_000_000) + u64::from(since.subsec_nanos()));
    Ok((metadata.ino().wrapping_mul(SPREAD) ^ made).max(1))
}

/// Answers other members until one of them founds a cluster with this one, or calls it into one.
fn wait_for_cluster(
    config: &Config,
    cluster: &ClusterConfig,
    (data, storage): (&Path, &SharedStorage),
    (listener, transport): (&TcpListener, &TcpTransport),
    oversight: &Oversight,
) -> Result<(), CommandError> {
    // Held until the cluster is entered: another process must not enter with the same directory.
    let _lock = match storage.lock("lock").map_err(|error| explain(data, &error))? {
        Lock::Held(guard) => guard,
        Lock::Taken { .. } => return Err(explain(data, &"is in use by another process")),
    };
    let founder = Arc::new(Founder {
        blank: Blank::new(Arc::clone(storage), cluster.member.clone(), versions()),
        transport: Arc::new(transport.clone()) as Arc<dyn Transport>,
        member: cluster.member.clone(),
        members: cluster.founders.clone(),
        durability: config.durability_name(),
    });
    oversight.show_membership(Membership::Blank(Arc::clone(&founder)));
    oversight.enter(Phase::Blank);
    tracing::info!(member = cluster.member.id.0, "in no cluster yet: waiting to be founded or added");
    crate::say!(
        "member {} waits for a cluster: found one with `ringpit cluster init`, or add this one with `ringpit cluster add` on a \
         member",
        cluster.member.id
    );
    let failed = |error: std::io::Error| CommandError::failed(format!("cluster.listen: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let listener = listener.try_clone().map_err(failed)?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
        let answering = Arc::clone(&founder);
        let handler: Handler = Arc::new(move |envelope| {
            let founder = Arc::clone(&answering);
            Box::pin(async move { founder.blank.handle(envelope).await })
        });
        let entered = async {
            founder.blank.entered().await;
            tokio::time::sleep(LAST_ANSWERS).await;
        };
        serve(listener, transport.clone(), ServeLimits::default(), handler, entered).await;
        Ok(())
    })
}
