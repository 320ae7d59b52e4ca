//! Whether this member's own disk keeps up with what the cluster commits, and has room; and the leader that makes way where
//! it doesn't. It must not unseat one where nobody is better placed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use protocol::Sequence;
use tokio::time::Instant;

use super::node::{Node, lock};
use super::writer::JournalMonitor;

/// How long the oldest entry that is committed may wait for the leader's own disk: its clients wait as long.
pub(crate) const DISK_LAG_MAX: Duration = Duration::from_millis(500);
/// How long a leader that tried to hand leadership over for its disk does not try again.
const PAUSE: Duration = Duration::from_secs(10);

/// What is known of the disk.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    /// An entry that was committed and not on the own disk at that moment.
    waits: Option<(u64, Instant)>,
    lag: Duration,
    tried: Option<Instant>,
    /// Whether the disk's reserve is being used. Relaxed where it is set: a moment late is no harm.
    low: Arc<AtomicBool>,
}

impl DiskWatch {
    pub(crate) fn new(low: Arc<AtomicBool>) -> Self {
        Self { low, ..Self::default() }
    }

    /// Looks at the marks: the last index that is committed, and the first that is not on the own disk.
    pub(crate) fn look(&mut self, committed: Option<u64>, unwritten: u64, now: Instant) {
        match self.waits.filter(|(index, _)| *index >= unwritten) {
            Some((_, since)) => self.lag = now.saturating_duration_since(since),
            None => {
                self.waits = committed.filter(|index| *index >= unwritten).map(|index| (index, now));
                self.lag = Duration::ZERO;
            }
        }
    }

    /// How long the oldest entry that was seen committed has been waiting for the own disk.
    pub(crate) fn lag(&self) -> Duration {
        self.lag
    }

    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }

    /// Why a leader should make way for a member with a better disk; `None` where it need not.
    pub(crate) fn complaint(&self, now: Instant) -> Option<&'static str> {
        if self.tried.is_some_and(|tried| now.saturating_duration_since(tried) < PAUSE) {
            return None;
        }
        match (self.is_low(), self.lag > DISK_LAG_MAX) {
            (true, _) => Some("the disk is nearly full"),
            (_, true) => Some("the disk is slower than the other members'"),
            _ => None,
        }
    }

    /// Leadership is being handed over for it.
    pub(crate) fn tried(&mut self, now: Instant) {
        self.tried = Some(now);
    }
}

/// A monitor that others watch too.
pub(crate) struct Watched {
    pub(crate) monitor: Box<dyn JournalMonitor>,
    pub(crate) low: Arc<AtomicBool>,
}

impl JournalMonitor for Watched {
    fn appended(&mut self, frames: u64, took: Duration) {
        self.monitor.appended(frames, took);
    }

    fn space_low(&mut self, low: bool) {
        self.low.store(low, Ordering::Relaxed);
        self.monitor.space_low(low);
    }

    fn durable(&mut self, sequence: Sequence) {
        self.monitor.durable(sequence);
    }
}

impl Node {
    /// How long committed entries wait for the own disk, and whether that is nearly full.
    pub(crate) fn disk_state(&self) -> (Duration, bool) {
        let disk = lock(&self.disk);
        (disk.lag(), disk.is_low())
    }

    /// Looks after the own disk: a leader whose disk keeps its clients waiting, or has no room for their orders, makes way for
    /// a member that has all and does better, where there is one.
    pub(crate) fn watch_disk(self: &Arc<Self>) {
        let now = Instant::now();
        let committed = self.raft.metrics().borrow_watched().local_committed.as_ref().map(|id| id.index);
        let mut disk = lock(&self.disk);
        disk.look(committed, self.store.unwritten(), now);
        if self.reign().is_none() {
            return;
        }
        let Some(why) = disk.complaint(now) else { return };
        let Some(to) = self.better_placed(committed) else { return };
        disk.tried(now);
        tracing::warn!(why, lag_ms = disk.lag().as_millis() as u64, to, "leadership is handed over");
        drop(disk);
        let node = Arc::clone(self);
        lock(&self.tasks).spawn(async move {
            match node.hand_leadership(to).await {
                Ok(done) => tracing::info!("{done}"),
                Err(why) => tracing::warn!(why, "leadership was not handed over"),
            }
        });
    }

    /// The voter whose disk is furthest, if it has all that is committed and room for more.
    fn better_placed(&self, committed: Option<u64>) -> Option<u64> {
        let replication = self.metrics().replication?;
        let own = self.own_id();
        let voters: Vec<u64> = self.membership().voter_ids().collect();
        let durable = replication.iter().filter_map(|(id, matched)| Some((matched.as_ref()?.index, *id)));
        durable
            .filter(|(matched, id)| *id != own && voters.contains(id) && Some(*matched) >= committed)
            .filter(|(_, id)| self.is_sound(*id) && !self.is_low(*id))
            .max()
            .map(|(_, id)| id)
    }

    /// Whether another member said that its disk is nearly full.
    fn is_low(&self, id: u64) -> bool {
        lock(&self.peers).get(&id).and_then(|view| view.answer.as_ref()).is_some_and(|answer| answer.disk_low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_waits_too_long_is_complained_of_and_a_busy_disk_is_not() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut disk = DiskWatch::default();
        // It is always behind, and no entry waits for longer than 300 ms.
        for round in 0..20 {
            disk.look(Some(round * 10 + 9), round * 10, at(round * 300));
            disk.look(Some(round * 10 + 19), round * 10, at(round * 300 + 299));
            assert_eq!(disk.lag(), Duration::from_millis(299));
            assert_eq!(disk.complaint(at(round * 300 + 299)), None);
        }
        disk.look(Some(500), 500, at(7_000));
        disk.look(Some(900), 500, at(7_500));
        assert_eq!(disk.complaint(at(7_500)), None, "just as long as it may");
        disk.look(Some(900), 500, at(7_501));
        assert!(disk.complaint(at(7_501)).is_some_and(|why| why.contains("slower")));
        disk.tried(at(7_501));
        assert_eq!(disk.complaint(at(17_500)), None, "not again at once");
        assert!(disk.complaint(at(17_501)).is_some());
        disk.look(Some(900), 901, at(17_502));
        assert_eq!((disk.lag(), disk.complaint(at(17_502))), (Duration::ZERO, None));
    }

    #[test]
    fn a_full_disk_is_complained_of() {
        let low = Arc::new(AtomicBool::new(false));
        let disk = DiskWatch::new(Arc::clone(&low));
        assert_eq!(disk.complaint(Instant::now()), None);
        low.store(true, Ordering::Relaxed);
        assert!(disk.complaint(Instant::now()).is_some_and(|why| why.contains("full")));
    }
}
