//! Accounts from the records that they were exported as. What follows from open orders is counted when these come.

use std::collections::BTreeSet;

use protocol::{
    AccountDefinition, AccountGroup, AccountId, ClientOrderId, Currency, Fees, InstrumentId, Joined, Limits,
    ParticipantId, Price, ReportNumber, SelfTrade, SelfTradeAction, SessionId, Side, Throttle, Timestamp,
    TradeId, TradingDay,
};

use super::ImportError;
use crate::accounts::{
    ACCOUNTS_MAX, CURRENCIES_MAX, CURRENCY_SCALE_MAX, CurrencyState, LIMIT_SETS_MAX, LastOrder, Position,
    fees,
};
use crate::exchange::Exchange;
use crate::record::accounts::{
    AccountRecord, AccountsRecord, ControlsRecord, CurrencyRecord, FeesRecord, HeadRecord, JoinedRecord,
    LimitsRecord, PositionRecord, RatesRecord, SumsRecord, TradeRecord, TradeSideRecord,
};
use crate::settling::POSITION_MAX;
use crate::throttle::Controls;
use crate::trades::{KeptSide, KeptTrade, TRADES_MAX};

/// How far the import of accounts has come.
#[derive(Debug, Default)]
pub(super) struct AccountsImport {
    /// Records that are still to come; `None` before the head.
    left: Option<u32>,
    /// Place of the account before.
    current: Option<u32>,
    /// Participants whose kill switch is on.
    killed: BTreeSet<u32>,
}

impl AccountsImport {
    /// Takes the next record.
    pub(super) fn push(
        &mut self,
        exchange: &mut Exchange,
        record: &AccountsRecord,
    ) -> Result<(), ImportError> {
        if let AccountsRecord::Head(head) = record {
            return self.head(exchange, head);
        }
        let left = self.left.and_then(|left| left.checked_sub(1));
        self.left = Some(left.ok_or(ImportError::Order("accounts"))?);
        match record {
            AccountsRecord::Head(_) => Err(ImportError::Order("accounts")),
            AccountsRecord::Currency(record) => currency(exchange, record),
            AccountsRecord::Account(record) => self.account(exchange, record),
            AccountsRecord::Balance(record) => {
                let place = self.current()?;
                let code = known_currency(exchange, &record.currency)?;
                exchange.accounts.get_mut(place).pay_in(code, record.total);
                Ok(())
            }
            AccountsRecord::Position(record) => position(exchange, self.current()?, record),
            AccountsRecord::Limits(record) => limits(exchange, self.current()?, record),
            AccountsRecord::Fees(record) => schedule(exchange, record),
            AccountsRecord::Controls(record) => controls(exchange, record),
            AccountsRecord::Sums(record) => sums(exchange, record),
            AccountsRecord::Trade(record) => trade(exchange, record),
            AccountsRecord::Joined(record) => joined(exchange, record),
        }
    }

    /// After the last record of all kinds.
    pub(super) fn finish(&self) -> Result<(), ImportError> {
        if self.left.unwrap_or(0) == 0 { Ok(()) } else { Err(ImportError::Order("accounts")) }
    }

    fn current(&self) -> Result<u32, ImportError> {
        self.current.ok_or(ImportError::Unknown("account"))
    }

    fn head(&mut self, exchange: &mut Exchange, head: &HeadRecord) -> Result<(), ImportError> {
        if self.left.is_some() {
            return Err(ImportError::Twice("head of accounts"));
        }
        self.left = Some(head.following);
        self.killed = head.killed.iter().copied().collect();
        exchange.venue_killed = head.venue_killed;
        Ok(())
    }

    fn account(&mut self, exchange: &mut Exchange, record: &AccountRecord) -> Result<(), ImportError> {
        let accounts = &mut exchange.accounts;
        let self_trade = match record.self_trade_action {
            0 => None,
            action => Some(SelfTrade {
                group: record.self_trade_group,
                action: SelfTradeAction::from_byte(action).ok_or(ImportError::Field("self-trade action"))?,
            }),
        };
        let definition = AccountDefinition {
            account: AccountId(record.account),
            participant: ParticipantId(record.participant),
            group: AccountGroup(record.group),
            self_trade,
        };
        if record.account == 0 || record.participant == 0 {
            return Err(ImportError::Field("account"));
        }
        let before = self.current.map(|place| accounts.get(place).definition.account);
        if before.is_some_and(|before| before >= definition.account) {
            return Err(ImportError::Order("account"));
        }
        if accounts.len() >= ACCOUNTS_MAX {
            return Err(ImportError::Capacity("accounts"));
        }
        let place = accounts.add(definition);
        accounts.get_mut(place).killed = record.killed;
        if self.killed.contains(&record.participant) {
            accounts.participants.insert(definition.participant, true);
        }
        self.current = Some(place);
        Ok(())
    }
}

fn code(bytes: &[u8; 8]) -> Result<Currency, ImportError> {
    Currency::from_padded(bytes).ok_or(ImportError::Field("currency"))
}

fn known_currency(exchange: &Exchange, bytes: &[u8; 8]) -> Result<Currency, ImportError> {
    let currency = code(bytes)?;
    let is_known = exchange.accounts.currencies.contains_key(&currency);
    if is_known { Ok(currency) } else { Err(ImportError::Unknown("currency")) }
}

fn known_instrument(exchange: &Exchange, id: u32) -> Result<InstrumentId, ImportError> {
    let id = InstrumentId(id);
    exchange.instruments.place(id).map(|_| id).ok_or(ImportError::Unknown("instrument"))
}

fn currency(exchange: &mut Exchange, record: &CurrencyRecord) -> Result<(), ImportError> {
    let currencies = &mut exchange.accounts.currencies;
    if record.scale > CURRENCY_SCALE_MAX {
        return Err(ImportError::Field("currency"));
    }
    if currencies.len() >= CURRENCIES_MAX {
        return Err(ImportError::Capacity("currencies"));
    }
    let state = CurrencyState { scale: record.scale, deposits: record.deposits, fees: record.fees };
    match currencies.insert(code(&record.code)?, state) {
        None => Ok(()),
        Some(_) => Err(ImportError::Twice("currency")),
    }
}

fn position(exchange: &mut Exchange, place: u32, record: &PositionRecord) -> Result<(), ImportError> {
    let id = known_instrument(exchange, record.instrument)?;
    if record.quantity.unsigned_abs() > POSITION_MAX {
        return Err(ImportError::Field("position"));
    }
    let last_order = match &record.last_order {
        None => None,
        Some(last) => Some(LastOrder {
            side: Side::from_byte(last.side).ok_or(ImportError::Field("side"))?,
            price: last.price.map(Price),
            quantity: last.quantity,
            at: Timestamp(last.at),
        }),
    };
    let positions = &mut exchange.accounts.get_mut(place).positions;
    if positions.insert(id, Position { last_order, ..Position::default() }).is_some() {
        return Err(ImportError::Twice("position"));
    }
    exchange.accounts.shift_position(place, id, record.quantity.into(), record.cost);
    Ok(())
}

fn limits(exchange: &mut Exchange, place: u32, record: &LimitsRecord) -> Result<(), ImportError> {
    let [quantity, notional, open_notional, net_position, gross_position, collar] = record.bounds;
    let limits = Limits {
        quantity,
        notional,
        open_notional,
        net_position,
        gross_position,
        collar,
        open_orders: record.open_orders,
        duplicate_ms: record.duplicate_ms,
    };
    if limits == Limits::default() {
        return Err(ImportError::Field("limits"));
    }
    let instrument = record.instrument.map(|id| known_instrument(exchange, id)).transpose()?;
    let accounts = &mut exchange.accounts;
    if accounts.limit_sets >= LIMIT_SETS_MAX {
        return Err(ImportError::Capacity("limits"));
    }
    accounts.limit_sets += 1;
    let account = accounts.get_mut(place);
    let before = match instrument {
        None => std::mem::replace(&mut account.limits, limits),
        Some(id) => account.own_limits.insert(id, limits).unwrap_or_default(),
    };
    if before == Limits::default() { Ok(()) } else { Err(ImportError::Twice("set of limits")) }
}

/// The rates of a record.
pub(super) fn rates(record: &RatesRecord) -> Result<Fees, ImportError> {
    let fees = Fees {
        maker_ppm: record.ppm[0],
        taker_ppm: record.ppm[1],
        maker_per_lot: record.per_lot[0],
        taker_per_lot: record.per_lot[1],
    };
    if fees::is_valid(&fees) { Ok(fees) } else { Err(ImportError::Field("fees")) }
}

fn schedule(exchange: &mut Exchange, record: &FeesRecord) -> Result<(), ImportError> {
    let id = known_instrument(exchange, record.instrument)?;
    let (group, fees) = (AccountGroup(record.group), rates(&record.rates)?);
    let schedules = &mut exchange.accounts.schedules;
    if schedules.len() >= fees::SCHEDULES_MAX {
        return Err(ImportError::Capacity("fee schedules"));
    }
    if schedules.get(id, group).is_some() {
        return Err(ImportError::Twice("fee schedule"));
    }
    schedules.set(id, group, fees);
    Ok(())
}

fn controls(exchange: &mut Exchange, record: &ControlsRecord) -> Result<(), ImportError> {
    let place = exchange.sessions.place(SessionId(record.session)).filter(|_| record.session != 0);
    let session = exchange.sessions.get_mut(place.ok_or(ImportError::Unknown("session"))?);
    if session.controlled {
        return Err(ImportError::Twice("session's controls"));
    }
    session.controls = Controls {
        participant: ParticipantId(record.participant),
        joined: Joined::default(),
        throttle: Throttle { orders: record.throttle[0], cancels: record.throttle[1] },
        second: record.second,
        orders: record.counts[0],
        cancels: record.counts[1],
    };
    session.controlled = session.controls.are_set();
    if session.controlled { Ok(()) } else { Err(ImportError::Field("session's controls")) }
}

fn joined(exchange: &mut Exchange, record: &JoinedRecord) -> Result<(), ImportError> {
    let today = exchange.trading_day.0;
    let place = exchange.sessions.place(SessionId(record.session)).filter(|_| record.session != 0);
    let session = exchange.sessions.get_mut(place.ok_or(ImportError::Unknown("session"))?);
    let joined =
        Joined { trading_day: TradingDay(record.trading_day), last_report: ReportNumber(record.last_report) };
    let controls = &mut session.controls;
    if controls.joined != Joined::default() {
        return Err(ImportError::Twice("session's participant"));
    }
    let can_be_had =
        record.trading_day != 0 && record.trading_day <= today && today - record.trading_day <= 1;
    if controls.participant == ParticipantId(0) || !can_be_had {
        return Err(ImportError::Field("session's participant"));
    }
    controls.joined = joined;
    Ok(())
}

fn sums(exchange: &mut Exchange, record: &SumsRecord) -> Result<(), ImportError> {
    let id = known_instrument(exchange, record.instrument)?;
    let sums = exchange.accounts.sums.entry(id).or_default();
    sums.untracked_quantity = record.quantity;
    sums.untracked_cost = record.cost;
    Ok(())
}

fn trade(exchange: &mut Exchange, record: &TradeRecord) -> Result<(), ImportError> {
    let instrument = known_instrument(exchange, record.instrument)?;
    let side = |side: &TradeSideRecord| {
        let session = exchange.sessions.place(SessionId(side.session));
        let account = AccountId(side.account);
        if side.tracked && exchange.accounts.place(account).is_none() {
            return Err(ImportError::Unknown("account"));
        }
        Ok(KeptSide {
            session: session.ok_or(ImportError::Unknown("session"))?,
            client_order_id: ClientOrderId(side.client_order_id),
            account,
            tracked: side.tracked,
            fee: side.fee,
        })
    };
    let [buyer, seller] = &record.sides;
    let kept = KeptTrade {
        trade_id: TradeId(record.trade_id),
        instrument,
        price: Price(record.price),
        quantity: record.quantity,
        busted: record.busted,
        sides: [side(buyer)?, side(seller)?],
    };
    let trades = &mut exchange.accounts.trades;
    if trades.len() >= TRADES_MAX {
        return Err(ImportError::Capacity("trades"));
    }
    if trades.last().is_some_and(|last| last.trade_id >= kept.trade_id)
        || record.trade_id > exchange.last_trade_id
    {
        return Err(ImportError::Order("trade"));
    }
    trades.keep(kept);
    Ok(())
}
