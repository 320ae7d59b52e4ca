//! What the order path needs of accounts, phases and draws.

use protocol::{AccountId, Price, RejectReason, SelfTrade, Side, Trade};

use crate::arena::Handle;
use crate::exchange::{Exchange, Request};
use crate::outbox::{EventSink, Outbox};

/// What follows an order in its account.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tracked {
    /// Place of the account.
    pub(crate) account: u32,
}

impl Tracked {
    pub(crate) fn new(account: u32) -> Self {
        Self { account }
    }
}

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

/// Whose self-trade groups are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupOwner {
    Participant(protocol::ParticipantId),
    /// Place of a session without a participant.
    Session(u32),
}

/// An account in an instrument as it would be with orders out of the way or in place that are not so yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage;

impl Exchange {
    pub(crate) fn check_account(
        &mut self,
        _request: &Request,
        _account: AccountId,
        _place: u32,
        _weight: u32,
    ) -> Result<Option<u32>, RejectReason> {
        Ok(None)
    }

    pub(crate) fn check_risk(&self, _intent: &Intent) -> Result<(), RejectReason> {
        Ok(())
    }

    /// Whether a tracked order that enters later than it was accepted, without a limit to hold for, can be paid.
    pub(crate) fn can_pay(&self, _handle: Handle, _cost: i128, _quantity: u64) -> bool {
        true
    }

    pub(crate) fn check_replacing(
        &mut self,
        _request: &Request,
        _handle: Handle,
    ) -> Result<(), RejectReason> {
        Ok(())
    }

    pub(crate) fn stage(&self, _account: u32, _place: u32) -> Stage {
        Stage
    }

    pub(crate) fn take_out(&self, _stage: &mut Stage, _handle: Handle) {}

    pub(crate) fn check_quotes(
        &self,
        _stage: &mut Stage,
        _entries: impl IntoIterator<Item = Intent>,
    ) -> Result<(), RejectReason> {
        Ok(())
    }

    pub(crate) fn renew_fees(&mut self, _handle: Handle) {}

    pub(crate) fn auction_price(
        &self,
        place: u32,
        side: Side,
        time_in_force: protocol::TimeInForce,
    ) -> Option<Price> {
        let definition = &self.instruments.get(place).definition;
        let furthest = if side == Side::Buy { definition.price_max } else { definition.price_min };
        crate::options::is_for_auction(time_in_force).then_some(furthest)
    }

    /// Whose numbers of self-trade groups a session uses.
    pub(crate) fn group_owner(&self, session: u32) -> GroupOwner {
        GroupOwner::Session(session)
    }

    /// Self-trade prevention of a registered account.
    pub(crate) fn account_self_trade(&self, _account: u32) -> Option<SelfTrade> {
        None
    }

    pub(crate) fn track(&mut self, _handle: Handle) {}

    pub(crate) fn retrack(&mut self, _handle: Handle) {}

    pub(crate) fn untrack(&mut self, _handle: Handle) {}

    pub(crate) fn settle<S: EventSink>(
        &mut self,
        _trade: &Trade,
        _buyer: Handle,
        _seller: Handle,
        _liquidity: [protocol::Liquidity; 2],
        _out: &mut Outbox<'_, S>,
    ) {
    }

    /// Cancels reduce-only orders that trades of the effect just ended made too large.
    pub(crate) fn cancel_reduce_only<S: EventSink>(&mut self, _out: &mut Outbox<'_, S>) {}

    pub(crate) fn has_positions(&self, _place: u32) -> bool {
        false
    }

    pub(crate) fn call_margins<S: EventSink>(&self, _place: u32, _out: &mut Outbox<'_, S>) {}

    pub(crate) fn change_settlement(
        &mut self,
        _place: u32,
        _rules: &protocol::InstrumentRules,
    ) -> Result<(), RejectReason> {
        Ok(())
    }
}
