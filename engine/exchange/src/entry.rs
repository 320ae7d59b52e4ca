//! Order entry: new orders and replaces, and the trades they make.
//!
//! An order that would rest needs room. Where it trades first there always is some: if anything of it is left, it took
//! the last order of at least one level with it. So capacities are only checked for orders that don't trade on entry.

use protocol::{
    Accepted, AccountId, Added, CancelReason, ClientOrderId, Event, Executed, ExpireReason, Expired,
    InstrumentId, Liquidity, NewOrder, OrderFlags, OrderId, OrderType, Price, Quantity, Recipient, Reduced,
    RejectReason, ReplaceOrder, Replaced, RequestId, Side, TimeInForce, Trade, TradeId,
};

use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::{Exchange, Request};
use crate::outbox::{EventSink, Outbox};

/// What a new order does on entry.
enum Entry {
    /// It rests at its price without trading.
    Rests(Price),
    /// It trades, or is one that can't rest.
    Takes,
}

/// An order while it takes from the book.
struct Taker {
    session: u32,
    request_id: RequestId,
    order_id: OrderId,
    client_order_id: ClientOrderId,
    account: AccountId,
    side: Side,
    /// `None` is any price.
    limit: Option<Price>,
    leaves: u64,
    cum: u64,
}

impl Taker {
    #[inline]
    fn execution(&self, to: Recipient, trade: &Trade) -> Executed {
        Executed {
            to,
            request_id: self.request_id,
            order_id: self.order_id,
            client_order_id: self.client_order_id,
            trade_id: trade.trade_id,
            last_price: trade.price,
            last_quantity: trade.quantity,
            leaves_quantity: Quantity(self.leaves),
            cum_quantity: Quantity(self.cum),
            instrument: trade.instrument,
            account: self.account,
            side: self.side,
            liquidity: Liquidity::Taker,
        }
    }
}

#[inline]
fn maker_execution(to: Recipient, maker: &Order, trade: &Trade) -> Executed {
    Executed {
        to,
        request_id: RequestId(0),
        order_id: maker.order_id,
        client_order_id: maker.client_order_id,
        trade_id: trade.trade_id,
        last_price: trade.price,
        last_quantity: trade.quantity,
        leaves_quantity: Quantity(maker.leaves),
        cum_quantity: Quantity(maker.cum),
        instrument: trade.instrument,
        account: maker.account,
        side: maker.side,
        liquidity: Liquidity::Maker,
    }
}

impl Exchange {
    /// A new order of version 1 of the rulebook.
    #[inline(always)]
    pub(crate) fn new_order<S: EventSink>(
        &mut self,
        request: &Request,
        order: &NewOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.instruments.place(order.instrument).ok_or(RejectReason::UnknownInstrument)?;
        if !self.is_plain(request.session, place) {
            return self.new_quiet(request, place, order, out);
        }
        let entry = self.check_new(place, order, out)?;
        self.last_order_id += 1;
        let order_id = OrderId(self.last_order_id);
        self.emit_name(request, out);
        out.emit_inline(Event::Accepted(Accepted {
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
        let (price, leaves, cum) = match entry {
            Entry::Rests(price) => (price, order.quantity.0, 0),
            Entry::Takes => match self.take_from_book(request, place, order, order_id, out) {
                Some(left) => left,
                None => return Ok(()),
            },
        };
        let resting = Order {
            price,
            leaves,
            cum,
            order_id,
            client_order_id: ClientOrderId(request.id.0),
            session: request.session,
            account: order.account,
            instrument: place,
            next: Handle::NONE,
            prev: Handle::NONE,
            side: order.side,
            time_in_force: order.time_in_force,
            // The only flag that a plain order can have.
            flag_bits: OrderFlags { post_only: order.flags.post_only, ..OrderFlags::default() }.to_byte(),
            special: false,
        };
        let handle = self.orders.admit(&mut self.sessions, resting, request.name);
        self.rest(place, handle, out);
        Ok(())
    }

    /// Trades a new order with the book. Gives price, open and executed quantity of what is left to rest; the rest of an
    /// order that can't rest has expired.
    fn take_from_book<S: EventSink>(
        &mut self,
        request: &Request,
        place: u32,
        order: &NewOrder,
        order_id: OrderId,
        out: &mut Outbox<'_, S>,
    ) -> Option<(Price, u64, u64)> {
        let mut taker = Taker {
            session: request.session,
            request_id: request.id,
            order_id,
            client_order_id: ClientOrderId(request.id.0),
            account: order.account,
            side: order.side,
            limit: order.price,
            leaves: order.quantity.0,
            cum: 0,
        };
        if order.time_in_force == TimeInForce::FillOrKill && !self.can_fill(place, order) {
            self.expire_taker(order.instrument, &taker, ExpireReason::FillOrKill, out);
            return None;
        }
        self.sweep(place, &mut taker, out);
        if taker.leaves == 0 {
            return None;
        }
        let reason = match (order.price, order.time_in_force) {
            (Some(price), TimeInForce::Day | TimeInForce::GoodTillCancel) => {
                return Some((price, taker.leaves, taker.cum));
            }
            (None, _) => ExpireReason::NoLiquidity,
            (Some(_), _) => ExpireReason::ImmediateOrCancel,
        };
        self.expire_taker(order.instrument, &taker, reason, out);
        None
    }

    /// Checks a new order; tells what it does on entry.
    #[inline(always)]
    fn check_new<S: EventSink>(
        &mut self,
        place: u32,
        order: &NewOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<Entry, RejectReason> {
        self.check_trading(place, out)?;
        let is_limit = order.order_type == OrderType::Limit;
        let may_rest =
            is_limit && matches!(order.time_in_force, TimeInForce::Day | TimeInForce::GoodTillCancel);
        if order.price.is_some() != is_limit || (order.flags.post_only && !may_rest) {
            return Err(RejectReason::OptionsConflict);
        }
        let instrument = self.instruments.get(place);
        instrument.check_plain_quantity(order.quantity)?;
        if let Some(price) = order.price {
            instrument.check_plain_price(price)?;
        }
        if instrument.book.would_trade(order.side, order.price) {
            return if order.flags.post_only {
                Err(RejectReason::PostOnlyWouldTrade)
            } else {
                Ok(Entry::Takes)
            };
        }
        let Some(price) = order.price.filter(|_| may_rest) else { return Ok(Entry::Takes) };
        if self.orders.arena.live() >= self.capacities.orders {
            return Err(RejectReason::OrdersFull);
        }
        self.check_level_room(place, order.side, price)?;
        Ok(Entry::Rests(price))
    }

    /// There is room for a level at that price, or it exists.
    #[inline(always)]
    fn check_level_room(&self, place: u32, side: Side, price: Price) -> Result<(), RejectReason> {
        if self.levels >= self.capacities.levels
            && self.instruments.get(place).book.side(side).get(book::key(side, price)).is_none()
        {
            return Err(RejectReason::LevelsFull);
        }
        Ok(())
    }

    fn can_fill(&self, place: u32, order: &NewOrder) -> bool {
        let book = &self.instruments.get(place).book;
        book.can_fill(&self.orders.arena, order.side, order.price, order.quantity.0)
    }

    /// A replace that needs that version of the rulebook.
    pub(crate) fn replace_order<S: EventSink>(
        &mut self,
        request: &Request,
        replace: &ReplaceOrder,
        version: u32,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let handle = self.orders.find(request.session, &replace.order).ok_or(RejectReason::UnknownOrder)?;
        let order = *self.orders.arena.get(handle);
        if replace.side.is_some_and(|side| side != order.side) {
            return Err(RejectReason::SideMismatch);
        }
        if version > 1 {
            return self.replace_special(request, handle, replace, out);
        }
        if !self.is_plain(request.session, order.instrument) {
            return self.replace_quiet(request, handle, replace, out);
        }
        self.check_trading(order.instrument, out)?;
        let instrument = self.instruments.get(order.instrument);
        instrument.check_plain_quantity(replace.quantity)?;
        let price = replace.price.ok_or(RejectReason::OptionsConflict)?;
        instrument.check_plain_price(price)?;
        let total = replace.quantity.0;
        if total < order.cum {
            return Err(RejectReason::TooLate);
        }
        if total == order.cum {
            self.cancel(handle, CancelReason::ReplacedToExecuted, request.id, out);
            return Ok(());
        }
        let keeps_place = price == order.price && total - order.cum <= order.leaves;
        let trades = !keeps_place && instrument.book.would_trade(order.side, Some(price));
        if trades && order.flags().post_only {
            return Err(RejectReason::PostOnlyWouldTrade);
        }
        if !keeps_place && !trades {
            self.check_replaced_level(&order, price)?;
        }
        self.emit_name(request, out);
        if let Some(name) = request.name {
            self.orders.rename(handle, name);
        }
        out.emit_inline(Event::Replaced(Replaced {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            price: replace.price,
            quantity: replace.quantity,
            cum_quantity: Quantity(order.cum),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            account: order.account,
            side: order.side,
            kept_place: keeps_place,
        }));
        if keeps_place {
            self.reduce(handle, total - order.cum, out);
        } else {
            self.reenter(handle, request, (price, total), trades, out);
        }
        Ok(())
    }

    /// There is room for the level that a replaced order moves to. The level that it leaves may be the room.
    fn check_replaced_level(&self, order: &Order, price: Price) -> Result<(), RejectReason> {
        let alone = order.prev.is_none() && order.next.is_none();
        if alone { Ok(()) } else { self.check_level_room(order.instrument, order.side, price) }
    }

    /// Takes quantity out of a resting order, which keeps its place.
    fn reduce<S: EventSink>(&mut self, handle: Handle, leaves: u64, out: &mut Outbox<'_, S>) {
        let order = self.orders.arena.get_mut(handle);
        let reduction = order.leaves - leaves;
        order.leaves = leaves;
        if reduction > 0 {
            out.emit_inline(Event::Reduced(Reduced {
                order_id: order.order_id,
                price: order.price,
                quantity: Quantity(reduction),
                instrument: self.instruments.get(order.instrument).definition.instrument,
                side: order.side,
                gone: false,
            }));
        }
    }

    /// A replaced order leaves its place and comes in again with its new terms.
    fn reenter<S: EventSink>(
        &mut self,
        handle: Handle,
        request: &Request,
        (price, total): (Price, u64),
        trades: bool,
        out: &mut Outbox<'_, S>,
    ) {
        let order = *self.orders.arena.get(handle);
        let instrument = self.instruments.get_mut(order.instrument);
        self.levels -= u32::from(instrument.book.unlink(&mut self.orders.arena, handle));
        out.emit_inline(Event::Reduced(Reduced {
            order_id: order.order_id,
            price: order.price,
            quantity: Quantity(order.leaves),
            instrument: instrument.definition.instrument,
            side: order.side,
            gone: true,
        }));
        let mut taker = Taker {
            session: order.session,
            request_id: request.id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            account: order.account,
            side: order.side,
            limit: Some(price),
            leaves: total - order.cum,
            cum: order.cum,
        };
        if trades {
            self.sweep(order.instrument, &mut taker, out);
        }
        if taker.leaves == 0 {
            self.orders.retire(&mut self.sessions, handle);
            return;
        }
        let order = self.orders.arena.get_mut(handle);
        order.price = price;
        order.leaves = taker.leaves;
        order.cum = taker.cum;
        let place = order.instrument;
        self.rest(place, handle, out);
    }

    /// Puts an admitted order into its book.
    #[inline]
    fn rest<S: EventSink>(&mut self, place: u32, handle: Handle, out: &mut Outbox<'_, S>) {
        let instrument = self.instruments.get_mut(place);
        self.levels += u32::from(instrument.book.append(&mut self.orders.arena, handle));
        debug_assert!(!instrument.book.is_crossed(), "what could trade has traded");
        let order = self.orders.arena.get(handle);
        out.emit_inline(Event::Added(Added {
            order_id: order.order_id,
            price: order.price,
            quantity: Quantity(order.leaves),
            instrument: instrument.definition.instrument,
            side: order.side,
        }));
    }

    /// Trades with the book, best price first and oldest order first, at the makers' prices.
    fn sweep<S: EventSink>(&mut self, place: u32, taker: &mut Taker, out: &mut Outbox<'_, S>) {
        let maker_side = taker.side.opposite();
        let worst = taker.limit.map_or(i64::MIN, |price| book::key(maker_side, price));
        let instrument = self.instruments.get_mut(place);
        let id = instrument.definition.instrument;
        while taker.leaves > 0 {
            let Some(level) = instrument.book.side(maker_side).best() else { break };
            if level.key < worst {
                break;
            }
            let handle = level.head;
            let maker = self.orders.arena.get_mut(handle);
            let quantity = taker.leaves.min(maker.leaves);
            maker.leaves -= quantity;
            maker.cum += quantity;
            taker.leaves -= quantity;
            taker.cum += quantity;
            let maker = *maker;
            instrument.last_trade = Some(maker.price);
            self.last_trade_id += 1;
            let trade = Trade {
                trade_id: TradeId(self.last_trade_id),
                maker_order_id: maker.order_id,
                taker_order_id: taker.order_id,
                price: maker.price,
                quantity: Quantity(quantity),
                instrument: id,
                taker_side: Some(taker.side),
            };
            out.emit_inline(Event::Executed(taker.execution(self.sessions.report(taker.session), &trade)));
            out.emit_inline(Event::Executed(maker_execution(
                self.sessions.report(maker.session),
                &maker,
                &trade,
            )));
            out.emit_inline(Event::Trade(trade));
            if maker.leaves == 0 {
                self.levels -= u32::from(instrument.book.pop_front(&mut self.orders.arena, maker_side));
                self.orders.retire(&mut self.sessions, handle);
            }
        }
    }

    /// What an incoming order could not trade is gone.
    fn expire_taker<S: EventSink>(
        &mut self,
        instrument: InstrumentId,
        taker: &Taker,
        reason: ExpireReason,
        out: &mut Outbox<'_, S>,
    ) {
        out.emit(Event::Expired(Expired {
            to: self.sessions.report(taker.session),
            request_id: taker.request_id,
            order_id: taker.order_id,
            client_order_id: taker.client_order_id,
            resting_price: None,
            expired_quantity: Quantity(taker.leaves),
            cum_quantity: Quantity(taker.cum),
            instrument,
            account: taker.account,
            side: taker.side,
            reason,
        }));
    }
}
