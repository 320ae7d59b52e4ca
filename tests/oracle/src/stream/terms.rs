//! What makes an order one of a kind: its type, its time in force, and its terms.

use protocol::{
    Body, ClientOrderId, NewOrder, OrderFlags, OrderType, Peg, PegReference, Price, Quantity, SelfTrade,
    SelfTradeAction, Side, Terms, TimeInForce, Timestamp,
};

use super::theme::Kind;
use super::{Generator, Theme};

const SECOND: u64 = 1_000_000_000;

impl Generator {
    /// Makes an order one of a kind; edge values and contradictions come now and then.
    pub(super) fn make(&mut self, kind: Kind, actor: usize, at: usize, order: &mut NewOrder) {
        match kind {
            Kind::Plain => {}
            Kind::Iceberg => self.make_iceberg(at, order),
            Kind::Hidden => {
                order.flags.hidden = true;
                self.give_price(at, order);
            }
            Kind::Minimum => self.make_minimum(at, order),
            Kind::Slide => {
                order.flags.slide = true;
                order.flags.post_only = !self.random.one_in(20);
                self.give_price(at, order);
                self.let_rest(order);
            }
            Kind::ToLimit => self.make_market(OrderType::MarketToLimit, order),
            Kind::Protected => self.make_market(OrderType::MarketProtected, order),
            Kind::Stop => self.make_stop(at, order),
            Kind::Trail => self.make_trail(at, order),
            Kind::Peg => self.make_peg(at, order),
            Kind::Oco => self.make_member(at, order),
            Kind::Child => self.make_child(actor, order),
            Kind::SelfTrade => {
                let group = 1 + self.random.below(2) as u32;
                let action = *self.random.pick(SelfTradeAction::ALL);
                order.terms = order.terms.with_self_trade(Some(SelfTrade { group, action }));
            }
            Kind::ReduceOnly => order.flags.reduce_only = true,
            Kind::Auction => self.make_auction(order),
            Kind::Dated => self.make_dated(order),
            Kind::Any => self.make_any(actor, at, order),
        }
    }

    /// Lots of the instrument, and now and then a quantity that can't be.
    fn part(&mut self, at: usize, lots: u64) -> Quantity {
        let lot = self.instruments[at].lot_size.0;
        Quantity(match self.random.below(60) {
            0 => 0,
            1 => lot.saturating_mul(lots).saturating_add(lot / 2),
            2 => u64::MAX,
            _ => lot.saturating_mul(1 + self.random.below(lots)),
        })
    }

    /// A limit order, as most kinds are.
    fn give_price(&mut self, at: usize, order: &mut NewOrder) {
        if order.price.is_none() && !self.random.one_in(20) {
            order.order_type = OrderType::Limit;
            order.price = Some(self.price(at, order.side));
        }
    }

    fn let_rest(&mut self, order: &mut NewOrder) {
        let rests = matches!(order.time_in_force, TimeInForce::Day | TimeInForce::GoodTillCancel);
        if !rests && !self.random.one_in(20) {
            order.time_in_force = TimeInForce::GoodTillCancel;
        }
    }

    fn make_iceberg(&mut self, at: usize, order: &mut NewOrder) {
        self.give_price(at, order);
        self.let_rest(order);
        let display = self.part(at, 6);
        if !self.random.one_in(15) {
            let lot = self.instruments[at].lot_size.0;
            let more = lot.saturating_mul(1 + self.random.below(30));
            order.quantity = Quantity(display.0.saturating_add(more));
        }
        order.terms = order.terms.with_display(Some(display));
        if self.random.one_in(3) {
            let high = Quantity(display.0.saturating_add(self.part(at, 6).0));
            order.terms = order.terms.with_display_high(Some(high));
        }
    }

    fn make_minimum(&mut self, at: usize, order: &mut NewOrder) {
        self.give_price(at, order);
        if order.time_in_force == TimeInForce::FillOrKill && !self.random.one_in(20) {
            order.time_in_force = TimeInForce::ImmediateOrCancel;
        }
        let lots = (order.quantity.0 / self.instruments[at].lot_size.0).clamp(1, 40);
        let minimum = if self.random.one_in(3) { order.quantity } else { self.part(at, lots) };
        order.terms = order.terms.with_minimum(Some(minimum));
    }

    fn make_market(&mut self, order_type: OrderType, order: &mut NewOrder) {
        order.order_type = order_type;
        order.price = None;
        order.flags.post_only &= self.random.one_in(20);
    }

    /// A market order, or a limit order of any price.
    fn make_stop(&mut self, at: usize, order: &mut NewOrder) {
        self.let_rest(order);
        order.flags.post_only &= self.random.one_in(20);
        if self.random.one_in(2) {
            (order.order_type, order.price) = (OrderType::Market, None);
        }
        // Buys above the market, sells below it, as a stop is meant.
        let stop = self.price(at, order.side.opposite());
        order.terms = order.terms.with_stop_price(Some(stop));
    }

    fn make_trail(&mut self, at: usize, order: &mut NewOrder) {
        self.make_stop(at, order);
        if !self.random.one_in(3) {
            order.terms = order.terms.with_stop_price(None);
        }
        let tick = self.instruments[at].tick_size.0.unsigned_abs();
        let distance = match self.random.below(60) {
            0 => 0,
            1 => tick.saturating_add(1),
            2 => u64::MAX / tick * tick,
            _ => tick * (1 + self.random.below(self.width.unsigned_abs() + 1)),
        };
        order.terms = order.terms.with_trail(Some(distance));
    }

    fn make_peg(&mut self, at: usize, order: &mut NewOrder) {
        self.let_rest(order);
        order.flags.post_only &= self.random.one_in(20);
        if !self.random.one_in(3) {
            (order.order_type, order.price) = (OrderType::Pegged, None);
        } else {
            self.give_price(at, order);
        }
        let tick = self.instruments[at].tick_size.0;
        let offset = match self.random.below(60) {
            0 => -tick,
            1 => tick + 1,
            2 => i64::MAX / tick * tick,
            3..30 => 0,
            _ => tick * self.random.range(0, 4),
        };
        let peg = Peg { reference: *self.random.pick(PegReference::ALL), offset };
        order.terms = order.terms.with_peg(Some(peg));
    }

    /// One after the other, more orders than a group or a parent may have.
    pub(super) fn fill_group(&mut self, actor: usize) {
        let (group, parent) = (self.random.below(4), self.actors[actor].orders.last().copied());
        for _ in 0..18 {
            let mut order = self.new_order(actor);
            let at = parent.map_or(0, |parent| parent.at);
            order.instrument = self.instruments[at].instrument;
            order.quantity = self.instruments[at].lot_size;
            order.terms = Terms::default().with_oco((group != 0).then_some(group));
            (order.flags, order.time_in_force) = (OrderFlags::default(), TimeInForce::Day);
            self.move_away(at, &mut order);
            if group == 0 {
                order.terms = order.terms.with_parent(parent.map(|parent| parent.id));
            }
            let command = self.request(actor, Body::NewOrder(order));
            self.setup.push_back(command);
        }
    }

    /// One of a few groups; some of its orders are far from the market, so that the group gets full.
    fn make_member(&mut self, at: usize, order: &mut NewOrder) {
        order.terms = order.terms.with_oco(Some(1 + self.random.below(3)));
        if self.theme == Theme::Groups && self.random.one_in(2) {
            self.move_away(at, order);
            self.let_rest(order);
        }
    }

    /// A limit order far from the market.
    fn move_away(&mut self, at: usize, order: &mut NewOrder) {
        let away = self.width + 50 + self.random.range(0, 9);
        let ticks = if order.side == Side::Buy { -away } else { away };
        let price = (self.mids[at] + ticks) * self.instruments[at].tick_size.0;
        (order.order_type, order.price) = (OrderType::Limit, Some(Price(price)));
    }

    fn make_child(&mut self, actor: usize, order: &mut NewOrder) {
        order.flags.post_only &= self.random.one_in(20);
        let parent = match self.actors[actor].orders.as_slice() {
            [] => ClientOrderId(self.random.below(9)),
            [.., last] if self.random.one_in(3) => {
                order.instrument = self.instruments[last.at].instrument;
                last.id
            }
            [oldest, ..] if self.random.one_in(3) => {
                order.instrument = self.instruments[oldest.at].instrument;
                oldest.id
            }
            orders => {
                let placed = *self.random.pick(orders);
                order.instrument = self.instruments[placed.at].instrument;
                placed.id
            }
        };
        order.terms = order.terms.with_parent(Some(parent));
    }

    fn make_auction(&mut self, order: &mut NewOrder) {
        order.time_in_force = *self.random.pick(&[
            TimeInForce::AtTheOpen,
            TimeInForce::AtTheClose,
            TimeInForce::GoodForAuction,
        ]);
        if self.random.one_in(3) {
            (order.order_type, order.price) = (OrderType::Market, None);
        }
    }

    fn make_dated(&mut self, order: &mut NewOrder) {
        order.time_in_force = TimeInForce::GoodTillDate;
        let time = match self.random.below(30) {
            0 => self.time,
            1 => 0,
            2 => u64::MAX,
            _ => self.time + self.random.below(4 * SECOND),
        };
        order.terms = order.terms.with_expire_time((!self.random.one_in(40)).then_some(Timestamp(time)));
    }

    /// Types, times in force, flags and terms that are put together at random.
    fn make_any(&mut self, actor: usize, at: usize, order: &mut NewOrder) {
        order.time_in_force = *self.random.pick(TimeInForce::ALL);
        if self.random.one_in(3) {
            order.order_type = *self.random.pick(OrderType::ALL);
            let price = self.price(at, order.side);
            order.price = (order.order_type == OrderType::Limit).then_some(price);
        }
        for _ in 0..1 + self.random.below(3) {
            match self.random.below(9) {
                0 => order.flags.slide = true,
                1 => order.flags.hidden = true,
                2 => order.terms = order.terms.with_display(Some(self.part(at, 6))),
                3 => order.terms = order.terms.with_display_high(Some(self.part(at, 6))),
                4 => order.terms = order.terms.with_minimum(Some(self.part(at, 6))),
                5 => order.terms = order.terms.with_stop_price(Some(self.price(at, order.side))),
                6 => self.make_peg(at, order),
                7 => self.make_child(actor, order),
                _ => order.terms = order.terms.with_trail(Some(self.random.below(9))),
            }
        }
    }
}
