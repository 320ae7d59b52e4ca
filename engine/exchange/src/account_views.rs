//! What may be read of accounts, for comparison of the full state with another implementation. Nothing here changes
//! anything.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, ClientOrderId, Currency, Fees, InstrumentId, Joined, Limits,
    ParticipantId, Price, SessionId, Throttle, TradeId,
};

use crate::exchange::Exchange;
use crate::trades::KeptSide;

/// An account with all that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountView {
    /// Its definition.
    pub definition: AccountDefinition,
    /// Its own kill switch.
    pub killed: bool,
    /// For instruments that have none of their own; all zero where there are none.
    pub limits: Limits,
    /// By instrument.
    pub own_limits: Vec<(InstrumentId, Limits)>,
    /// By currency code; none that is empty.
    pub balances: Vec<BalanceView>,
    /// By instrument; none that is empty.
    pub positions: Vec<PositionView>,
}

/// What an account has of a currency, in its smallest unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BalanceView {
    /// The currency.
    pub currency: Currency,
    /// All of it.
    pub total: i128,
    /// What of it open orders hold.
    pub held: i128,
}

/// What an account has of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PositionView {
    /// The instrument.
    pub instrument: InstrumentId,
    /// Bought minus sold.
    pub quantity: i64,
    /// Sum of signed notionals, in units of the quote currency where the instrument settles.
    pub cost: i128,
    /// Open quantity of buys.
    pub open_buy: u64,
    /// Open quantity of sells.
    pub open_sell: u64,
    /// Open orders.
    pub open_orders: u32,
    /// Their open quantity times price, where they have one.
    pub open_notional: u128,
}

/// What bounds a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlsView {
    /// The session.
    pub session: SessionId,
    /// Its participant; 0 is none.
    pub participant: ParticipantId,
    /// Since when it is the participant's.
    pub joined: Joined,
    /// Its throttle.
    pub throttle: Throttle,
    /// Second of log time that the counts are of.
    pub second: u64,
    /// Orders, replaces and quote entries that passed in it.
    pub orders: u32,
    /// Cancels and mass cancels that passed in it.
    pub cancels: u32,
}

/// A trade that may still be busted, or was today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeView {
    /// Its number.
    pub trade_id: TradeId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Its price after corrections.
    pub price: Price,
    /// Its quantity.
    pub quantity: u64,
    /// Whether it was busted.
    pub busted: bool,
    /// Buyer and seller.
    pub sides: [TradeSideView; 2],
}

/// A side of a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeSideView {
    /// The order's session.
    pub session: SessionId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// The order's account.
    pub account: AccountId,
    /// What the account paid, where the trade moved one.
    pub fee: Option<i128>,
}

impl Exchange {
    /// All accounts, by number.
    pub fn accounts(&self) -> impl Iterator<Item = AccountView> {
        self.accounts.iter().map(|account| {
            let balances = account.balances.iter();
            let positions = account.positions.iter();
            AccountView {
                definition: account.definition,
                killed: account.killed,
                limits: account.limits,
                own_limits: account.own_limits.iter().map(|(id, limits)| (*id, *limits)).collect(),
                balances: balances
                    .filter(|(_, balance)| (balance.total, balance.held) != (0, 0))
                    .map(|(&currency, balance)| BalanceView {
                        currency,
                        total: balance.total,
                        held: balance.held,
                    })
                    .collect(),
                positions: positions
                    .filter(|(_, position)| !position.is_empty())
                    .map(|(&instrument, position)| PositionView {
                        instrument,
                        quantity: position.quantity,
                        cost: position.cost,
                        open_buy: position.open[0],
                        open_sell: position.open[1],
                        open_orders: position.open_orders,
                        open_notional: position.open_notional,
                    })
                    .collect(),
            }
        })
    }

    /// All currencies by code: decimals, deposits less withdrawals, the venue's fees.
    pub fn currencies(&self) -> impl Iterator<Item = (Currency, u8, i128, i128)> {
        self.accounts
            .currencies
            .iter()
            .map(|(currency, state)| (*currency, state.scale, state.deposits, state.fees))
    }

    /// All fee schedules, by instrument and group.
    pub fn fee_schedules(&self) -> impl Iterator<Item = (InstrumentId, AccountGroup, Fees)> {
        self.accounts.schedules.iter().map(|(instrument, group, fees)| (instrument, group, *fees))
    }

    /// Participants that have an account, and whether their kill switch is on.
    pub fn participants(&self) -> impl Iterator<Item = (ParticipantId, bool)> {
        self.accounts.participants.iter().map(|(participant, killed)| (*participant, *killed))
    }

    /// Whether the venue's kill switch is on.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.venue_killed
    }

    /// What bounds sessions, by session; only those that have a participant or a throttle.
    pub fn controls(&self) -> impl Iterator<Item = ControlsView> {
        let sessions = self.sessions.places().map(|place| self.sessions.get(place));
        sessions.filter(|session| session.controlled).map(|session| ControlsView {
            session: session.id,
            participant: session.controls.participant,
            joined: session.controls.joined,
            throttle: session.controls.throttle,
            second: session.controls.second,
            orders: session.controls.orders,
            cancels: session.controls.cancels,
        })
    }

    /// Sum of all long positions of accounts in an instrument.
    #[must_use]
    pub fn open_interest(&self, instrument: InstrumentId) -> u128 {
        self.accounts.sums_of(instrument).long
    }

    /// Trades of the day that are kept for busts and corrections, oldest first.
    pub fn kept_trades(&self) -> impl Iterator<Item = TradeView> {
        let side = |side: &KeptSide| TradeSideView {
            session: self.sessions.get(side.session).id,
            client_order_id: side.client_order_id,
            account: side.account,
            fee: side.tracked.then_some(side.fee),
        };
        self.accounts.trades.iter().map(move |trade| TradeView {
            trade_id: trade.trade_id,
            instrument: trade.instrument,
            price: trade.price,
            quantity: trade.quantity,
            busted: trade.busted,
            sides: [side(&trade.sides[0]), side(&trade.sides[1])],
        })
    }
}
