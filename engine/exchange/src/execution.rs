//! One trade between two orders of an instrument with a special part: quantities, reports, what the depth loses and shows
//! anew, and what the trade means for accounts and groups.

use protocol::{Added, Event, Executed, Liquidity, Price, Quantity, RequestId, Side, Trade, TradeId};

use crate::arena::Handle;
use crate::draw::FOR_REFILL;
use crate::exchange::Exchange;
use crate::extras::Standing;
use crate::outbox::{EventSink, Outbox};

/// A trade to be made. In an auction the maker is the buyer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) maker: Handle,
    pub(crate) taker: Handle,
    pub(crate) quantity: u64,
    pub(crate) price: Price,
    /// What the maker is: `Maker`, `Hidden` or `Auction`.
    pub(crate) kind: Liquidity,
    /// The request that the taker's report answers; 0 where nobody asked just now.
    pub(crate) request_id: RequestId,
}

impl Exchange {
    /// Makes a trade. Orders of which nothing is left are gone after it, and an iceberg whose shown part is used up shows a new
    /// one at the back of its queue.
    pub(crate) fn execute<S: EventSink>(&mut self, fill: Fill, out: &mut Outbox<'_, S>) {
        let in_auction = fill.kind == Liquidity::Auction;
        self.last_trade_id += 1;
        let place = self.orders.arena.get(fill.taker).instrument;
        let taker_side = self.orders.arena.get(fill.taker).side;
        let instrument = self.instruments.get_mut(place);
        let moves_mark = !in_auction && instrument.last_trade != Some(fill.price);
        if moves_mark {
            instrument.last_trade = Some(fill.price);
        }
        let trade = Trade {
            trade_id: TradeId(self.last_trade_id),
            maker_order_id: self.orders.arena.get(fill.maker).order_id,
            taker_order_id: self.orders.arena.get(fill.taker).order_id,
            price: fill.price,
            quantity: Quantity(fill.quantity),
            instrument: instrument.definition.instrument,
            taker_side: (!in_auction).then_some(taker_side),
        };
        if moves_mark {
            self.note_mark(place);
        }
        let (taker_kind, maker_kind) =
            (if in_auction { Liquidity::Auction } else { Liquidity::Taker }, fill.kind);
        let taker_shown = self.take(fill.taker, fill.quantity);
        let maker_shown = self.take(fill.maker, fill.quantity);
        let taker_report = (fill.taker, taker_kind, fill.request_id);
        let maker_report = (fill.maker, maker_kind, RequestId(0));
        let [first, second] =
            if in_auction { [maker_report, taker_report] } else { [taker_report, maker_report] };
        self.emit_execution(first, &trade, out);
        self.emit_execution(second, &trade, out);
        out.emit_inline(Event::Trade(trade));
        let (buyer, seller, liquidity) = match (in_auction, taker_side) {
            (false, Side::Buy) => (fill.taker, fill.maker, [taker_kind, maker_kind]),
            _ => (fill.maker, fill.taker, [maker_kind, taker_kind]),
        };
        self.settle(&trade, buyer, seller, liquidity, out);
        self.note_in_group(fill.maker);
        self.note_in_group(fill.taker);
        if in_auction {
            self.leave_depth(fill.maker, maker_shown, out);
            self.leave_depth(fill.taker, taker_shown, out);
        }
        for handle in [fill.maker, fill.taker] {
            if !self.end_if_filled(handle) && self.is_used_up(handle) {
                if !in_auction {
                    let price = self.orders.arena.get(handle).price;
                    self.emit_reduced(handle, price, 0, true, out);
                }
                self.refill(handle, out);
            }
        }
    }

    /// The shown part of a resting iceberg has traded away.
    fn is_used_up(&self, handle: Handle) -> bool {
        let standing = self.orders.extra(handle).map(|extra| extra.standing);
        self.orders.arena.get(handle).leaves == 0 && standing == Some(Standing::Displayed)
    }

    /// Takes an execution out of an order's shown part and then its reserve; gives what the shown part lost.
    fn take(&mut self, handle: Handle, quantity: u64) -> u64 {
        let order = self.orders.arena.get_mut(handle);
        let shown = quantity.min(order.leaves);
        order.leaves -= shown;
        order.cum += quantity;
        if shown < quantity
            && let Some(extra) = self.orders.extra_mut(handle)
        {
            extra.reserve -= quantity - shown;
        }
        shown
    }

    fn emit_execution<S: EventSink>(
        &mut self,
        (handle, liquidity, request_id): (Handle, Liquidity, RequestId),
        trade: &Trade,
        out: &mut Outbox<'_, S>,
    ) {
        let leaves = self.orders.open_quantity(handle);
        let order = self.orders.arena.get(handle);
        out.emit_inline(Event::Executed(Executed {
            to: self.sessions.report(order.session),
            request_id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            trade_id: trade.trade_id,
            last_price: trade.price,
            last_quantity: trade.quantity,
            leaves_quantity: Quantity(leaves),
            cum_quantity: Quantity(order.cum),
            instrument: trade.instrument,
            account: order.account,
            side: order.side,
            liquidity,
        }));
    }

    /// What an auction took out of a displayed order leaves the depth.
    fn leave_depth<S: EventSink>(&mut self, handle: Handle, shown: u64, out: &mut Outbox<'_, S>) {
        let standing = self.orders.extra(handle).map_or(Standing::Displayed, |extra| extra.standing);
        if standing == Standing::Displayed && shown > 0 {
            let order = self.orders.arena.get(handle);
            self.emit_reduced(handle, order.price, shown, order.leaves == 0, out);
        }
    }

    /// True: nothing was left of it, and it is gone.
    fn end_if_filled(&mut self, handle: Handle) -> bool {
        let filled = self.orders.open_quantity(handle) == 0;
        if filled {
            self.unlink(handle);
            self.retire(handle, true);
        } else {
            self.retrack(handle);
        }
        filled
    }

    /// Puts an iceberg whose shown part is used up to the back of its queue with a new one.
    fn refill<S: EventSink>(&mut self, handle: Handle, out: &mut Outbox<'_, S>) {
        self.unlink(handle);
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        extra.refills += 1;
        let (terms, refills, reserve) = (extra.terms, extra.refills, extra.reserve);
        let low = terms.display().map_or(reserve, |display| display.0);
        let high = terms.display_high().map_or(low, |high| high.0);
        let lot = self.instruments.get(order.instrument).definition.lot_size.0;
        let lots = (high.saturating_sub(low) / lot).saturating_add(1);
        let drawn =
            if lots > 1 { self.draw([FOR_REFILL, order.order_id.0, refills.into()], lots) } else { 0 };
        let shown = reserve.min(low + drawn * lot);
        if let Some(extra) = self.orders.extra_mut(handle) {
            extra.reserve = reserve - shown;
        }
        self.orders.arena.get_mut(handle).leaves = shown;
        self.show(handle, out);
    }

    /// Puts an order that is in no book at the end of its displayed queue.
    pub(crate) fn show<S: EventSink>(&mut self, handle: Handle, out: &mut Outbox<'_, S>) {
        let place = self.orders.arena.get(handle).instrument;
        let instrument = self.instruments.get_mut(place);
        self.levels += u32::from(instrument.book.append(&mut self.orders.arena, handle));
        if let Some(extra) = self.orders.extra_mut(handle) {
            extra.standing = Standing::Displayed;
        }
        self.sum_in(handle);
        let order = self.orders.arena.get(handle);
        out.emit_inline(Event::Added(Added {
            order_id: order.order_id,
            price: order.price,
            quantity: Quantity(order.leaves),
            instrument: self.instruments.get(place).definition.instrument,
            side: order.side,
        }));
    }

    /// All special orders of an instrument, lowest order id first.
    pub(crate) fn special_orders(&self, place: u32) -> Vec<Handle> {
        let special = self.instruments.get(place).special.as_ref();
        let mut handles = special.map_or_else(Vec::new, |special| special.waiting.live.clone());
        handles.sort_unstable_by_key(|handle| self.orders.arena.get(*handle).order_id);
        handles
    }
}
