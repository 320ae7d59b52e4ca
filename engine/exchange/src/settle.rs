//! What a trade does to the accounts of its tracked sides: position, money, fees; and how that is taken back.

use protocol::{Amount, Event, Liquidity, Quantity, Settled, Settlement, Side, Trade};

use crate::accounts::fees::{self, Rate};
use crate::accounts::{Position, at};
use crate::arena::Handle;
use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};
use crate::settling::Settling;
use crate::tracking::Tracked;
use crate::trades::{KeptSide, KeptTrade, SIDES};

/// A movement of an account in an instrument, as of a buyer; a seller's has the other signs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    pub(crate) quantity: i128,
    /// Signed notional, in units of the quote currency.
    pub(crate) cost: i128,
    /// What the account pays to the venue, whichever its side.
    pub(crate) fee: i128,
}

impl Movement {
    /// As the account of that side sees it.
    pub(crate) fn of(self, side: Side) -> Self {
        match side {
            Side::Buy => self,
            Side::Sell => Self { quantity: -self.quantity, cost: -self.cost, fee: self.fee },
        }
    }
}

impl Exchange {
    /// Moves positions and money for a trade whose orders' quantities are those after it: the buyer's first, then the
    /// seller's. The trade is kept where a side is tracked.
    pub(crate) fn settle<S: EventSink>(
        &mut self,
        trade: &Trade,
        buyer: Handle,
        seller: Handle,
        liquidity: [Liquidity; 2],
        out: &mut Outbox<'_, S>,
    ) {
        let handles = [buyer, seller];
        let tracked = handles.map(|handle| self.tracked(handle));
        if tracked == [None, None] {
            return;
        }
        let settling = self.settling(self.orders.arena.get(buyer).instrument);
        let notional = settling.notional(trade.price, trade.quantity.0);
        let worth = cfg!(debug_assertions).then(|| self.worth(&settling, tracked));
        let mut kept = [self.kept_side(buyer), self.kept_side(seller)];
        for (at, side) in SIDES.into_iter().enumerate() {
            let movement = Movement { quantity: trade.quantity.0.into(), cost: notional, fee: 0 }.of(side);
            match tracked[at] {
                None => self.shift_untracked(&settling, movement),
                Some(tracked) => {
                    let fee = trade_fee(&settling, &tracked, side, liquidity[at], trade.quantity, notional);
                    kept[at] = KeptSide { tracked: true, fee, ..kept[at] };
                    self.retrack(handles[at]);
                    self.shift(tracked.account, &settling, Movement { fee, ..movement });
                    self.emit_settled(trade, handles[at], &tracked, fee, out);
                }
            }
        }
        debug_assert_eq!(
            worth,
            Some(self.worth(&settling, tracked)),
            "a trade between accounts neither makes nor loses money"
        );
        self.accounts.trades.keep(KeptTrade {
            trade_id: trade.trade_id,
            instrument: trade.instrument,
            price: trade.price,
            quantity: trade.quantity.0,
            busted: false,
            sides: kept,
        });
    }

    /// What both sides and the venue have of the instrument's currencies, where both are accounts: quote, base.
    fn worth(&self, settling: &Settling, tracked: [Option<Tracked>; 2]) -> [i128; 2] {
        let [Some(buyer), Some(seller)] = tracked else { return [0, 0] };
        let Some(quote) = settling.quote else { return [0, 0] };
        let fees = self.accounts.currencies.get(&quote).map_or(0, |currency| currency.fees);
        let mut worth = [fees, 0];
        let other = Some(seller.account).filter(|seller| *seller != buyer.account);
        for place in std::iter::once(buyer.account).chain(other) {
            let account = self.accounts.get(place);
            worth[0] += account.balance(quote).total;
            if settling.settlement == Settlement::Margin {
                worth[0] -= account.position(settling.instrument).cost;
            }
            worth[1] += settling.base.map_or(0, |base| account.balance(base).total);
        }
        worth
    }

    fn kept_side(&self, handle: Handle) -> KeptSide {
        let order = self.orders.arena.get(handle);
        KeptSide {
            session: order.session,
            client_order_id: order.client_order_id,
            account: order.account,
            tracked: false,
            fee: 0,
        }
    }

    fn emit_settled<S: EventSink>(
        &mut self,
        trade: &Trade,
        handle: Handle,
        tracked: &Tracked,
        fee: i128,
        out: &mut Outbox<'_, S>,
    ) {
        let order = self.orders.arena.get(handle);
        out.emit(Event::Settled(Settled {
            to: self.sessions.report(order.session),
            trade_id: trade.trade_id,
            client_order_id: order.client_order_id,
            fee: Amount::new(fee),
            position: self.accounts.get(tracked.account).position(trade.instrument).quantity,
            instrument: trade.instrument,
            account: order.account,
            side: order.side,
        }));
    }

    /// Moves an account: its position, and where the instrument settles its money and the venue's. The consequences for
    /// reduce-only orders are noted.
    pub(crate) fn shift(&mut self, place: u32, settling: &Settling, movement: Movement) {
        let Movement { quantity, cost, fee } = movement;
        let instrument = settling.instrument;
        self.accounts.shift_position(place, instrument, quantity, cost);
        let account = self.accounts.get_mut(place);
        let id = account.definition.account;
        match (settling.settlement, settling.quote) {
            (Settlement::Cash, Some(quote)) => {
                account.pay_in(quote, cost.saturating_add(fee).saturating_neg());
                if let Some(base) = settling.base {
                    account.pay_in(base, settling.in_base(quantity));
                }
            }
            (Settlement::Margin, Some(quote)) => {
                account.pay_in(quote, fee.saturating_neg());
                let position = account.position_mut(instrument);
                if position.quantity == 0 {
                    let realised = std::mem::take(&mut position.cost);
                    account.pay_in(quote, realised.saturating_neg());
                }
            }
            _ => {}
        }
        if let Some(currency) = settling.quote.and_then(|quote| self.accounts.currencies.get_mut(&quote)) {
            currency.fees = currency.fees.saturating_add(fee);
        }
        if let Some(instrument) = self.instruments.place(instrument) {
            self.count_margin(place, instrument);
        }
        let position = self.accounts.get(place).positions.get(&instrument).unwrap_or(&Position::NOTHING);
        if SIDES.into_iter().any(|side| position.reducing[at(side)] > position.reducible(side)) {
            self.accounts.shrunk.insert((id, instrument));
        }
    }

    /// Remembers what untracked orders got from tracked ones, so that positions can be seen to add up.
    pub(crate) fn shift_untracked(&mut self, settling: &Settling, movement: Movement) {
        let sums = self.accounts.sums.entry(settling.instrument).or_default();
        sums.untracked_quantity = sums.untracked_quantity.saturating_add(movement.quantity);
        sums.untracked_cost = sums.untracked_cost.saturating_add(movement.cost);
    }
}

/// What a side of a trade pays. In cash a seller can always pay it out of what it gets.
fn trade_fee(
    settling: &Settling,
    tracked: &Tracked,
    side: Side,
    liquidity: Liquidity,
    quantity: Quantity,
    notional: i128,
) -> i128 {
    if settling.settlement == Settlement::None {
        return 0;
    }
    let rate = if liquidity == Liquidity::Taker { Rate::Taker } else { Rate::Maker };
    let fee = fees::of_trade(&tracked.fees, rate, notional, settling.lots(quantity.0));
    if settling.settlement == Settlement::Cash && side == Side::Sell { fee.min(notional) } else { fee }
}
