//! Executions, their settlement, and trades that are taken back or given another price: rules 83 to 86, 93, 94.

use protocol::{
    AccountId, Amount, ClientOrderId, Event, Executed, Liquidity, OrderId, Price, RejectReason, RequestId,
    SessionId, Settled, Settlement, Side, Trade, TradeId, TradeRevised,
};

use super::accounts::{Changed, Position};
use super::money::Supposed;
use super::order::Order;
use super::{Fault, Oracle};

/// Most trades that can be busted.
const MOST_KEPT: usize = 1_000_000;
/// A bust takes no position beyond.
const MOST_POSITION: i128 = 1 << 62;

/// One side of a kept trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptSide {
    /// The order's owner.
    pub session: SessionId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// The order's account.
    pub account: AccountId,
    /// Whether the trade moved the account.
    pub tracked: bool,
    /// What it paid.
    pub fee: i128,
}

/// A trade that may be busted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The instrument.
    pub instrument: protocol::InstrumentId,
    /// Its price, as corrected.
    pub price: Price,
    /// Its quantity.
    pub quantity: u64,
    /// The side that bought.
    pub buyer: KeptSide,
    /// The side that sold.
    pub seller: KeptSide,
}

impl Kept {
    fn side(&self, side: Side) -> KeptSide {
        match side {
            Side::Buy => self.buyer,
            Side::Sell => self.seller,
        }
    }
}

/// An order's part in a trade: who, how, and on which request.
pub(super) type Party = (OrderId, Liquidity, RequestId);

impl Oracle {
    /// One trade of two orders: the first one is reported first.
    pub(super) fn execute(&mut self, price: Price, quantity: u64, first: Party, second: Party) {
        self.last_trade += 1;
        let trade_id = TradeId(self.last_trade);
        let sides = [first, second].map(|(id, ..)| self.order(id).side);
        let instrument = self.order(first.0).instrument;
        let in_auction = first.1 == Liquidity::Auction;
        let (maker, taker) = if in_auction { (first, second) } else { (second, first) };
        // Rule 44: the resting order counts first, in an auction the buyer.
        for (id, ..) in [maker, taker] {
            self.change(id, |order| order.cum += quantity);
            let order = *self.order(id);
            self.touch_group(&order);
        }
        self.touched.insert(instrument);
        let trade = Trade {
            trade_id,
            maker_order_id: maker.0,
            taker_order_id: taker.0,
            price,
            quantity: quantity.into(),
            instrument,
            taker_side: (!in_auction).then_some(sides[0]),
        };
        self.report_execution(first, &trade);
        self.report_execution(second, &trade);
        self.events.push(Event::Trade(trade));
        if let Some(it) = self.instruments.get_mut(&instrument) {
            it.last_trade = Some(price);
        }
        let (buyer, seller) = if sides[0] == Side::Buy { (first, second) } else { (second, first) };
        self.settle(&trade, buyer, seller);
    }

    fn report_execution(&mut self, (id, liquidity, request_id): Party, trade: &Trade) {
        let order = *self.order(id);
        self.report(order.session, |to| {
            Event::Executed(Executed {
                to,
                request_id,
                order_id: id,
                client_order_id: order.client_order_id,
                trade_id: trade.trade_id,
                last_price: trade.price,
                last_quantity: trade.quantity,
                leaves_quantity: order.open().into(),
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                liquidity,
            })
        });
    }

    /// Rule 93: the buyer's side before the seller's.
    fn settle(&mut self, trade: &Trade, buyer: Party, seller: Party) {
        let sides = [buyer, seller].map(|(id, liquidity, _)| {
            let order = *self.order(id);
            let fee = self.settle_side(trade, &order, liquidity);
            KeptSide {
                session: order.session,
                client_order_id: order.client_order_id,
                account: order.account,
                tracked: order.tracked.is_some(),
                fee,
            }
        });
        if sides.iter().any(|side| side.tracked) {
            self.kept.insert(
                trade.trade_id,
                Kept {
                    instrument: trade.instrument,
                    price: trade.price,
                    quantity: trade.quantity.0,
                    buyer: sides[0],
                    seller: sides[1],
                },
            );
        }
        if self.kept.len() > MOST_KEPT {
            self.kept.pop_first();
        }
    }

    fn settle_side(&mut self, trade: &Trade, order: &Order, liquidity: Liquidity) -> i128 {
        let Some(fees) = order.tracked else { return 0 };
        let (instrument, quantity) = (trade.instrument, trade.quantity.0);
        let notional = self.notional(instrument, quantity, trade.price);
        let settlement = self.instruments[&instrument].rules.settlement;
        let lots = self.lots(instrument, quantity.into());
        let fee = match (settlement, order.side) {
            (Settlement::None, _) => 0,
            (Settlement::Cash, Side::Sell) => self.fee(&fees, liquidity, notional, lots).min(notional),
            _ => self.fee(&fees, liquidity, notional, lots),
        };
        let signed = match order.side {
            Side::Buy => i128::from(quantity),
            Side::Sell => -i128::from(quantity),
        };
        let paid = if order.side == Side::Buy { notional } else { -notional };
        self.move_position(order.account, instrument, signed, paid, fee);
        let position =
            self.accounts.registered.get(&order.account).map_or(0, |it| it.position(instrument).quantity);
        self.report(order.session, |to| {
            Event::Settled(Settled {
                to,
                trade_id: trade.trade_id,
                client_order_id: order.client_order_id,
                fee: Amount::new(fee),
                position: position as i64,
                instrument,
                account: order.account,
                side: order.side,
            })
        });
        fee
    }

    /// Adds to a position: quantity bought (or, below zero, sold), what was paid for it, and the fee.
    fn move_position(
        &mut self,
        account: AccountId,
        instrument: protocol::InstrumentId,
        bought: i128,
        paid: i128,
        fee: i128,
    ) {
        let rules = self.instruments[&instrument].rules;
        let base = bought * self.base_unit(instrument);
        let cost_stays = self.is_faulty(Fault::CostStays);
        let Some(known) = self.accounts.registered.get_mut(&account) else { return };
        let position = known.positions.entry(instrument).or_default();
        position.quantity += bought;
        position.cost += paid;
        let Position { quantity, cost } = *position;
        let closes = rules.settlement == Settlement::Margin && quantity == 0 && !cost_stays;
        if closes {
            position.cost = 0;
        }
        let Some(quote) = rules.quote.filter(|_| rules.settlement != Settlement::None) else { return };
        known.pay(quote, -fee);
        *self.accounts.venue.entry(quote).or_default() += fee;
        if closes {
            known.pay(quote, -cost);
        }
        if let (Settlement::Cash, Some(code)) = (rules.settlement, rules.base) {
            known.pay(quote, -paid);
            known.pay(code, base);
        }
    }

    /// Rule 94: a trade is taken back.
    pub(super) fn bust(&mut self, trade_id: TradeId) -> Changed {
        let kept = *self.kept.get(&trade_id).ok_or(RejectReason::UnknownTrade)?;
        let notional = self.notional(kept.instrument, kept.quantity, kept.price);
        let quantity = i128::from(kept.quantity);
        let back = |side: Side| if side == Side::Buy { (-quantity, -notional) } else { (quantity, notional) };
        let (buyer, seller) = (kept.buyer, kept.seller);
        let one_account = buyer.tracked && seller.tracked && buyer.account == seller.account;
        for side in [Side::Buy, Side::Sell] {
            let it = kept.side(side);
            let Some(known) = self.accounts.registered.get(&it.account).filter(|_| it.tracked) else {
                continue;
            };
            let then = known.position(kept.instrument).quantity + back(side).0;
            let (buys, sells) = self.open_sides(it.account, kept.instrument, &Supposed::default());
            if !one_account && (then + buys).max(sells - then) > MOST_POSITION {
                return Err(RejectReason::AmountInvalid);
            }
        }
        self.kept.remove(&trade_id);
        for side in [Side::Buy, Side::Sell] {
            let it = kept.side(side);
            if it.tracked {
                let (bought, paid) = back(side);
                self.move_position(it.account, kept.instrument, bought, paid, -it.fee);
            }
        }
        self.report_revised(trade_id, &kept, None);
        Ok(true)
    }

    /// Rule 94: a trade gets another price.
    pub(super) fn correct(&mut self, trade_id: TradeId, price: Price) -> Changed {
        let kept = *self.kept.get(&trade_id).ok_or(RejectReason::UnknownTrade)?;
        self.instruments[&kept.instrument].check_price(price)?;
        if price == kept.price {
            return Ok(false);
        }
        let more = self.notional(kept.instrument, kept.quantity, price)
            - self.notional(kept.instrument, kept.quantity, kept.price);
        for side in [Side::Buy, Side::Sell] {
            let it = kept.side(side);
            if it.tracked && !self.is_faulty(Fault::CorrectionWithoutMoney) {
                let paid = if side == Side::Buy { more } else { -more };
                self.move_position(it.account, kept.instrument, 0, paid, 0);
            }
        }
        self.kept.insert(trade_id, Kept { price, ..kept });
        self.report_revised(trade_id, &kept, Some(price));
        Ok(true)
    }

    fn report_revised(&mut self, trade_id: TradeId, kept: &Kept, new_price: Option<Price>) {
        for side in [Side::Buy, Side::Sell] {
            let it = kept.side(side);
            self.report(it.session, |to| {
                Event::TradeRevised(TradeRevised {
                    to,
                    trade_id,
                    client_order_id: it.client_order_id,
                    quantity: kept.quantity.into(),
                    old_price: kept.price,
                    new_price,
                    instrument: kept.instrument,
                    account: it.account,
                    side,
                })
            });
        }
    }
}
