//! A member so far behind that only a snapshot helps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use crate::rig::{Rig, run};

#[test]
fn a_member_behind_a_pruned_log_starts_from_a_snapshot() {
    transferred(1, false);
}

/// What is lost on the way is sent again before long, and what came twice is taken once.
#[test]
fn a_piece_of_a_snapshot_that_is_lost_is_sent_again() {
    transferred(2, true);
}

/// Sends a snapshot, during which the receiver's answers are `lost` for a moment.
fn transferred(seed: u64, lost: bool) {
    run(seed, async move {
        let mut rig = Rig::founded(3).await;
        rig.commit(1).await;
        let leader = rig.leader().await;
        let behind = (1..=3).find(|id| *id != leader).expect("a follower");
        rig.kill(behind);
        // Enough for several segments.
        for number in 2..1_000 {
            rig.commit(number).await;
        }
        // Both others could lead; both have a snapshot and need nothing before it.
        for id in (1..=3).filter(|id| *id != behind) {
            rig.fed(id, 999).await;
            let place = &rig.places[&id];
            let disk = place.disk.shared();
            disk.create_dir("snapshots").expect("a folder");
            let file = disk.create("snapshots/900").expect("a snapshot");
            file.write_all_at(&vec![9; 3_000_000], 0).expect("room");
            disk.create_dir("reports/day-1").expect("a folder");
            disk.create("reports/day-1/session-1").expect("a file").write_all_at(&[1; 500], 0).expect("room");
            replicator::raise(&place.needed_from, protocol::Sequence(901));
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        rig.start(behind).await;
        let leader = rig.leader().await;
        let started = Instant::now();
        for round in 0..10_000 {
            if lost && round == 0 {
                let sent =
                    || rig.cluster(leader).status().members.iter().any(|member| member.catching_up.is_some());
                while !sent() {
                    tokio::time::sleep(Duration::from_micros(50)).await;
                }
                rig.cut(behind, leader);
                tokio::time::sleep(Duration::from_millis(50)).await;
                rig.heal();
            }
            if rig.places[&behind].restarts.load(Ordering::Relaxed) > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        assert_eq!(rig.places[&behind].restarts.load(Ordering::Relaxed), 1, "the snapshot has arrived");
        rig.kill(behind);
        rig.start(behind).await;
        let disk = rig.places[&behind].disk.shared();
        assert_eq!(
            disk.open("snapshots/900", journaler::storage::Access::Read).unwrap().length().unwrap(),
            3_000_000
        );
        rig.commit(1_000).await;
        rig.fed(behind, 1_000).await;
        let fed = rig.places[&behind].fed.numbers();
        assert_eq!(fed.len(), 1_000);
        assert_eq!(&fed[900..], (901..=1_000).collect::<Vec<_>>());
    });
}
