//! Orders: what is checked, how they trade, how they leave.

use std::collections::BTreeSet;

use protocol::{
    Accepted, Added, CancelOrder, CancelReason, Canceled, ClientOrderId, Command, Event, Executed,
    ExpireReason, Expired, InstrumentId, Liquidity, MassCancel, MassCanceled, NewOrder, OrdStatus, OrderId,
    OrderKey, OrderStatusReport, OrderStatusRequest, OrderType, Phase, Price, Quantity, Reduced,
    RejectReason, ReplaceOrder, Replaced, RequestId, SessionId, Side, TimeInForce, Trade, TradeId,
};

use super::{Fault, Instrument, Oracle, Place, Resting, quantity, rank};

impl Oracle {
    pub(super) fn new_order(&mut self, command: &Command, new: &NewOrder) -> Result<(), RejectReason> {
        // The rules of version 2 are not written here yet.
        if !is_plain(new) {
            return Err(RejectReason::OptionNotOffered);
        }
        self.check_new(new)?;
        self.orders += 1;
        let mut order = Resting {
            order_id: OrderId(self.orders),
            session: command.session,
            client_order_id: ClientOrderId(command.request_id.0),
            account: new.account,
            price: new.price.unwrap_or(Price(0)),
            total: new.quantity.0,
            cum: 0,
            time_in_force: new.time_in_force,
            flags: new.flags,
        };
        self.name_report(command.session, new.cl_ord_id);
        self.report(command.session, |to| {
            Event::Accepted(Accepted {
                to,
                request_id: command.request_id,
                order_id: order.order_id,
                price: new.price,
                quantity: new.quantity,
                instrument: new.instrument,
                account: new.account,
                side: new.side,
                order_type: new.order_type,
                time_in_force: new.time_in_force,
                flags: new.flags,
            })
        });
        let mut expiry = match (new.order_type, new.time_in_force) {
            (OrderType::Market, _) => Some(ExpireReason::NoLiquidity),
            (OrderType::Limit, TimeInForce::ImmediateOrCancel) => Some(ExpireReason::ImmediateOrCancel),
            _ => None,
        };
        if self.fault == Some(Fault::ImmediateOrCancelRests)
            && expiry == Some(ExpireReason::ImmediateOrCancel)
        {
            expiry = None;
        }
        if new.time_in_force == TimeInForce::FillOrKill
            && self.available(new.instrument, new.side, new.price) < u128::from(new.quantity.0)
        {
            expiry = Some(ExpireReason::FillOrKill);
        } else {
            self.trade((new.instrument, new.side, new.price), &mut order, command.request_id);
        }
        if order.leaves() == 0 {
            return Ok(());
        }
        match expiry {
            Some(reason) => self.report(order.session, |to| {
                Event::Expired(Expired {
                    to,
                    request_id: command.request_id,
                    order_id: order.order_id,
                    client_order_id: order.client_order_id,
                    resting_price: None,
                    expired_quantity: quantity(order.leaves()),
                    cum_quantity: quantity(order.cum),
                    instrument: new.instrument,
                    account: order.account,
                    side: new.side,
                    reason,
                })
            }),
            None => {
                self.rest(new.instrument, new.side, order);
                if let Some(text) = new.cl_ord_id {
                    self.current_texts.insert((order.session, text), order.client_order_id);
                }
            }
        }
        Ok(())
    }

    fn check_new(&self, new: &NewOrder) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(&new.instrument).ok_or(RejectReason::UnknownInstrument)?;
        if instrument.phase == Phase::Halted {
            return Err(RejectReason::InstrumentHalted);
        }
        let stays = matches!(new.time_in_force, TimeInForce::Day | TimeInForce::GoodTillCancel);
        let may_rest = new.order_type == OrderType::Limit && stays;
        if (new.order_type == OrderType::Limit) != new.price.is_some() || new.flags.post_only && !may_rest {
            return Err(RejectReason::OptionsConflict);
        }
        check_quantity(instrument, new.quantity)?;
        if let Some(price) = new.price {
            check_price(instrument, price)?;
        }
        let trades = self.would_trade(new.instrument, new.side, new.price);
        if new.flags.post_only && self.post_only_refuses(new.instrument, new.side, new.price) {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        if let Some(price) = new.price
            && may_rest
            && !trades
        {
            if self.resting.len() >= self.capacities.orders as usize {
                return Err(RejectReason::OrdersFull);
            }
            self.check_level(new.instrument, new.side, price, None)?;
        }
        Ok(())
    }

    /// There is a level at the price, or room for one once `leaving` is gone.
    fn check_level(
        &self,
        instrument: InstrumentId,
        side: Side,
        price: Price,
        leaving: Option<Place>,
    ) -> Result<(), RejectReason> {
        if self.resting.len() < self.capacities.levels as usize {
            return Ok(());
        }
        let levels: BTreeSet<_> = self
            .resting
            .keys()
            .filter(|place| Some(**place) != leaving)
            .map(|place| (place.instrument, place.side, place.rank))
            .collect();
        if levels.contains(&(instrument, side, rank(side, price)))
            || levels.len() < self.capacities.levels as usize
        {
            Ok(())
        } else {
            Err(RejectReason::LevelsFull)
        }
    }

    /// The orders that an incoming one may trade with, in the order in which it does.
    fn counterparties(
        &self,
        instrument: InstrumentId,
        side: Side,
        limit: Option<Price>,
    ) -> impl Iterator<Item = (Place, Resting)> {
        let opposite = side.opposite();
        let first = Place { instrument, side: opposite, rank: i128::MIN, arrival: 0 };
        self.resting
            .range(first..)
            .take_while(move |(place, _)| place.instrument == instrument && place.side == opposite)
            .take_while(move |(_, order)| match (side, limit) {
                (_, None) => true,
                (Side::Buy, Some(limit)) => order.price <= limit,
                (Side::Sell, Some(limit)) => order.price >= limit,
            })
            .map(|(place, order)| (*place, *order))
    }

    fn would_trade(&self, instrument: InstrumentId, side: Side, limit: Option<Price>) -> bool {
        self.counterparties(instrument, side, limit).next().is_some()
    }

    fn post_only_refuses(&self, instrument: InstrumentId, side: Side, limit: Option<Price>) -> bool {
        let at_touch = self.fault == Some(Fault::PostOnlyTradesAtTouch);
        let best = self.counterparties(instrument, side, limit).next();
        best.is_some_and(|(_, order)| !(at_touch && Some(order.price) == limit))
    }

    fn available(&self, instrument: InstrumentId, side: Side, limit: Option<Price>) -> u128 {
        self.counterparties(instrument, side, limit).map(|(_, order)| u128::from(order.leaves())).sum()
    }

    /// Trades an incoming order with all that it may trade with.
    fn trade(
        &mut self,
        (instrument, side, limit): (InstrumentId, Side, Option<Price>),
        taker: &mut Resting,
        request_id: RequestId,
    ) {
        while taker.leaves() > 0 {
            let Some((place, mut maker)) = self.counterparties(instrument, side, limit).next() else {
                return;
            };
            let traded = taker.leaves().min(maker.leaves());
            taker.cum += traded;
            maker.cum += traded;
            self.trades += 1;
            let price = match (self.fault, limit) {
                (Some(Fault::TakerPrice), Some(limit)) => limit,
                _ => maker.price,
            };
            let trade = Trade {
                trade_id: TradeId(self.trades),
                maker_order_id: maker.order_id,
                taker_order_id: taker.order_id,
                price,
                quantity: quantity(traded),
                instrument,
                taker_side: Some(side),
            };
            self.report_execution(taker, &trade, (side, Liquidity::Taker), request_id);
            self.report_execution(&maker, &trade, (side.opposite(), Liquidity::Maker), RequestId(0));
            self.events.push(Event::Trade(trade));
            if maker.leaves() == 0 {
                self.forget(place);
            } else if self.fault == Some(Fault::PartialFillLosesPlace) {
                self.resting.remove(&place);
                self.arrivals += 1;
                let place = Place { arrival: self.arrivals, ..place };
                self.owned.insert((maker.session, maker.client_order_id), place);
                self.resting.insert(place, maker);
            } else {
                self.resting.insert(place, maker);
            }
        }
    }

    fn report_execution(
        &mut self,
        order: &Resting,
        trade: &Trade,
        (side, liquidity): (Side, Liquidity),
        request_id: RequestId,
    ) {
        self.report(order.session, |to| {
            Event::Executed(Executed {
                to,
                request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                trade_id: trade.trade_id,
                last_price: trade.price,
                last_quantity: trade.quantity,
                leaves_quantity: quantity(order.leaves()),
                cum_quantity: quantity(order.cum),
                instrument: trade.instrument,
                account: order.account,
                side,
                liquidity,
            })
        });
    }

    /// An order comes to rest behind all others of its price.
    fn rest(&mut self, instrument: InstrumentId, side: Side, order: Resting) {
        self.arrivals += 1;
        let place = Place { instrument, side, rank: rank(side, order.price), arrival: self.arrivals };
        self.owned.insert((order.session, order.client_order_id), place);
        self.resting.insert(place, order);
        self.events.push(Event::Added(Added {
            order_id: order.order_id,
            price: order.price,
            quantity: quantity(order.leaves()),
            instrument,
            side,
        }));
    }

    /// Takes an order out of everything.
    pub(super) fn forget(&mut self, place: Place) -> Option<Resting> {
        let order = self.resting.remove(&place)?;
        self.owned.remove(&(order.session, order.client_order_id));
        self.current_texts
            .retain(|(session, _), id| (*session, *id) != (order.session, order.client_order_id));
        Some(order)
    }

    fn find(&self, session: SessionId, key: &OrderKey) -> Result<(Place, Resting), RejectReason> {
        let id = match key {
            OrderKey::Id(id) => *id,
            OrderKey::Text(text) => {
                *self.current_texts.get(&(session, *text)).ok_or(RejectReason::UnknownOrder)?
            }
        };
        let place = *self.owned.get(&(session, id)).ok_or(RejectReason::UnknownOrder)?;
        let order = *self.resting.get(&place).ok_or(RejectReason::UnknownOrder)?;
        Ok((place, order))
    }

    pub(super) fn cancel_order(
        &mut self,
        command: &Command,
        cancel: &CancelOrder,
    ) -> Result<(), RejectReason> {
        let (place, _) = self.find(command.session, &cancel.order)?;
        if cancel.side.is_some_and(|side| side != place.side) {
            return Err(RejectReason::SideMismatch);
        }
        self.cancel(place, CancelReason::Requested, command.request_id);
        Ok(())
    }

    pub(super) fn cancel(&mut self, place: Place, reason: CancelReason, request_id: RequestId) {
        let Some(order) = self.forget(place) else { return };
        self.report(order.session, |to| {
            Event::Canceled(Canceled {
                to,
                request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                resting_price: Some(order.price),
                canceled_quantity: quantity(order.leaves()),
                cum_quantity: quantity(order.cum),
                instrument: place.instrument,
                account: order.account,
                side: place.side,
                reason,
            })
        });
    }

    pub(super) fn replace_order(
        &mut self,
        command: &Command,
        replace: &ReplaceOrder,
    ) -> Result<(), RejectReason> {
        let (Some(price), None, None) = (replace.price, replace.stop_price, replace.display) else {
            return Err(RejectReason::OptionNotOffered);
        };
        let (place, order) = self.find(command.session, &replace.order)?;
        if replace.side.is_some_and(|side| side != place.side) {
            return Err(RejectReason::SideMismatch);
        }
        let Place { instrument, side, .. } = place;
        let definition = self.instruments.get(&instrument).ok_or(RejectReason::UnknownInstrument)?;
        if definition.phase == Phase::Halted {
            return Err(RejectReason::InstrumentHalted);
        }
        check_quantity(definition, replace.quantity)?;
        check_price(definition, price)?;
        if replace.quantity.0 < order.cum {
            return Err(RejectReason::TooLate);
        }
        if replace.quantity.0 == order.cum {
            self.cancel(place, CancelReason::ReplacedToExecuted, command.request_id);
            return Ok(());
        }
        let larger = replace.quantity.0 > order.total;
        let keeps = price == order.price && (!larger || self.fault == Some(Fault::LargerReplaceKeepsPlace));
        let limit = Some(price);
        if !keeps {
            if order.flags.post_only && self.post_only_refuses(instrument, side, limit) {
                return Err(RejectReason::PostOnlyWouldTrade);
            }
            if !self.would_trade(instrument, side, limit) {
                self.check_level(instrument, side, price, Some(place))?;
            }
        }
        self.name_report(command.session, replace.cl_ord_id);
        if let Some(text) = replace.cl_ord_id {
            let owner = (order.session, order.client_order_id);
            self.current_texts.retain(|(session, _), id| (*session, *id) != owner);
            self.current_texts.insert((order.session, text), order.client_order_id);
        }
        self.report(command.session, |to| {
            Event::Replaced(Replaced {
                to,
                request_id: command.request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                price: replace.price,
                quantity: replace.quantity,
                cum_quantity: quantity(order.cum),
                instrument,
                account: order.account,
                side,
                kept_place: keeps,
            })
        });
        let mut changed = Resting { price, total: replace.quantity.0, ..order };
        if keeps {
            self.resting.insert(place, changed);
            self.reduced(place, &order, order.leaves().saturating_sub(changed.leaves()), false);
            return Ok(());
        }
        self.resting.remove(&place);
        self.reduced(place, &order, order.leaves(), true);
        self.trade((instrument, side, limit), &mut changed, command.request_id);
        if changed.leaves() > 0 {
            self.rest(instrument, side, changed);
        } else {
            self.resting.insert(place, changed);
            self.forget(place);
        }
        Ok(())
    }

    fn reduced(&mut self, place: Place, before: &Resting, by: u64, gone: bool) {
        if by > 0 {
            self.events.push(Event::Reduced(Reduced {
                order_id: before.order_id,
                price: before.price,
                quantity: quantity(by),
                instrument: place.instrument,
                side: place.side,
                gone,
            }));
        }
    }

    pub(super) fn order_status(
        &mut self,
        command: &Command,
        status: &OrderStatusRequest,
    ) -> Result<(), RejectReason> {
        let (place, order) = self.find(command.session, &status.order)?;
        self.report(command.session, |to| {
            Event::OrderStatus(OrderStatusReport {
                to,
                request_id: command.request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                price: Some(order.price),
                stop_price: None,
                leaves_quantity: quantity(order.leaves()),
                cum_quantity: quantity(order.cum),
                instrument: place.instrument,
                account: order.account,
                side: place.side,
                status: if order.cum > 0 { OrdStatus::PartiallyFilled } else { OrdStatus::New },
            })
        });
        Ok(())
    }

    pub(super) fn mass_cancel(&mut self, command: &Command, cancel: &MassCancel) -> Result<(), RejectReason> {
        let own = cancel.session == command.session;
        if !own && !self.is_operator(command.session) {
            return Err(RejectReason::NotAuthorized);
        }
        if !self.sessions.contains_key(&cancel.session) {
            return Err(RejectReason::UnknownUser);
        }
        if cancel.instrument.is_some_and(|id| !self.instruments.contains_key(&id)) {
            return Err(RejectReason::UnknownInstrument);
        }
        let meant: Vec<Place> = self
            .orders_of(cancel.session)
            .into_iter()
            .filter(|place| cancel.instrument.is_none_or(|id| id == place.instrument))
            .filter(|place| cancel.side.is_none_or(|side| side == place.side))
            .collect();
        for place in &meant {
            if own {
                self.cancel(*place, CancelReason::MassCancel, command.request_id);
            } else {
                self.cancel(*place, CancelReason::Operator, RequestId(0));
            }
        }
        self.report(command.session, |to| {
            Event::MassCanceled(MassCanceled {
                to,
                request_id: command.request_id,
                orders: meant.len() as u64,
            })
        });
        Ok(())
    }
}

fn is_plain(new: &NewOrder) -> bool {
    let known = matches!(new.order_type, OrderType::Market | OrderType::Limit)
        && matches!(
            new.time_in_force,
            TimeInForce::Day
                | TimeInForce::GoodTillCancel
                | TimeInForce::ImmediateOrCancel
                | TimeInForce::FillOrKill
        );
    known && new.terms.is_empty() && new.flags.is_plain()
}

fn check_quantity(instrument: &Instrument, wanted: Quantity) -> Result<(), RejectReason> {
    if wanted.0 == 0 {
        return Err(RejectReason::QuantityZero);
    }
    if wanted > instrument.definition.quantity_max {
        return Err(RejectReason::QuantityAboveMaximum);
    }
    if !wanted.0.is_multiple_of(instrument.definition.lot_size.0) {
        return Err(RejectReason::QuantityNotOnLot);
    }
    Ok(())
}

fn check_price(instrument: &Instrument, price: Price) -> Result<(), RejectReason> {
    if !(instrument.definition.price_min..=instrument.definition.price_max).contains(&price) {
        return Err(RejectReason::PriceOutsideLimits);
    }
    if price.0.rem_euclid(instrument.definition.tick_size.0) != 0 {
        return Err(RejectReason::PriceNotOnTick);
    }
    Ok(())
}
