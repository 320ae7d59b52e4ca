//! A small venue for tests of version 2 of the rules: one instrument, two traders, an operator, and events as short lines.

use protocol::{
    Body, CancelOrder, ClientOrderId, Command, ConnectionId, Event, InstrumentId, InstrumentRules,
    LoginRequest, NewOrder, OrderKey, Output, Phase, Price, PriceKind, RequestId, Sequence, SessionId, Side,
    Tick, Timestamp,
};

use super::samples;
use crate::{Exchange, Record};

pub(super) const X: InstrumentId = InstrumentId(1);
const MILLISECOND: u64 = 1_000_000;

/// The venue, with the time of its next command in milliseconds.
pub(super) struct Floor {
    pub(super) exchange: Exchange,
    pub(super) now: u64,
    last_id: u64,
}

/// A limit order, good till canceled.
pub(super) fn limit(side: Side, quantity: u64, price: i64) -> NewOrder {
    samples::limit(X.0, 0, side, quantity, price)
}

pub(super) fn buy(quantity: u64, price: i64) -> NewOrder {
    limit(Side::Buy, quantity, price)
}

pub(super) fn sell(quantity: u64, price: i64) -> NewOrder {
    limit(Side::Sell, quantity, price)
}

impl Floor {
    /// At millisecond 1,000. Prices from 1 to 1,000, quantities to 1,000, ticks and lots of 1.
    pub(super) fn new() -> Self {
        let mut floor = Self { exchange: Exchange::new(), now: 1_000, last_id: 0 };
        floor.operator(Body::SetRulebook(2));
        floor.operator(Body::PutInstrument(samples::instrument(X.0)));
        for session in [1, 2] {
            floor.operator(Body::PutUser(samples::user(session)));
            floor.send(session, Body::Login(LoginRequest { trading_day: None }));
        }
        floor
    }

    fn send(&mut self, session: u32, body: Body) -> Vec<String> {
        self.last_id += 1;
        let command = Command {
            session: SessionId(session),
            connection: ConnectionId(session),
            request_id: RequestId(self.last_id),
            timestamp: Timestamp(self.now * MILLISECOND),
            body,
        };
        let mut outputs: Vec<Output> = Vec::new();
        self.exchange.apply(&command, &mut outputs);
        outputs.iter().filter_map(|output| line(&output.event)).collect()
    }

    /// The server's own session does something.
    pub(super) fn operator(&mut self, body: Body) -> Vec<String> {
        self.send(0, body)
    }

    /// Ann enters an order; its number is that of her request.
    pub(super) fn ann(&mut self, order: NewOrder) -> Vec<String> {
        self.send(1, Body::NewOrder(order))
    }

    pub(super) fn bob(&mut self, order: NewOrder) -> Vec<String> {
        self.send(2, Body::NewOrder(order))
    }

    /// Ann cancels her order with the id that her request had.
    pub(super) fn ann_cancels(&mut self, id: u64) -> Vec<String> {
        let order = OrderKey::Id(ClientOrderId(id));
        self.send(1, Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None }))
    }

    /// Id of the last request.
    pub(super) fn last_id(&self) -> u64 {
        self.last_id
    }

    pub(super) fn phase(&mut self, phase: Phase) -> Vec<String> {
        self.operator(Body::SetPhase(X, phase))
    }

    pub(super) fn rules(&mut self, rules: InstrumentRules) -> Vec<String> {
        self.operator(Body::PutRules(X, rules))
    }

    pub(super) fn reference(&mut self, price: i64) -> Vec<String> {
        self.operator(Body::SetPrice(X, PriceKind::Reference, Price(price)))
    }

    pub(super) fn schedule(&mut self, at_ms: u64, phase: Phase) -> Vec<String> {
        self.operator(Body::SchedulePhase(X, Timestamp(at_ms * MILLISECOND), phase))
    }

    /// A tick at a millisecond.
    pub(super) fn tick(&mut self, at_ms: u64) -> Vec<String> {
        self.now = at_ms;
        self.operator(Body::Tick(Tick { checkpoint_sequence: Sequence(0), checkpoint_hash: 0 }))
    }

    /// The next timer, in milliseconds.
    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.exchange.next_deadline().map(|at| at.0 / MILLISECOND)
    }

    /// The state is the same after its records went out and in again, timers too.
    pub(super) fn check_records(&self) {
        let mut records: Vec<Record> = Vec::new();
        self.exchange.export(&mut |record| records.push(record));
        let imported = Exchange::import(records).expect("a state");
        assert_eq!(imported.state_hash(), self.exchange.state_hash());
        assert_eq!(imported.next_deadline(), self.exchange.next_deadline());
    }
}

fn or_dash(price: Option<Price>) -> String {
    price.map_or("-".to_owned(), |price| price.0.to_string())
}

/// An event in short; order ids are `#n`. What says nothing of the rules under test is left out.
fn line(event: &Event) -> Option<String> {
    Some(match event {
        Event::Accepted(e) => format!("accepted #{}", e.order_id.0),
        Event::Rejected(e) => format!("rejected {}", e.reason),
        Event::Executed(_) | Event::Checkpoint(_) | Event::AdminDone(_) => return None,
        Event::Trade(e) => {
            format!("trade #{} #{} {} at {}", e.maker_order_id.0, e.taker_order_id.0, e.quantity.0, e.price.0)
        }
        Event::Canceled(e) => format!("canceled #{} {} {}", e.order_id.0, e.canceled_quantity.0, e.reason),
        Event::Expired(e) => format!("expired #{} {} {}", e.order_id.0, e.expired_quantity.0, e.reason),
        Event::Restated(e) => format!("restated #{} {} {}", e.order_id.0, or_dash(e.price), e.reason),
        Event::Triggered(e) => format!("triggered #{}", e.order_id.0),
        Event::Added(e) => format!("added #{} {} at {}", e.order_id.0, e.quantity.0, e.price.0),
        Event::Reduced(e) => {
            format!("reduced #{} {}{}", e.order_id.0, e.quantity.0, if e.gone { " gone" } else { "" })
        }
        Event::PhaseChanged(_, phase) => format!("phase {phase}"),
        Event::Configured(e) => format!("configured {:?}", e.kind),
        Event::Indicative(e) => format!(
            "indicative {} of {}, {} left{}",
            e.quantity.0,
            or_dash(e.price),
            e.surplus.0,
            e.surplus_side.map_or(String::new(), |side| format!(" to {side}"))
        ),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
    })
}
