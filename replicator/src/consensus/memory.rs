//! What a member does that may have lost something it once acknowledged or voted: it neither votes nor stands for election
//! until nothing that counted on it can be lost any more. A state machine without I/O.
//!
//! It is mended in one of two ways:
//!
//! * by a leader: one whose leadership a quorum confirmed *after* this member came back, and that has been told to count
//!   nothing this member once acknowledged, names the end of its log; once this member's log is there and that is
//!   committed, it has everything that its acknowledgements could have helped to commit;
//! * without a leader: all other voters have told the ends of their logs since; whatever this member lost is in the
//!   longest of them or nowhere, so it votes only for candidates that are as far, and stands for election only once its own
//!   log is. That floor is in its file, since a start must not forget it.
//!
//! If it also forgot its votes (its own file is gone), the first way needs all other voters' word besides that none of them
//! knows a later term than that leader's: else it might vote twice in one term.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::types::LogId;

/// What another voter told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) term: u64,
    pub(crate) last: Option<LogId>,
    /// It leads, and a quorum confirmed it.
    pub(crate) leads: bool,
}

#[derive(Clone, Debug, Default)]
struct State {
    forgetful: bool,
    vote_forgotten: bool,
    told: BTreeMap<u64, Told>,
    /// Of a leader that has been reset: its term and the end of its log then.
    target: Option<(u64, u64)>,
    /// What a candidate's log must reach.
    floor: Option<LogId>,
}

/// A member's memory of what it did.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<State>);

/// What ended the forgetfulness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mended {
    /// It caught up with a leader.
    ByLeader,
    /// All other voters told what they have; no vote in a term up to `term` may be given, nor one for a log below `floor`.
    ByVoters { term: u64, floor: Option<LogId> },
}

impl Memory {
    pub(crate) fn new(forgetful: bool, vote_forgotten: bool, floor: Option<LogId>) -> Self {
        Self(Mutex::new(State { forgetful, vote_forgotten, floor, ..State::default() }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_forgetful(&self) -> bool {
        self.state().forgetful
    }

    pub(crate) fn forgot_votes(&self) -> bool {
        self.state().vote_forgotten
    }

    /// Whether a candidate with this log may have this member's vote.
    pub(crate) fn may_vote_for(&self, last: Option<LogId>) -> bool {
        let state = self.state();
        !state.forgetful && last >= state.floor
    }

    /// Whether the log here, which ended below the floor, has now reached it. True once.
    pub(crate) fn reached(&self, last: Option<LogId>) -> bool {
        let mut state = self.state();
        let reached = !state.forgetful && state.floor.is_some() && last >= state.floor;
        if reached {
            state.floor = None;
        }
        reached
    }

    /// Another voter told where it is.
    pub(crate) fn told(&self, voter: u64, told: Told) {
        self.state().told.insert(voter, told);
    }

    /// A confirmed leader counts nothing any more that this member once acknowledged.
    pub(crate) fn reset_by(&self, term: u64, last_index: u64) {
        let mut state = self.state();
        if state.target.is_none_or(|(known, _)| known != term) {
            state.target = Some((term, last_index));
        }
    }

    /// Whether a leader's entries may be taken: only once it counts nothing any more that this member once acknowledged.
    pub(crate) fn may_follow(&self, term: u64) -> bool {
        let state = self.state();
        !state.forgetful || state.target.is_some_and(|(reset, _)| reset == term)
    }

    /// Whether it is over now. `others`: the other voters; `written`: the end of the log here, durable; `committed`: as
    /// far as is known; `leader_term`: of
    /// the vote here, where it is a leader's.
    pub(crate) fn mend(
        &self,
        others: &[u64],
        written: Option<LogId>,
        committed: Option<u64>,
        leader_term: Option<u64>,
    ) -> Option<Mended> {
        let mut state = self.state();
        if !state.forgetful {
            return None;
        }
        let all_told = others.iter().all(|other| state.told.contains_key(other));
        let term_max = others.iter().filter_map(|other| state.told.get(other)).map(|told| told.term).max();
        if let Some((term, target)) = state.target
            && leader_term == Some(term)
            && written.is_some_and(|written| written.index >= target)
            && committed.is_some_and(|committed| committed >= target)
            && (!state.vote_forgotten || (all_told && term_max <= Some(term)))
        {
            *state = State::default();
            return Some(Mended::ByLeader);
        }
        let led = others.iter().filter_map(|other| state.told.get(other)).any(|told| told.leads);
        if all_told && !led {
            let floor =
                others.iter().filter_map(|other| state.told.get(other)).map(|told| told.last).max().flatten();
            *state = State { floor, ..State::default() };
            return Some(Mended::ByVoters { term: term_max.unwrap_or(0), floor });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::types::log_id;
    use super::*;

    #[test]
    fn without_loss_everybody_may_have_the_vote() {
        let memory = Memory::new(false, false, None);
        assert!(memory.may_vote_for(None) && !memory.is_forgetful());
        assert_eq!(memory.mend(&[2, 3], None, None, None), None);
    }

    #[test]
    fn a_leader_mends_once_its_end_is_here_and_committed() {
        let memory = Memory::new(true, false, None);
        let at = |index| Some(log_id(4, index));
        assert!(!memory.may_vote_for(at(100)));
        memory.reset_by(4, 50);
        // A later word of the same leader does not move the goal.
        memory.reset_by(4, 60);
        assert_eq!(memory.mend(&[2, 3], at(49), Some(49), Some(4)), None, "not there yet");
        assert_eq!(memory.mend(&[2, 3], at(50), Some(49), Some(4)), None, "not committed");
        assert_eq!(memory.mend(&[2, 3], at(50), Some(50), Some(5)), None, "another leader now");
        assert_eq!(memory.mend(&[2, 3], at(50), Some(50), Some(4)), Some(Mended::ByLeader));
        assert!(memory.may_vote_for(None));
    }

    #[test]
    fn forgotten_votes_need_every_other_voter() {
        let memory = Memory::new(true, true, None);
        memory.reset_by(4, 5);
        let mend = |memory: &Memory| memory.mend(&[2, 3], Some(log_id(4, 5)), Some(5), Some(4));
        assert_eq!(mend(&memory), None, "nobody told a term");
        memory.told(2, Told { term: 4, last: Some(log_id(4, 5)), leads: true });
        memory.told(3, Told { term: 5, last: Some(log_id(4, 4)), leads: false });
        assert_eq!(mend(&memory), None, "3 knows a later term, in which this member may have voted");
        memory.told(3, Told { term: 4, last: Some(log_id(4, 5)), leads: true });
        assert_eq!(mend(&memory), Some(Mended::ByLeader));
    }

    #[test]
    fn without_a_leader_the_longest_log_that_was_told_is_the_floor() {
        let memory = Memory::new(true, false, None);
        memory.told(2, Told { term: 7, last: Some(log_id(6, 9)), leads: false });
        assert_eq!(memory.mend(&[2, 3], None, None, None), None, "3 told nothing");
        memory.told(3, Told { term: 6, last: Some(log_id(6, 12)), leads: false });
        let floor = Some(log_id(6, 12));
        let by_voters = Mended::ByVoters { term: 7, floor };
        assert_eq!(memory.mend(&[2, 3], None, None, None), Some(by_voters));
        assert!(!memory.may_vote_for(Some(log_id(6, 11))) && memory.may_vote_for(Some(log_id(6, 12))));
        // The same after a start, until its own log is there.
        let memory = Memory::new(false, false, floor);
        assert!(!memory.may_vote_for(Some(log_id(6, 11))) && !memory.reached(Some(log_id(6, 11))));
        assert!(memory.reached(Some(log_id(7, 3))) && memory.may_vote_for(None));
        assert!(!memory.reached(Some(log_id(7, 4))), "told once");
    }
}
