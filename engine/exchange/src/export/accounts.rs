//! Export of accounts: everything that does not follow from the open orders, and nothing that is empty.

use protocol::{Currency, Fees, InstrumentId, Joined, Limits, TradingDay};

use crate::accounts::{Account, LastOrder, Position};
use crate::exchange::Exchange;
use crate::record::accounts::{
    AccountRecord, AccountsRecord, BalanceRecord, ControlsRecord, CurrencyRecord, FeesRecord, HeadRecord,
    JoinedRecord, LastOrderRecord, LimitsRecord, PositionRecord, RatesRecord, SumsRecord, TradeRecord,
    TradeSideRecord,
};
use crate::throttle::Controls;
use crate::trades::{KeptSide, KeptTrade};

impl Exchange {
    /// Gives every record of accounts in canonical order; none where there is nothing of them.
    pub(crate) fn export_accounts(&self, f: &mut dyn FnMut(AccountsRecord)) {
        let mut following = 0u32;
        self.for_each_account_record(&mut |_| following += 1);
        if following == 0 && !self.venue_killed {
            return;
        }
        let killed = self.accounts.participants.iter().filter(|(_, killed)| **killed);
        f(AccountsRecord::Head(HeadRecord {
            following,
            venue_killed: self.venue_killed,
            killed: killed.map(|(participant, _)| participant.0).collect(),
        }));
        self.for_each_account_record(f);
    }

    fn for_each_account_record(&self, f: &mut dyn FnMut(AccountsRecord)) {
        for (currency, state) in &self.accounts.currencies {
            f(AccountsRecord::Currency(CurrencyRecord {
                code: *currency.as_padded(),
                scale: state.scale,
                deposits: state.deposits,
                fees: state.fees,
            }));
        }
        for account in self.accounts.iter() {
            export_account(account, f);
        }
        for (instrument, group, fees) in self.accounts.schedules.iter() {
            let rates = rates_record(fees);
            f(AccountsRecord::Fees(FeesRecord { instrument: instrument.0, group: group.0, rates }));
        }
        for place in self.sessions.places() {
            let session = self.sessions.get(place);
            if session.controls.are_set() {
                f(AccountsRecord::Controls(controls_record(session.id.0, &session.controls)));
            }
        }
        for place in self.sessions.places() {
            let session = self.sessions.get(place);
            let Joined { trading_day, last_report } = session.controls.joined;
            if trading_day != TradingDay(0) {
                f(AccountsRecord::Joined(JoinedRecord {
                    session: session.id.0,
                    trading_day: trading_day.0,
                    last_report: last_report.0,
                }));
            }
        }
        for (instrument, sums) in &self.accounts.sums {
            if (sums.untracked_quantity, sums.untracked_cost) != (0, 0) {
                f(AccountsRecord::Sums(SumsRecord {
                    instrument: instrument.0,
                    quantity: sums.untracked_quantity,
                    cost: sums.untracked_cost,
                }));
            }
        }
        for trade in self.accounts.trades.iter() {
            f(AccountsRecord::Trade(self.trade_record(trade)));
        }
    }

    fn trade_record(&self, trade: &KeptTrade) -> TradeRecord {
        let side = |side: &KeptSide| TradeSideRecord {
            session: self.sessions.get(side.session).id.0,
            client_order_id: side.client_order_id.0,
            account: side.account.0,
            tracked: side.tracked,
            fee: side.fee,
        };
        let [buyer, seller] = &trade.sides;
        TradeRecord {
            trade_id: trade.trade_id.0,
            instrument: trade.instrument.0,
            price: trade.price.0,
            quantity: trade.quantity,
            busted: trade.busted,
            sides: [side(buyer), side(seller)],
        }
    }
}

fn export_account(account: &Account, f: &mut dyn FnMut(AccountsRecord)) {
    let definition = &account.definition;
    f(AccountsRecord::Account(AccountRecord {
        account: definition.account.0,
        participant: definition.participant.0,
        group: definition.group.0,
        self_trade_group: definition.self_trade.map_or(0, |it| it.group),
        self_trade_action: definition.self_trade.map_or(0, |it| it.action.to_byte()),
        killed: account.killed,
    }));
    for (currency, balance) in &account.balances {
        if balance.total != 0 {
            f(AccountsRecord::Balance(balance_record(*currency, balance.total)));
        }
    }
    for (instrument, position) in &account.positions {
        let is_there = position.quantity != 0 || position.cost != 0 || position.last_order.is_some();
        if is_there {
            f(AccountsRecord::Position(position_record(*instrument, position)));
        }
    }
    if account.limits != Limits::default() {
        f(AccountsRecord::Limits(limits_record(None, &account.limits)));
    }
    for (instrument, limits) in &account.own_limits {
        f(AccountsRecord::Limits(limits_record(Some(instrument.0), limits)));
    }
}

fn balance_record(currency: Currency, total: i128) -> BalanceRecord {
    BalanceRecord { currency: *currency.as_padded(), total }
}

fn position_record(instrument: InstrumentId, position: &Position) -> PositionRecord {
    let last_order = |last: LastOrder| LastOrderRecord {
        side: last.side.to_byte(),
        price: last.price.map(|price| price.0),
        quantity: last.quantity,
        at: last.at.0,
    };
    PositionRecord {
        instrument: instrument.0,
        quantity: position.quantity,
        cost: position.cost,
        last_order: position.last_order.map(last_order),
    }
}

fn limits_record(instrument: Option<u32>, limits: &Limits) -> LimitsRecord {
    LimitsRecord {
        instrument,
        bounds: [
            limits.quantity,
            limits.notional,
            limits.open_notional,
            limits.net_position,
            limits.gross_position,
            limits.collar,
        ],
        open_orders: limits.open_orders,
        duplicate_ms: limits.duplicate_ms,
    }
}

/// The record of rates: of a schedule, or of an order that has its own.
pub(crate) fn rates_record(fees: &Fees) -> RatesRecord {
    RatesRecord { ppm: [fees.maker_ppm, fees.taker_ppm], per_lot: [fees.maker_per_lot, fees.taker_per_lot] }
}

fn controls_record(session: u32, controls: &Controls) -> ControlsRecord {
    ControlsRecord {
        session,
        participant: controls.participant.0,
        throttle: [controls.throttle.orders, controls.throttle.cancels],
        second: controls.second,
        counts: [controls.orders, controls.cancels],
    }
}
