//! New orders: what is checked (rules 7 to 11, 16, 61, 81), and how they begin.

use protocol::{
    AccountId, ClientOrderId, Command, Fees, InstrumentId, NewOrder, OrderId, OrderType, Phase, Price,
    Quantity, RejectReason, RestateReason, SessionId, Side, TimeInForce,
};

use super::instruments::{Instrument, trail};
use super::money::Supposed;
use super::order::{Order, Parent, Standing, Why};
use super::{Fault, Oracle};

/// Most live orders of a group, and most children of an order.
const GROUP_MAX: usize = 16;
/// Rule 24.
const FOLLOWING_MAX: usize = 1_000;

impl Oracle {
    pub(super) fn new_order(&mut self, command: &Command, new: &NewOrder) -> Result<(), RejectReason> {
        if self.rulebook < 2 && !is_plain(new) {
            return Err(RejectReason::OptionNotOffered);
        }
        self.check_phase(new.instrument)?;
        let it = &self.instruments[&new.instrument];
        check_options(new)?;
        if new.order_type == OrderType::MarketProtected && it.rules.protection == 0 {
            return Err(RejectReason::OptionsConflict);
        }
        check_for_phase(new, it.phase)?;
        let fees = self.check_sender_of_order(command, new.instrument, new.account, 1)?;
        self.check_grid(new)?;
        let mut order = self.draft(command.session, ClientOrderId(command.request_id.0), new, fees);
        self.check_notional(&order)?;
        self.check_groups(&mut order)?;
        let slid = self.check_post_only(&mut order)?;
        self.begin_trail(&mut order)?;
        self.check_risk(&order, None, &Supposed::default())?;
        self.check_following(&order)?;
        self.check_room(&order, &Supposed::default(), true)?;
        self.remember_order(&order);
        let id = self.admit(order);
        self.report_accepted(command, id, new);
        if slid {
            self.report_restated(id, order.limit, RestateReason::Slid);
        }
        if order.is_child() {
            self.wait(id, Why::Parent);
        } else if order.stop_price.is_some() {
            self.begin_stop(id, command.request_id);
        } else {
            self.enter(id, command.request_id);
        }
        if let Some(text) = new.cl_ord_id
            && self.orders.contains_key(&id)
        {
            self.name_order(id, text);
        }
        self.follow();
        Ok(())
    }

    /// The order has a new current text id.
    pub(super) fn name_order(&mut self, id: OrderId, text: protocol::ClOrdId) {
        let order = *self.order(id);
        if let Some(old) = order.text {
            self.current_texts.remove(&(order.session, old));
        }
        self.change(id, |order| order.text = Some(text));
        self.current_texts.insert((order.session, text), id);
    }

    /// Takes a checked order in.
    pub(super) fn admit(&mut self, mut order: Order) -> OrderId {
        self.last_order += 1;
        order.order_id = OrderId(self.last_order);
        self.owned.insert((order.session, order.client_order_id), order.order_id);
        if order.expiry().is_some() {
            self.dated.insert(order.order_id);
        }
        if order.flags.reduce_only {
            self.reducing.insert(order.order_id);
        }
        self.orders.insert(order.order_id, order);
        order.order_id
    }

    /// The order that a request amounts to, in no book yet.
    pub(super) fn draft(
        &self,
        session: SessionId,
        client_order_id: ClientOrderId,
        new: &NewOrder,
        tracked: Option<Fees>,
    ) -> Order {
        Order {
            order_id: OrderId(0),
            session,
            client_order_id,
            account: new.account,
            instrument: new.instrument,
            side: new.side,
            order_type: new.order_type,
            time_in_force: new.time_in_force,
            flags: new.flags,
            terms: new.terms,
            limit: new.price,
            given: None,
            total: new.quantity.0,
            cum: 0,
            shown: 0,
            refills: 0,
            stop_given: new.terms.stop_price(),
            stop_price: new.terms.stop_price(),
            minimum: new.terms.minimum().map(|minimum| minimum.0),
            parent: None,
            standing: Standing::Entering,
            text: None,
            quote: false,
            tracked,
        }
    }

    /// Line 2 of rule 7.
    pub(super) fn check_phase(&self, instrument: InstrumentId) -> Result<(), RejectReason> {
        let it = self.instruments.get(&instrument).ok_or(RejectReason::UnknownInstrument)?;
        match it.phase {
            Phase::Halted => Err(RejectReason::InstrumentHalted),
            Phase::Closed | Phase::Delisted => Err(RejectReason::InstrumentClosed),
            Phase::CancelOnly => Err(RejectReason::CancelOnly),
            _ => Ok(()),
        }
    }

    /// Line 4 of rule 7: rule 81, with what the order will pay if it is tracked.
    pub(super) fn check_sender_of_order(
        &mut self,
        command: &Command,
        instrument: InstrumentId,
        account: AccountId,
        weight: u32,
    ) -> Result<Option<Fees>, RejectReason> {
        self.throttle(command, weight, 0)?;
        let participant = self.sessions[&command.session].participant;
        let tracked = participant.0 != 0;
        let owner = self.accounts.registered.get(&account).map(|it| it.definition.participant);
        if tracked && owner != Some(participant) {
            return Err(RejectReason::UnknownAccount);
        }
        let settles = self.instruments[&instrument].rules.settlement != protocol::Settlement::None;
        if settles && !tracked {
            return Err(RejectReason::AccountRequired);
        }
        self.check_killed(tracked.then_some(account))?;
        Ok(tracked.then(|| self.accounts.fees_of(instrument, account)))
    }

    /// Line 5 of rule 7.
    pub(super) fn check_grid(&self, new: &NewOrder) -> Result<(), RejectReason> {
        let it = &self.instruments[&new.instrument];
        let terms = &new.terms;
        it.check_quantity(new.quantity)?;
        for price in [new.price, terms.stop_price()].into_iter().flatten() {
            it.check_price(price)?;
        }
        check_display(it, terms.display(), terms.display_high(), new.quantity)?;
        if let Some(minimum) = terms.minimum()
            && (minimum.0 == 0 || !it.is_on_lot(minimum) || minimum > new.quantity)
        {
            return Err(RejectReason::MinimumInvalid);
        }
        let tick = it.definition.tick_size.0;
        if let Some(peg) = terms.peg()
            && (peg.offset < 0 || peg.offset % tick != 0)
        {
            return Err(RejectReason::PegInvalid);
        }
        if let Some(distance) = terms.trail()
            && (distance == 0 || !distance.is_multiple_of(tick.unsigned_abs()))
        {
            return Err(RejectReason::TrailInvalid);
        }
        if terms.expire_time().is_some_and(|time| time <= self.log_time) {
            return Err(RejectReason::ExpireTimePast);
        }
        Ok(())
    }

    /// Line 6 of rule 7.
    pub(super) fn check_notional(&self, order: &Order) -> Result<(), RejectReason> {
        let rules = &self.instruments[&order.instrument].rules;
        let Some(notional) = self.order_notional(order) else { return Ok(()) };
        if rules.notional_min > 0 && notional < u128::from(rules.notional_min) {
            return Err(RejectReason::NotionalBelowMinimum);
        }
        if rules.notional_max > 0 && notional > u128::from(rules.notional_max) {
            return Err(RejectReason::NotionalAboveMaximum);
        }
        Ok(())
    }

    /// Line 7 of rule 7.
    fn check_groups(&self, order: &mut Order) -> Result<(), RejectReason> {
        if let Some(parent) = order.terms.parent() {
            let parent = *self.owned.get(&(order.session, parent)).ok_or(RejectReason::UnknownParent)?;
            if self.order(parent).instrument != order.instrument {
                return Err(RejectReason::UnknownParent);
            }
            order.parent = Some(Parent::Lives(parent));
            let children = self.orders.values().filter(|child| child.parent == order.parent);
            if children.count() >= GROUP_MAX {
                return Err(RejectReason::GroupFull);
            }
        }
        let members = order.terms.oco().map(|group| self.members(order.session, group).len());
        if members.is_some_and(|members| members >= GROUP_MAX) && !order.is_child() {
            return Err(RejectReason::GroupFull);
        }
        Ok(())
    }

    /// Line 8 of rule 7, first half: rules 14 and 15. True where the order slid.
    pub(super) fn check_post_only(&self, order: &mut Order) -> Result<bool, RejectReason> {
        let it = &self.instruments[&order.instrument];
        if !order.flags.post_only || it.phase != Phase::Continuous {
            return Ok(false);
        }
        let at_touch = self.is_faulty(Fault::PostOnlyTradesAtTouch);
        let best = self.counterparties(order.instrument, order.side, order.limit).next();
        let Some(best) = best.map(|(place, _)| place.price()) else { return Ok(false) };
        if at_touch && order.limit == Some(best) {
            return Ok(false);
        }
        let best = i128::from(best.0);
        let slid = match order.side {
            Side::Buy => it.down(best - 1),
            Side::Sell => it.up(best + 1),
        };
        order.limit = slid.filter(|_| order.flags.slide).map(Some).ok_or(RejectReason::PostOnlyWouldTrade)?;
        Ok(true)
    }

    /// Line 8 of rule 7, second half: the first stop price of a trail.
    fn begin_trail(&self, order: &mut Order) -> Result<(), RejectReason> {
        if let (Some(distance), None) = (order.terms.trail(), order.stop_price) {
            let trigger =
                self.trigger_price(order.instrument, order.side).ok_or(RejectReason::NoReference)?;
            order.stop_price = Some(trail(order.side, trigger, distance));
        }
        Ok(())
    }

    /// Line 10 of rule 7: pegs, and trails that were not triggered.
    fn check_following(&self, order: &Order) -> Result<(), RejectReason> {
        let follows = |order: &Order| {
            order.terms.peg().is_some() || order.terms.trail().is_some() && order.stop_price.is_some()
        };
        let live = || self.followed_in(order.instrument).into_iter().filter(follows).count();
        if follows(order) && live() >= FOLLOWING_MAX { Err(RejectReason::FollowingFull) } else { Ok(()) }
    }

    /// Line 10 of rule 7: rule 16. `supposed` are gone orders whose room it may take.
    pub(super) fn check_room(
        &self,
        order: &Order,
        supposed: &Supposed,
        is_new: bool,
    ) -> Result<(), RejectReason> {
        let it = &self.instruments[&order.instrument];
        let stop_waits =
            order.stop_price.is_some() && !(it.phase == Phase::Continuous && self.is_triggered(order));
        let waits = stop_waits
            || order.is_child()
            || order.time_in_force == TimeInForce::AtTheClose && it.phase != Phase::ClosingAuction;
        let run_price = if it.phase.is_call() { None } else { self.entry_price(order) };
        let is_peg = order.terms.peg().is_some();
        let parked = is_peg && run_price.is_none();
        if waits || parked {
            return if is_new { self.check_order_room(supposed) } else { Ok(()) };
        }
        let in_call = it.phase.is_call();
        if !in_call {
            let stays = order.can_rest() && run_price.is_some();
            let least = order.minimum.map_or(1, |minimum| minimum.min(order.open()));
            if !stays || self.dry_run(order).quantity >= least {
                return Ok(());
            }
        }
        if is_new {
            self.check_order_room(supposed)?;
        }
        let price: Option<Price> = match order.order_type {
            OrderType::Market => Some(self.furthest_price(order)),
            _ => run_price.and_then(|price| price.price()).or(order.limit),
        };
        let Some(price) = price else { return Ok(()) };
        let level = (order.instrument, order.side, price, order.rests_hidden());
        if self.has_level(level, &supposed.without) { Ok(()) } else { Err(RejectReason::LevelsFull) }
    }

    fn check_order_room(&self, supposed: &Supposed) -> Result<(), RejectReason> {
        let live = self.orders.len() - supposed.without.len();
        if live >= self.capacities.orders as usize { Err(RejectReason::OrdersFull) } else { Ok(()) }
    }
}

/// Of version 1 of the rulebook.
fn is_plain(new: &NewOrder) -> bool {
    use TimeInForce::{Day, FillOrKill, GoodTillCancel, ImmediateOrCancel};
    matches!(new.order_type, OrderType::Market | OrderType::Limit)
        && matches!(new.time_in_force, Day | GoodTillCancel | ImmediateOrCancel | FillOrKill)
        && new.terms.is_empty()
        && new.flags.is_plain()
}

/// Rule 10.
pub(super) fn check_display(
    it: &Instrument,
    display: Option<Quantity>,
    high: Option<Quantity>,
    total: Quantity,
) -> Result<(), RejectReason> {
    let Some(display) = display else { return Ok(()) };
    let display_is_fine = display.0 > 0 && it.is_on_lot(display) && display < total;
    let high_is_fine = high.is_none_or(|high| high >= display && it.is_on_lot(high) && high <= total);
    if display_is_fine && high_is_fine {
        check_parts(total, display)
    } else {
        Err(RejectReason::DisplayInvalid)
    }
}

/// Rule 10: an iceberg is shown in a thousand parts at most.
pub(super) fn check_parts(total: Quantity, display: Quantity) -> Result<(), RejectReason> {
    if u128::from(display.0) * 1_000 < u128::from(total.0) {
        Err(RejectReason::DisplayInvalid)
    } else {
        Ok(())
    }
}

/// Rule 8.
fn check_options(new: &NewOrder) -> Result<(), RejectReason> {
    use TimeInForce::ImmediateOrCancel;
    use TimeInForce::{AtTheClose, AtTheOpen, Day, FillOrKill, GoodForAuction, GoodTillCancel, GoodTillDate};
    let (flags, terms, tif) = (new.flags, &new.terms, new.time_in_force);
    let is_market_of_any_type =
        matches!(new.order_type, OrderType::Market | OrderType::MarketToLimit | OrderType::MarketProtected);
    let at_once = matches!(tif, ImmediateOrCancel | FillOrKill);
    let for_auction = matches!(tif, AtTheOpen | AtTheClose | GoodForAuction);
    let (display, minimum, peg) =
        (terms.display().is_some(), terms.minimum().is_some(), terms.peg().is_some());
    let stops = terms.stop_price().is_some() || terms.trail().is_some();
    let priced_by_book = matches!(new.order_type, OrderType::MarketToLimit | OrderType::MarketProtected);
    let conflicts = [
        (new.order_type == OrderType::Limit) != new.price.is_some(),
        flags.post_only && (is_market_of_any_type || at_once),
        flags.slide && !flags.post_only,
        is_market_of_any_type && (display || flags.hidden || peg || minimum),
        flags.hidden && display,
        new.order_type == OrderType::Pegged && !peg,
        peg && (stops || display || flags.post_only),
        peg && !matches!(tif, Day | GoodTillCancel | GoodTillDate),
        stops && (at_once || for_auction || flags.post_only || minimum || priced_by_book),
        terms.trail().is_some() && !matches!(new.order_type, OrderType::Market | OrderType::Limit),
        terms.display_high().is_some() && !display,
        (tif == GoodTillDate) != terms.expire_time().is_some(),
        minimum && (tif == FillOrKill || for_auction),
        display && at_once,
        for_auction && (priced_by_book || terms.parent().is_some()),
        flags.post_only && terms.parent().is_some(),
    ];
    if conflicts.contains(&true) { Err(RejectReason::OptionsConflict) } else { Ok(()) }
}

/// Rule 61.
fn check_for_phase(new: &NewOrder, phase: Phase) -> Result<(), RejectReason> {
    use TimeInForce::{AtTheClose, AtTheOpen, FillOrKill, GoodForAuction, ImmediateOrCancel};
    let tif = new.time_in_force;
    let for_auction = matches!(tif, AtTheOpen | AtTheClose | GoodForAuction);
    let stops = new.terms.stop_price().is_some() || new.terms.trail().is_some();
    let not_in_call = matches!(tif, ImmediateOrCancel | FillOrKill)
        || new.terms.minimum().is_some()
        || matches!(new.order_type, OrderType::MarketToLimit | OrderType::MarketProtected)
        || new.order_type == OrderType::Market && !stops && !for_auction;
    let elsewhere = match tif {
        AtTheOpen => !matches!(phase, Phase::PreOpen | Phase::OpeningAuction),
        GoodForAuction => !phase.is_call(),
        _ => false,
    };
    if phase.is_call() && not_in_call || elsewhere { Err(RejectReason::NotInThisPhase) } else { Ok(()) }
}
