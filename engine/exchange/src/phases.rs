//! Phases of instruments: what may be entered in each, what a change of phase brings about, and the price bands that may
//! bring one about.

use protocol::{
    BandAction, CancelReason, Event, ExpireReason, InstrumentId, NewOrder, OrderType, Phase, Price,
    RejectReason, RequestId, Side, TimeInForce,
};

use crate::arena::Handle;
use crate::exchange::Exchange;
use crate::extras::{Standing, Wait};
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::schedule::{Change, NANOSECONDS_PER_MILLISECOND};

impl Exchange {
    /// Whether an instrument is in a call: orders rest without trading.
    #[inline]
    pub(crate) fn is_call(&self, place: u32) -> bool {
        self.instruments.get(place).phase.is_call()
    }

    /// Whether an order of that type and time in force may be entered in the instrument's phase, which takes orders.
    pub(crate) fn phase_allows(&self, place: u32, order: &NewOrder) -> Result<(), RejectReason> {
        let phase = self.instruments.get(place).phase;
        let for_auction = match order.time_in_force {
            TimeInForce::AtTheOpen => {
                if !matches!(phase, Phase::PreOpen | Phase::OpeningAuction) {
                    return Err(RejectReason::NotInThisPhase);
                }
                true
            }
            TimeInForce::GoodForAuction => {
                if !phase.is_call() {
                    return Err(RejectReason::NotInThisPhase);
                }
                true
            }
            TimeInForce::AtTheClose => true,
            TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill if phase.is_call() => {
                return Err(RejectReason::NotInThisPhase);
            }
            _ => false,
        };
        if !phase.is_call() {
            return Ok(());
        }
        let terms = &order.terms;
        let is_stop = terms.stop_price().is_some() || terms.trail().is_some();
        let fits = match order.order_type {
            OrderType::Limit | OrderType::Pegged => true,
            OrderType::Market => for_auction || is_stop,
            OrderType::MarketToLimit | OrderType::MarketProtected => false,
        };
        if fits && terms.minimum().is_none() { Ok(()) } else { Err(RejectReason::NotInThisPhase) }
    }

    /// The lowest and the highest price at which a trade may be made now, as bands have it; lowest above highest: at none.
    pub(crate) fn trade_bounds(&self, place: u32) -> (Price, Price) {
        let instrument = self.instruments.get(place);
        let Some(special) = &instrument.special else { return (Price(i64::MIN), Price(i64::MAX)) };
        let bands = [
            (special.reference, special.rules.static_band),
            (instrument.last_trade, special.rules.dynamic_band),
        ];
        let (mut lowest, mut highest) = (i64::MIN, i64::MAX);
        for (center, band) in bands {
            if let Some(center) = center.filter(|_| band > 0) {
                lowest = lowest.max(center.0.saturating_sub_unsigned(band));
                highest = highest.min(center.0.saturating_add_unsigned(band));
            }
        }
        (Price(lowest), Price(highest))
    }

    /// The next trade of an incoming order would be outside the bands. Where the instrument's rules have it so, a volatility
    /// auction has begun when this comes back.
    pub(crate) fn at_band<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) -> BandAction {
        let rules = self.instruments.get(place).rules();
        if rules.band_action == BandAction::Auction {
            self.change_phase(place, Phase::VolatilityAuction, out);
            let lasts = u64::from(rules.volatility_ms) * NANOSECONDS_PER_MILLISECOND;
            let end = Change::new(self.log_time.0.saturating_add(lasts), Phase::Continuous);
            self.instruments.get_mut(place).special_mut().schedule.volatility_end = Some(end);
            self.arm(place);
        }
        rules.band_action
    }

    /// Does what an operator asks of an instrument's phase. The phase that it is in changes nothing.
    pub(crate) fn set_phase<S: EventSink>(
        &mut self,
        id: InstrumentId,
        phase: Phase,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.check_phase(id, phase)?;
        let instrument = self.instruments.get(place);
        if instrument.stopped && phase != Phase::Halted {
            return Err(RejectReason::InstrumentStopped);
        }
        self.change_phase(place, phase, out);
        Ok(())
    }

    /// The place of an instrument that may be in that phase.
    pub(crate) fn check_phase(&self, id: InstrumentId, phase: Phase) -> Result<u32, RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        if self.instruments.get(place).phase == Phase::Delisted {
            return Err(RejectReason::InstrumentClosed);
        }
        if phase == Phase::Delisted {
            return Err(RejectReason::DefinitionInvalid);
        }
        Ok(place)
    }

    /// Changes an instrument's phase with all that belongs to it. What follows from it (rule 30) is the caller's to bring
    /// about, since a band may be reached in the middle of a sweep.
    pub(crate) fn change_phase<S: EventSink>(&mut self, place: u32, to: Phase, out: &mut Outbox<'_, S>) {
        let from = self.instruments.get(place).phase;
        if from == to {
            return;
        }
        if matches!(to, Phase::Continuous | Phase::Closed) {
            self.uncross(place, out);
        }
        self.expire_auction_orders(place, from, to, out);
        self.enter_phase(place, to, out);
        if to.is_call() && !from.is_call() {
            self.park_pegs(place, out);
        }
        if to == Phase::ClosingAuction {
            self.enter_at_close(place, out);
        }
        if to == Phase::Closed {
            self.expire_at_close_of_day(place, out);
        }
        self.touch(place);
    }

    /// The phase is another one; no volatility auction outlives that, and nothing is known of what an uncross would do.
    fn enter_phase<S: EventSink>(&mut self, place: u32, to: Phase, out: &mut Outbox<'_, S>) {
        let instrument = self.instruments.get_mut(place);
        instrument.phase = to;
        let id = instrument.definition.instrument;
        if !matches!(to, Phase::Continuous | Phase::Halted) {
            instrument.special_mut();
        }
        let volatility_end = instrument.special.as_mut().and_then(|special| {
            special.told = None;
            special.sums = None;
            special.schedule.volatility_end.take()
        });
        if volatility_end.is_some() {
            self.arm(place);
        }
        if to.is_auction() {
            self.sum_up(place);
        }
        out.emit(Event::PhaseChanged(id, to));
    }

    /// Orders that are for an auction expire when that is over, lowest order id first.
    fn expire_auction_orders<S: EventSink>(
        &mut self,
        place: u32,
        from: Phase,
        to: Phase,
        out: &mut Outbox<'_, S>,
    ) {
        if matches!(to, Phase::Halted | Phase::CancelOnly) {
            return;
        }
        let all = matches!(to, Phase::Continuous | Phase::Closed);
        for handle in self.special_orders(place) {
            let in_book = self.is_in_book(handle);
            let is_over = match self.orders.arena.get(handle).time_in_force {
                TimeInForce::AtTheOpen => all || from == Phase::OpeningAuction,
                TimeInForce::AtTheClose => in_book && (all || from == Phase::ClosingAuction),
                TimeInForce::GoodForAuction => all || from.is_auction(),
                _ => false,
            };
            if is_over {
                self.finish_expired(handle, ExpireReason::AuctionEnd, RequestId(0), out);
            }
        }
    }

    /// Whether an order is in a queue of its book, displayed or hidden.
    pub(crate) fn is_in_book(&self, handle: Handle) -> bool {
        let standing = self.orders.extra(handle).map(|extra| extra.standing);
        matches!(standing, None | Some(Standing::Displayed | Standing::Hidden))
    }

    /// Pegged orders follow nothing in a call: they leave the book and wait, lowest order id first.
    fn park_pegs<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        let pegs: Vec<Handle> = self.waiting_mut(place).pegs.values().copied().collect();
        for handle in pegs {
            if self.is_in_book(handle) {
                self.withdraw(handle, out);
                self.wait(handle, Wait::Peg);
            }
        }
    }

    /// Orders that waited for the closing auction enter its book, lowest order id first.
    fn enter_at_close<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        let waiting: Vec<Handle> = self.waiting_mut(place).at_close.values().copied().collect();
        for handle in waiting {
            self.withdraw(handle, out);
            self.enter(handle, RequestId(0), out);
        }
    }

    /// Orders of the day, and those of auctions, expire when the instrument closes, lowest order id first.
    fn expire_at_close_of_day<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        for handle in self.orders_of(place) {
            let time_in_force = self.orders.arena.get(handle).time_in_force;
            if time_in_force == TimeInForce::Day || options::is_for_auction(time_in_force) {
                self.finish_expired(handle, ExpireReason::EndOfDay, RequestId(0), out);
            }
        }
    }

    /// All live orders of an instrument, lowest order id first. Not for what comes often.
    pub(crate) fn orders_of(&self, place: u32) -> Vec<Handle> {
        let arena = &self.orders.arena;
        let mut handles = self.special_orders(place);
        for side in [Side::Buy, Side::Sell] {
            self.instruments.get(place).book.for_each(arena, side, |handle| {
                if !arena.get(handle).special {
                    handles.push(handle);
                }
            });
        }
        handles.sort_unstable_by_key(|handle| arena.get(*handle).order_id);
        handles
    }

    /// Ends an instrument for good. Again it changes nothing.
    pub(crate) fn delist<S: EventSink>(
        &mut self,
        id: InstrumentId,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        if self.instruments.get(place).phase == Phase::Delisted {
            return Ok(());
        }
        if self.accounts.has_positions(id) {
            return Err(RejectReason::PositionsOpen);
        }
        for handle in self.orders_of(place) {
            self.finish_canceled(handle, CancelReason::Delisted, RequestId(0), out);
        }
        self.enter_phase(place, Phase::Delisted, out);
        self.instruments.get_mut(place).special_mut().schedule.changes.clear();
        self.arm(place);
        self.touch(place);
        self.follow(out);
        Ok(())
    }
}
