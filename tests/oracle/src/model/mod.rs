//! The oracle: the rules of the venue once more, slow and obvious, written from `docs/rulebook.md` and not from the engine.
//! What can be counted anew is counted anew and not kept. It must share no code with the engine but the protocol's types.
//!
//! ```text
//! requests   who may ask what           enter    how an order comes in       phases       phases, schedules, timers
//! admin      what operators ask         sweep    trades, dry run             uncross      auctions
//! check      what a new order must be   share    pro-rata                    instruments  rules, ticks, prices
//! replace, cancel, quotes               follow   stops, pegs, groups         accounts     money, positions, limits
//! book       queues, levels, places     reports  what orders' owners hear    trades       settlement, bust, correct
//! ```

mod accounts;
mod admin;
mod book;
mod cancel;
mod check;
mod describe;
mod enter;
mod fault;
mod follow;
mod instruments;
mod kill;
mod limits;
mod money;
mod order;
mod phases;
mod queries;
mod quotes;
mod replace;
mod reports;
mod requests;
mod self_trade;
mod share;
mod sweep;
mod trades;
mod uncross;
mod users;
mod views;

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    AccountId, Body, Capacities, Checkpoint, ClOrdId, ClientOrderId, Command, Event, InstrumentId, OrderId,
    ParticipantId, Recipient, ReportNumber, RequestId, Sequence, SessionId, Skipped, Timestamp, TradeId,
    TradingDay,
};

use accounts::Accounts;
pub use accounts::{Account, Position};
use book::Place;
pub use fault::Fault;
pub use instruments::Instrument;
pub use order::{Order, Standing, Why};
pub use phases::Scheduled;
pub use trades::{Kept, KeptSide};
use users::Session;

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
    /// What draws begin with (rule 66).
    seed: u64,
    sessions: BTreeMap<SessionId, Session>,
    instruments: BTreeMap<InstrumentId, Instrument>,
    /// Every live order.
    orders: BTreeMap<OrderId, Order>,
    /// What rests, as a rule-writer would list it.
    queue: BTreeMap<Place, OrderId>,
    /// The live order of a session's id.
    owned: BTreeMap<(SessionId, ClientOrderId), OrderId>,
    /// Live orders that rule 30 looks at: with a peg, a stop or a parent, or waiting.
    followed: BTreeSet<(InstrumentId, OrderId)>,
    /// Live orders that expire by themselves.
    dated: BTreeSet<OrderId>,
    /// Live reduce-only orders.
    reducing: BTreeSet<OrderId>,
    used_texts: BTreeSet<(SessionId, ClOrdId)>,
    /// Current text ids of live orders.
    current_texts: BTreeMap<(SessionId, ClOrdId), OrderId>,
    accounts: Accounts,
    /// Trades of the day that may be busted.
    kept: BTreeMap<TradeId, Kept>,
    killed_venue: bool,
    killed_participants: BTreeSet<ParticipantId>,
    killed_accounts: BTreeSet<AccountId>,
    arrivals: u64,
    last_order: u64,
    last_trade: u64,
    /// Orders of groups that traded or ended in this step, in that order (rule 44).
    touched_groups: Vec<(SessionId, u64, OrderId)>,
    /// Instruments that rule 30 must look at.
    touched: BTreeSet<InstrumentId>,
    /// Those where stops or children are left over from the last command.
    unfinished: BTreeSet<InstrumentId>,
    /// Stops and children that entered within this command.
    entered: u32,
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
            seed: 0,
            sessions: BTreeMap::from([(SessionId::SYSTEM, Session::default())]),
            instruments: BTreeMap::new(),
            orders: BTreeMap::new(),
            queue: BTreeMap::new(),
            owned: BTreeMap::new(),
            followed: BTreeSet::new(),
            dated: BTreeSet::new(),
            reducing: BTreeSet::new(),
            used_texts: BTreeSet::new(),
            current_texts: BTreeMap::new(),
            accounts: Accounts::default(),
            kept: BTreeMap::new(),
            killed_venue: false,
            killed_participants: BTreeSet::new(),
            killed_accounts: BTreeSet::new(),
            arrivals: 0,
            last_order: 0,
            last_trade: 0,
            touched_groups: Vec::new(),
            touched: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            entered: 0,
            events: Vec::new(),
        }
    }

    /// Applies a command and gives all that is emitted. A checkpoint's running hash is not known here and is zero.
    pub fn apply(&mut self, command: &Command) -> Vec<Event> {
        self.sequence += 1;
        self.log_time = self.log_time.max(command.timestamp);
        self.entered = 0;
        self.finish_cascade();
        self.fire_timers();
        self.take(command);
        self.indicate();
        if let Body::Tick(_) = command.body
            && command.session == SessionId::SYSTEM
        {
            let sequence = Sequence(self.sequence);
            self.events.push(Event::Checkpoint(Checkpoint { sequence, running_hash: 0 }));
        }
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

    fn is_faulty(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Emits a report with the session's next number.
    fn report(&mut self, session: SessionId, event: impl FnOnce(Recipient) -> Event) {
        let state = self.sessions.entry(session).or_default();
        state.last_report += 1;
        let to = Recipient { session, number: ReportNumber(state.last_report) };
        self.events.push(event(to));
    }

    /// Rule 66: a number below `bound`, drawn from the seed and three words.
    fn draw(&self, words: [u64; 3], bound: u64) -> u64 {
        let drawn = words.iter().fold(self.seed, |state, word| split_mix(state ^ word));
        ((u128::from(drawn) * u128::from(bound)) >> 64) as u64
    }
}

/// A report that answers no request.
const UNASKED: RequestId = RequestId(0);

fn split_mix(state: u64) -> u64 {
    let mut word = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
