//! A disk that fills up, for real: a small tmpfs in a mount namespace of the test's own, which ends with the test.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use client::{Outcome, cancel, limit, replace};
use protocol::{
    Body, ClientOrderId, InstrumentId, OrderKey, OrderStatusRequest, Price, Quantity, RefuseReason, Side,
};

use crate::harness::{Server, Venue, wait_for};
use crate::truth::{Told, Truth, told};

/// Set for the run of this test inside its namespace.
const INSIDE: &str = "RINGPIT_TEST_INSIDE_NAMESPACE";
const SIZE_MIB: u64 = 40;
const MORE_MIB: u64 = 128;
const RESERVE_MIB: u64 = 6;
const ACME: InstrumentId = InstrumentId(4);

/// Ways into a namespace where this process may mount: as root, or as a user who may be one inside.
const NAMESPACES: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];

fn configuration() -> String {
    format!(
        "[journal]\nsegment_mib = 1\nreserve_mib = {RESERVE_MIB}\n[snapshots]\nevery_frames = 1_000_000_000\n\
         every_seconds = 86_400\n[log]\nstats_seconds = 0\n"
    )
}

#[test]
fn a_full_disk_stops_orders_and_loses_nothing() {
    if let Some(disk) = std::env::var_os(INSIDE) {
        return on_a_small_disk(Path::new(&disk));
    }
    let mount_point = tempfile::tempdir().expect("a folder");
    let run = |program: &Path, arguments: &[&str], namespace: &[&str]| {
        Command::new("unshare")
            .args(namespace)
            .arg("--")
            .arg(program)
            .args(arguments)
            .env(INSIDE, mount_point.path())
            .output()
    };
    let probe = ["-t", "tmpfs", "none", mount_point.path().to_str().expect("a path of text")];
    let possible = NAMESPACES.iter().find(|namespace| {
        run(Path::new("mount"), &probe, namespace).is_ok_and(|output| output.status.success())
    });
    let Some(namespace) = possible else {
        println!(
            "SKIPPED: no small disk can be mounted here: that needs root, or a kernel that lets users make namespaces"
        );
        return;
    };
    let own = std::env::current_exe().expect("a test knows its own file");
    let name = "full_disk::a_full_disk_stops_orders_and_loses_nothing";
    let output = run(&own, &[name, "--exact", "--nocapture"], namespace).expect("the test runs itself");
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[track_caller]
fn mount(arguments: &[&str]) {
    let output = Command::new("mount").args(arguments).output().expect("mount runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The small disk, and a file that takes room away.
struct Disk {
    folder: PathBuf,
}

impl Disk {
    fn new(folder: &Path) -> Self {
        let size = format!("size={SIZE_MIB}m");
        mount(&["-t", "tmpfs", "-o", &size, "none", folder.to_str().expect("a path of text")]);
        Self { folder: folder.to_owned() }
    }

    fn free(&self) -> u64 {
        let stat = rustix::fs::statvfs(&self.folder).expect("a file system tells its space");
        stat.f_bavail * stat.f_frsize
    }

    /// Takes room until only so many bytes are free.
    fn leave(&self, free: u64) {
        let taken = self.free().saturating_sub(free);
        let mut file = File::options().create(true).append(true).open(self.ballast()).expect("a file");
        // What does not fit any more leaves the disk as full as it can be.
        let _ = file.write_all(&vec![1; usize::try_from(taken).expect("it fits into memory")]);
    }

    fn relieve(&self) {
        fs::remove_file(self.ballast()).expect("there is ballast");
    }

    fn grow(&self) {
        let size = format!("remount,size={MORE_MIB}m");
        mount(&["-o", &size, self.folder.to_str().expect("a path of text")]);
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }
}

fn order(price: i64) -> Body {
    Body::NewOrder(limit(ACME, Side::Buy, Quantity(1), Price(price)))
}

#[track_caller]
fn wait_until_ready(server: &Server, wanted: u16) {
    wait_for(&format!("/readyz to answer {wanted}"), || {
        server.get("/readyz").filter(|(status, _)| *status == wanted).map(drop)
    });
}

fn on_a_small_disk(folder: &Path) {
    let disk = Disk::new(folder);
    let mut venue = Venue::on(folder.join("data"), &configuration());
    orders_are_refused_and_cancels_done(&disk, &mut venue);
    let told = a_load_fills_it(&disk, &mut venue);
    the_very_end(&disk, &mut venue);
    let truth = Truth::read(venue.data()).expect("engine and oracle agree on the journal");
    truth.check_outcomes(&told).expect("nothing acknowledged was lost");
    truth.check_report_files(venue.data()).expect("the report files are those of the journal");
}

/// Low space: what would add to the books is refused, what takes out of them is not; with room it goes on by itself.
fn orders_are_refused_and_cancels_done(disk: &Disk, venue: &mut Venue) {
    let server = venue.start();
    wait_until_ready(&server, 200);
    let mut trader = server.login("demo");
    let ids: Vec<ClientOrderId> = (0..10).map(|at| ClientOrderId(trader.done(order(100 + at)).0)).collect();
    disk.leave((RESERVE_MIB - 1) << 20);
    wait_until_ready(&server, 503);
    let (_, body) = server.get("/readyz").expect("it answers");
    assert!(body.contains("disk space low"), "{body}");
    let refused = Outcome::Refused(RefuseReason::DiskFull);
    assert_eq!(trader.ask(order(100)).1, refused);
    assert_eq!(trader.ask(replace(ids[0], Quantity(2), Price(90))).1, refused);
    for id in &ids[..5] {
        trader.done(cancel(*id));
    }
    disk.relieve();
    wait_until_ready(&server, 200);
    trader.done(order(100));
    drop(trader);
    server.kill();
}

/// Orders come until there is no room for them, and the server is killed then. Gives what the client was told.
fn a_load_fills_it(disk: &Disk, venue: &mut Venue) -> Vec<Told> {
    let server = venue.start();
    wait_until_ready(&server, 200);
    let outcomes = venue.path("outcomes");
    // Less than the reports of those orders take.
    disk.leave((RESERVE_MIB << 20) + (256 << 10));
    let file = outcomes.display().to_string();
    // A small window makes small batches, which take the most room; hardly a request but new orders.
    let load = [
        "load",
        "--user",
        "demo2",
        "--orders",
        "6000",
        "--window",
        "4",
        "--mix",
        "1000:1:1",
        "--resend",
        "--outcomes",
        &file,
        "--json",
    ];
    let result = venue.tool(&load).succeeded().json();
    assert!(result["done"].as_u64() > Some(0) && result["refused"].as_u64() > Some(0), "{result}");
    assert_eq!((&result["lost"], &result["duplicated"]), (&0.into(), &0.into()), "{result}");
    let told = told(&fs::read_to_string(&outcomes).expect("the outcomes"));
    assert!(told.iter().any(|told| told.is_refused("disk_full")), "refused, and with that reason");
    wait_until_ready(&server, 503);
    server.kill();
    told
}

/// Not a byte is left, not even for cancels. Either the server sees it in time, refuses all and stays up, or others were
/// faster than its look at the disk, and the process ends with one line that says so. It comes back with more room.
fn the_very_end(disk: &Disk, venue: &mut Venue) {
    // It starts on a disk that is low: the cancels must be possible.
    let server = venue.start();
    let mut trader = server.login("demo");
    let status = |id| Body::OrderStatus(OrderStatusRequest { order: OrderKey::Id(ClientOrderId(id)) });
    assert!(trader.try_ask(status(1)).is_some());
    disk.leave(0);
    let mut asked = 0;
    let refused = loop {
        match trader.try_ask(status(1)) {
            None => break false,
            Some(Outcome::Refused(RefuseReason::DiskFull)) => break true,
            Some(_) => asked += 1,
        }
        // Room that the server kept for this is used up, too.
        if asked % 50 == 0 {
            disk.leave(0);
        }
        assert!(asked < 100_000, "a full disk takes requests for ever");
    };
    if refused {
        let (status, body) = server.get("/readyz").expect("it is up");
        assert!(status == 503 && body.contains("disk full: nothing is taken"), "{status} {body}");
        server.kill();
    } else {
        assert_eq!(server.ends(), Some(1), "{}", venue.log());
        let log = venue.log();
        let last = log.lines().last().unwrap_or_default();
        assert!(last.starts_with("ringpit: fatal: ") && last.contains("MiB more to start"), "{log}");
    }
    drop(trader);

    disk.grow();
    let server = venue.start();
    wait_until_ready(&server, 200);
    let mut trader = server.login("demo");
    trader.done(order(100));
    drop(trader);
    server.terminate();
    println!("full disk: {asked} requests were answered on the reserve");
}
