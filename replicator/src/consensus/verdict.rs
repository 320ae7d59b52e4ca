//! Which member is right: the members' checkpoints against each other. A state machine without I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use protocol::{Checkpoint, Sequence};

/// Checkpoints kept of each member.
const KEPT: usize = 64;

/// What the members' checkpoints come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority has another hash than this member at that sequence.
    Contradicted {
        /// Where.
        sequence: Sequence,
        /// This member's.
        own_hash: u64,
        /// The majority's.
        majority_hash: u64,
        /// Who told what.
        told: Vec<(u64, u64)>,
    },
    /// All voters have told, and no hash has a majority.
    NoMajority {
        /// Where.
        sequence: Sequence,
        /// Who told what.
        told: Vec<(u64, u64)>,
    },
}

/// Gathers what the members tell.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints(Mutex<BTreeMap<u64, Told>>);

/// What one member told: in this life of its process, since it may come back with another state, as one that was wiped does.
#[derive(Debug, Default)]
struct Told {
    life: u64,
    /// The one before: what comes late from it counts for nothing.
    former: Option<u64>,
    hashes: BTreeMap<u64, u64>,
}

impl Checkpoints {
    /// A member told these, in that life of its process.
    pub(crate) fn told(&self, member: u64, life: u64, checkpoints: impl Iterator<Item = Checkpoint>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = all.entry(member).or_insert_with(|| Told { life, ..Told::default() });
        if told.former == Some(life) {
            return;
        }
        if told.life != life {
            *told = Told { life, former: Some(told.life), hashes: BTreeMap::new() };
        }
        for checkpoint in checkpoints {
            told.hashes.insert(checkpoint.sequence.0, checkpoint.running_hash);
        }
        while told.hashes.len() > KEPT {
            told.hashes.pop_first();
        }
    }

    /// The newest checkpoint on which a majority of each set of voters agrees, and what speaks against this member.
    pub(crate) fn judge(&self, own: u64, sets: &[Vec<u64>]) -> (Option<Checkpoint>, Option<Verdict>) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut confirmed = None;
        let Some(mine) = all.get(&own) else { return (None, None) };
        for (sequence, own_hash) in mine.hashes.iter().rev() {
            let hash_of = |voter: &u64| all.get(voter).and_then(|told| told.hashes.get(sequence)).copied();
            // Each voter once, whatever sets it is in.
            let told = || {
                let voters: BTreeSet<u64> = sets.iter().flatten().copied().collect();
                voters.into_iter().filter_map(|voter| Some((voter, hash_of(&voter)?))).collect()
            };
            match majority(sets, hash_of) {
                Agreement::On(hash) if hash != *own_hash => {
                    let sequence = Sequence(*sequence);
                    let (own_hash, majority_hash, told) = (*own_hash, hash, told());
                    return (
                        confirmed,
                        Some(Verdict::Contradicted { sequence, own_hash, majority_hash, told }),
                    );
                }
                Agreement::On(hash) if confirmed.is_none() => {
                    confirmed = Some(Checkpoint { sequence: Sequence(*sequence), running_hash: hash });
                }
                Agreement::On(_) | Agreement::Open => {}
                Agreement::Impossible => {
                    let verdict = Verdict::NoMajority { sequence: Sequence(*sequence), told: told() };
                    return (confirmed, Some(verdict));
                }
            }
        }
        (confirmed, None)
    }
}

enum Agreement {
    On(u64),
    Open,
    Impossible,
}

/// What a majority of every set says.
fn majority(sets: &[Vec<u64>], hash_of: impl Fn(&u64) -> Option<u64>) -> Agreement {
    let mut agreed = None;
    for set in sets {
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for hash in set.iter().filter_map(&hash_of) {
            *counts.entry(hash).or_default() += 1;
        }
        let needed = set.len() / 2 + 1;
        let silent = set.len() - counts.values().sum::<usize>();
        let most = counts.iter().max_by_key(|(_, count)| **count);
        match most {
            Some((hash, count)) if *count >= needed => {
                if agreed.is_some_and(|agreed| agreed != *hash) {
                    return Agreement::Impossible;
                }
                agreed = Some(*hash);
            }
            Some((_, count)) if *count + silent < needed => return Agreement::Impossible,
            _ => return Agreement::Open,
        }
    }
    agreed.map_or(Agreement::Open, Agreement::On)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(told: &[(u64, u64, u64)], own: u64) -> (Option<u64>, Option<Verdict>) {
        let checkpoints = Checkpoints::default();
        for (member, sequence, hash) in told {
            let checkpoint = Checkpoint { sequence: Sequence(*sequence), running_hash: *hash };
            checkpoints.told(*member, 1, std::iter::once(checkpoint));
        }
        let (confirmed, verdict) = checkpoints.judge(own, &[vec![1, 2, 3]]);
        (confirmed.map(|checkpoint| checkpoint.sequence.0), verdict)
    }

    #[test]
    fn two_of_three_confirm() {
        assert_eq!(judged(&[(1, 10, 7), (2, 10, 7)], 1), (Some(10), None));
        assert_eq!(judged(&[(1, 10, 7), (1, 20, 8), (2, 10, 7)], 1), (Some(10), None));
        assert_eq!(judged(&[(1, 10, 7)], 1), (None, None), "alone is no majority");
    }

    #[test]
    fn the_one_that_two_others_contradict_is_told_so() {
        let told = [(1, 10, 9), (2, 10, 7), (3, 10, 7)];
        let contradicted =
            |verdict| matches!(verdict, Some(Verdict::Contradicted { own_hash: 9, majority_hash: 7, .. }));
        assert!(contradicted(judged(&told, 1).1));
        assert_eq!(judged(&told, 2), (Some(10), None), "the others go on");
    }

    #[test]
    fn what_a_member_told_in_a_former_life_counts_for_nothing() {
        let checkpoints = Checkpoints::default();
        let tell = |member, life, hash| {
            let checkpoint = Checkpoint { sequence: Sequence(10), running_hash: hash };
            checkpoints.told(member, life, std::iter::once(checkpoint));
        };
        tell(1, 5, 7);
        tell(2, 6, 9);
        let sets = [vec![1], vec![1, 2]];
        let told = vec![(1, 7), (2, 9)];
        let verdict = Verdict::NoMajority { sequence: Sequence(10), told };
        assert_eq!(checkpoints.judge(1, &sets).1, Some(verdict), "each is named once");
        // It was wiped, and has the same as the other now.
        tell(2, 8, 7);
        tell(2, 6, 9);
        let (confirmed, verdict) = checkpoints.judge(1, &sets);
        assert_eq!((confirmed.map(|checkpoint| checkpoint.running_hash), verdict), (Some(7), None));
    }

    #[test]
    fn three_of_one_mind_each_have_no_majority() {
        let told = [(1, 10, 9), (2, 10, 7), (3, 10, 8)];
        assert!(matches!(judged(&told, 1).1, Some(Verdict::NoMajority { .. })));
        assert_eq!(judged(&told[..2], 1).1, None, "the third may still decide");
    }
}
