//! The oracle: the rules of the venue once more, slow and obvious, written from `docs/rulebook.md` and not from the engine.
//! Everything rests in one ordered map in the order in which a rule-writer would list it. It must share no code with the
//! engine but the protocol's types.

mod admin;
mod orders;
mod requests;

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    Capacities, ClOrdId, ClientOrderId, Command, ConnectionId, Event, InstrumentDefinition, InstrumentId,
    OrderFlags, OrderId, Phase, Price, Quantity, Recipient, ReportNumber, RequestId, Sequence, SessionId,
    Side, Skipped, TimeInForce, Timestamp, TradingDay, UserDefinition,
};

/// A wrong rule, so that a test can show that the comparison notices it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A partly filled maker goes to the end of its queue.
    PartialFillLosesPlace,
    /// A replace to a larger quantity keeps its place.
    LargerReplaceKeepsPlace,
    /// A post-only order may trade at its own price.
    PostOnlyTradesAtTouch,
    /// What an immediate-or-cancel order could not trade rests.
    ImmediateOrCancelRests,
    /// A trade is made at the incoming order's price.
    TakerPrice,
    /// A request id that is repeated is taken.
    RepeatedIdTaken,
    /// Text ids outlive the trading day.
    TextIdsKept,
    /// A login does not stop the timer of cancel-on-disconnect.
    LoginKeepsTimer,
}

/// Where an order is in the list of all resting orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its instrument.
    pub instrument: InstrumentId,
    /// Bids before asks.
    pub side: Side,
    /// Falls with the price for bids and rises with it for asks: the best has the lowest.
    rank: i128,
    /// Rises with every order that comes to rest.
    arrival: u64,
}

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resting {
    /// The venue's id.
    pub order_id: OrderId,
    /// The owner.
    pub session: SessionId,
    /// The owner's id.
    pub client_order_id: ClientOrderId,
    /// Whatever account.
    pub account: protocol::AccountId,
    /// Price.
    pub price: Price,
    /// Total quantity.
    pub total: u64,
    /// Executed so far.
    pub cum: u64,
    /// Day or good till canceled.
    pub time_in_force: TimeInForce,
    /// Post-only or not.
    pub flags: OrderFlags,
}

impl Resting {
    /// What is left.
    #[must_use]
    pub fn leaves(&self) -> u64 {
        self.total - self.cum
    }
}

#[derive(Clone, Debug, Default)]
struct Session {
    user: Option<UserDefinition>,
    connection: Option<ConnectionId>,
    highest_request_id: RequestId,
    last_report: u64,
    deadline: Option<Timestamp>,
}

#[derive(Clone, Debug)]
struct Instrument {
    definition: InstrumentDefinition,
    phase: Phase,
}

/// The slow venue.
#[derive(Clone, Debug)]
pub struct Oracle {
    fault: Option<Fault>,
    sequence: u64,
    log_time: Timestamp,
    trading_day: TradingDay,
    capacities: Capacities,
    /// Version of the rules in force.
    rulebook: u32,
    sessions: BTreeMap<SessionId, Session>,
    instruments: BTreeMap<InstrumentId, Instrument>,
    resting: BTreeMap<Place, Resting>,
    /// Where the order of a session's id rests.
    owned: BTreeMap<(SessionId, ClientOrderId), Place>,
    used_texts: BTreeSet<(SessionId, ClOrdId)>,
    /// Current text ids of resting orders.
    current_texts: BTreeMap<(SessionId, ClOrdId), ClientOrderId>,
    arrivals: u64,
    orders: u64,
    trades: u64,
    events: Vec<Event>,
}

impl Oracle {
    /// An empty venue that keeps the rules, or breaks one.
    #[must_use]
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            sequence: 0,
            log_time: Timestamp(0),
            trading_day: TradingDay(1),
            capacities: Capacities::default(),
            rulebook: 1,
            sessions: BTreeMap::from([(SessionId::SYSTEM, Session::default())]),
            instruments: BTreeMap::new(),
            resting: BTreeMap::new(),
            owned: BTreeMap::new(),
            used_texts: BTreeSet::new(),
            current_texts: BTreeMap::new(),
            arrivals: 0,
            orders: 0,
            trades: 0,
            events: Vec::new(),
        }
    }

    /// Applies a command and gives all that is emitted. A checkpoint's running hash is not known here and is zero.
    pub fn apply(&mut self, command: &Command) -> Vec<Event> {
        self.sequence += 1;
        self.log_time = self.log_time.max(command.timestamp);
        self.fire_timers();
        self.take(command);
        std::mem::take(&mut self.events)
    }

    /// Passes over a command: its sender is answered where it could be, and nothing else happens.
    pub fn skip(&mut self, command: &Command, frame_hash: [u8; 32]) -> Vec<Event> {
        self.sequence += 1;
        self.log_time = self.log_time.max(command.timestamp);
        self.events.push(Event::Skipped(Skipped { frame_hash }));
        self.answer_skipped(command);
        std::mem::take(&mut self.events)
    }

    /// Every resting order: by instrument, bids before asks, best price first, oldest in the queue first.
    pub fn resting(&self) -> impl Iterator<Item = (&Place, &Resting)> {
        self.resting.iter()
    }

    /// The earliest timer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.sessions.values().filter_map(|session| session.deadline).min()
    }

    /// Connection, last report and highest request id of a session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<(Option<ConnectionId>, ReportNumber, RequestId)> {
        let session = self.sessions.get(&id)?;
        Some((session.connection, ReportNumber(session.last_report), session.highest_request_id))
    }

    /// The current trading day.
    #[must_use]
    pub fn trading_day(&self) -> TradingDay {
        self.trading_day
    }

    /// Version of the rules in force.
    #[must_use]
    pub fn rulebook(&self) -> u32 {
        self.rulebook
    }

    fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    /// Emits a report with the session's next number.
    fn report(&mut self, session: SessionId, event: impl FnOnce(Recipient) -> Event) {
        let state = self.sessions.entry(session).or_default();
        state.last_report += 1;
        let to = Recipient { session, number: ReportNumber(state.last_report) };
        self.events.push(event(to));
    }

    fn levels(&self) -> usize {
        let levels: BTreeSet<_> =
            self.resting.keys().map(|place| (place.instrument, place.side, place.rank)).collect();
        levels.len()
    }

    /// The resting orders of a session, in the order of their ids.
    fn orders_of(&self, session: SessionId) -> Vec<Place> {
        let mut orders: Vec<(OrderId, Place)> = self
            .resting
            .iter()
            .filter(|(_, order)| order.session == session)
            .map(|(place, order)| (order.order_id, *place))
            .collect();
        orders.sort_unstable();
        orders.into_iter().map(|(_, place)| place).collect()
    }

    fn fire_timers(&mut self) {
        let mut due: Vec<(Timestamp, SessionId)> = self
            .sessions
            .iter()
            .filter_map(|(id, session)| Some((session.deadline?, *id)))
            .filter(|(deadline, _)| *deadline <= self.log_time)
            .collect();
        due.sort_unstable();
        for (_, id) in due {
            self.sessions.entry(id).or_default().deadline = None;
            self.cancel_disconnected(id);
        }
    }
}

fn rank(side: Side, price: Price) -> i128 {
    match side {
        Side::Buy => -i128::from(price.0),
        Side::Sell => i128::from(price.0),
    }
}

fn quantity(value: u64) -> Quantity {
    Quantity(value)
}
