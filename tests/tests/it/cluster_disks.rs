//! Members whose disks are full or slow: clients need the leader's, and a leader makes way for a member with a better one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cluster::{Load, check_all};
use crate::harness::{seeded, wait_for};
use crate::partitions::may_trace;
use crate::small_disk::{self, Disk};
use crate::trio::Trio;

/// Room for all that a load journals and reports, and a reserve that it doesn't use up in the seconds in which a disk is low.
const SIZE_MIB: u64 = 512;
const RESERVE_MIB: u64 = 64;

fn configuration() -> String {
    format!(
        "[journal]\nsegment_mib = 1\nreserve_mib = {RESERVE_MIB}\n[snapshots]\nevery_frames = 1_000_000_000\n\
         every_seconds = 86_400\n[log]\nstats_seconds = 0\n"
    )
}

#[test]
fn members_whose_disks_are_full_lose_nothing() {
    let name = "cluster_disks::members_whose_disks_are_full_lose_nothing";
    small_disk::within(name, |_: &Path| on_small_disks());
}

/// Members on a small disk each.
fn founded() -> (Trio, Vec<Disk>) {
    let mut trio = Trio::new("quorum", 3, &configuration());
    let disks = trio.ids().map(|id| {
        let data = trio.seat(id).data();
        let passwords = fs::read(data.join("demonstration-passwords")).expect("passwords");
        let disk = Disk::new(&data, SIZE_MIB);
        fs::write(data.join("demonstration-passwords"), passwords).expect("written");
        disk
    });
    let disks = disks.collect();
    trio.found();
    (trio, disks)
}

fn is_low(trio: &Trio, id: usize) -> bool {
    trio.seat(id).cluster().is_some_and(|cluster| cluster["disk_low"] == true)
}

fn on_small_disks() {
    let (seed, _) = seeded("cluster, full disks");
    let (mut trio, disks) = founded();
    let low = (RESERVE_MIB - 4) << 20;
    let load = Load::begin(&trio, 20, seed);

    // A follower's concerns nobody but itself.
    let leader = trio.leader();
    let follower = trio.ids().find(|id| *id != leader).expect("a follower");
    disks[follower - 1].leave(low);
    wait_for("a follower's disk to be low", || is_low(&trio, follower).then_some(()));
    assert_eq!(trio.leader(), leader);
    // To the very end: it stops, and comes back with more room.
    disks[follower - 1].leave(0);
    wait_for("the end of a member without room", || {
        disks[follower - 1].leave(0);
        (!trio.seat_mut(follower).runs()).then_some(())
    });
    let log = trio.seat(follower).log();
    assert!(log.contains("ringpit: fatal: ") && log.contains("No space left on device"), "{log}");
    trio.seat_mut(follower).kill();
    disks[follower - 1].relieve();
    trio.start(follower);
    trio.settled_roughly(follower);

    // The leader's: it makes way by itself.
    let leader = trio.leader();
    disks[leader - 1].leave(low);
    let next = wait_for("another leader", || trio.leads().filter(|now| *now != leader));
    let log = trio.seat(leader).log();
    assert!(log.contains("leadership is handed over") && log.contains("the disk is nearly full"), "{log}");

    // Where all are low, nobody is better placed.
    for id in trio.ids().filter(|id| *id != leader) {
        disks[id - 1].leave(low);
    }
    for id in trio.ids() {
        wait_for("all disks to be low", || is_low(&trio, id).then_some(()));
    }
    trio.rest(std::time::Duration::from_secs(2));
    let names = |id: usize| trio.seat(id).cluster().map(|cluster| cluster["leader"]["id"].clone());
    assert_eq!(names(next), Some(next.into()), "it stays");
    disks.iter().for_each(Disk::relieve);
    trio.leader();
    let (result, told) = load.end();
    println!("cluster, full disks: {result}");
    check_all(&mut trio, &told);
}

#[test]
fn a_leader_whose_disk_is_slow_makes_way() {
    if !may_trace() {
        return;
    }
    let (seed, _) = seeded("cluster, slow disk");
    let mut trio = Trio::founded("quorum");
    let load = Load::begin(&trio, 12, seed);
    let leader = trio.leader();
    let process = trio.seat(leader).process().to_string();
    let calls = "pwrite64,pwritev,pwritev2,fdatasync,fsync";
    let (traced, slowed) = (format!("trace={calls}"), format!("inject={calls}:delay_enter=900000"));
    let mut tracer = Command::new("strace")
        .args(["-f", "-qq", "-e", &traced, "-e", &slowed, "-p", &process])
        .stderr(Stdio::null())
        .spawn()
        .expect("strace starts");
    let next = wait_for("another leader", || trio.leads().filter(|now| *now != leader));
    // The member goes on without its tracer, as fast as before.
    tracer.kill().expect("it can be ended");
    tracer.wait().expect("it ended");
    let log = trio.seat(leader).log();
    assert!(
        log.contains("slower than the other members'"),
        "member {next} leads, and the log has no reason:\n{log}"
    );
    let (result, told) = load.end();
    println!("cluster, slow disk: {result}");
    check_all(&mut trio, &told);
}
