//! A disk that fills up, for real: that of a server alone.

use std::fs;
use std::path::Path;

use client::{Outcome, cancel, limit, replace};
use protocol::{
    Body, ClientOrderId, InstrumentId, OrderKey, OrderStatusRequest, Price, Quantity, RefuseReason, Side,
};

use crate::harness::{Server, Venue, wait_for};
use crate::small_disk::{self, Disk};
use crate::truth::{Told, Truth, told};

const SIZE_MIB: u64 = 40;
const MORE_MIB: u64 = 128;
const RESERVE_MIB: u64 = 6;
const ACME: InstrumentId = InstrumentId(4);

fn configuration() -> String {
    format!(
        "[journal]\nsegment_mib = 1\nreserve_mib = {RESERVE_MIB}\n[snapshots]\nevery_frames = 1_000_000_000\n\
         every_seconds = 86_400\n[log]\nstats_seconds = 0\n"
    )
}

#[test]
fn a_full_disk_stops_orders_and_loses_nothing() {
    small_disk::within("full_disk::a_full_disk_stops_orders_and_loses_nothing", on_a_small_disk);
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
    let disk = Disk::new(folder, SIZE_MIB);
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
        "40000",
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

    disk.grow(MORE_MIB);
    let server = venue.start();
    wait_until_ready(&server, 200);
    let mut trader = server.login("demo");
    trader.done(order(100));
    drop(trader);
    server.terminate();
    println!("full disk: {asked} requests were answered on the reserve");
}
