//! New orders, cancels, replaces, quotes.

use protocol::{
    CancelOrder, ClOrdId, ClientOrderId, InstrumentId, MassCancel, MassQuote, NewOrder, OrderFlags, OrderKey,
    OrderType, Price, Quantity, QuoteEntry, QuoteSide, ReplaceOrder, SessionId, Side, Terms, TimeInForce,
};

use super::theme::Kind;
use super::{Generator, Placed, REMEMBERED};

impl Generator {
    pub(super) fn price(&mut self, at: usize, side: Side) -> Price {
        let definition = &self.instruments[at];
        let (low, high, tick) = (definition.price_min.0, definition.price_max.0, definition.tick_size.0);
        match self.random.below(150) {
            0 => return *self.random.pick(&[low, high, 0, i64::MIN, i64::MAX].map(Price)),
            1 => return Price(low.saturating_sub(tick)),
            2 => return Price(high.saturating_add(tick)),
            3..6 => return Price(self.mids[at] * tick + self.random.range(-3, 3)),
            _ => {}
        }
        if self.random.one_in(40) {
            let mid = self.mids[at] + self.random.range(-3, 3);
            self.mids[at] = mid.clamp(self.lowest_mid(at), 20_000);
        }
        let crossing = if self.hoards { 20 } else { self.width / 3 + 1 };
        let away = self.random.range(-crossing, self.width);
        let ticks = match side {
            Side::Buy => self.mids[at] - away,
            Side::Sell => self.mids[at] + away,
        };
        Price(ticks * tick)
    }

    /// Prices stay above zero where the instrument has no lower ones.
    fn lowest_mid(&self, at: usize) -> i64 {
        if self.instruments[at].price_min.0 < 0 { -200 } else { 20 }
    }

    pub(super) fn quantity(&mut self, at: usize) -> Quantity {
        let definition = &self.instruments[at];
        let (lot, max) = (definition.lot_size.0, definition.quantity_max.0);
        Quantity(match self.random.below(120) {
            0 => 0,
            1 => max,
            2 => max.saturating_add(1),
            3 => u64::MAX,
            4 => lot + lot / 2,
            5..10 => lot * (1 + self.random.below(500)),
            _ => lot * (1 + self.random.below(12)),
        })
    }

    pub(super) fn instrument(&mut self) -> (usize, InstrumentId) {
        let at = self.random.below(self.instruments.len() as u64) as usize;
        let id = if self.random.one_in(300) { InstrumentId(77) } else { self.instruments[at].instrument };
        (at, id)
    }

    /// A new order of one of the theme's kinds, now and then of two.
    pub(super) fn new_order(&mut self, actor: usize) -> NewOrder {
        let (at, instrument) = self.instrument();
        let side = self.side();
        let order_type = if self.random.one_in(15) { OrderType::Market } else { OrderType::Limit };
        let time_in_force = match self.random.below(20) {
            0..8 => TimeInForce::Day,
            8..16 => TimeInForce::GoodTillCancel,
            16..18 => TimeInForce::ImmediateOrCancel,
            _ => TimeInForce::FillOrKill,
        };
        let price = match order_type {
            OrderType::Limit => Some(self.price(at, side)),
            _ => None,
        };
        let cl_ord_id = if self.random.one_in(8) { Some(self.text(actor)) } else { None };
        let mut order = NewOrder {
            instrument,
            side,
            order_type,
            time_in_force,
            flags: OrderFlags { post_only: self.random.one_in(12), ..OrderFlags::default() },
            price,
            quantity: self.quantity(at),
            account: self.account_of(actor),
            cl_ord_id,
            terms: Terms::default(),
        };
        if !self.theme.is_special() {
            if !self.pure && self.random.one_in(200) {
                self.make(Kind::Any, actor, at, &mut order);
            }
            return order;
        }
        for _ in 0..1 + u64::from(self.random.one_in(5)) {
            let kind = *self.random.pick(self.theme.kinds());
            self.make(kind, actor, at, &mut order);
        }
        order
    }

    fn text(&mut self, actor: usize) -> ClOrdId {
        let used = &self.actors[actor].texts;
        if !used.is_empty() && self.random.one_in(15) {
            return *self.random.pick(used);
        }
        self.texts += 1;
        let text = ClOrdId::new(format!("T-{}", self.texts).as_bytes()).expect("a valid text");
        let used = &mut self.actors[actor].texts;
        if used.len() >= REMEMBERED {
            used.remove(0);
        }
        used.push(text);
        text
    }

    /// Mostly a remembered order of the session itself, with what is known of it; else a text, another session's order, or
    /// nonsense.
    pub(super) fn order_key(&mut self, actor: usize) -> (OrderKey, Option<Placed>) {
        let roll = self.random.below(40);
        let number = |id| (OrderKey::Id(ClientOrderId(id)), None);
        if roll == 0 {
            return number(self.random.below(300));
        }
        if roll < 3 {
            let other = self.actor();
            return number(self.actors[other].orders.last().map_or(u64::MAX, |order| order.id.0));
        }
        let own = &self.actors[actor];
        if roll < 9 && !own.texts.is_empty() {
            return (OrderKey::Text(*self.random.pick(&own.texts)), None);
        }
        let placed = match own.orders.last() {
            Some(last) if roll < 20 => *last,
            Some(_) => *self.random.pick(&own.orders),
            None => return number(0),
        };
        (OrderKey::Id(placed.id), Some(placed))
    }

    pub(super) fn cancel_order(&mut self, actor: usize) -> CancelOrder {
        CancelOrder {
            order: self.order_key(actor).0,
            side: self.optional_side(),
            cl_ord_id: if self.random.one_in(12) { Some(self.text(actor)) } else { None },
        }
    }

    /// A replace that mostly has what the order has: a price, a stop price, a display quantity.
    pub(super) fn replace_order(&mut self, actor: usize) -> ReplaceOrder {
        let (order, placed) = self.order_key(actor);
        let placed = placed.filter(|_| self.theme.is_special() && !self.random.one_in(30));
        let at = match placed {
            Some(placed) => placed.at,
            None => self.instrument().0,
        };
        let side = self.side();
        let priced = placed.is_none_or(|placed| placed.priced);
        let lot = self.instruments[at].lot_size.0;
        ReplaceOrder {
            order,
            side: self.optional_side(),
            price: if priced { Some(self.price(at, side)) } else { None },
            quantity: self.quantity(at),
            stop_price: match placed {
                Some(Placed { stop: true, .. }) if self.random.one_in(2) => Some(self.price(at, side)),
                _ => None,
            },
            display: match placed {
                Some(Placed { iceberg: true, .. }) if self.random.one_in(2) => {
                    Some(Quantity(lot.saturating_mul(1 + self.random.below(8))))
                }
                _ => None,
            },
            cl_ord_id: if self.random.one_in(8) { Some(self.text(actor)) } else { None },
        }
    }

    pub(super) fn mass_cancel(&mut self, actor: usize) -> MassCancel {
        let own = self.actors[actor].user.session;
        let session = match self.random.below(6) {
            0 => SessionId(self.random.below(8) as u32),
            _ => own,
        };
        // The frame's 0 means the sender.
        let session = if session == SessionId::SYSTEM { own } else { session };
        let (_, instrument) = self.instrument();
        MassCancel {
            session,
            instrument: self.random.one_in(2).then_some(instrument),
            side: self.optional_side(),
        }
    }

    /// Quotes on both sides of the mid; now and then without a side, with none on it, or not strictly worse.
    pub(super) fn mass_quote(&mut self, actor: usize) -> MassQuote {
        let (at, instrument) = self.instrument();
        let odd = self.random.one_in(30);
        let tick = self.instruments[at].tick_size.0;
        let base = if self.random.one_in(100) { self.price(at, Side::Buy).0 } else { self.mids[at] * tick };
        MassQuote {
            instrument,
            account: self.account_of(actor),
            base: Price(base),
            bids: self.quotes(-1, odd),
            asks: self.quotes(1, odd),
        }
    }

    /// One side of a ladder, whose prices go away from the mid in the given direction.
    fn quotes(&mut self, direction: i32, odd: bool) -> Option<QuoteSide> {
        if self.random.one_in(6) {
            return None;
        }
        let mut ticks = direction * self.random.range(-1, 4) as i32;
        let most = if self.random.one_in(4) { 11 } else { 4 };
        let count = self.random.below(most);
        let entries: Vec<QuoteEntry> = (0..count)
            .map(|_| {
                ticks += direction * self.random.range(if odd { -1 } else { 1 }, 3) as i32;
                let lots = match self.random.below(200) {
                    0 => 0,
                    1 => u32::MAX,
                    _ => 1 + self.random.below(12) as u32,
                };
                QuoteEntry { ticks: if odd && self.random.one_in(20) { i32::MIN } else { ticks }, lots }
            })
            .collect();
        QuoteSide::new(&entries)
    }
}
