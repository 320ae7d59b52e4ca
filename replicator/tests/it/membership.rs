//! Members come, get a vote, hand over and go.

use std::time::Duration;

use replicator::{Member, MemberId};

use crate::rig::{Rig, member, run};

#[test]
fn a_member_is_added_promoted_and_another_retired() {
    run(1, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        rig.start(4).await;
        let leader = rig.leader().await;
        let cluster = rig.cluster(leader);
        let promoted = cluster.promote(MemberId(4), false).await;
        assert!(promoted.unwrap_err().contains("add it first"));
        let taken = Member { client_address: member(1).client_address, ..member(4) };
        let refused = cluster.add(&taken).await.unwrap_err();
        assert!(refused.contains("clients of member 1"), "{refused}");
        cluster.add(&member(4)).await.expect("a learner");
        assert!(cluster.add(&member(4)).await.expect("safe to repeat").contains("already"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.start(4).await;
        rig.fed(4, 1).await;
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let refused = cluster.promote(MemberId(4), false).await.unwrap_err();
        assert!(refused.contains("4 voters survive") && refused.contains("--force"), "{refused}");
        cluster.promote(MemberId(4), true).await.expect("forced");
        let retired = (1..=3).find(|id| *id != leader).expect("a follower");
        cluster.remove(MemberId(retired), false).await.expect("three voters are left");
        rig.kill(retired);
        rig.commit(2).await;
        rig.fed(4, 2).await;
        let handed = cluster.hand_over(Some(MemberId(4))).await;
        assert!(handed.is_ok(), "{handed:?}");
        assert_eq!(rig.leader().await, 4);
        rig.commit(3).await;
        // A leader that is demoted hands over by itself first.
        let demoted = rig.cluster(4).demote(MemberId(4), true).await.expect("forced");
        assert!(demoted.contains("is a learner"), "{demoted}");
        assert_ne!(rig.leader().await, 4);
        rig.commit(4).await;
        rig.fed(4, 4).await;
    });
}

#[test]
fn leadership_is_handed_over_and_asked_for_anywhere() {
    run(2, async {
        let rig = Rig::founded(3).await;
        rig.commit(1).await;
        for round in 0..6 {
            let leader = rig.leader().await;
            let follower = (1..=3).find(|id| *id != leader).expect("a follower");
            let done = rig.cluster(follower).hand_over(Some(MemberId(follower))).await;
            assert!(done.is_ok(), "{done:?}");
            assert_eq!(rig.leader().await, follower);
            rig.commit(10 + round).await;
        }
    });
}

#[test]
fn a_member_is_not_removed_where_no_quorum_would_be_left() {
    run(4, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        let [a, b] = [1, 2, 3].into_iter().filter(|id| *id != leader).collect::<Vec<_>>()[..] else {
            unreachable!()
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.kill(a);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let cluster = rig.cluster(leader);
        let refused = cluster.remove(MemberId(b), false).await.unwrap_err();
        assert!(refused.contains("2 voters survive"), "{refused}");
        rig.start(4).await;
        cluster.add(&member(4)).await.expect("a learner");
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.start(4).await;
        rig.fed(4, 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Of the four that there would be one is down, and the new one has no vote of its own before all were heard of.
        let refused = cluster.promote(MemberId(4), true).await.unwrap_err();
        assert!(refused.contains("no quorum would be left"), "{refused}");
        rig.start(a).await;
        let mut promoted = cluster.promote(MemberId(4), true).await;
        for _ in 0..50 {
            if promoted.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            promoted = cluster.promote(MemberId(4), true).await;
        }
        promoted.expect("four voters");
        rig.kill(a);
        rig.kill(4);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let refused = cluster.remove(MemberId(b), false).await.unwrap_err();
        assert!(refused.contains("no quorum"), "{refused}");
        rig.start(4).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        cluster.remove(MemberId(a), false).await.expect("the one that is down may go");
        rig.commit(2).await;
    });
}

#[test]
fn the_last_vote_stays_and_a_removed_member_knows_that_it_is_none() {
    run(5, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let leader = rig.leader().await;
        let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
        let cluster = rig.cluster(leader);
        for id in &others {
            cluster.remove(MemberId(*id), true).await.expect("forced");
        }
        rig.commit(2).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        for id in &others {
            assert!(rig.cluster(*id).status().removed, "{:?}", rig.cluster(*id).status());
        }
        assert!(!cluster.status().removed);
        for refused in
            [cluster.remove(MemberId(leader), true).await, cluster.demote(MemberId(leader), true).await]
        {
            assert!(
                refused.as_ref().is_err_and(|why| why.contains("the only one with a vote")),
                "{refused:?}"
            );
        }
        rig.commit(3).await;
        // One that is added again is a member again.
        rig.wipe(others[0]);
        rig.start(others[0]).await;
        cluster.add(&member(others[0])).await.expect("a learner");
        tokio::time::sleep(Duration::from_secs(2)).await;
        rig.start(others[0]).await;
        rig.fed(others[0], 3).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!rig.cluster(others[0]).status().removed);
    });
}

/// The library keeps its channels: they must follow a member that moved.
#[test]
fn a_member_that_moved_is_followed() {
    run(6, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        let moved = (1..=3).find(|id| *id != leader).expect("a follower");
        rig.moves(moved, "elsewhere:1");
        rig.commit(2).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(!rig.places[&moved].fed.numbers().contains(&2), "nobody knows where it is now");
        let at = Member { address: "elsewhere:1".into(), ..member(moved) };
        let done = rig.cluster(leader).add(&at).await.expect("told");
        assert!(done.contains("new addresses"), "{done}");
        rig.fed(moved, 2).await;
        // Votes go there too: with the third gone, the two must find each other.
        let third = (1..=3).find(|id| *id != leader && *id != moved).expect("the third");
        rig.kill(third);
        rig.commit(3).await;
        rig.fed(moved, 3).await;
        rig.kill(leader);
        rig.start(third).await;
        rig.commit(4).await;
        rig.fed(moved, 4).await;
    });
}

#[test]
fn a_founding_needs_all_members_and_an_odd_number() {
    run(3, async {
        let mut rig = Rig::new();
        rig.start(1).await;
        rig.start(2).await;
        let two = [member(1), member(2)];
        assert!(rig.found(1, &two).await.unwrap_err().contains("2 voters survive"));
        let three = [member(1), member(2), member(3)];
        assert!(rig.found(1, &three).await.unwrap_err().contains("member 3"));
        rig.start(3).await;
        rig.found(1, &three).await.expect("all are there");
    });
}
