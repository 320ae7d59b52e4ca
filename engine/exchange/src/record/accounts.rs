//! Records of accounts, their money and what bounds them. Amounts are wide numbers, since they are in the state.

use protocol::StreamHash;
use rkyv::{Archive, Deserialize, Serialize};

/// One piece of what accounts are. In this order: the head, currencies, accounts each with its balances, positions and
/// limits, fee schedules, sessions' controls, since when they have their participants, sums of
/// instruments, trades.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum AccountsRecord {
    /// What there is one of. There only where anything else of accounts is.
    Head(HeadRecord),
    /// A currency.
    Currency(CurrencyRecord),
    /// An account.
    Account(AccountRecord),
    /// A balance of the account before it.
    Balance(BalanceRecord),
    /// A position of the account before it.
    Position(PositionRecord),
    /// A set of limits of the account before it.
    Limits(LimitsRecord),
    /// A fee schedule.
    Fees(FeesRecord),
    /// What bounds a session.
    Controls(ControlsRecord),
    /// What untracked orders took of an instrument.
    Sums(SumsRecord),
    /// A trade that may be busted.
    Trade(TradeRecord),
    /// Since when a session has its participant; only where a report from before may still be had.
    Joined(JoinedRecord),
}

/// What there is one of.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct HeadRecord {
    /// How many records of accounts follow.
    pub following: u32,
    /// The venue's kill switch.
    pub venue_killed: bool,
    /// Participants whose kill switch is on, lowest first.
    pub killed: Vec<u32>,
}

/// A currency.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct CurrencyRecord {
    /// Code, padded with spaces.
    pub code: [u8; 8],
    /// Decimals.
    pub scale: u8,
    /// Deposits less withdrawals.
    pub deposits: i128,
    /// The venue's fees.
    pub fees: i128,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct AccountRecord {
    /// Its number.
    pub account: u32,
    /// Whose it is.
    pub participant: u32,
    /// Whose fees it pays.
    pub group: u32,
    /// Group of its self-trade prevention.
    pub self_trade_group: u32,
    /// Byte of the action; 0 where it has none.
    pub self_trade_action: u8,
    /// Its kill switch.
    pub killed: bool,
}

/// A balance.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct BalanceRecord {
    /// Code of the currency.
    pub currency: [u8; 8],
    /// All of it. What of it is held follows from the open orders.
    pub total: i128,
}

/// A position. What is open follows from the open orders.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct PositionRecord {
    /// The instrument.
    pub instrument: u32,
    /// Bought minus sold.
    pub quantity: i64,
    /// Sum of signed notionals.
    pub cost: i128,
    /// The last order accepted.
    pub last_order: Option<LastOrderRecord>,
}

/// The order that another one would be a duplicate of.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct LastOrderRecord {
    /// Byte of the side.
    pub side: u8,
    /// Limit price.
    pub price: Option<i64>,
    /// Total quantity.
    pub quantity: u64,
    /// When it was accepted, Unix nanoseconds.
    pub at: u64,
}

/// A set of limits.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct LimitsRecord {
    /// The instrument; `None` is all that have none of their own.
    pub instrument: Option<u32>,
    /// Quantity, notional, open notional, net position, gross position, collar.
    pub bounds: [u64; 6],
    /// Open orders.
    pub open_orders: u32,
    /// Window of duplicates in milliseconds.
    pub duplicate_ms: u32,
}

/// A fee schedule.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct FeesRecord {
    /// The instrument.
    pub instrument: u32,
    /// The group.
    pub group: u32,
    /// What it costs.
    pub rates: RatesRecord,
}

/// What trades cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct RatesRecord {
    /// Maker's and taker's parts per million.
    pub ppm: [i32; 2],
    /// Maker's and taker's units per lot.
    pub per_lot: [i64; 2],
}

/// What bounds a session.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ControlsRecord {
    /// The session.
    pub session: u32,
    /// Its participant; 0 is none.
    pub participant: u32,
    /// Throttle: orders, cancels.
    pub throttle: [u32; 2],
    /// The second that the counts are of.
    pub second: u64,
    /// Counts: orders, cancels.
    pub counts: [u32; 2],
}

/// Since when a session has its participant.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct JoinedRecord {
    /// The session.
    pub session: u32,
    /// The trading day.
    pub trading_day: u32,
    /// The session's last report before it.
    pub last_report: u64,
}

/// What untracked orders took of an instrument.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct SumsRecord {
    /// The instrument.
    pub instrument: u32,
    /// Bought less sold.
    pub quantity: i128,
    /// The signed notionals of that.
    pub cost: i128,
}

/// A trade that may be busted.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct TradeRecord {
    /// Its number.
    pub trade_id: u64,
    /// The instrument.
    pub instrument: u32,
    /// Its price after corrections.
    pub price: i64,
    /// Quantity.
    pub quantity: u64,
    /// Whether it was busted.
    pub busted: bool,
    /// Buyer and seller.
    pub sides: [TradeSideRecord; 2],
}

/// A side of a trade.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct TradeSideRecord {
    /// The order's session.
    pub session: u32,
    /// The owner's id of the order.
    pub client_order_id: u64,
    /// The account.
    pub account: u32,
    /// Whether the trade moved it.
    pub tracked: bool,
    /// What it paid.
    pub fee: i128,
}

/// First word of each kind, after those of other records.
const KIND: u64 = 0x100;

fn wide(hash: &mut StreamHash, number: i128) {
    let bits = number as u128;
    hash.pair((bits >> 64) as u64, bits as u64);
}

fn optional(hash: &mut StreamHash, number: Option<u64>) {
    hash.pair(number.is_some().into(), number.unwrap_or(0));
}

impl AccountsRecord {
    /// Takes every field into a hash.
    pub(crate) fn fold(&self, hash: &mut StreamHash) {
        match self {
            Self::Head(head) => {
                hash.pair(KIND, u64::from(head.following) << 1 | u64::from(head.venue_killed));
                hash.word(head.killed.len() as u64);
                for participant in &head.killed {
                    hash.word((*participant).into());
                }
            }
            Self::Currency(currency) => {
                hash.pair(KIND + 1, currency.scale.into());
                hash.bytes(&currency.code);
                wide(hash, currency.deposits);
                wide(hash, currency.fees);
            }
            Self::Account(account) => {
                hash.pair(KIND + 2, account.account.into());
                hash.pair(account.participant.into(), account.group.into());
                let detail = u64::from(account.self_trade_action) << 1 | u64::from(account.killed);
                hash.pair(account.self_trade_group.into(), detail);
            }
            Self::Balance(balance) => {
                hash.word(KIND + 3);
                hash.bytes(&balance.currency);
                wide(hash, balance.total);
            }
            Self::Position(position) => position.fold(hash),
            Self::Limits(limits) => {
                hash.word(KIND + 5);
                optional(hash, limits.instrument.map(u64::from));
                for bound in limits.bounds {
                    hash.word(bound);
                }
                hash.pair(limits.open_orders.into(), limits.duplicate_ms.into());
            }
            Self::Fees(fees) => {
                hash.pair(KIND + 6, fees.instrument.into());
                hash.word(fees.group.into());
                fees.rates.fold(hash);
            }
            Self::Controls(controls) => {
                hash.pair(KIND + 7, controls.session.into());
                hash.pair(controls.participant.into(), controls.second);
                hash.pair(controls.throttle[0].into(), controls.throttle[1].into());
                hash.pair(controls.counts[0].into(), controls.counts[1].into());
            }
            Self::Sums(sums) => {
                hash.pair(KIND + 8, sums.instrument.into());
                wide(hash, sums.quantity);
                wide(hash, sums.cost);
            }
            Self::Trade(trade) => trade.fold(hash),
            Self::Joined(joined) => {
                hash.pair(KIND + 10, joined.session.into());
                hash.pair(joined.trading_day.into(), joined.last_report);
            }
        }
    }
}

impl RatesRecord {
    /// Takes every rate into a hash.
    pub(crate) fn fold(&self, hash: &mut StreamHash) {
        hash.pair(self.ppm[0] as u64, self.ppm[1] as u64);
        hash.pair(self.per_lot[0] as u64, self.per_lot[1] as u64);
    }
}

impl PositionRecord {
    fn fold(&self, hash: &mut StreamHash) {
        hash.pair(KIND + 4, self.instrument.into());
        hash.word(self.quantity as u64);
        wide(hash, self.cost);
        hash.word(self.last_order.is_some().into());
        if let Some(last) = &self.last_order {
            hash.pair(last.side.into(), last.quantity);
            optional(hash, last.price.map(|price| price as u64));
            hash.word(last.at);
        }
    }
}

impl TradeRecord {
    fn fold(&self, hash: &mut StreamHash) {
        hash.pair(KIND + 9, self.trade_id);
        hash.pair(u64::from(self.instrument) << 1 | u64::from(self.busted), self.price as u64);
        hash.word(self.quantity);
        for side in &self.sides {
            hash.pair(side.session.into(), side.client_order_id);
            hash.pair(side.account.into(), side.tracked.into());
            wide(hash, side.fee);
        }
    }
}
