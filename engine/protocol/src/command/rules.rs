//! Bodies of the commands that set rules, accounts and money, and of mass quotes. Every fixed part stands beside its struct in
//! `rules.rs`; behind it comes at most the option Why.

use zerocopy::FromBytes;

use super::{Body, bare, check_why};
use crate::frame::Options;
use crate::layout::layout;
use crate::rules::{
    AccountBody, CorrectionBody, CurrencyBody, FeesBody, KillBody, LimitsBody, NO_SIDE, NumberBody,
    ParticipantBody, PriceBody, QuoteBody, QuoteEntryBody, RulesBody, ScheduleBody, SeedBody, ThrottleBody,
    TickRowBody, TradeBody, TransferBody,
};
use crate::{
    AccountDefinition, AccountGroup, AccountId, Amount, Currency, DecodeError, Fees, FrameHeader, FrameKind,
    FrameWriter, InstrumentId, InstrumentRules, KillTarget, Limits, MassQuote, ParticipantId, Phase, Price,
    PriceKind, QuoteEntry, QuoteSide, SessionId, Throttle, TickRow, TickTable, Timestamp, TradeId, Transfer,
};

layout!(
    /// Begins the body of PutTickTable; so many rows follow.
    TickTableBody: 1 { 0 rows: u8 }
);

/// Encodes a body of this module's kinds; `None` for another one.
pub(super) fn encode(body: &Body, writer: impl Fn(FrameKind) -> FrameWriter) -> Option<FrameWriter> {
    let of = |kind, instrument: &InstrumentId| writer(kind).instrument(*instrument);
    Some(match body {
        Body::PutRules(instrument, rules) => of(FrameKind::PutRules, instrument).body(&rules.body()),
        Body::PutTickTable(instrument, table) => {
            let start = of(FrameKind::PutTickTable, instrument)
                .body(&TickTableBody { rows: table.rows().len() as u8 });
            table.rows().iter().fold(start, |frame, row| {
                frame.body(&TickRowBody { from: row.from.0.into(), tick: row.tick.0.into() })
            })
        }
        Body::SchedulePhase(instrument, at, phase) => of(FrameKind::SchedulePhase, instrument)
            .body(&ScheduleBody { at: at.0.into(), phase: phase.to_byte() }),
        Body::ClearSchedule(instrument) => of(FrameKind::ClearSchedule, instrument),
        Body::SetPrice(instrument, kind, price) => of(FrameKind::SetPrice, instrument)
            .body(&PriceBody { price: price.0.into(), kind: kind.to_byte() }),
        Body::Delist(instrument) => of(FrameKind::Delist, instrument),
        Body::SetFees(instrument, group, fees) => of(FrameKind::SetFees, instrument).body(&fees.body(*group)),
        Body::SetLimits(account, instrument, limits) => {
            of(FrameKind::SetLimits, &instrument.unwrap_or_default()).body(&limits.body(*account))
        }
        Body::SetSeed(seed) => writer(FrameKind::SetSeed).body(&SeedBody { seed: (*seed).into() }),
        Body::PutCurrency(currency, scale) => writer(FrameKind::PutCurrency)
            .body(&CurrencyBody { currency: *currency.as_padded(), scale: *scale }),
        Body::PutAccount(account) => writer(FrameKind::PutAccount).body(&account.body()),
        Body::SetParticipant(session, participant) => writer(FrameKind::SetParticipant)
            .body(&ParticipantBody { session: session.0.into(), participant: participant.0.into() }),
        Body::SetThrottle(session, throttle) => writer(FrameKind::SetThrottle).body(&throttle.body(*session)),
        Body::Transfer(transfer) => writer(FrameKind::Transfer).body(&TransferBody {
            account: transfer.account.0.into(),
            currency: *transfer.currency.as_padded(),
            amount: transfer.amount.get().to_le_bytes(),
        }),
        Body::Kill(target, on) => writer(FrameKind::Kill).body(&target.body(*on)),
        Body::BustTrade(trade) => writer(FrameKind::BustTrade).body(&TradeBody { trade_id: trade.0.into() }),
        Body::CorrectTrade(trade, price) => writer(FrameKind::CorrectTrade)
            .body(&CorrectionBody { trade_id: trade.0.into(), price: price.0.into() }),
        Body::QueryAccount(account) => {
            writer(FrameKind::QueryAccount).body(&NumberBody { number: account.0.into() })
        }
        Body::QueryInstrument(instrument) => of(FrameKind::QueryInstrument, instrument),
        _ => return None,
    })
}

/// Decodes a body of this module's kinds.
pub(super) fn decode(kind: FrameKind, header: &FrameHeader, body: &[u8]) -> Result<Body, DecodeError> {
    let instrument = header.instrument();
    let nothing = || Options::read(body).and_then(|options| check_why(&options));
    Ok(match kind {
        FrameKind::PutRules => {
            Body::PutRules(instrument, InstrumentRules::from_body(&bare::<RulesBody>(body)?)?)
        }
        FrameKind::PutTickTable => Body::PutTickTable(instrument, tick_table(body)?),
        FrameKind::SchedulePhase => {
            let schedule = bare::<ScheduleBody>(body)?;
            let phase = Phase::from_byte(schedule.phase).ok_or(DecodeError::Field("phase"))?;
            Body::SchedulePhase(instrument, Timestamp(schedule.at.get()), phase)
        }
        FrameKind::ClearSchedule => nothing().map(|()| Body::ClearSchedule(instrument))?,
        FrameKind::SetPrice => {
            let price = bare::<PriceBody>(body)?;
            let kind = PriceKind::from_byte(price.kind).ok_or(DecodeError::Field("kind"))?;
            Body::SetPrice(instrument, kind, Price(price.price.get()))
        }
        FrameKind::Delist => nothing().map(|()| Body::Delist(instrument))?,
        FrameKind::SetFees => {
            let fees = bare::<FeesBody>(body)?;
            Body::SetFees(instrument, AccountGroup(fees.group.get()), Fees::from_body(&fees))
        }
        FrameKind::SetLimits => {
            let limits = bare::<LimitsBody>(body)?;
            let of = (instrument != InstrumentId(0)).then_some(instrument);
            Body::SetLimits(AccountId(limits.account.get()), of, Limits::from_body(&limits))
        }
        FrameKind::SetSeed => Body::SetSeed(bare::<SeedBody>(body)?.seed.get()),
        FrameKind::PutCurrency => {
            let currency = bare::<CurrencyBody>(body)?;
            Body::PutCurrency(code(&currency.currency)?, currency.scale)
        }
        FrameKind::PutAccount => Body::PutAccount(AccountDefinition::from_body(&bare::<AccountBody>(body)?)?),
        FrameKind::SetParticipant => {
            let body = bare::<ParticipantBody>(body)?;
            Body::SetParticipant(SessionId(body.session.get()), ParticipantId(body.participant.get()))
        }
        FrameKind::SetThrottle => {
            let body = bare::<ThrottleBody>(body)?;
            let throttle = Throttle { orders: body.orders.get(), cancels: body.cancels.get() };
            Body::SetThrottle(SessionId(body.session.get()), throttle)
        }
        FrameKind::Transfer => {
            let transfer = bare::<TransferBody>(body)?;
            Body::Transfer(Transfer {
                account: AccountId(transfer.account.get()),
                currency: code(&transfer.currency)?,
                amount: Amount::new(i128::from_le_bytes(transfer.amount)),
            })
        }
        FrameKind::Kill => {
            let (target, on) = KillTarget::from_body(&bare::<KillBody>(body)?)?;
            Body::Kill(target, on)
        }
        FrameKind::BustTrade => Body::BustTrade(TradeId(bare::<TradeBody>(body)?.trade_id.get())),
        FrameKind::CorrectTrade => {
            let correction = bare::<CorrectionBody>(body)?;
            Body::CorrectTrade(TradeId(correction.trade_id.get()), Price(correction.price.get()))
        }
        FrameKind::QueryAccount => Body::QueryAccount(AccountId(bare::<NumberBody>(body)?.number.get())),
        FrameKind::QueryInstrument => nothing().map(|()| Body::QueryInstrument(instrument))?,
        _ => return Err(DecodeError::Kind),
    })
}

fn code(bytes: &[u8; crate::CURRENCY_LENGTH]) -> Result<Currency, DecodeError> {
    Currency::from_padded(bytes).ok_or(DecodeError::Field("currency"))
}

fn tick_table(body: &[u8]) -> Result<TickTable, DecodeError> {
    let (start, rest) = TickTableBody::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
    let (rows, rest) = <[TickRowBody]>::ref_from_prefix_with_elems(rest, usize::from(start.rows))
        .map_err(|_| DecodeError::Truncated)?;
    check_why(&Options::read(rest)?)?;
    let mut table = [TickRow::default(); crate::TICK_ROWS_MAX];
    let used = table.get_mut(..rows.len()).ok_or(DecodeError::Field("rows"))?;
    for (row, body) in used.iter_mut().zip(rows) {
        *row = TickRow { from: Price(body.from.get()), tick: Price(body.tick.get()) };
    }
    TickTable::new(used).ok_or(DecodeError::Field("rows"))
}

/// Bytes of an administrative body before its options; `None` for kinds that have no text.
pub(super) fn fixed_length(kind: FrameKind, body: &[u8]) -> Option<usize> {
    Some(match kind {
        FrameKind::EndOfDay | FrameKind::ClearSchedule | FrameKind::Delist | FrameKind::QueryInstrument => 0,
        FrameKind::MassCancel => size_of::<super::orders::MassCancelBody>(),
        FrameKind::SetCapacities => size_of::<crate::admin::CapacitiesBody>(),
        FrameKind::SetRulebook => size_of::<super::RulebookBody>(),
        FrameKind::PutInstrument => size_of::<crate::admin::InstrumentBody>(),
        FrameKind::SetPhase => size_of::<super::ByteBody>(),
        FrameKind::PutUser => size_of::<crate::admin::UserBody>(),
        FrameKind::DisconnectUser => size_of::<super::SessionBody>(),
        FrameKind::PutRules => size_of::<RulesBody>(),
        FrameKind::PutTickTable => 1 + size_of::<TickRowBody>() * usize::from(*body.first()?),
        FrameKind::SchedulePhase => size_of::<ScheduleBody>(),
        FrameKind::SetPrice => size_of::<PriceBody>(),
        FrameKind::SetFees => size_of::<FeesBody>(),
        FrameKind::SetLimits => size_of::<LimitsBody>(),
        FrameKind::SetSeed => size_of::<SeedBody>(),
        FrameKind::PutCurrency => size_of::<CurrencyBody>(),
        FrameKind::PutAccount => size_of::<AccountBody>(),
        FrameKind::SetParticipant => size_of::<ParticipantBody>(),
        FrameKind::SetThrottle => size_of::<ThrottleBody>(),
        FrameKind::Transfer => size_of::<TransferBody>(),
        FrameKind::Kill => size_of::<KillBody>(),
        FrameKind::BustTrade => size_of::<TradeBody>(),
        FrameKind::CorrectTrade => size_of::<CorrectionBody>(),
        FrameKind::QueryAccount => size_of::<NumberBody>(),
        _ => return None,
    })
}

impl MassQuote {
    pub(super) fn read(header: &FrameHeader, body: &[u8]) -> Result<Self, DecodeError> {
        let (start, rest) = QuoteBody::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
        let (bids, rest) = quote_side(start.bids, rest)?;
        let (asks, rest) = quote_side(start.asks, rest)?;
        if !rest.is_empty() {
            return Err(DecodeError::Option);
        }
        Ok(Self {
            instrument: header.instrument(),
            account: AccountId(start.account.get()),
            base: Price(start.base.get()),
            bids,
            asks,
        })
    }

    pub(super) fn write(&self, writer: FrameWriter) -> FrameWriter {
        let count = |side: &Option<QuoteSide>| side.map_or(NO_SIDE, |side| side.entries().len() as u8);
        let start = writer.instrument(self.instrument).body(&QuoteBody {
            base: self.base.0.into(),
            account: self.account.0.into(),
            bids: count(&self.bids),
            asks: count(&self.asks),
        });
        [&self.bids, &self.asks]
            .into_iter()
            .flatten()
            .flat_map(QuoteSide::entries)
            .fold(start, |frame, entry| {
                frame.body(&QuoteEntryBody { ticks: entry.ticks.into(), lots: entry.lots.into() })
            })
    }
}

fn quote_side(count: u8, bytes: &[u8]) -> Result<(Option<QuoteSide>, &[u8]), DecodeError> {
    if count == NO_SIDE {
        return Ok((None, bytes));
    }
    let (bodies, rest) = <[QuoteEntryBody]>::ref_from_prefix_with_elems(bytes, usize::from(count))
        .map_err(|_| DecodeError::Truncated)?;
    let mut entries = [QuoteEntry::default(); crate::QUOTE_LEVELS_MAX];
    let used = entries.get_mut(..bodies.len()).ok_or(DecodeError::Field("count"))?;
    for (entry, body) in used.iter_mut().zip(bodies) {
        *entry = QuoteEntry { ticks: body.ticks.get(), lots: body.lots.get() };
    }
    Ok((QuoteSide::new(used), rest))
}
