//! The state machine: what is checked of every command before it is acted on, and where each kind of command goes.
//!
//! Every handler validates fully and then mutates: it returns the reason of a reject before anything has changed, except
//! that the request's id, and its text id where it carries a fresh one, are used up.

use std::hint::black_box;

use protocol::planted::{Bug, is_on, is_poison};
use protocol::{
    Body, CancelOrder, Capacities, Checkpoint, ClOrdId, Command, Event, FrameKind, InstrumentId, Named,
    OrderKey, Phase, RejectReason, Rejected, ReplaceOrder, RequestId, Sequence, Tick, Timestamp, TradingDay,
};

use crate::accounts::Accounts;
use crate::arena::Handle;
use crate::follow::Consequences;
use crate::groups::Groups;
use crate::instruments::Instruments;
use crate::orders::Orders;
use crate::outbox::{EventSink, Outbox};
use crate::schedule::Timers;
use crate::sessions::{SYSTEM, Session, Sessions};
use crate::version;

/// Live orders from which looking ahead pays: fewer are in the second-level cache anyway.
const LOOK_AHEAD_FROM: u32 = 1 << 15;

/// A tick carried a checkpoint of another history than ours: this engine or the log is wrong, and the process must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The checkpoint's sequence.
    pub sequence: Sequence,
    /// Running hash there, as the log says.
    pub logged_hash: u64,
    /// Running hash there, as computed here.
    pub computed_hash: u64,
}

/// Newest version of the rules that this program knows. A log that switches to a newer one needs a newer program.
pub const RULEBOOK_VERSION: u32 = 2;

/// The log switches to rules that this program doesn't know. The command that does it was not applied, and the process
/// must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this program knows the rulebook up to version {RULEBOOK_VERSION}, the log switches to version {version} at sequence \
     {sequence}: start a newer program on this data directory, nothing is lost"
)]
pub struct UnknownRulebook {
    /// The command that switches.
    pub sequence: Sequence,
    /// The version that it switches to.
    pub version: u32,
}

/// The whole state of the venue.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) sequence: Sequence,
    pub(crate) log_time: Timestamp,
    pub(crate) trading_day: TradingDay,
    pub(crate) running_hash: u64,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) divergence: Option<Divergence>,
    pub(crate) unknown_rulebook: Option<UnknownRulebook>,
    /// Version of the rules in force. Never above [`RULEBOOK_VERSION`], and it never falls.
    pub(crate) rulebook_version: u32,
    pub(crate) capacities: Capacities,
    /// Number of the last order accepted.
    pub(crate) last_order_id: u64,
    /// Number of the last trade.
    pub(crate) last_trade_id: u64,
    /// Frames of sessions that don't exist: nobody could be answered.
    pub(crate) ignored: u64,
    /// Levels with orders, over all books.
    pub(crate) levels: u32,
    /// Nobody may trade until an operator lifts it.
    pub(crate) venue_killed: bool,
    pub(crate) accounts: Accounts,
    pub(crate) sessions: Sessions,
    pub(crate) instruments: Instruments,
    pub(crate) orders: Orders,
    pub(crate) groups: Groups,
    pub(crate) consequences: Consequences,
    /// The command did something from which more may follow, or that set a timer. Only plain orders leave it be.
    pub(crate) busy: bool,
    /// Log time from which a timer is due or something of an earlier command is left to do; 0 where that is not known.
    next_due: Timestamp,
    /// Seed of what is drawn.
    pub(crate) seed: u64,
    /// Expiries of dated orders and changes of phases to come.
    pub(crate) timers: Timers,
    /// Places of instruments whose auction this command touched; empty between two commands.
    pub(crate) in_auction: Vec<u32>,
}

/// A request whose sender and ids are good.
pub(crate) struct Request {
    /// Place of the sender.
    pub(crate) session: u32,
    pub(crate) id: RequestId,
    /// Place of the text id that it carries, used up by it.
    pub(crate) name: Option<Handle>,
}

impl Default for Exchange {
    fn default() -> Self {
        Self::new()
    }
}

impl Exchange {
    /// An empty venue on trading day 1 before its first frame, with default [`Capacities`], the first version of the rules
    /// and the server's own session.
    #[must_use]
    pub fn new() -> Self {
        Self {
            sequence: Sequence(0),
            log_time: Timestamp(0),
            trading_day: TradingDay(1),
            running_hash: protocol::StreamHash::default().value(),
            checkpoint: None,
            divergence: None,
            unknown_rulebook: None,
            rulebook_version: 1,
            capacities: Capacities::default(),
            last_order_id: 0,
            last_trade_id: 0,
            ignored: 0,
            levels: 0,
            venue_killed: false,
            accounts: Accounts::default(),
            sessions: Sessions::new(),
            instruments: Instruments::default(),
            orders: Orders::new(),
            groups: Groups::default(),
            consequences: Consequences::default(),
            busy: false,
            next_due: Timestamp(0),
            seed: 0,
            timers: Timers::default(),
            in_auction: Vec::new(),
        }
    }

    /// Applies one command. Total: it is answered by a reject and does nothing else, or it is applied whole. The one
    /// exception is a command of rules that this program doesn't know: see [`unknown_rulebook`](Self::unknown_rulebook).
    pub fn apply(&mut self, command: &Command, sink: &mut impl EventSink) {
        if let Body::SetRulebook(version) = command.body
            && self.must_stop_at(command, version)
        {
            let sequence = self.sequence.next();
            self.unknown_rulebook.get_or_insert(UnknownRulebook { sequence, version });
            return;
        }
        self.sequence = self.sequence.next();
        self.log_time = if is_on(Bug::LogTimeGoesBack) {
            command.timestamp
        } else {
            self.log_time.max(command.timestamp)
        };
        let mut out = Outbox::new(sink, self.sequence, self.log_time, self.running_hash);
        if self.log_time >= self.next_due {
            self.fire_due(&mut out);
        }
        self.dispatch(command, &mut out);
        assert!(!is_poison(command), "planted: a breach after the state has changed");
        if self.busy {
            self.conclude(&mut out);
        }
        self.running_hash = out.running_hash();
    }

    /// The end of a command that was not just plain orders: what follows from it, and when something is due next.
    fn conclude<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        self.follow(out);
        self.tell_indicatives(out);
        self.busy = false;
        let next = self.timers.next().min(self.sessions.next());
        self.next_due = if self.has_left_over() { Timestamp(0) } else { next };
    }

    /// Whether a command switches to rules that this program doesn't know: one that would not be refused, since nobody
    /// but an operator may stop a venue.
    #[cold]
    fn must_stop_at(&self, command: &Command, version: u32) -> bool {
        version > RULEBOOK_VERSION
            && self.sessions.place(command.session).is_some_and(|place| {
                let sender = self.sessions.get(place);
                sender.is_operator() && (place == SYSTEM || refusal(sender, command).is_none())
            })
    }

    /// Reads ahead what a command will touch, so that it is in the cache when [`apply`](Self::apply) comes. It changes
    /// nothing, and leaving it out changes nothing but speed. While all live orders fit the cache it does nothing.
    #[inline]
    pub fn prefetch(&self, command: &Command) {
        if self.orders.arena.live() >= LOOK_AHEAD_FROM {
            self.look_ahead(command);
        }
    }

    /// Only loads that depend on no other: a chain of misses would hold up what is ahead of it as well.
    fn look_ahead(&self, command: &Command) {
        let Some(session) = self.sessions.place(command.session) else { return };
        match &command.body {
            Body::CancelOrder(CancelOrder { order: OrderKey::Id(id), .. })
            | Body::ReplaceOrder(ReplaceOrder { order: OrderKey::Id(id), .. }) => {
                black_box(self.orders.touch(session, id.0));
            }
            Body::NewOrder(order) => {
                black_box(self.orders.touch(session, command.request_id.0));
                if let Some(place) = self.instruments.place(order.instrument) {
                    let instrument = self.instruments.get(place);
                    black_box((instrument.phase, instrument.book.is_crossed()));
                }
            }
            _ => {}
        }
    }

    fn dispatch<S: EventSink>(&mut self, command: &Command, out: &mut Outbox<'_, S>) {
        let Some(session) = self.sessions.place(command.session) else {
            match command.body {
                Body::Login(_) => self.refuse_unknown_login(command, out),
                _ => self.ignored += 1,
            }
            return;
        };
        match &command.body {
            Body::Login(_) => self.login(session, command, out),
            Body::Logout => self.disconnect(session, command, protocol::EndReason::Logout, out),
            Body::Disconnect(reason) => self.disconnect(session, command, *reason, out),
            _ => {
                if let Err(reason) = self.act(session, command, out) {
                    self.reject(session, command, reason, out);
                }
            }
        }
    }

    #[inline(always)]
    fn act<S: EventSink>(
        &mut self,
        session: u32,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        if session != SYSTEM {
            self.check_sender(session, command)?;
        }
        let mut request = Request { session, id: command.request_id, name: None };
        match &command.body {
            Body::NewOrder(order) => {
                self.name(&mut request, order.cl_ord_id.as_ref())?;
                if version::of_order(order) == 1 {
                    self.new_order(&request, order, out)
                } else {
                    self.offered(2)?;
                    self.new_special(&request, order, out)
                }
            }
            Body::CancelOrder(cancel) => {
                self.name(&mut request, cancel.cl_ord_id.as_ref())?;
                self.cancel_order(&request, cancel, out)
            }
            Body::ReplaceOrder(replace) => {
                self.name(&mut request, replace.cl_ord_id.as_ref())?;
                let version = version::of_replace(replace);
                self.offered(version)?;
                self.replace_order(&request, replace, version, out)
            }
            _ => self.act_otherwise(request, command, out),
        }
    }

    /// What is asked for less often. Not inlined, so that orders have a small frame.
    #[inline(never)]
    fn act_otherwise<S: EventSink>(
        &mut self,
        mut request: Request,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let session = request.session;
        match &command.body {
            Body::OrderStatus(status) => {
                self.name(&mut request, None)?;
                self.order_status(&request, status, out)
            }
            Body::MassCancel(cancel) => {
                if session != SYSTEM {
                    self.name(&mut request, None)?;
                }
                self.mass_cancel(&request, cancel, out)
            }
            Body::MassQuote(quote) => {
                // Its ids are used up whoever sends it; the server itself has none.
                if session != SYSTEM {
                    self.use_quote_ids(session, quote)?;
                }
                self.name(&mut request, None)?;
                self.offered(2)?;
                self.mass_quote(&request, quote, out)
            }
            Body::Start => {
                self.only_system(session)?;
                self.start(out);
                Ok(())
            }
            Body::Tick(tick) => {
                self.only_system(session)?;
                self.tick(tick, out);
                Ok(())
            }
            Body::Malformed(_) => Err(RejectReason::Malformed),
            Body::PutCurrency(..)
            | Body::PutAccount(_)
            | Body::SetParticipant(..)
            | Body::SetThrottle(..)
            | Body::SetFees(..)
            | Body::SetLimits(..)
            | Body::Transfer(_)
            | Body::Kill(..)
            | Body::BustTrade(_)
            | Body::CorrectTrade(..) => self.keep_accounts(&request, command, out),
            Body::QueryAccount(account) => self.query_account(&request, *account, out),
            Body::QueryInstrument(instrument) => self.query_instrument(&request, *instrument, out),
            _ => self.administer(&request, command, out),
        }
    }

    /// The connection is the live one, and the id rises; it is used up then.
    #[inline]
    fn check_sender(&mut self, session: u32, command: &Command) -> Result<(), RejectReason> {
        let session = self.sessions.get_mut(session);
        if let Some(reason) = refusal(session, command) {
            return Err(reason);
        }
        session.highest_request_id = command.request_id;
        Ok(())
    }

    /// What concerns an order is for users who trade, not for the server itself; a text id is used up.
    #[inline]
    fn name(&mut self, request: &mut Request, text: Option<&ClOrdId>) -> Result<(), RejectReason> {
        if !self.sessions.get(request.session).trades {
            return Err(RejectReason::NotAuthorized);
        }
        if let Some(text) = text {
            let capacity = self.capacities.cl_ord_ids;
            request.name = Some(self.orders.names.claim(request.session, text, capacity)?);
        }
        Ok(())
    }

    /// The version of the rulebook that knows what is asked is in force.
    #[inline]
    pub(crate) fn offered(&self, version: u32) -> Result<(), RejectReason> {
        if version <= self.rulebook_version { Ok(()) } else { Err(RejectReason::OptionNotOffered) }
    }

    fn only_system(&self, session: u32) -> Result<(), RejectReason> {
        if session == SYSTEM { Ok(()) } else { Err(RejectReason::NotAuthorized) }
    }

    /// Emits the text id of the request that the next report answers.
    #[inline(always)]
    pub(crate) fn emit_name<S: EventSink>(&self, request: &Request, out: &mut Outbox<'_, S>) {
        if let Some(name) = request.name {
            self.emit_named(request.session, name, out);
        }
    }

    fn emit_named<S: EventSink>(&self, session: u32, name: Handle, out: &mut Outbox<'_, S>) {
        let session = self.sessions.get(session).id;
        out.emit(Event::Named(Named { session, cl_ord_id: self.orders.names.get(name).text }));
    }

    #[cold]
    pub(crate) fn reject<S: EventSink>(
        &mut self,
        session: u32,
        command: &Command,
        reason: RejectReason,
        out: &mut Outbox<'_, S>,
    ) {
        let parts = Parts::of(&command.body);
        if let Some(cl_ord_id) = parts.text {
            out.emit(Event::Named(Named { session: command.session, cl_ord_id }));
        }
        let highest_request_id = self.sessions.get(session).highest_request_id;
        out.emit_inline(Event::Rejected(Rejected {
            to: self.sessions.report(session),
            request_id: command.request_id,
            client_order_id: match parts.order {
                Some(OrderKey::Id(id)) if id.0 != 0 => Some(id),
                _ => None,
            },
            highest_request_id,
            instrument: parts.instrument,
            request_kind: parts.kind,
            reason,
        }));
    }

    /// Log time has moved already; the logged checkpoint is compared, and the next one made.
    fn tick<S: EventSink>(&mut self, tick: &Tick, out: &mut Outbox<'_, S>) {
        // What timers brought about is in the hash that the checkpoint tells.
        self.tell_indicatives(out);
        if let Some(checkpoint) = self.checkpoint
            && checkpoint.sequence == tick.checkpoint_sequence
            && checkpoint.running_hash != tick.checkpoint_hash
        {
            self.divergence.get_or_insert(Divergence {
                sequence: checkpoint.sequence,
                logged_hash: tick.checkpoint_hash,
                computed_hash: checkpoint.running_hash,
            });
        }
        let checkpoint = Checkpoint { sequence: self.sequence, running_hash: out.running_hash() };
        self.checkpoint = Some(checkpoint);
        out.emit_unhashed(Event::Checkpoint(checkpoint));
    }

    /// Orders may trade in the instrument now. A breach found in its book stops it for good.
    #[inline(always)]
    pub(crate) fn check_trading<S: EventSink>(
        &mut self,
        place: u32,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let instrument = self.instruments.get_mut(place);
        if instrument.stopped {
            return Err(RejectReason::InstrumentStopped);
        }
        if instrument.phase == Phase::Continuous && instrument.book.is_crossed() {
            // A simulation or a debug build crashes, so that the breach is seen; only the test of what a release does goes on.
            if cfg!(debug_assertions) && !cfg!(test) {
                panic!("the book of instrument {} is crossed", instrument.definition.instrument);
            }
            instrument.stopped = true;
            if instrument.phase != Phase::Halted {
                instrument.phase = Phase::Halted;
                out.emit(Event::PhaseChanged(instrument.definition.instrument, Phase::Halted));
            }
            return Err(RejectReason::InstrumentStopped);
        }
        match instrument.phase {
            Phase::Continuous
            | Phase::PreOpen
            | Phase::OpeningAuction
            | Phase::VolatilityAuction
            | Phase::ClosingAuction => Ok(()),
            Phase::Halted => Err(RejectReason::InstrumentHalted),
            Phase::CancelOnly => Err(RejectReason::CancelOnly),
            Phase::Closed | Phase::Delisted => Err(RejectReason::InstrumentClosed),
        }
    }
}

/// What is wrong with the sender of a user's request, or with its id.
#[inline]
pub(crate) fn refusal(session: &Session, command: &Command) -> Option<RejectReason> {
    if session.connection != Some(command.connection) {
        return Some(RejectReason::NotLoggedIn);
    }
    let repeated = command.request_id <= session.highest_request_id && !is_on(Bug::DuplicatesTaken);
    repeated.then_some(RejectReason::IdNotRising)
}

/// What a reject tells of the request.
struct Parts {
    kind: Option<FrameKind>,
    instrument: InstrumentId,
    order: Option<OrderKey>,
    text: Option<ClOrdId>,
}

impl Parts {
    fn of(body: &Body) -> Self {
        let parts = |kind, instrument, order, text| Self { kind: Some(kind), instrument, order, text };
        let plain = |kind| parts(kind, InstrumentId(0), None, None);
        match body {
            Body::Malformed(_) => Self { kind: None, ..plain(FrameKind::NewOrder) },
            Body::NewOrder(order) => parts(FrameKind::NewOrder, order.instrument, None, order.cl_ord_id),
            Body::CancelOrder(cancel) => {
                parts(FrameKind::CancelOrder, InstrumentId(0), Some(cancel.order), cancel.cl_ord_id)
            }
            Body::ReplaceOrder(replace) => {
                parts(FrameKind::ReplaceOrder, InstrumentId(0), Some(replace.order), replace.cl_ord_id)
            }
            Body::OrderStatus(status) => {
                parts(FrameKind::OrderStatus, InstrumentId(0), Some(status.order), None)
            }
            Body::MassCancel(cancel) => {
                parts(FrameKind::MassCancel, cancel.instrument.unwrap_or_default(), None, None)
            }
            Body::MassQuote(quote) => parts(FrameKind::MassQuote, quote.instrument, None, None),
            Body::PutInstrument(definition) => {
                parts(FrameKind::PutInstrument, definition.instrument, None, None)
            }
            Body::SetPhase(instrument, _) => parts(FrameKind::SetPhase, *instrument, None, None),
            Body::PutRules(instrument, _) => parts(FrameKind::PutRules, *instrument, None, None),
            Body::PutTickTable(instrument, _) => parts(FrameKind::PutTickTable, *instrument, None, None),
            Body::SchedulePhase(instrument, ..) => parts(FrameKind::SchedulePhase, *instrument, None, None),
            Body::ClearSchedule(instrument) => parts(FrameKind::ClearSchedule, *instrument, None, None),
            Body::SetPrice(instrument, ..) => parts(FrameKind::SetPrice, *instrument, None, None),
            Body::Delist(instrument) => parts(FrameKind::Delist, *instrument, None, None),
            Body::SetFees(instrument, ..) => parts(FrameKind::SetFees, *instrument, None, None),
            Body::SetLimits(_, instrument, _) => {
                parts(FrameKind::SetLimits, instrument.unwrap_or_default(), None, None)
            }
            Body::QueryInstrument(instrument) => parts(FrameKind::QueryInstrument, *instrument, None, None),
            Body::SetSeed(_) => plain(FrameKind::SetSeed),
            Body::PutCurrency(..) => plain(FrameKind::PutCurrency),
            Body::PutAccount(_) => plain(FrameKind::PutAccount),
            Body::SetParticipant(..) => plain(FrameKind::SetParticipant),
            Body::SetThrottle(..) => plain(FrameKind::SetThrottle),
            Body::Transfer(_) => plain(FrameKind::Transfer),
            Body::Kill(..) => plain(FrameKind::Kill),
            Body::BustTrade(_) => plain(FrameKind::BustTrade),
            Body::CorrectTrade(..) => plain(FrameKind::CorrectTrade),
            Body::QueryAccount(_) => plain(FrameKind::QueryAccount),
            Body::Login(_) => plain(FrameKind::Login),
            Body::Logout => plain(FrameKind::Logout),
            Body::Disconnect(_) => plain(FrameKind::Disconnect),
            Body::Start => plain(FrameKind::Start),
            Body::Tick(_) => plain(FrameKind::Tick),
            Body::EndOfDay => plain(FrameKind::EndOfDay),
            Body::SetCapacities(_) => plain(FrameKind::SetCapacities),
            Body::SetRulebook(_) => plain(FrameKind::SetRulebook),
            Body::PutUser(_) => plain(FrameKind::PutUser),
            Body::DisconnectUser(_) => plain(FrameKind::DisconnectUser),
        }
    }
}
