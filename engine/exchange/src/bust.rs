//! Trades that are taken back or given another price: compensating moves of the accounts that they moved.

use protocol::{Event, Phase, Price, Quantity, RejectReason, TradeId, TradeRevised};

use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};
use crate::settle::Movement;
use crate::settling::POSITION_MAX;
use crate::trades::{KeptTrade, SIDES};

impl Exchange {
    /// A trade that may be taken back or corrected, with the place of its instrument.
    fn revisable(&self, id: TradeId) -> Result<(KeptTrade, u32), RejectReason> {
        let trade = self.accounts.trades.find(id).filter(|trade| !trade.busted);
        let trade = *trade.ok_or(RejectReason::UnknownTrade)?;
        let place = self.instruments.place(trade.instrument).ok_or(RejectReason::UnknownTrade)?;
        if self.instruments.get(place).phase == Phase::Delisted {
            return Err(RejectReason::UnknownTrade);
        }
        Ok((trade, place))
    }

    /// Takes a trade back: quantity, money and fees of its tracked sides.
    pub(crate) fn bust<S: EventSink>(
        &mut self,
        id: TradeId,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let (trade, place) = self.revisable(id)?;
        let settling = self.settling(place);
        let movement = Movement {
            quantity: -i128::from(trade.quantity),
            cost: -settling.notional(trade.price, trade.quantity),
            fee: 0,
        };
        self.check_bust(&trade, movement)?;
        if let Some(kept) = self.accounts.trades.find_mut(id) {
            kept.busted = true;
        }
        self.revise(&trade, place, movement, true);
        self.emit_revised(&trade, None, out);
        self.touch(place);
        Ok(())
    }

    /// No position would become larger than positions may be.
    fn check_bust(&self, trade: &KeptTrade, movement: Movement) -> Result<(), RejectReason> {
        let [buyer, seller] = &trade.sides;
        if buyer.tracked && seller.tracked && buyer.account == seller.account {
            return Ok(());
        }
        for (kept, side) in trade.sides.iter().zip(SIDES) {
            let Some(place) = self.accounts.place(kept.account).filter(|_| kept.tracked) else { continue };
            let mut position = self.accounts.get(place).position(trade.instrument);
            let after = i128::from(position.quantity) + movement.of(side).quantity;
            position.quantity = i64::try_from(after).map_err(|_| RejectReason::AmountInvalid)?;
            let furthest = SIDES.map(|side| position.with_open(side).unsigned_abs());
            if furthest.into_iter().any(|quantity| quantity > POSITION_MAX.into()) {
                return Err(RejectReason::AmountInvalid);
            }
        }
        Ok(())
    }

    /// Gives a trade another price; its fees stay.
    pub(crate) fn correct<S: EventSink>(
        &mut self,
        id: TradeId,
        price: Price,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let (trade, place) = self.revisable(id)?;
        self.instruments.get(place).check_price(price)?;
        if price == trade.price {
            return Ok(());
        }
        let settling = self.settling(place);
        let (before, after) =
            (settling.notional(trade.price, trade.quantity), settling.notional(price, trade.quantity));
        if let Some(kept) = self.accounts.trades.find_mut(id) {
            kept.price = price;
        }
        let movement = Movement { quantity: 0, cost: after.saturating_sub(before), fee: 0 };
        self.revise(&trade, place, movement, false);
        self.emit_revised(&trade, Some(price), out);
        self.touch(place);
        Ok(())
    }

    /// Moves both sides of a trade, the buyer's first; fees go back with a bust.
    fn revise(&mut self, trade: &KeptTrade, place: u32, movement: Movement, with_fees: bool) {
        let settling = self.settling(place);
        for (kept, side) in trade.sides.iter().zip(SIDES) {
            let fee = if with_fees { -kept.fee } else { 0 };
            let movement = Movement { fee, ..movement.of(side) };
            match self.accounts.place(kept.account).filter(|_| kept.tracked) {
                Some(account) => self.shift(account, &settling, movement),
                None => self.shift_untracked(&settling, movement),
            }
        }
    }

    fn emit_revised<S: EventSink>(
        &mut self,
        trade: &KeptTrade,
        new_price: Option<Price>,
        out: &mut Outbox<'_, S>,
    ) {
        for (kept, side) in trade.sides.iter().zip(SIDES) {
            out.emit(Event::TradeRevised(TradeRevised {
                to: self.sessions.report(kept.session),
                trade_id: trade.trade_id,
                client_order_id: kept.client_order_id,
                quantity: Quantity(trade.quantity),
                old_price: trade.price,
                new_price,
                instrument: trade.instrument,
                account: kept.account,
                side,
            }));
        }
    }
}
