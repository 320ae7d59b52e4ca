//! A leader whose disk keeps its clients waiting makes way, and does not where that would help nobody.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::rig::{Rig, run};

fn slow(rig: &Rig, id: u64) {
    rig.places[&id].write_takes.store(2_000_000, Ordering::Relaxed);
}

#[test]
fn a_leader_whose_disk_is_slow_makes_way() {
    run(1, async {
        let rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        slow(&rig, leader);
        assert!(rig.propose(leader, 2));
        // The others have it on their disks at once, the leader only after two seconds.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(rig.leader().await, leader, "a moment is borne");
        tokio::time::sleep(Duration::from_millis(700)).await;
        let next = rig.leader().await;
        assert_ne!(next, leader);
        rig.commit(3).await;
        assert_eq!(rig.leader().await, next, "and the next one stays");
        for id in 1..=3 {
            rig.fed(id, 3).await;
            assert_eq!(rig.places[&id].fed.numbers(), [1, 2, 3]);
        }
    });
}

#[test]
fn where_nobody_is_better_placed_it_stays() {
    run(2, async {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        (1..=3).for_each(|id| slow(&rig, id));
        assert!(rig.propose(leader, 2));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.leader().await, leader);
        // With one of two others gone, the one that is left is as slow.
        let gone = (1..=3).find(|id| *id != leader).expect("a follower");
        rig.kill(gone);
        assert!(rig.propose(leader, 3));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(rig.leader().await, leader);
        rig.fed(leader, 3).await;
    });
}
