//! What operators set beyond definitions: rules of instruments, currencies, accounts, fees, limits, throttles; and mass quotes,
//! which share the compact form of their bodies. Tables of the bodies are in `docs/native-order-entry.md`.

use zerocopy::IntoBytes;
use zerocopy::little_endian::{I32, I64, U32, U64};

use crate::admin::{flag, name};
use crate::layout::layout;
use crate::{
    AccountGroup, AccountId, Allocation, Amount, BandAction, DecodeError, InstrumentId, KillScope,
    ParticipantId, Price, Quantity, SelfTrade, SelfTradeAction, SessionId, Settlement, StopTrigger,
};

/// Most characters of a currency's code.
pub const CURRENCY_LENGTH: usize = 8;
/// Most rows of a tick table.
pub const TICK_ROWS_MAX: usize = 8;
/// Most entries of one side of a mass quote.
pub const QUOTE_LEVELS_MAX: usize = 10;
/// Most characters of the text that says why an administrative request was made.
pub const WHY_LENGTH_MAX: usize = 64;

name!(
    /// A currency's code: 1 to 8 printable ASCII characters.
    Currency,
    CURRENCY_LENGTH
);

/// How an instrument trades and settles. A zero bound is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentRules {
    /// How incoming quantity is shared out at one price.
    pub allocation: Allocation,
    /// Smallest pro-rata share.
    pub allocation_minimum: Quantity,
    /// What moves its stops.
    pub stop_trigger: StopTrigger,
    /// Smallest quantity of an order.
    pub quantity_min: Quantity,
    /// Smallest quantity times price of an order, in 10^-(price_scale + quantity_scale).
    pub notional_min: u64,
    /// Largest quantity times price of an order, in the same unit.
    pub notional_max: u64,
    /// How far a protected market order may trade from the best price, in price units.
    pub protection: u64,
    /// How far a trade may be from the reference price, in price units.
    pub static_band: u64,
    /// How far a trade may be from the last one, in price units.
    pub dynamic_band: u64,
    /// What happens at a band.
    pub band_action: BandAction,
    /// How long a volatility auction lasts, in milliseconds.
    pub volatility_ms: u32,
    /// Longest random time added to the end of an auction, in milliseconds.
    pub random_end_ms: u32,
    /// What a trade moves.
    pub settlement: Settlement,
    /// Currency that is traded (cash); `None` where nothing is settled or a margin instrument has none.
    pub base: Option<Currency>,
    /// Currency that prices are in; `None` where nothing is settled.
    pub quote: Option<Currency>,
    /// Margin required of an open lot, in units of the quote currency.
    pub initial_margin: u64,
    /// Equity below so much a lot is a margin call, in units of the quote currency.
    pub maintenance_margin: u64,
}

impl Default for InstrumentRules {
    /// Those of an instrument that was given none.
    fn default() -> Self {
        Self {
            allocation: Allocation::PriceTime,
            allocation_minimum: Quantity(0),
            stop_trigger: StopTrigger::LastTrade,
            quantity_min: Quantity(0),
            notional_min: 0,
            notional_max: 0,
            protection: 0,
            static_band: 0,
            dynamic_band: 0,
            band_action: BandAction::Reject,
            volatility_ms: 0,
            random_end_ms: 0,
            settlement: Settlement::None,
            base: None,
            quote: None,
            initial_margin: 0,
            maintenance_margin: 0,
        }
    }
}

layout!(
    /// Body of PutRules.
    RulesBody: 108 {
        0 allocation_minimum: U64, 8 quantity_min: U64, 16 notional_min: U64, 24 notional_max: U64, 32 protection: U64,
        40 static_band: U64, 48 dynamic_band: U64, 56 initial_margin: U64, 64 maintenance_margin: U64,
        72 base: [u8; CURRENCY_LENGTH], 80 quote: [u8; CURRENCY_LENGTH], 88 volatility_ms: U32, 92 random_end_ms: U32,
        96 allocation: u8, 97 stop_trigger: u8, 98 band_action: u8, 99 settlement: u8, 100 reserved: [u8; 8],
    }
);

fn optional_currency(
    bytes: &[u8; CURRENCY_LENGTH],
    field: &'static str,
) -> Result<Option<Currency>, DecodeError> {
    if *bytes == [0; CURRENCY_LENGTH] {
        return Ok(None);
    }
    Currency::from_padded(bytes).map(Some).ok_or(DecodeError::Field(field))
}

impl InstrumentRules {
    pub(crate) fn body(&self) -> RulesBody {
        let code =
            |currency: Option<Currency>| currency.map_or([0; CURRENCY_LENGTH], |code| *code.as_padded());
        RulesBody {
            allocation_minimum: self.allocation_minimum.0.into(),
            quantity_min: self.quantity_min.0.into(),
            notional_min: self.notional_min.into(),
            notional_max: self.notional_max.into(),
            protection: self.protection.into(),
            static_band: self.static_band.into(),
            dynamic_band: self.dynamic_band.into(),
            initial_margin: self.initial_margin.into(),
            maintenance_margin: self.maintenance_margin.into(),
            base: code(self.base),
            quote: code(self.quote),
            volatility_ms: self.volatility_ms.into(),
            random_end_ms: self.random_end_ms.into(),
            allocation: self.allocation.to_byte(),
            stop_trigger: self.stop_trigger.to_byte(),
            band_action: self.band_action.to_byte(),
            settlement: self.settlement.to_byte(),
            reserved: [0; 8],
        }
    }

    pub(crate) fn from_body(body: &RulesBody) -> Result<Self, DecodeError> {
        if body.reserved != [0; 8] {
            return Err(DecodeError::Field("reserved"));
        }
        Ok(Self {
            allocation: Allocation::from_byte(body.allocation).ok_or(DecodeError::Field("allocation"))?,
            allocation_minimum: Quantity(body.allocation_minimum.get()),
            stop_trigger: StopTrigger::from_byte(body.stop_trigger)
                .ok_or(DecodeError::Field("stop_trigger"))?,
            quantity_min: Quantity(body.quantity_min.get()),
            notional_min: body.notional_min.get(),
            notional_max: body.notional_max.get(),
            protection: body.protection.get(),
            static_band: body.static_band.get(),
            dynamic_band: body.dynamic_band.get(),
            band_action: BandAction::from_byte(body.band_action).ok_or(DecodeError::Field("band_action"))?,
            volatility_ms: body.volatility_ms.get(),
            random_end_ms: body.random_end_ms.get(),
            settlement: Settlement::from_byte(body.settlement).ok_or(DecodeError::Field("settlement"))?,
            base: optional_currency(&body.base, "base")?,
            quote: optional_currency(&body.quote, "quote")?,
            initial_margin: body.initial_margin.get(),
            maintenance_margin: body.maintenance_margin.get(),
        })
    }

    /// The bytes that a hash or a record takes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 108] {
        let mut bytes = [0; 108];
        bytes.copy_from_slice(self.body().as_bytes());
        bytes
    }

    /// The rules of those bytes.
    ///
    /// # Errors
    /// [`DecodeError`] names the first field that has no such value.
    pub fn from_bytes(bytes: &[u8; 108]) -> Result<Self, DecodeError> {
        Self::from_body(zerocopy::transmute_ref!(bytes))
    }
}

/// A price from which another tick size holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickRow {
    /// Lowest price of the row.
    pub from: Price,
    /// Every price of the row is a multiple of it.
    pub tick: Price,
}

/// Tick sizes by price, rising. Empty: the instrument's one tick size everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickTable {
    count: u8,
    rows: [TickRow; TICK_ROWS_MAX],
}

layout!(
    /// A row of PutTickTable, whose body is a count and so many rows.
    TickRowBody: 16 { 0 from: I64, 8 tick: I64 }
);

impl TickTable {
    /// A table of rows; `None` where there are too many.
    #[must_use]
    pub fn new(rows: &[TickRow]) -> Option<Self> {
        let mut table = Self { count: u8::try_from(rows.len()).ok()?, ..Self::default() };
        table.rows.get_mut(..rows.len())?.copy_from_slice(rows);
        Some(table)
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[TickRow] {
        &self.rows[..usize::from(self.count)]
    }
}

/// An entry of a mass quote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuoteEntry {
    /// Ticks (of the instrument's tick size) from the base price.
    pub ticks: i32,
    /// Lots.
    pub lots: u32,
}

/// One side of a mass quote, best price first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuoteSide {
    count: u8,
    entries: [QuoteEntry; QUOTE_LEVELS_MAX],
}

impl QuoteSide {
    /// A side of entries; `None` where there are too many.
    #[must_use]
    pub fn new(entries: &[QuoteEntry]) -> Option<Self> {
        let mut side = Self { count: u8::try_from(entries.len()).ok()?, ..Self::default() };
        side.entries.get_mut(..entries.len())?.copy_from_slice(entries);
        Some(side)
    }

    /// The entries.
    #[must_use]
    pub fn entries(&self) -> &[QuoteEntry] {
        &self.entries[..usize::from(self.count)]
    }
}

/// A two-sided ladder in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassQuote {
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// What entries count from.
    pub base: Price,
    /// New bids; `None` leaves the old ones alone.
    pub bids: Option<QuoteSide>,
    /// New asks; `None` leaves the old ones alone.
    pub asks: Option<QuoteSide>,
}

layout!(
    /// Body of MassQuote; bids and then asks follow, each `ticks i32, lots u32`. A count of 255 leaves the side alone.
    QuoteBody: 14 { 0 base: I64, 8 account: U32, 12 bids: u8, 13 asks: u8 }
);
layout!(
    /// An entry of a MassQuote.
    QuoteEntryBody: 8 { 0 ticks: I32, 4 lots: U32 }
);

/// The count of a side that is left alone.
pub(crate) const NO_SIDE: u8 = u8::MAX;

/// An account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountDefinition {
    /// Its number. Never 0.
    pub account: AccountId,
    /// Whose it is, for good. Never 0.
    pub participant: ParticipantId,
    /// Whose fees it pays.
    pub group: AccountGroup,
    /// Self-trade prevention of its orders that say nothing themselves.
    pub self_trade: Option<SelfTrade>,
}

layout!(
    /// Body of PutAccount.
    AccountBody: 17 { 0 account: U32, 4 participant: U32, 8 group: U32, 12 self_trade_group: U32, 16 self_trade_action: u8 }
);

impl AccountDefinition {
    pub(crate) fn body(&self) -> AccountBody {
        AccountBody {
            account: self.account.0.into(),
            participant: self.participant.0.into(),
            group: self.group.0.into(),
            self_trade_group: self.self_trade.map_or(0, |it| it.group).into(),
            self_trade_action: self.self_trade.map_or(0, |it| it.action.to_byte()),
        }
    }

    pub(crate) fn from_body(body: &AccountBody) -> Result<Self, DecodeError> {
        let group = body.self_trade_group.get();
        let self_trade = match (body.self_trade_action, group) {
            (0, 0) => None,
            (action, group) => Some(SelfTrade {
                group,
                action: SelfTradeAction::from_byte(action).ok_or(DecodeError::Field("self_trade_action"))?,
            }),
        };
        Ok(Self {
            account: AccountId(body.account.get()),
            participant: ParticipantId(body.participant.get()),
            group: AccountGroup(body.group.get()),
            self_trade,
        })
    }
}

/// What orders of an account may be. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of an order.
    pub quantity: u64,
    /// Of an order, in 10^-(price_scale + quantity_scale).
    pub notional: u64,
    /// Of all open orders in an instrument, in the same unit.
    pub open_notional: u64,
    /// Of position and open orders of one side.
    pub net_position: u64,
    /// Of long and short together.
    pub gross_position: u64,
    /// Of a limit price from the reference price, in price units.
    pub collar: u64,
    /// Open orders in an instrument.
    pub open_orders: u32,
    /// How long the same order is taken for a duplicate, in milliseconds.
    pub duplicate_ms: u32,
}

layout!(
    /// Body of SetLimits.
    LimitsBody: 60 {
        0 account: U32, 4 quantity: U64, 12 notional: U64, 20 open_notional: U64, 28 net_position: U64,
        36 gross_position: U64, 44 collar: U64, 52 open_orders: U32, 56 duplicate_ms: U32,
    }
);

impl Limits {
    pub(crate) fn body(&self, account: AccountId) -> LimitsBody {
        LimitsBody {
            account: account.0.into(),
            quantity: self.quantity.into(),
            notional: self.notional.into(),
            open_notional: self.open_notional.into(),
            net_position: self.net_position.into(),
            gross_position: self.gross_position.into(),
            collar: self.collar.into(),
            open_orders: self.open_orders.into(),
            duplicate_ms: self.duplicate_ms.into(),
        }
    }

    pub(crate) fn from_body(body: &LimitsBody) -> Self {
        Self {
            quantity: body.quantity.get(),
            notional: body.notional.get(),
            open_notional: body.open_notional.get(),
            net_position: body.net_position.get(),
            gross_position: body.gross_position.get(),
            collar: body.collar.get(),
            open_orders: body.open_orders.get(),
            duplicate_ms: body.duplicate_ms.get(),
        }
    }
}

/// What trades cost. Negative numbers are paid to the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fees {
    /// Of the resting side, in millionths of the notional.
    pub maker_ppm: i32,
    /// Of the incoming side, in millionths of the notional.
    pub taker_ppm: i32,
    /// Of the resting side, in units of the quote currency a lot.
    pub maker_per_lot: i64,
    /// Of the incoming side, in units of the quote currency a lot.
    pub taker_per_lot: i64,
}

layout!(
    /// Body of SetFees.
    FeesBody: 28 { 0 group: U32, 4 maker_ppm: I32, 8 taker_ppm: I32, 12 maker_per_lot: I64, 20 taker_per_lot: I64 }
);

impl Fees {
    pub(crate) fn body(&self, group: AccountGroup) -> FeesBody {
        FeesBody {
            group: group.0.into(),
            maker_ppm: self.maker_ppm.into(),
            taker_ppm: self.taker_ppm.into(),
            maker_per_lot: self.maker_per_lot.into(),
            taker_per_lot: self.taker_per_lot.into(),
        }
    }

    pub(crate) fn from_body(body: &FeesBody) -> Self {
        Self {
            maker_ppm: body.maker_ppm.get(),
            taker_ppm: body.taker_ppm.get(),
            maker_per_lot: body.maker_per_lot.get(),
            taker_per_lot: body.taker_per_lot.get(),
        }
    }
}

/// How many messages a session may send in a second of log time. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttle {
    /// New orders, replaces, and entries of mass quotes.
    pub orders: u32,
    /// Cancels and mass cancels.
    pub cancels: u32,
}

layout!(
    /// Body of SetThrottle.
    ThrottleBody: 12 { 0 session: U32, 4 orders: U32, 8 cancels: U32 }
);

/// Whom a kill switch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillTarget {
    /// Everybody.
    Venue,
    /// A participant's users and accounts.
    Participant(ParticipantId),
    /// An account.
    Account(AccountId),
}

layout!(
    /// Body of Kill.
    KillBody: 6 { 0 id: U32, 4 scope: u8, 5 on: u8 }
);

impl KillTarget {
    pub(crate) fn body(self, on: bool) -> KillBody {
        let (scope, id) = match self {
            Self::Venue => (KillScope::Venue, 0),
            Self::Participant(id) => (KillScope::Participant, id.0),
            Self::Account(id) => (KillScope::Account, id.0),
        };
        KillBody { id: id.into(), scope: scope.to_byte(), on: u8::from(on) }
    }

    pub(crate) fn from_body(body: &KillBody) -> Result<(Self, bool), DecodeError> {
        let id = body.id.get();
        let target = match KillScope::from_byte(body.scope).ok_or(DecodeError::Field("scope"))? {
            KillScope::Venue if id == 0 => Self::Venue,
            KillScope::Venue => return Err(DecodeError::Field("id")),
            KillScope::Participant => Self::Participant(ParticipantId(id)),
            KillScope::Account => Self::Account(AccountId(id)),
        };
        Ok((target, flag(body.on, "on")?))
    }
}

/// A deposit (above zero) or a withdrawal (below).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The account.
    pub account: AccountId,
    /// The currency.
    pub currency: Currency,
    /// How much.
    pub amount: Amount,
}

layout!(
    /// Body of Transfer.
    TransferBody: 28 { 0 account: U32, 4 currency: [u8; CURRENCY_LENGTH], 12 amount: [u8; 16] }
);
layout!(
    /// Body of PutCurrency.
    CurrencyBody: 9 { 0 currency: [u8; CURRENCY_LENGTH], 8 scale: u8 }
);
layout!(
    /// Body of SchedulePhase.
    ScheduleBody: 9 { 0 at: U64, 8 phase: u8 }
);
layout!(
    /// Body of SetPrice.
    PriceBody: 9 { 0 price: I64, 8 kind: u8 }
);
layout!(
    /// Body of SetParticipant.
    ParticipantBody: 8 { 0 session: U32, 4 participant: U32 }
);
layout!(
    /// Body of BustTrade.
    TradeBody: 8 { 0 trade_id: U64 }
);
layout!(
    /// Body of CorrectTrade.
    CorrectionBody: 16 { 0 trade_id: U64, 8 price: I64 }
);
layout!(
    /// Body of QueryAccount.
    NumberBody: 4 { 0 number: U32 }
);
layout!(
    /// Body of SetSeed.
    SeedBody: 8 { 0 seed: U64 }
);

impl Throttle {
    pub(crate) fn body(self, session: SessionId) -> ThrottleBody {
        ThrottleBody { session: session.0.into(), orders: self.orders.into(), cancels: self.cancels.into() }
    }
}
