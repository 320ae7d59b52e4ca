//! A cluster whose members can't hear each other for a while: cut off both ways, one way, and two of three from each other.
//! And one whose leader's disk gives errors.

use std::process::{Command, Stdio};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::cluster::{check_all, disturb, times};
use crate::harness::{seeded, wait_for};
use crate::network::Network;
use crate::trio::Trio;

/// A cut that is made under load, and for how long.
fn cut(trio: &mut Trio, rng: &mut StdRng) {
    let leader = trio.leader();
    let [a, b] = trio.ids().filter(|id| *id != leader).collect::<Vec<_>>()[..] else {
        unreachable!("three members")
    };
    let network = trio.network();
    let ways: &[(usize, usize)] = match rng.random_range(0..6) {
        // The leader is alone.
        0 => &[(leader, a), (a, leader), (leader, b), (b, leader)],
        // It hears all and nobody hears it; and the other way round.
        1 => &[(leader, a), (leader, b)],
        2 => &[(a, leader), (b, leader)],
        // It and one follower can't talk, one way or both; the third hears both.
        3 => &[(leader, a), (a, leader)],
        4 => &[(leader, a)],
        // The followers can't talk.
        _ => &[(a, b), (b, a)],
    };
    for (from, to) in ways {
        network.cut(*from, *to);
    }
    trio.rest(Duration::from_millis(rng.random_range(100..2_500)));
    trio.network().heal();
    trio.leader();
}

#[test]
fn cut_ways_lose_nothing() {
    let network = match Network::new(3) {
        Ok(network) => network,
        Err(why) => {
            println!("SKIPPED: no network can be made here ({why}): that needs root and iproute2");
            return;
        }
    };
    let (seed, mut rng) = seeded("cluster, cuts");
    let mut trio = Trio::founded_on(network);
    let wanted = times("RINGPIT_CUTS", 6);
    let told = disturb("cluster, cuts", &mut trio, (wanted, 4), seed, &mut rng, cut);
    check_all(&mut trio, &told);
}

/// Whether system calls can be made to fail or to take their time; says so where not.
pub(crate) fn may_trace() -> bool {
    let probe = Command::new("strace").args(["-e", "trace=none", "true"]).stderr(Stdio::null()).status();
    let may = probe.is_ok_and(|status| status.success());
    if !may {
        println!(
            "SKIPPED: system calls can't be made to fail here: that needs strace and the right to trace"
        );
    }
    may
}

#[test]
fn a_leader_whose_disk_gives_errors_ends_and_loses_nothing() {
    if !may_trace() {
        return;
    }
    let (seed, mut rng) = seeded("cluster, disk errors");
    let mut trio = Trio::founded("quorum");
    let told = disturb("cluster, disk errors", &mut trio, (1, 8), seed, &mut rng, |trio, _| {
        let leader = trio.leader();
        let process = trio.seat(leader).process().to_string();
        let calls = "pwrite64,pwritev,pwritev2,fdatasync,fsync";
        let (traced, failing) = (format!("trace={calls}"), format!("inject={calls}:error=EIO"));
        let mut tracer = Command::new("strace")
            .args(["-f", "-qq", "-e", &traced, "-e", &failing, "-p", &process])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace starts");
        let code = trio.seat_mut(leader).ends();
        wait_for("the tracer's end", || tracer.try_wait().expect("a child can be asked"));
        assert_eq!(code, Some(1));
        let log = trio.seat(leader).log();
        assert!(log.contains("ringpit: fatal: ") && log.contains("Input/output error"), "{log}");
        let next = trio.leader();
        assert_ne!(next, leader);
        trio.start(leader);
    });
    check_all(&mut trio, &told);
}
