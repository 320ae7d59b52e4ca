//! An observer that stops reading its drop copies: nobody is slowed or hurt by it, it is dropped within bounds, and it has
//! every report when it comes back and asks from the number that it had come to.

use client::{cancel, limit};
use protocol::soupbin::Packet;
use protocol::{
    Body, ClientOrderId, DropCopyRequest, InstrumentId, Price, Quantity, ReportNumber, RequestId, SessionId,
    Side, Unsequenced,
};

use crate::harness::{Server, Venue, WHOLE_HISTORY, wait_for};
use crate::wire::{Raw, Said, bytes};

const ACME: InstrumentId = InstrumentId(4);
/// Whose reports are read: the demonstration user `demo2`.
const OBSERVED: SessionId = SessionId(2);
/// Reports that the observer reads before it stops.
const READ_FIRST: u64 = 500;
/// Requests at a time, each answered by a report.
const ROUND: u64 = 5_000;
/// Rounds whose reports no buffers between server and observer hold.
const ROUNDS_MAX: usize = 200;
/// What the process may grow by: the observer's buffers, and what the traders' requests take.
const SLACK_BYTES: u64 = 64 << 20;

fn question(from: u64) -> Vec<u8> {
    let request = Unsequenced::DropCopyRequest(DropCopyRequest {
        request_id: RequestId(7),
        session: OBSERVED,
        trading_day: None,
        from: Some(ReportNumber(from)),
    });
    bytes(&Packet::Unsequenced(request.encode().as_bytes()))
}

fn slow_readers(server: &Server) -> u64 {
    server.status()["slow_readers"].as_u64().expect("a number")
}

/// Reads copies with numbers from `next` to `last`.
#[track_caller]
fn read_copies(raw: &mut Raw, mut next: u64, last: u64) {
    while next <= last {
        match raw.next().expect("the connection stays") {
            Said::Copy(Some(number)) => {
                assert_eq!(number, next, "copies are without gaps");
                next += 1;
            }
            Said::Copy(None) | Said::Fact(_) => {}
            other => panic!("{other:?} in the place of copy {next}"),
        }
    }
}

#[test]
fn an_observer_that_does_not_read_hurts_nobody_and_catches_up_by_number() {
    let mut venue = Venue::new(&format!("{WHOLE_HISTORY}[gateway]\nslow_reader_seconds = 1\n"));
    let server = venue.start();
    let (to, password) = (server.ready().native, server.password("admin"));
    let (mut busy, mut witness) = (server.login("demo2"), server.login("demo"));
    let order = |lots| Body::NewOrder(limit(ACME, Side::Buy, Quantity(lots), Price(100)));
    let mut watching = Raw::login(to, "admin", &password, "", 0);
    watching.send(&question(1)).expect("sent");
    busy.flood(order(0), READ_FIRST);
    read_copies(&mut watching, 1, READ_FIRST);

    // From here on it reads nothing. Everybody else is answered all the same.
    let (resident, mut reports) = (server.resident_bytes(), READ_FIRST);
    let mut rounds = 0;
    while slow_readers(&server) == 0 {
        rounds += 1;
        assert!(rounds <= ROUNDS_MAX, "an observer that does not read must be dropped");
        busy.flood(order(0), ROUND);
        reports += ROUND;
        let id = witness.done(order(1));
        witness.done(cancel(ClientOrderId(id.0)));
    }
    let grown = server.resident_bytes().saturating_sub(resident);
    assert!(grown < SLACK_BYTES, "{grown} bytes more for an observer that does not read");
    drop(watching);

    // It reads on from where it was, what came meanwhile and what comes now.
    let mut watching =
        wait_for("the observer's session to be free", || Raw::try_login_from(1, to, "admin", &password));
    watching.send(&question(READ_FIRST + 1)).expect("sent");
    busy.flood(order(0), ROUND);
    read_copies(&mut watching, READ_FIRST + 1, reports + ROUND);
    println!("observers: {reports} reports until it was dropped, {} KiB more meanwhile", grown >> 10);
    drop((watching, busy, witness));
    server.terminate();
}
