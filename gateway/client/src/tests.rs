//! The session against a fake venue: every place at which a connection or the server can fail, and random ones.

mod cluster;
mod exhaustive;
mod random;
mod rules;
mod socket;
mod venue;

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::{
    Body, InstrumentId, MassCancel, OrderKey, OrderStatusRequest, Price, Quantity, ReportNumber, RequestId,
    SessionId, Side, TradingDay, UserName,
};

use crate::{
    ClientConfig, ClientEvent, ClientSession, ConnectionLoss, Outcome, Password, cancel, limit, replace,
};
use venue::{Venue, Verdict};

/// A client and a venue with the bytes between them, and everything that the client was told.
struct Rig {
    client: ClientSession,
    venue: Venue,
    now: Duration,
    /// Connection of the venue that the client has.
    connection: Option<u32>,
    to_client: Vec<u8>,
    outcomes: BTreeMap<RequestId, Outcome>,
    last_report: (TradingDay, ReportNumber),
    submitted: Vec<RequestId>,
}

fn config(window: usize) -> ClientConfig {
    let user = UserName::new("demo").expect("a name");
    let password = Password::new("secret").expect("a password");
    ClientConfig { window, ..ClientConfig::new("venue:1", user, password) }
}

/// The `n`th request of a mixed flow.
fn request(n: u64) -> Body {
    let older = protocol::ClientOrderId(n.saturating_sub(3).max(1));
    match n % 6 {
        3 => cancel(older),
        4 => replace(older, Quantity(7), Price(101)),
        5 if n % 4 == 1 => {
            Body::MassCancel(MassCancel { session: SessionId(7), instrument: None, side: Some(Side::Buy) })
        }
        5 => Body::OrderStatus(OrderStatusRequest { order: OrderKey::Id(older) }),
        _ => Body::NewOrder(limit(InstrumentId(1), Side::Buy, Quantity(5 + n), Price(100))),
    }
}

impl Rig {
    fn new(config: ClientConfig, venue: Venue) -> Self {
        Self {
            client: ClientSession::new(config).expect("a good configuration"),
            venue,
            now: Duration::ZERO,
            connection: None,
            to_client: Vec::new(),
            outcomes: BTreeMap::new(),
            last_report: (TradingDay(1), ReportNumber(0)),
            submitted: Vec::new(),
        }
    }

    fn note(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Outcome(id, outcome) => {
                let before = self.outcomes.insert(id, outcome);
                assert_eq!(before, None, "request {id} has a second outcome: {outcome:?}");
            }
            ClientEvent::Report(report) => {
                let number = report.output.event.recipient().expect("a report").number;
                assert_eq!(number.0, self.last_report.1.0 + 1, "report numbers have no gap");
                self.last_report.1 = number;
            }
            ClientEvent::DayEnded(day) => {
                assert_eq!(day, self.last_report.0);
                let of_day = self.venue.reports_of(day);
                assert_eq!(of_day, self.last_report.1.0, "the whole day was delivered");
                self.last_report = (TradingDay(day.0 + 1), ReportNumber(0));
            }
            _ => {}
        }
    }

    fn act(&mut self, action: impl FnOnce(&mut ClientSession, Duration, &mut dyn FnMut(ClientEvent))) {
        let mut events = Vec::new();
        action(&mut self.client, self.now, &mut |event| events.push(event));
        events.into_iter().for_each(|event| self.note(event));
    }

    /// Time passes, and the client connects where it wants to.
    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.act(|client, now, on_event| client.tick(now, on_event));
        self.close_unwanted();
        let Some(address) = self.client.connect_due(self.now) else { return };
        self.connection = self.venue.connect(&address);
        if self.connection.is_some() {
            self.to_client.clear();
            self.client.connected(self.now);
        } else {
            self.act(|client, now, on_event| {
                client.disconnected(now, ConnectionLoss::ConnectFailed(address), on_event);
            });
        }
    }

    fn close_unwanted(&mut self) {
        if !self.client.is_connected()
            && let Some(connection) = self.connection.take()
        {
            self.venue.closed(connection);
        }
    }

    /// Moves up to `count` bytes from the client to the venue's socket.
    fn carry_up(&mut self, count: usize) -> usize {
        let Some(connection) = self.connection else { return 0 };
        let count = self.client.outgoing().len().min(count);
        self.venue.receive(connection, &self.client.outgoing()[..count]);
        self.client.sent(count, self.now);
        count
    }

    /// Moves up to `count` bytes from the venue to the client.
    fn carry_down(&mut self, count: usize) -> usize {
        let Some(connection) = self.connection else { return 0 };
        let moved = self.venue.take_output(connection, count);
        let count = moved.len();
        self.to_client.extend(moved);
        if count > 0 {
            let bytes = std::mem::take(&mut self.to_client);
            let mut taken = 0;
            self.act(|client, now, on_event| taken = client.received(&bytes, now, on_event));
            self.to_client = bytes[taken..].to_vec();
        }
        self.close_unwanted();
        if self.connection == Some(connection) && self.venue.has_closed(connection) {
            self.cut();
        }
        count
    }

    /// The connection breaks; what was on its way is lost.
    fn cut(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        self.venue.closed(connection);
        self.act(|client, now, on_event| {
            client.disconnected(now, ConnectionLoss::Closed("cut".into()), on_event);
        });
    }

    /// The server dies: connections and what it had not made durable are gone.
    fn crash(&mut self) {
        self.venue.crash();
        if self.connection.take().is_some() {
            self.act(|client, now, on_event| {
                client.disconnected(now, ConnectionLoss::Closed("crash".into()), on_event);
            });
        }
    }

    fn submit(&mut self, body: Body) {
        if let Ok(id) = self.client.submit(body) {
            self.submitted.push(id);
        }
    }

    /// Runs undisturbed until every request has its outcome.
    fn finish(&mut self) {
        self.venue.mend();
        for _ in 0..2_000 {
            if self.outcomes.len() == self.submitted.len() && self.client.is_live() {
                return;
            }
            self.advance(Duration::from_millis(20));
            self.carry_up(usize::MAX);
            self.venue.process(usize::MAX);
            self.carry_down(usize::MAX);
            assert_eq!(self.client.ended(), None);
        }
        panic!("{} of {} requests have an outcome", self.outcomes.len(), self.submitted.len());
    }

    /// Every request has one outcome, and it is what the venue knows.
    fn check(&self) {
        assert_eq!(self.venue.repeated, 0, "a request that the venue had processed was sent again");
        for id in &self.submitted {
            let outcome = self.outcomes.get(id).expect("every request has an outcome");
            match (self.venue.truth.get(id), outcome) {
                (Some(Verdict::Done(number)), Outcome::Done(told)) => assert_eq!(number, told),
                (Some(Verdict::Rejected(number, reason)), Outcome::Rejected(told, why)) => {
                    assert_eq!((number, reason), (told, why));
                }
                (None, Outcome::Refused(_) | Outcome::NotProcessed) => {
                    assert!(self.venue.refused.contains(id), "request {id} was lost");
                }
                (truth, told) => {
                    panic!("request {id}: the venue knows {truth:?}, the client was told {told:?}")
                }
            }
        }
        assert_eq!(self.outcomes.len(), self.submitted.len(), "no outcome without a request");
    }
}

/// The seed of a randomised test: printed, and taken from `RINGPIT_SEED`.
fn seed() -> u64 {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(rand::random::<u64>);
    println!("RINGPIT_SEED={seed}");
    seed
}
