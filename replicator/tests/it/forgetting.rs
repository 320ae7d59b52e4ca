//! Members that lost their disk, or a part of it.

use std::time::Duration;

use journaler::Durability;

use crate::rig::{Rig, run};

#[test]
fn a_wiped_member_enters_again_by_itself_and_gets_its_vote_back() {
    run(1, async {
        let mut rig = Rig::founded(3).await;
        for number in 1..10 {
            rig.commit(number).await;
        }
        let leader = rig.leader().await;
        let lost = (1..=3).find(|id| *id != leader).expect("two others");
        rig.wipe(lost);
        rig.start(lost).await;
        assert!(rig.is_blank(lost));
        // The leader calls it into the cluster.
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.start(lost).await;
        rig.fed(lost, 9).await;
        for _ in 0..100 {
            if !rig.cluster(lost).status().forgetful {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(!rig.cluster(lost).status().forgetful, "{:?}", rig.cluster(lost).status());
        // And counts again: the other two are not needed both.
        let other = (1..=3).find(|id| *id != leader && *id != lost).expect("the third");
        rig.kill(other);
        rig.commit(10).await;
    });
}

#[test]
fn a_forgetful_member_does_not_help_a_shorter_log_to_win() {
    run(2, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        let [a, b] = [1, 2, 3].into_iter().filter(|id| *id != leader).collect::<Vec<_>>()[..] else {
            unreachable!()
        };
        // b misses what the leader and a agree on; then a loses its disk and the leader its power.
        rig.isolate(b);
        rig.commit(2).await;
        rig.wipe(a);
        rig.kill(leader);
        rig.heal();
        rig.start(a).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(rig.places[&b].lead.term().is_none(), "b can't lead without what was committed");
        rig.start(leader).await;
        rig.fed(b, 2).await;
    });
}

#[test]
fn at_memory_a_whole_cluster_without_power_starts_from_the_longest_log() {
    run(3, async {
        let mut rig = Rig::new();
        rig.durability = Durability::Memory;
        for id in 1..=3 {
            rig.start(id).await;
        }
        let members: Vec<_> = (1..=3).map(crate::rig::member).collect();
        rig.found(1, &members).await.expect("a cluster");
        for id in 1..=3 {
            rig.start(id).await;
        }
        for number in 1..10 {
            rig.commit(number).await;
        }
        for id in 1..=3 {
            rig.power_cut(id);
        }
        rig.start(1).await;
        rig.start(2).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!((1..=2).all(|id| rig.places[&id].lead.term().is_none()), "the third may know more");
        rig.start(3).await;
        rig.leader().await;
        rig.commit(100).await;
    });
}

#[test]
fn one_survivor_goes_on_after_a_rebuild_and_the_others_enter_it_wiped() {
    run(4, async {
        let mut rig = Rig::founded(3).await;
        for number in 1..5 {
            rig.commit(number).await;
        }
        for id in 1..=3 {
            rig.fed(id, 4).await;
            rig.kill(id);
        }
        let plan = rig.rebuild(1);
        assert_eq!(plan.last_sequence.0, 4);
        let other = rig.rebuild(3);
        assert_ne!(plan.incarnation, other.incarnation, "two that are rebuilt by mistake refuse each other");
        rig.start(1).await;
        assert_eq!(rig.commit(5).await, 1, "it needs nobody");
        // One that was thought lost comes back as it was: it is refused, and does no harm.
        rig.start(2).await;
        let cluster = rig.cluster(1);
        cluster.add(&crate::rig::member(2)).await.expect("added again");
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(rig.commit(6).await, 1);
        assert!(!rig.places[&2].fed.numbers().contains(&6));
        rig.wipe(2);
        rig.start(2).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        rig.start(2).await;
        rig.fed(2, 6).await;
    });
}
