//! What the rest of the world may ask of a running server: whether it is ready, how it does, and to make a snapshot or a
//! backup. It must not make the engine wait: everything here is read from marks and counters, or done by the background
//! threads.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gateway::GatewayHandle;
use journaler::SharedStorage;
use pipeline::{EngineView, Histogram, SnapshotRequests};
use protocol::Timestamp;
use rand::RngExt;
use ring::Ingress;
use serde_json::Value;
use snapshots::SnapshotStore;

use crate::files::{self, Readers};
use crate::membership::Membership;
use crate::reserve::Reserve;
use crate::stats::{EngineStats, Stats};

/// File of the administrative token in the data directory; its owner only may read it.
const TOKEN_FILE: &str = "admin-token";
const TOKEN_LENGTH: usize = 32;
const TOKEN_LENGTH_MAX: u64 = 256;
const NANOSECONDS: u64 = 1_000_000_000;

/// How far the process is. It only goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The parts are being built.
    Starting = 0,
    /// The member is in no cluster yet.
    Blank = 1,
    /// The log is being replayed.
    Recovering = 2,
    /// Orders are taken; by a member of a cluster, while it leads.
    Serving = 3,
    /// A signal came.
    Stopping = 4,
}

impl Phase {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Blank => "in no cluster yet",
            Self::Recovering => "recovering",
            Self::Serving => "serving",
            Self::Stopping => "stopping",
        }
    }

    fn from_byte(byte: u8) -> Self {
        match byte {
            0 => Self::Starting,
            1 => Self::Blank,
            2 => Self::Recovering,
            3 => Self::Serving,
            _ => Self::Stopping,
        }
    }
}

/// Whether new orders are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// They are.
    Ready,
    /// They are not, for this reason.
    Not(&'static str),
}

/// What there is to look at once the engine runs.
pub struct Running {
    /// The engine.
    pub view: EngineView,
    /// The gateway.
    pub gateway: GatewayHandle,
    /// The engine's snapshot thread.
    pub snapshots: SnapshotRequests,
    /// A publisher that never publishes: it tells how full the input ring is.
    pub ingress: Ingress,
    /// The data directory.
    pub storage: SharedStorage,
    /// Its reserve of space.
    pub reserve: Arc<Reserve>,
    /// Its snapshots.
    pub store: SnapshotStore,
    /// `disk` or `memory`.
    pub durability: &'static str,
}

/// The server as the outside sees it.
pub struct Oversight {
    // Raised by the main thread only; orders nothing else.
    phase: AtomicU8,
    token: String,
    started: Instant,
    running: Mutex<Option<Running>>,
    /// From a proposal of this leader's until it was committed and fed; stays empty on a server alone.
    pub commit_ns: Histogram,
    // There before the engine runs, and while it stops.
    membership: Mutex<Option<Membership>>,
}

impl Oversight {
    /// A server that starts, with a new token.
    #[must_use]
    pub fn new() -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut random = rand::rng();
        let digit = |_| char::from(DIGITS[random.random_range(0..DIGITS.len())]);
        Self {
            phase: AtomicU8::new(Phase::Starting as u8),
            token: (0..TOKEN_LENGTH).map(digit).collect(),
            started: Instant::now(),
            running: Mutex::new(None),
            commit_ns: Histogram::default(),
            membership: Mutex::new(None),
        }
    }

    /// Goes on to a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Relaxed);
    }

    /// Shows a running engine.
    pub fn show(&self, running: Running) {
        *self.running() = Some(running);
    }

    /// Shows how this member stands to its cluster.
    pub fn show_membership(&self, membership: Membership) {
        *self.membership.lock().unwrap_or_else(PoisonError::into_inner) = Some(membership);
    }

    /// How this member stands to its cluster; `None` on a server alone, and before it is known.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        self.membership.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the clients' connections look at the leadership again.
    pub fn leadership_changed(&self) {
        if let Some(running) = self.running().as_ref() {
            running.gateway.leadership_changed();
        }
    }

    /// Lets go of the engine, which can then drain, and gives the gateway back to be stopped first.
    #[must_use]
    pub fn let_go(&self) -> Option<GatewayHandle> {
        self.running().take().map(|running| running.gateway)
    }

    /// The phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        Phase::from_byte(self.phase.load(Ordering::Relaxed))
    }

    /// Whether new orders are taken.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        let running = self.running();
        let low = running.as_ref().is_some_and(Running::is_space_low);
        let spent = running.as_ref().is_some_and(|running| running.reserve.is_spent());
        drop(running);
        match self.phase() {
            Phase::Serving if spent => Readiness::Not("disk full: nothing is taken"),
            Phase::Serving if low => Readiness::Not("disk space low: only cancels are taken"),
            Phase::Serving => self.leadership(),
            phase => Readiness::Not(phase.name()),
        }
    }

    /// Whether a member leads, as a quorum says. A server alone always does.
    fn leadership(&self) -> Readiness {
        match self.membership() {
            Some(Membership::Member(cluster)) if cluster.lead().term().is_none() => {
                Readiness::Not("this member does not lead")
            }
            Some(Membership::Member(cluster)) if !cluster.lead().is_confirmed() => {
                Readiness::Not("no quorum confirms this leader")
            }
            Some(Membership::Blank(_)) => Readiness::Not(Phase::Blank.name()),
            _ => Readiness::Ready,
        }
    }

    /// Whether the server serves, or as a member keeps up with its cluster.
    #[must_use]
    pub fn health(&self) -> Readiness {
        match self.phase() {
            Phase::Serving if self.membership().is_some_and(|membership| membership.status().removed) => {
                Readiness::Not("removed from its cluster")
            }
            Phase::Serving => Readiness::Ready,
            phase => Readiness::Not(phase.name()),
        }
    }

    /// Whether the text is the token. Takes the same time whatever it is.
    #[must_use]
    pub fn is_token(&self, text: &str) -> bool {
        let (one, other) = (self.token.as_bytes(), text.as_bytes());
        let different = one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b));
        one.len() == other.len() && different == 0
    }

    /// Writes the token where commands find it.
    ///
    /// # Errors
    /// The system's.
    pub fn write_token(&self, data: &Path) -> io::Result<()> {
        files::write_atomically(&token_file(data), self.token.as_bytes(), Readers::Owner)
    }

    /// Everything that is to be seen now.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let (ready, reason) = match self.readiness() {
            Readiness::Ready => (true, None),
            Readiness::Not(reason) => (false, Some(reason)),
        };
        Stats {
            phase: self.phase().name(),
            ready,
            reason,
            version: env!("CARGO_PKG_VERSION"),
            rulebook_known: exchange::RULEBOOK_VERSION,
            process: std::process::id(),
            uptime_seconds: self.started.elapsed().as_secs(),
            commit_ns: self.commit_ns.snapshot(),
            cluster: self.membership().map(|membership| membership.status()),
            engine: self.running().as_mut().map(Running::stats),
        }
    }

    /// Makes a snapshot now, and says which.
    ///
    /// # Errors
    /// Why none was made.
    pub fn make_snapshot(&self) -> Result<Value, String> {
        // Asked for outside the lock: it takes as long as a replay.
        let requests = self.running().as_ref().map(|running| running.snapshots.clone());
        let requests = requests.ok_or("the engine does not run yet, or not any more")?;
        match requests.make() {
            Ok(Some(made)) => Ok(crate::replay::made_json(&made)),
            Ok(None) => {
                Err("the log has no checkpoint behind the last snapshot yet; one comes every second"
                    .to_owned())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Oversight {
    fn default() -> Self {
        Self::new()
    }
}

impl Running {
    /// Whether only cancels are taken, since the disk is nearly full.
    fn is_space_low(&self) -> bool {
        self.view.journal().is_space_low() || !self.reserve.is_held()
    }

    fn stats(&mut self) -> EngineStats {
        let (marks, gauges, journal) = (self.view.marks(), self.view.gauges(), self.view.journal());
        let newest = self.store.list().ok().and_then(|all| all.last().copied());
        let made_at: Option<Timestamp> =
            newest.and_then(|sequence| self.store.header(sequence).ok()).map(|header| header.log_time);
        let slots = self.ingress.capacity() as u64;
        let gateway = self.gateway.stats();
        EngineStats {
            durability: self.durability,
            journaled_sequence: marks.journaled_sequence().0,
            durable_sequence: journal.durable_sequence().0,
            committed_sequence: marks.committed_sequence().0,
            applied_sequence: marks.applied_sequence().0,
            published_sequence: marks.published_sequence().0,
            reported_sequence: marks.reported_sequence().0,
            reports_durable_sequence: self.view.reports_durable_sequence().0,
            snapshot_sequence: newest.map_or(0, |sequence| sequence.0),
            snapshot_age_seconds: made_at.map(|at| gauges.log_time.0.saturating_sub(at.0) / NANOSECONDS),
            input_ring_slots: slots,
            input_ring_used: slots.saturating_sub(self.ingress.free_slots() as u64),
            open_orders: gauges.open_orders,
            levels: gauges.levels,
            sessions: gauges.sessions,
            instruments: gauges.instruments,
            trading_day: gauges.trading_day.0,
            rulebook: gauges.rulebook_version,
            connections: gateway.connections,
            logged_in: gateway.sessions,
            connections_turned_away: gateway.turned_away,
            logins_failed: gateway.logins_failed,
            messages_refused: gateway.refused,
            slow_readers: gateway.slow_readers,
            disk_free_bytes: self.storage.free_space().ok(),
            disk_space_low: self.is_space_low(),
            skips: crate::text::skips_json(self.view.skips().iter()),
            events: self.view.events().events().collect(),
            rejects: self.view.events().rejects().map(|(reason, count)| (reason.name(), count)).collect(),
            batch_frames: journal.batch_frames.snapshot(),
            append_ns: journal.append_ns.snapshot(),
            latency_ns: self.view.events().latency_ns.snapshot(),
        }
    }
}

/// Where the token of a data directory is.
#[must_use]
pub fn token_file(data: &Path) -> PathBuf {
    data.join(TOKEN_FILE)
}

/// Reads the token of a data directory.
///
/// # Errors
/// The system's; `NotFound` where there is none.
pub fn read_token(data: &Path) -> io::Result<String> {
    files::read_small(&token_file(data), TOKEN_LENGTH_MAX)?.ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_only_go_on() {
        let oversight = Oversight::new();
        assert_eq!(oversight.readiness(), Readiness::Not("starting"));
        oversight.enter(Phase::Serving);
        assert_eq!(oversight.readiness(), Readiness::Ready);
        oversight.enter(Phase::Stopping);
        oversight.enter(Phase::Serving);
        assert_eq!(oversight.readiness(), Readiness::Not("stopping"));
    }

    #[test]
    fn the_token_is_its_own() {
        let data = tempfile::tempdir().expect("a folder");
        let oversight = Oversight::new();
        oversight.write_token(data.path()).expect("written");
        let token = read_token(data.path()).expect("read");
        assert_eq!(token.len(), TOKEN_LENGTH);
        assert!(oversight.is_token(&token));
        assert!(!Oversight::new().is_token(&token));
        assert!(!oversight.is_token("") && !oversight.is_token(&format!("{token}0")));
    }
}
