//! Leaders come and go; nothing committed is lost, and nobody leads beside another.

use std::time::Duration;

use replicator::Timing;
use tokio::time::Instant;

use crate::rig::{Rig, run};

#[test]
fn three_members_agree_and_feed_the_same() {
    run(1, async {
        let rig = Rig::founded(3).await;
        for number in 100..150 {
            rig.commit(number).await;
        }
        for id in 1..=3 {
            rig.fed(id, 149).await;
            assert_eq!(rig.places[&id].fed.numbers(), (100..150).collect::<Vec<_>>(), "member {id}");
        }
    });
}

#[test]
fn a_cluster_of_one_commits() {
    run(2, async {
        let rig = Rig::founded(1).await;
        assert_eq!(rig.commit(7).await, 1);
    });
}

#[test]
fn a_killed_leader_is_replaced_and_comes_back_as_a_follower() {
    for seed in 0..10 {
        run(seed, async {
            let mut rig = Rig::founded(3).await;
            let mut expected = Vec::new();
            for round in 0..5 {
                let number = 100 + round;
                let leader = rig.commit(number).await;
                expected.push(number);
                rig.kill(leader);
                let next = rig.leader().await;
                assert_ne!(next, leader);
                rig.commit(200 + round).await;
                expected.push(200 + round);
                rig.start(leader).await;
                rig.fed(leader, 200 + round).await;
            }
            for id in 1..=3 {
                rig.fed(id, 204).await;
                assert_eq!(rig.places[&id].fed.numbers(), expected, "member {id}, seed {seed}");
            }
        });
    }
}

/// A killed leader is known to be gone, since nobody listens where it was; one that is cut off is only silent.
#[test]
fn a_killed_leader_is_missed_sooner_than_a_silent_one() {
    let timing = Timing::default();
    for seed in 20..40 {
        run(seed, async move {
            let mut rig = Rig::founded(3).await;
            let old = rig.commit(1).await;
            let killed = Instant::now();
            rig.kill(old);
            rig.leader().await;
            let took = killed.elapsed();
            // The end is seen in time, and somebody is first.
            let most = timing.word() + timing.heartbeat;
            assert!(took < most, "seed {seed}: {took:?} behind a kill");
            rig.start(old).await;

            let old = rig.commit(2).await;
            let silent = Instant::now();
            rig.isolate(old);
            while rig.leader().await == old {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let took = silent.elapsed();
            let least = timing.election_min - timing.heartbeat * 3 / 2;
            assert!(took > least, "seed {seed}: {took:?} behind a cut");
            assert!(took < timing.election_max * 2, "seed {seed}: {took:?} behind a cut");
        });
    }
}

/// Who takes a leader for dead that is not unseats nobody: the others still hear it.
#[test]
fn a_leader_that_one_member_takes_for_dead_stays() {
    run(41, async {
        let rig = Rig::founded(3).await;
        let leader = rig.commit(1).await;
        let reign = rig.places[&leader].lead.term();
        let one = (1..=3).find(|id| *id != leader).expect("a follower");
        rig.refuse(one, leader);
        rig.cut(leader, one);
        tokio::time::sleep(Duration::from_secs(3)).await;
        rig.heal();
        rig.commit(2).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(rig.places[&leader].lead.term(), reign);
        rig.fed(one, 2).await;
    });
}

#[test]
fn an_isolated_leader_is_not_confirmed_and_stops_taking_frames() {
    run(3, async {
        let rig = Rig::founded(3).await;
        let old = rig.commit(1).await;
        rig.isolate(old);
        tokio::time::sleep(Duration::from_millis(160)).await;
        assert!(!rig.places[&old].lead.is_confirmed(), "a quorum has been silent for longer than a lease");
        let new = rig.leader().await;
        assert_ne!(new, old);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(rig.places[&old].lead.term().is_none(), "it lets its sessions go");
        rig.commit(2).await;
        rig.heal();
        rig.fed(old, 2).await;
        assert_eq!(rig.places[&old].fed.numbers(), [1, 2]);
    });
}

#[test]
fn what_only_a_deposed_leader_has_is_replaced() {
    run(4, async {
        let rig = Rig::founded(3).await;
        let old = rig.commit(1).await;
        rig.isolate(old);
        for number in 50..60 {
            rig.propose(old, number);
        }
        // Its lease runs out first.
        tokio::time::sleep(Duration::from_millis(160)).await;
        let new = rig.leader().await;
        assert_ne!(new, old);
        for number in 2..6 {
            rig.commit(number).await;
        }
        rig.heal();
        rig.fed(old, 5).await;
        for id in 1..=3 {
            rig.fed(id, 5).await;
            assert_eq!(rig.places[&id].fed.numbers(), [1, 2, 3, 4, 5], "member {id}");
        }
    });
}

#[test]
fn all_members_start_again_with_what_was_committed() {
    run(5, async {
        let mut rig = Rig::founded(3).await;
        for number in 1..20 {
            rig.commit(number).await;
        }
        for id in 1..=3 {
            rig.power_cut(id);
        }
        for id in 1..=3 {
            rig.start(id).await;
        }
        rig.commit(20).await;
        for id in 1..=3 {
            rig.fed(id, 20).await;
            assert_eq!(rig.places[&id].fed.numbers().len(), 20, "member {id}");
        }
    });
}

/// A quorum that is silent for a moment: what is taken meanwhile is committed in the end, or its sessions are let go. It must
/// not vanish from a reign that goes on.
#[test]
fn frames_taken_while_a_quorum_is_silent_are_committed_or_end_the_reign() {
    for silence in (100..600).step_by(25) {
        run(silence, async move {
            let rig = Rig::founded(3).await;
            let leader = rig.commit(1).await;
            let reign = rig.places[&leader].lead.term();
            // The others hear the leader, so that nobody else wants to lead.
            let others = (1..=3).filter(|id| *id != leader);
            others.clone().for_each(|other| rig.cut(other, leader));
            tokio::time::sleep(Duration::from_millis(silence)).await;
            let taken: Vec<u64> = (2..6).filter(|number| rig.propose(leader, *number)).collect();
            rig.heal();
            tokio::time::sleep(Duration::from_secs(2)).await;
            let fed = rig.places[&leader].fed.numbers();
            let all = [&[1], &taken[..]].concat();
            let ended = rig.places[&leader].lead.term() != reign;
            assert!(ended || fed == all, "silent for {silence} ms: {taken:?} were taken, {fed:?} came out");
        });
    }
}
