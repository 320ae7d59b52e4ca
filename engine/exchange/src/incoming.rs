//! New orders on the general path, which knows every kind of order: what is checked of them, in the rulebook's order, and
//! their acceptance. What an accepted order then does is `enter`'s.

use protocol::{
    Accepted, ClientOrderId, Event, NewOrder, OrderId, OrderType, Phase, Price, RejectReason, RestateReason,
    SelfTrade, Side, TimeInForce,
};

use crate::arena::{Handle, Order};
use crate::book;
use crate::course::Incoming;
use crate::exchange::{Exchange, Request};
use crate::extras::{Extra, Wait};
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::risk::{Intent, Needs};
use crate::stops::trailed;
use crate::tracking::Tracked;
use crate::waiting::{FOLLOWING_MAX, at};

/// What the checks of a new order found out.
struct Checked {
    /// The limit that it has from the beginning: as given, or as a post-only order slid to.
    limit: Option<Price>,
    slid: bool,
    /// First stop price.
    stop_price: Option<Price>,
    parent: Option<Handle>,
    /// Place of the account where it is tracked.
    account: Option<u32>,
}

impl Exchange {
    /// Takes in a new order that is not plain, or whose instrument or session is not.
    #[inline(never)]
    pub(crate) fn new_special<S: EventSink>(
        &mut self,
        request: &Request,
        order: &NewOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.instruments.place(order.instrument).ok_or(RejectReason::UnknownInstrument)?;
        let checked = self.check_special(request, order, place, out)?;
        self.emit_name(request, out);
        let handle = self.accept(request, order, place, &checked, out);
        if checked.slid {
            self.restate(handle, (checked.limit, order.quantity.0), RestateReason::Slid, out);
        }
        match checked.parent {
            Some(parent) => {
                self.make_parent(parent);
                self.wait(handle, Wait::Parent);
                self.touch(place);
            }
            None => self.enter(handle, request.id, out),
        }
        Ok(())
    }

    fn check_special<S: EventSink>(
        &mut self,
        request: &Request,
        order: &NewOrder,
        place: u32,
        out: &mut Outbox<'_, S>,
    ) -> Result<Checked, RejectReason> {
        let terms = &order.terms;
        self.check_trading(place, out)?;
        options::check_conflicts(self.instruments.get(place), order)?;
        self.phase_allows(place, order)?;
        let account = self.check_account(request, order.account, place, 1)?;
        let instrument = self.instruments.get(place);
        options::check_grid(instrument, order, self.log_time)?;
        let opposite = self.best_prices(place)[at(order.side.opposite())];
        let valued_at = match order.order_type {
            OrderType::Limit => order.price,
            OrderType::Pegged => None,
            _ => terms.stop_price().or(opposite),
        };
        options::check_notional(instrument, order.quantity, valued_at)?;
        let parent = self.check_groups(request.session, place, terms.parent(), terms.oco())?;
        let mut checked = Checked { limit: order.price, slid: false, stop_price: None, parent, account };
        self.check_post_only(order, place, &mut checked)?;
        if let Some(distance) = terms.trail() {
            let trigger = || self.trigger(place, order.side).ok_or(RejectReason::NoReference);
            let first = || trigger().map(|trigger| trailed(order.side, trigger, distance));
            checked.stop_price = Some(terms.stop_price().map_or_else(first, Ok)?);
        } else {
            checked.stop_price = terms.stop_price();
        }
        let is_early = order.time_in_force == TimeInForce::AtTheClose
            && self.instruments.get(place).phase != Phase::ClosingAuction;
        let waits = checked.stop_price.is_some() || parent.is_some() || is_early;
        let rests_at = self.resting_price(order, place, &checked, waits);
        if let Some(account) = account {
            let needs = self.needs_of(request.session, order, place, &checked, (rests_at, waits));
            self.check_risk(&Intent {
                account,
                place,
                side: order.side,
                quantity: order.quantity.0,
                limit: checked.limit,
                worth: checked.limit.or(valued_at),
                needs,
                reduce_only: order.flags.reduce_only,
                replaces: None,
                keeps_place: false,
            })?;
        } else if order.flags.reduce_only {
            // Nobody's position is known that it could reduce.
            return Err(RejectReason::ReduceOnlyWouldIncrease);
        }
        let triggers = checked
            .stop_price
            .is_none_or(|stop| self.is_continuous(place) && self.triggers(place, order.side, stop));
        let waits = !triggers || parent.is_some() || is_early;
        self.check_following(place, order)?;
        self.check_room(request.session, order, place, (&checked, waits))?;
        Ok(checked)
    }

    /// A post-only order would trade with nothing, or is moved so that it doesn't.
    fn check_post_only(
        &self,
        order: &NewOrder,
        place: u32,
        checked: &mut Checked,
    ) -> Result<(), RejectReason> {
        if !order.flags.post_only || !self.is_continuous(place) {
            return Ok(());
        }
        let Err(met) = self.find_passive(place, order.side, order.price) else { return Ok(()) };
        if !order.flags.slide {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        let instrument = self.instruments.get(place);
        let met = i128::from(met.0);
        let slid = match order.side {
            Side::Buy => instrument.round_down(met - 1),
            Side::Sell => instrument.round_up(met + 1),
        };
        checked.limit = Some(slid.ok_or(RejectReason::PostOnlyWouldTrade)?);
        checked.slid = true;
        Ok(())
    }

    /// An order of a side at a price would meet nothing; the error is the price of what it would meet.
    fn find_passive(&self, place: u32, side: Side, limit: Option<Price>) -> Result<(), Price> {
        let Some((met, limit)) = self.best_to_meet(place, side).zip(limit) else { return Ok(()) };
        let beyond = match side {
            Side::Buy => met > limit,
            Side::Sell => met < limit,
        };
        if beyond { Ok(()) } else { Err(met) }
    }

    /// A post-only order at a price would meet nothing.
    pub(crate) fn check_passive(
        &self,
        place: u32,
        side: Side,
        limit: Option<Price>,
    ) -> Result<(), RejectReason> {
        self.find_passive(place, side, limit).map_err(|_| RejectReason::PostOnlyWouldTrade)
    }

    fn incoming(
        &self,
        session: u32,
        order: &NewOrder,
        limit: Option<Price>,
        account: Option<u32>,
    ) -> Incoming {
        let of_account = || self.account_self_trade(account?);
        let self_trade: Option<SelfTrade> = order.terms.self_trade().or_else(of_account);
        Incoming { side: order.side, limit, quantity: order.quantity.0, self_trade, session }
    }

    /// The price at which the order would rest if it did not trade; `None` where it would wait or has none.
    fn resting_price(&self, order: &NewOrder, place: u32, checked: &Checked, waits: bool) -> Option<Price> {
        let best = self.best_prices(place);
        match order.order_type {
            _ if waits => None,
            OrderType::Limit if order.terms.peg().is_none() => checked.limit,
            OrderType::Market => {
                options::is_for_auction(order.time_in_force).then(|| self.furthest(place, order.side))
            }
            OrderType::MarketToLimit | OrderType::MarketProtected => {
                self.derived_limit(place, order.order_type, order.side)
            }
            OrderType::Limit | OrderType::Pegged => {
                let peg = order.terms.peg()?;
                self.peg_price(place, order.side, peg, checked.limit, best)
            }
        }
    }

    /// The limit that an order without one gets from the book.
    pub(crate) fn derived_limit(&self, place: u32, order_type: OrderType, side: Side) -> Option<Price> {
        let best = self.best_prices(place)[at(side.opposite())]?;
        if order_type == OrderType::MarketToLimit {
            return Some(best);
        }
        let instrument = self.instruments.get(place);
        let protection = instrument.special.as_ref().map_or(0, |special| special.rules.protection);
        let (definition, best) = (&instrument.definition, i128::from(best.0));
        match side {
            Side::Buy => {
                instrument.round_down((best + i128::from(protection)).min(definition.price_max.0.into()))
            }
            Side::Sell => {
                instrument.round_up((best - i128::from(protection)).max(definition.price_min.0.into()))
            }
        }
    }

    /// The price that a market order has in a call.
    pub(crate) fn furthest(&self, place: u32, side: Side) -> Price {
        let instrument = self.instruments.get(place);
        let (low, high) = (instrument.definition.price_min, instrument.definition.price_max);
        match side {
            Side::Buy => instrument.round_down(high.0.into()).unwrap_or(high),
            Side::Sell => instrument.round_up(low.0.into()).unwrap_or(low),
        }
    }

    /// What a new order needs of its account.
    fn needs_of(
        &self,
        session: u32,
        order: &NewOrder,
        place: u32,
        checked: &Checked,
        (rests_at, waits): (Option<Price>, bool),
    ) -> Needs {
        if let Some(limit) = checked.limit {
            return Needs::Price(limit);
        }
        match order.order_type {
            OrderType::Pegged => Needs::Highest,
            OrderType::Market => match self.auction_price(place, order.side, order.time_in_force) {
                Some(price) => Needs::Price(price),
                None if waits => Needs::Nothing,
                None => {
                    let run = self.dry_run(place, &self.incoming(session, order, None, checked.account));
                    Needs::Sweep(run.cost, run.quantity)
                }
            },
            _ => rests_at.map_or(Needs::Nothing, Needs::Price),
        }
    }

    /// There is room for one more order that follows the instrument's prices, if it does.
    fn check_following(&self, place: u32, order: &NewOrder) -> Result<(), RejectReason> {
        let special = self.instruments.get(place).special.as_ref();
        let is_full = special.is_some_and(|special| special.waiting.following >= FOLLOWING_MAX);
        let follows = order.terms.peg().is_some() || order.terms.trail().is_some();
        if is_full && follows { Err(RejectReason::FollowingFull) } else { Ok(()) }
    }

    /// There is room for an order that would rest or wait without trading.
    fn check_room(
        &self,
        session: u32,
        order: &NewOrder,
        place: u32,
        (checked, waits): (&Checked, bool),
    ) -> Result<(), RejectReason> {
        // A peg waits where there is nothing to follow, and in calls.
        let is_peg = order.terms.peg().is_some();
        let waits = waits || is_peg && self.is_call(place);
        let rests_at = self.resting_price(order, place, checked, waits);
        let waits = waits || is_peg && rests_at.is_none();
        let orders_full = self.orders.arena.live() >= self.capacities.orders;
        let levels_full = self.levels >= self.capacities.levels;
        let rests = match order.order_type {
            OrderType::Market => options::is_for_auction(order.time_in_force),
            // Without an opposite price they expire.
            OrderType::MarketToLimit | OrderType::MarketProtected => {
                rests_at.is_some() && options::may_rest(order.time_in_force)
            }
            _ => options::may_rest(order.time_in_force),
        };
        if !(orders_full || levels_full) || !(waits || rests) {
            return Ok(());
        }
        let incoming = self.incoming(session, order, rests_at, checked.account);
        let least = order.terms.minimum().map_or(1, |minimum| minimum.0);
        if !waits && self.is_continuous(place) && self.dry_run(place, &incoming).quantity >= least {
            return Ok(());
        }
        if orders_full {
            return Err(RejectReason::OrdersFull);
        }
        let Some(price) = rests_at else { return Ok(()) };
        let terms = &order.terms;
        let hidden = order.flags.hidden || terms.peg().is_some() || terms.minimum().is_some();
        self.check_level(place, order.side, price, hidden)
    }

    /// There is room for a level at that price, or it exists.
    pub(crate) fn check_level(
        &self,
        place: u32,
        side: Side,
        price: Price,
        hidden: bool,
    ) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(place);
        let key = book::key(side, price);
        let exists = match (hidden, instrument.special.as_ref()) {
            (false, _) => instrument.book.side(side).get(key).is_some(),
            (true, special) => special.is_some_and(|it| it.hidden[at(side)].get(key).is_some()),
        };
        if exists || self.levels < self.capacities.levels { Ok(()) } else { Err(RejectReason::LevelsFull) }
    }

    /// Gives the order its id and its place in the arena. It is in no book yet.
    fn accept<S: EventSink>(
        &mut self,
        request: &Request,
        order: &NewOrder,
        place: u32,
        checked: &Checked,
        out: &mut Outbox<'_, S>,
    ) -> Handle {
        self.last_order_id += 1;
        let order_id = OrderId(self.last_order_id);
        out.emit(Event::Accepted(Accepted {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id,
            price: order.price,
            quantity: order.quantity,
            instrument: order.instrument,
            account: order.account,
            side: order.side,
            order_type: order.order_type,
            time_in_force: order.time_in_force,
            flags: order.flags,
        }));
        let line = Order {
            price: Price(0),
            leaves: order.quantity.0,
            cum: 0,
            order_id,
            client_order_id: ClientOrderId(request.id.0),
            session: request.session,
            account: order.account,
            instrument: place,
            next: Handle::NONE,
            prev: Handle::NONE,
            side: order.side,
            time_in_force: order.time_in_force,
            flag_bits: order.flags.to_byte(),
            special: true,
        };
        let extra = Extra {
            stop_price: checked.stop_price,
            tracked: checked.account.map(Tracked::new),
            ..Extra::new(order.terms, order.order_type, checked.limit)
        };
        self.admit_special(line, extra, request.name)
    }
}
