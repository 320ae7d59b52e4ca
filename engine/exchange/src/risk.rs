//! Whether an account may have an order: who it is, its limits, what it may reduce, what it can pay. Nothing here changes
//! anything but the counts of throttles.

use protocol::{AccountId, Currency, InstrumentRules, ParticipantId, Price, RejectReason, Settlement, Side};

use crate::accounts::{Account, Position, at};
use crate::arena::Handle;
use crate::exchange::{Exchange, Request};
use crate::limits::{self, Limited, Surroundings};
use crate::settling::Settling;

/// What an order needs of its account where it settles in cash. A sell needs its quantity, whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// It buys at this price at most: its limit, or one that it got.
    Price(Price),
    /// It has no limit and may come to rest: the instrument's highest price.
    Highest,
    /// It has no limit and trades at once, by its dry run: sum of price times quantity, and quantity.
    Sweep(i128, u64),
    /// It waits without a price; what it needs is looked at when it enters.
    Nothing,
}

impl Needs {
    /// The price with which it counts among open orders.
    pub(crate) fn price(self) -> Option<Price> {
        match self {
            Self::Price(price) => Some(price),
            _ => None,
        }
    }
}

/// An order that a tracked account is about to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intent {
    /// Place of the account.
    pub(crate) account: u32,
    /// Place of the instrument.
    pub(crate) place: u32,
    pub(crate) side: Side,
    /// Total quantity.
    pub(crate) quantity: u64,
    /// Its own limit price, after a slide.
    pub(crate) limit: Option<Price>,
    /// The price that stands for it in its notional: limit, else stop, else the best opposite one.
    pub(crate) worth: Option<Price>,
    pub(crate) needs: Needs,
    pub(crate) reduce_only: bool,
    /// The live order that it takes the place of.
    pub(crate) replaces: Option<Handle>,
    /// A replace that keeps its place keeps its fees too.
    pub(crate) keeps_place: bool,
}

/// An account in an instrument as it would be with orders out of the way or in place that are not so yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    /// Place of the account.
    account: u32,
    position: Position,
    /// What would be held less, by buys and by sells.
    freed: [i128; 2],
}

impl Exchange {
    /// Who may enter orders for whom: throttle, account, kill switch. Gives the place of the account whose money and
    /// position the order will move.
    pub(crate) fn check_account(
        &mut self,
        request: &Request,
        account: AccountId,
        place: u32,
        weight: u32,
    ) -> Result<Option<u32>, RejectReason> {
        let log_time = self.log_time;
        let controls = &mut self.sessions.get_mut(request.session).controls;
        if !controls.take_orders(log_time, weight) {
            return Err(RejectReason::Throttled);
        }
        let participant = controls.participant;
        let tracked = if participant == ParticipantId(0) {
            if self.rules(place).is_some_and(|rules| rules.settlement != Settlement::None) {
                return Err(RejectReason::AccountRequired);
            }
            None
        } else {
            let belongs = |place: &u32| self.accounts.get(*place).definition.participant == participant;
            Some(self.accounts.place(account).filter(belongs).ok_or(RejectReason::UnknownAccount)?)
        };
        self.check_killed(tracked)?;
        if let Some(account) = tracked {
            self.catch_up(account, place);
        }
        Ok(tracked)
    }

    /// The same for a replace: the order has its account already.
    pub(crate) fn check_replacing(&mut self, request: &Request, handle: Handle) -> Result<(), RejectReason> {
        let log_time = self.log_time;
        if !self.sessions.get_mut(request.session).controls.take_orders(log_time, 1) {
            return Err(RejectReason::Throttled);
        }
        let account = self.tracked(handle).map(|tracked| tracked.account);
        self.check_killed(account)?;
        if let Some(account) = account {
            self.catch_up(account, self.orders.arena.get(handle).instrument);
        }
        Ok(())
    }

    /// A cancel or mass cancel is within the session's budget for them.
    #[inline(always)]
    pub(crate) fn check_cancel_budget(&mut self, session: u32) -> Result<(), RejectReason> {
        let log_time = self.log_time;
        let session = self.sessions.get_mut(session);
        let passes = !session.controlled || session.controls.take_cancel(log_time);
        if passes { Ok(()) } else { Err(RejectReason::Throttled) }
    }

    fn check_killed(&self, account: Option<u32>) -> Result<(), RejectReason> {
        let is_killed = self.venue_killed || account.is_some_and(|place| self.accounts.is_killed(place));
        if is_killed { Err(RejectReason::Killed) } else { Ok(()) }
    }

    /// An instrument's rules, where it was given any.
    pub(crate) fn rules(&self, place: u32) -> Option<&InstrumentRules> {
        self.instruments.get(place).special.as_ref().map(|special| &special.rules)
    }

    /// Whether the account may have the order: limits, then reduce-only, then funds or margin.
    pub(crate) fn check_risk(&self, intent: &Intent) -> Result<(), RejectReason> {
        let mut stage = self.stage(intent.account, intent.place);
        let before = stage.position;
        let mut open = intent.quantity;
        if let Some(handle) = intent.replaces {
            self.take_out(&mut stage, handle);
            open = open.saturating_sub(self.orders.arena.get(handle).cum);
        }
        self.check_staged(intent, &stage, &before, open, intent.replaces.is_none())
    }

    /// Whether the account may have all entries of one side of a mass quote, best first. Gives what the stage is with them
    /// in place.
    pub(crate) fn check_quotes(
        &self,
        stage: &mut Stage,
        entries: impl IntoIterator<Item = Intent>,
    ) -> Result<(), RejectReason> {
        for intent in entries {
            let before = stage.position;
            self.check_staged(&intent, stage, &before, intent.quantity, false)?;
            self.put_in(stage, &intent);
        }
        Ok(())
    }

    /// An account in an instrument as it is.
    pub(crate) fn stage(&self, account: u32, place: u32) -> Stage {
        let instrument = self.instruments.get(place).definition.instrument;
        Stage { account, position: self.accounts.get(account).position(instrument), freed: [0, 0] }
    }

    /// Takes a live order in the instrument out of the way, where it is the account's.
    pub(crate) fn take_out(&self, stage: &mut Stage, handle: Handle) {
        let own = self.tracked(handle).filter(|tracked| tracked.account == stage.account);
        let Some(tracked) = own else { return };
        let order = self.orders.arena.get(handle);
        let side = at(order.side);
        let position = &mut stage.position;
        position.open[side] = position.open[side].saturating_sub(tracked.open);
        if order.flags().reduce_only {
            position.reducing[side] = position.reducing[side].saturating_sub(tracked.open);
        }
        position.open_notional = position.open_notional.saturating_sub(tracked.notional);
        position.open_orders = position.open_orders.saturating_sub(1);
        stage.freed[side] = stage.freed[side].saturating_add(tracked.hold);
    }

    /// Puts an order that passed its checks in place.
    fn put_in(&self, stage: &mut Stage, intent: &Intent) {
        let side = at(intent.side);
        let position = &mut stage.position;
        position.open[side] = position.open[side].saturating_add(intent.quantity);
        position.open_notional =
            position.open_notional.saturating_add(notional(intent.quantity, intent.needs.price()));
        position.open_orders = position.open_orders.saturating_add(1);
        let settling = self.settling(intent.place);
        let hold = self.need(&settling, intent, intent.quantity);
        stage.freed[side] = stage.freed[side].saturating_sub(hold);
    }

    fn check_staged(
        &self,
        intent: &Intent,
        stage: &Stage,
        before: &Position,
        open: u64,
        is_new: bool,
    ) -> Result<(), RejectReason> {
        let settling = self.settling(intent.place);
        self.check_limits(intent, &stage.position, settling.bound, open, is_new)?;
        if intent.reduce_only {
            let wanted = u128::from(stage.position.reducing[at(intent.side)]) + u128::from(open);
            if wanted > stage.position.reducible(intent.side).into() {
                return Err(RejectReason::ReduceOnlyWouldIncrease);
            }
        }
        match settling.settlement {
            Settlement::None => Ok(()),
            Settlement::Cash => self.check_funds(&settling, intent, stage, open),
            Settlement::Margin => self.check_margin(&settling, intent, stage, before, open),
        }
    }

    fn check_limits(
        &self,
        intent: &Intent,
        position: &Position,
        bound: u64,
        open: u64,
        is_new: bool,
    ) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(intent.place);
        let reference = instrument.special.as_ref().and_then(|special| special.reference);
        let limited = Limited {
            side: intent.side,
            quantity: intent.quantity,
            open,
            limit: intent.limit,
            notional: intent.worth.map(|price| notional(intent.quantity, Some(price))),
            open_notional: notional(open, intent.needs.price()),
            is_new,
        };
        let reference = reference.or(instrument.last_trade);
        let around = Surroundings { position, reference, bound, now: self.log_time };
        let account = self.accounts.get(intent.account);
        limits::check(account.limits_of(instrument.definition.instrument), &limited, &around)
    }

    /// Whether the account may have a new order with nothing but a limit that comes to rest as a whole, and holds so much.
    pub(crate) fn check_resting(&self, intent: &Intent, hold: i128) -> Result<(), RejectReason> {
        let settling = self.settling(intent.place);
        if settling.settlement == Settlement::Margin {
            return self.check_risk(intent);
        }
        let account = self.accounts.get(intent.account);
        let position = account.positions.get(&settling.instrument);
        let position = position.unwrap_or(&Position::NOTHING);
        self.check_limits(intent, position, settling.bound, intent.quantity, true)?;
        match settling.held_by(intent.side) {
            Some(currency) if hold > self.free(account, currency) => Err(RejectReason::InsufficientFunds),
            _ => Ok(()),
        }
    }

    fn check_funds(
        &self,
        settling: &Settling,
        intent: &Intent,
        stage: &Stage,
        open: u64,
    ) -> Result<(), RejectReason> {
        let Some(currency) = settling.held_by(intent.side) else { return Ok(()) };
        let need = self.need(settling, intent, open);
        let freed = stage.freed[at(intent.side)];
        let free = self.free(self.accounts.get(intent.account), currency).saturating_add(freed);
        // A replace that holds no more than before is nobody's loss, however little is free.
        let holds_less = intent.replaces.is_some() && need <= freed;
        if need > free && !holds_less { Err(RejectReason::InsufficientFunds) } else { Ok(()) }
    }

    /// What the order would hold, or pay at once.
    fn need(&self, settling: &Settling, intent: &Intent, open: u64) -> i128 {
        let group = self.accounts.get(intent.account).definition.group;
        let kept = intent.replaces.filter(|_| intent.keeps_place).and_then(|handle| self.tracked(handle));
        let fees = kept
            .map_or_else(|| self.accounts.schedules.of(settling.instrument, group), |tracked| tracked.fees);
        match (intent.side, intent.needs) {
            (Side::Buy, Needs::Sweep(cost, quantity)) => settling.sweep_cost(&fees, cost, quantity),
            (side, needs) => settling.hold(&fees, side, needs, open),
        }
    }

    fn check_margin(
        &self,
        settling: &Settling,
        intent: &Intent,
        stage: &Stage,
        before: &Position,
        open: u64,
    ) -> Result<(), RejectReason> {
        let Some(currency) = settling.quote else { return Ok(()) };
        let account = self.accounts.get(intent.account);
        let margin = self.margin(account, currency);
        let mut with_order = stage.position;
        with_order.open[at(intent.side)] = with_order.open[at(intent.side)].saturating_add(open);
        let others =
            margin.required.saturating_sub(settling.required(&account.position(settling.instrument)));
        let required_before = others.saturating_add(settling.required(before));
        let required = others.saturating_add(settling.required(&with_order));
        let balance = account.balance(currency);
        let backing = balance.total.saturating_add(margin.unrealised).saturating_sub(balance.held);
        if required > required_before && backing < required {
            Err(RejectReason::InsufficientMargin)
        } else {
            Ok(())
        }
    }

    /// What positions of an instrument are valued at.
    pub(crate) fn mark(&self, place: u32) -> Option<Price> {
        let instrument = self.instruments.get(place);
        instrument.special.as_ref().and_then(|special| special.mark).or(instrument.last_trade)
    }

    /// What of a currency is free for anything new.
    pub(crate) fn free(&self, account: &Account, currency: Currency) -> i128 {
        let balance = account.balance(currency);
        let margin = self.margin(account, currency);
        let beyond_margin = balance.total.saturating_add(margin.unrealised).saturating_sub(margin.required);
        balance.total.min(beyond_margin).saturating_sub(balance.held)
    }

    /// Whether the account has less than nothing of any currency, at the mark prices too: what it has of others stays until
    /// that is made up for.
    pub(crate) fn owes(&self, account: &Account) -> bool {
        self.accounts.currencies.keys().any(|currency| {
            let total = account.balance(*currency).total;
            total < 0 || total.saturating_add(self.margin(account, *currency).unrealised) < 0
        })
    }

    /// Whether a buy that held nothing until now can pay for what the dry run of its sweep says: price times quantity
    /// summed up, and quantity. Orders that are not tracked, or of an instrument that doesn't settle in cash, always can.
    pub(crate) fn can_pay(&self, handle: Handle, cost: i128, quantity: u64) -> bool {
        let order = self.orders.arena.get(handle);
        let Some(tracked) = self.tracked(handle) else { return true };
        let settling = self.settling(order.instrument);
        match (settling.settlement, order.side, settling.quote) {
            (Settlement::Cash, Side::Buy, Some(currency)) => {
                let free = self.free(self.accounts.get(tracked.account), currency);
                settling.sweep_cost(&tracked.fees, cost, quantity) <= free.saturating_add(tracked.hold)
            }
            _ => true,
        }
    }
}

/// Quantity times absolute price; zero without a price.
pub(crate) fn notional(quantity: u64, price: Option<Price>) -> u128 {
    price.map_or(0, |price| u128::from(quantity) * u128::from(price.0.unsigned_abs()))
}
