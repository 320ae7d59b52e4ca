//! When this member stands for election: after a random silence of the leader, or as soon as no voter is bound to a leader
//! whose process is known to have ended. It must not unseat anybody: the library asks the others first, and none of them
//! agrees while it has heard from a leader within [`Timing::word`](super::Timing::word).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::RngExt;
use tokio::time::Instant;

use super::Timing;
use super::node::Node;
use super::types::Vote;

/// How soon a member whose leader's process has ended asks again, while another voter may still be bound.
const ASK_AGAIN: Duration = Duration::from_millis(5);

/// What connections and messages tell of the leader of a term.
#[derive(Debug, Default)]
pub(crate) struct LeaderWatch(Mutex<Signs>);

#[derive(Clone, Copy, Debug, Default)]
struct Signs {
    /// A term, and when its leader's last message came.
    heard: Option<(u64, Instant)>,
    /// A term, and when nothing listened any more where its leader was, or another run of that member did.
    ended: Option<(u64, Instant)>,
}

impl LeaderWatch {
    fn signs(&self) -> std::sync::MutexGuard<'_, Signs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message of the leader of `term` came at `at`.
    pub(crate) fn heard(&self, term: u64, at: Instant) {
        let mut signs = self.signs();
        if signs.heard.is_none_or(|last| last < (term, at)) {
            signs.heard = Some((term, at));
        }
    }

    /// The process of the leader of `term` was found to have ended.
    pub(crate) fn ended(&self, term: u64, at: Instant) {
        self.signs().ended = Some((term, at));
    }

    /// Whether the leader of `term` seems to be no more: its process ended, and nothing came from it since. It is a hint, since
    /// a network can look so too.
    pub(crate) fn is_gone(&self, term: u64) -> bool {
        let Signs { heard, ended } = *self.signs();
        let Some((_, ended)) = ended.filter(|(of, _)| *of == term) else { return false };
        heard.is_none_or(|(of, heard)| of != term || heard < ended)
    }

    /// Whether it should not be named to anybody as the leader of `term`: it seems to be gone, or has been silent for `long`.
    pub(crate) fn is_missed(&self, term: u64, now: Instant, long: Duration) -> bool {
        let heard = self.signs().heard.filter(|(of, _)| *of == term);
        self.is_gone(term) || heard.is_some_and(|(_, at)| now.saturating_duration_since(at) > long)
    }

    fn last_heard(&self) -> Option<Instant> {
        self.signs().heard.map(|(_, at)| at)
    }
}

/// What decides when to stand next.
#[derive(Debug)]
struct Standing {
    /// The last sign that somebody leads or is about to: a message, a vote, a try of one's own.
    quiet_since: Instant,
    /// How long it may be quiet before the next try.
    patience: Duration,
    vote: Vote,
    tried: Option<Instant>,
}

/// What is seen at one look.
struct Look {
    now: Instant,
    vote: Vote,
    /// When the leader was last heard.
    heard: Option<Instant>,
    /// This member's place among the voters that could follow the leader of its vote, where that seems to be gone.
    gone: Option<u32>,
}

impl Standing {
    fn new(now: Instant, vote: Vote, patience: Duration) -> Self {
        Self { quiet_since: now, patience, vote, tried: None }
    }

    /// Something happened at `at` for which the next leader is waited for.
    fn restart(&mut self, at: Instant, patience: Duration) {
        self.quiet_since = at;
        self.patience = patience;
    }

    /// When to stand, as things are now.
    fn due(&mut self, look: &Look, timing: &Timing, patience: impl FnOnce() -> Duration) -> Instant {
        if look.vote != self.vote {
            self.vote = look.vote;
            self.tried = None;
            self.restart(look.now, patience());
        }
        if let Some(heard) = look.heard.filter(|heard| *heard > self.quiet_since) {
            self.quiet_since = heard;
        }
        let due = self.quiet_since + self.patience;
        match (look.gone, look.heard) {
            (Some(place), Some(heard)) if look.now < heard + timing.word() + timing.election_min => {
                // One after the other, so that their questions don't meet.
                let turn = heard + timing.word() + timing.heartbeat / 2 * place;
                let again = self.tried.map_or(turn, |tried| turn.max(tried + ASK_AGAIN));
                due.min(again)
            }
            // Where that did not help, no quorum is left.
            _ => due,
        }
    }
}

impl Node {
    /// Another member's process was found to have ended; if it led, the next leader is needed.
    pub(crate) fn process_ended(&self, member: u64) {
        let metrics = self.metrics();
        if metrics.current_leader == Some(member) && member != self.own_id() {
            self.leader_watch.ended(metrics.current_term, Instant::now());
            self.tell_leadership();
            self.missed.notify_one();
        }
    }

    /// Whether this member may lead at all, by what it remembers.
    fn may_stand(&self, voters: &BTreeSet<u64>) -> bool {
        voters.contains(&self.own_id())
            && !self.raft.is_leader()
            && !self.is_restarting()
            && self.memory.may_vote_for(self.store.last())
    }
}

/// Stands for election when it is time to.
pub(crate) async fn stand(node: Arc<Node>, mut rng: impl RngExt) {
    let timing = node.timing;
    let mut patience = || rng.random_range(timing.election_min..timing.election_max);
    let mut standing = Standing::new(Instant::now(), node.current_vote(), patience());
    loop {
        let now = Instant::now();
        let voters: BTreeSet<u64> = node.membership().voter_ids().collect();
        if !node.may_stand(&voters) {
            standing.restart(now, standing.patience);
            tokio::time::sleep(timing.heartbeat).await;
            continue;
        }
        let vote = node.current_vote();
        let leader = vote.leader_id.voted_for;
        let is_gone = vote.committed && node.leader_watch.is_gone(vote.leader_id.term);
        let gone = is_gone.then(|| place_behind(&voters, leader, node.own_id()));
        let look = Look { now, vote, heard: node.leader_watch.last_heard(), gone };
        let is_alone = voters.len() == 1;
        let due = match is_alone {
            true => standing.tried.map_or(now, |tried| tried + standing.patience),
            false => standing.due(&look, &timing, &mut patience),
        };
        if now < due {
            // Votes change without being told here.
            let until = due.min(now + timing.heartbeat);
            tokio::select! {
                () = tokio::time::sleep_until(until) => {}
                () = node.missed.notified() => {}
            }
            continue;
        }
        if is_gone || is_alone {
            standing.tried = Some(now);
        }
        if now >= standing.quiet_since + standing.patience {
            standing.restart(now, patience());
        }
        if node.raft.trigger().elect(!is_alone).await.is_err() {
            // The library has ended, and the process with it.
            return;
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Place of a voter among those that are left without the leader: 0 is the first.
fn place_behind(voters: &BTreeSet<u64>, leader: u64, own: u64) -> u32 {
    voters.iter().filter(|voter| **voter != leader && **voter < own).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_leader_is_gone_until_it_is_heard_again_and_in_its_term_only() {
        let start = Instant::now();
        let watch = LeaderWatch::default();
        assert!(!watch.is_gone(7) && !watch.is_missed(7, start, ms(100)));
        watch.heard(7, start);
        watch.ended(7, start + ms(1));
        assert!(watch.is_gone(7) && watch.is_missed(7, start, ms(100)));
        assert!(!watch.is_gone(8));
        watch.heard(7, start + ms(2));
        assert!(!watch.is_gone(7), "the network looked so for a moment");
        assert!(!watch.is_missed(7, start + ms(102), ms(100)));
        assert!(watch.is_missed(7, start + ms(103), ms(100)));
    }

    #[test]
    fn a_member_stands_after_a_silence_or_when_the_word_to_a_leader_that_is_gone_is_over() {
        let (start, timing) = (Instant::now(), Timing::default());
        let (word, turn) = (timing.word(), timing.heartbeat / 2);
        let at = |milliseconds| start + ms(milliseconds);
        let led = Vote::new_committed(7, 1);
        let mut standing = Standing::new(start, led, ms(200));
        let mut due = |now, vote, heard, gone| {
            let look = Look { now: at(now), vote, heard: Some(at(heard)), gone };
            standing.due(&look, &timing, || ms(170))
        };
        assert_eq!(due(10, led, 0, None), at(200));
        assert_eq!(due(60, led, 50, None), at(250), "each message counts");
        assert_eq!(due(60, led, 50, Some(0)), at(50) + word, "no voter is bound any more");
        assert_eq!(due(60, led, 50, Some(1)), at(50) + word + turn, "one after the other");
        let late = 50 + word.as_millis() as u64 + timing.election_min.as_millis() as u64;
        assert_eq!(due(late, led, 50, Some(0)), at(250), "asking often helped nothing");
        assert_eq!(due(300, Vote::new(8, 2), 50, None), at(470), "another one stands: it is waited for");
    }

    #[test]
    fn a_member_that_asked_in_vain_asks_again_soon() {
        let (start, timing) = (Instant::now(), Timing::default());
        let led = Vote::new_committed(7, 1);
        let mut standing = Standing::new(start, led, ms(200));
        let now = start + timing.word();
        standing.tried = Some(now);
        let look = Look { now, vote: led, heard: Some(start), gone: Some(0) };
        assert_eq!(standing.due(&look, &timing, || ms(170)), now + ASK_AGAIN);
    }

    #[test]
    fn turns_go_by_number_among_those_without_the_leader() {
        let voters = BTreeSet::from([1, 2, 3, 5]);
        assert_eq!([1, 3, 5].map(|own| place_behind(&voters, 2, own)), [0, 1, 2]);
    }
}
