//! Reports of stops, quotes, settlement and questions about accounts. Offsets within the body, behind number and sequence:
//!
//! | kind | fields |
//! |---|---|
//! | Triggered | order_id u64 @16, client_order_id u64 @24, stop_price i64 @32, price i64 @40, leaves_quantity u64 @48, side u8 @56, priced u8 @57 |
//! | MassQuoted | bids u8 @16, asks u8 @17, bid_reason u8 @18, ask_reason u8 @19 (0 = taken) |
//! | Settled | trade_id u64 @16, client_order_id u64 @24, fee i128 @32, position i64 @48, side u8 @56 |
//! | TradeRevised | trade_id u64 @16, client_order_id u64 @24, quantity u64 @32, old_price i64 @40, new_price i64 @48, side u8 @56, corrected u8 @57 (0 = taken back) |
//! | Balance | currency 8 @16, total i128 @24, held i128 @40 |
//! | Position | quantity i64 @16, cost i128 @24, open_buy u64 @40, open_sell u64 @48 |
//! | InstrumentState | last_price i64 @16, reference_price i64 @24, mark_price i64 @32, open_interest u64 @40, phase u8 @48, has u8 @49 (bit 0 last, 1 reference, 2 mark) |

use zerocopy::little_endian::{I64, U64};

use super::encode::Place;
use super::{Head, REPORT_STRIDE, fixed, side};
use crate::admin::flag;
use crate::layout::layout;
use crate::{
    AccountId, Amount, Balance, CURRENCY_LENGTH, ClientOrderId, Currency, DecodeError, Event, FrameKind,
    HEADER_LENGTH, InstrumentState, MassQuoted, OrderId, Phase, Position, Price, Quantity, RejectReason,
    RequestId, Settled, TradeId, TradeRevised, Triggered,
};

report_layout!(TriggeredBody: 58 {
    16 order_id: U64, 24 client_order_id: U64, 32 stop_price: I64, 40 price: I64, 48 leaves_quantity: U64, 56 side: u8,
    57 priced: u8,
});
report_layout!(MassQuotedBody: 20 { 16 bids: u8, 17 asks: u8, 18 bid_reason: u8, 19 ask_reason: u8 });
report_layout!(SettledBody: 57 {
    16 trade_id: U64, 24 client_order_id: U64, 32 fee: [u8; 16], 48 position: I64, 56 side: u8,
});
report_layout!(TradeRevisedBody: 58 {
    16 trade_id: U64, 24 client_order_id: U64, 32 quantity: U64, 40 old_price: I64, 48 new_price: I64, 56 side: u8,
    57 corrected: u8,
});
report_layout!(BalanceBody: 56 { 16 currency: [u8; CURRENCY_LENGTH], 24 total: [u8; 16], 40 held: [u8; 16] });
report_layout!(PositionBody: 56 {
    16 quantity: I64, 24 cost: [u8; 16], 40 open_buy: U64, 48 open_sell: U64,
});
report_layout!(InstrumentStateBody: 50 {
    16 last_price: I64, 24 reference_price: I64, 32 mark_price: I64, 40 open_interest: U64, 48 phase: u8, 49 has: u8,
});

pub(super) fn write(place: Place<'_>, event: &Event) -> Option<()> {
    let (number, sequence) = (place.number, place.sequence);
    let none = RequestId(0);
    let raw = |price: Option<Price>| I64::from(price.map_or(0, |price| price.0));
    let bytes = |amount: Amount| amount.get().to_le_bytes();
    let reason = |reason: Option<RejectReason>| reason.map_or(0, RejectReason::to_byte);
    let frame = match event {
        Event::Triggered(e) => {
            place.frame(FrameKind::Triggered, none, (e.instrument, e.account)).body(&TriggeredBody {
                number,
                sequence,
                order_id: e.order_id.0.into(),
                client_order_id: e.client_order_id.0.into(),
                stop_price: e.stop_price.0.into(),
                price: raw(e.price),
                leaves_quantity: e.leaves_quantity.0.into(),
                side: e.side.to_byte(),
                priced: u8::from(e.price.is_some()),
            })
        }
        Event::MassQuoted(e) => place
            .frame(FrameKind::MassQuoted, e.request_id, (e.instrument, e.account))
            .body(&MassQuotedBody {
                number,
                sequence,
                bids: e.bids,
                asks: e.asks,
                bid_reason: reason(e.bid_reason),
                ask_reason: reason(e.ask_reason),
            }),
        Event::Settled(e) => {
            place.frame(FrameKind::Settled, none, (e.instrument, e.account)).body(&SettledBody {
                number,
                sequence,
                trade_id: e.trade_id.0.into(),
                client_order_id: e.client_order_id.0.into(),
                fee: bytes(e.fee),
                position: e.position.into(),
                side: e.side.to_byte(),
            })
        }
        Event::TradeRevised(e) => {
            place.frame(FrameKind::TradeRevised, none, (e.instrument, e.account)).body(&TradeRevisedBody {
                number,
                sequence,
                trade_id: e.trade_id.0.into(),
                client_order_id: e.client_order_id.0.into(),
                quantity: e.quantity.0.into(),
                old_price: e.old_price.0.into(),
                new_price: raw(e.new_price),
                side: e.side.to_byte(),
                corrected: u8::from(e.new_price.is_some()),
            })
        }
        Event::Balance(e) => place
            .frame(FrameKind::Balance, e.request_id, (Default::default(), e.account))
            .body(&BalanceBody {
                number,
                sequence,
                currency: *e.currency.as_padded(),
                total: bytes(e.total),
                held: bytes(e.held),
            }),
        Event::Position(e) => {
            place.frame(FrameKind::Position, e.request_id, (e.instrument, e.account)).body(&PositionBody {
                number,
                sequence,
                quantity: e.quantity.into(),
                cost: bytes(e.cost),
                open_buy: e.open_buy.into(),
                open_sell: e.open_sell.into(),
            })
        }
        Event::InstrumentState(e) => {
            let has = [e.last_price, e.reference_price, e.mark_price];
            place.frame(FrameKind::InstrumentState, e.request_id, (e.instrument, AccountId(0))).body(
                &InstrumentStateBody {
                    number,
                    sequence,
                    last_price: raw(e.last_price),
                    reference_price: raw(e.reference_price),
                    mark_price: raw(e.mark_price),
                    open_interest: e.open_interest.into(),
                    phase: e.phase.to_byte(),
                    has: has.iter().enumerate().map(|(bit, price)| u8::from(price.is_some()) << bit).sum(),
                },
            )
        }
        _ => return None,
    };
    frame.finish();
    Some(())
}

pub(super) fn read(kind: FrameKind, head: &Head, body: &[u8]) -> Result<Event, DecodeError> {
    Ok(match kind {
        FrameKind::Triggered => {
            let (b, _) = fixed::<TriggeredBody>(body)?;
            Event::Triggered(Triggered {
                to: head.to,
                order_id: OrderId(b.order_id.get()),
                client_order_id: ClientOrderId(b.client_order_id.get()),
                stop_price: Price(b.stop_price.get()),
                price: flag(b.priced, "priced")?.then_some(Price(b.price.get())),
                leaves_quantity: Quantity(b.leaves_quantity.get()),
                instrument: head.instrument,
                account: head.account,
                side: side(b.side)?,
            })
        }
        FrameKind::MassQuoted => {
            let (b, _) = fixed::<MassQuotedBody>(body)?;
            Event::MassQuoted(MassQuoted {
                to: head.to,
                request_id: head.request_id,
                instrument: head.instrument,
                account: head.account,
                bids: b.bids,
                asks: b.asks,
                bid_reason: reason(b.bid_reason)?,
                ask_reason: reason(b.ask_reason)?,
            })
        }
        FrameKind::Settled => {
            let (b, _) = fixed::<SettledBody>(body)?;
            Event::Settled(Settled {
                to: head.to,
                trade_id: TradeId(b.trade_id.get()),
                client_order_id: ClientOrderId(b.client_order_id.get()),
                fee: amount(b.fee),
                position: b.position.get(),
                instrument: head.instrument,
                account: head.account,
                side: side(b.side)?,
            })
        }
        FrameKind::TradeRevised => {
            let (b, _) = fixed::<TradeRevisedBody>(body)?;
            Event::TradeRevised(TradeRevised {
                to: head.to,
                trade_id: TradeId(b.trade_id.get()),
                client_order_id: ClientOrderId(b.client_order_id.get()),
                quantity: Quantity(b.quantity.get()),
                old_price: Price(b.old_price.get()),
                new_price: flag(b.corrected, "corrected")?.then_some(Price(b.new_price.get())),
                instrument: head.instrument,
                account: head.account,
                side: side(b.side)?,
            })
        }
        _ => read_answer(kind, head, body)?,
    })
}

/// The answers to questions.
fn read_answer(kind: FrameKind, head: &Head, body: &[u8]) -> Result<Event, DecodeError> {
    Ok(match kind {
        FrameKind::Balance => {
            let (b, _) = fixed::<BalanceBody>(body)?;
            Event::Balance(Balance {
                to: head.to,
                request_id: head.request_id,
                account: head.account,
                currency: Currency::from_padded(&b.currency).ok_or(DecodeError::Field("currency"))?,
                total: amount(b.total),
                held: amount(b.held),
            })
        }
        FrameKind::Position => {
            let (b, _) = fixed::<PositionBody>(body)?;
            Event::Position(Position {
                to: head.to,
                request_id: head.request_id,
                account: head.account,
                instrument: head.instrument,
                quantity: b.quantity.get(),
                cost: amount(b.cost),
                open_buy: b.open_buy.get(),
                open_sell: b.open_sell.get(),
            })
        }
        FrameKind::InstrumentState => {
            let (b, _) = fixed::<InstrumentStateBody>(body)?;
            let price = |bit: u8, price: I64| (b.has & (1 << bit) != 0).then_some(Price(price.get()));
            Event::InstrumentState(InstrumentState {
                to: head.to,
                request_id: head.request_id,
                instrument: head.instrument,
                phase: Phase::from_byte(b.phase).ok_or(DecodeError::Field("phase"))?,
                last_price: price(0, b.last_price),
                reference_price: price(1, b.reference_price),
                mark_price: price(2, b.mark_price),
                open_interest: b.open_interest.get(),
            })
        }
        _ => return Err(DecodeError::Kind),
    })
}

fn amount(bytes: [u8; 16]) -> Amount {
    Amount::new(i128::from_le_bytes(bytes))
}

fn reason(byte: u8) -> Result<Option<RejectReason>, DecodeError> {
    match byte {
        0 => Ok(None),
        byte => RejectReason::from_byte(byte).map(Some).ok_or(DecodeError::Field("reason")),
    }
}
