//! Reports: numbered events of one session, as frames of at most [`REPORT_STRIDE`] bytes.
//!
//! The header's request id is the request answered (0 = unsolicited), its time stamp log time, and its connection field
//! the account. Every body begins with `number u64 @0, sequence u64 @8`; behind it (offsets within the body):
//!
//! | kind | fields |
//! |---|---|
//! | Accepted | order_id u64 @16, price i64 @24 (0 for market), quantity u64 @32, side u8 @40, order_type u8 @41, time_in_force u8 @42, flags u8 @43; option ClOrdId |
//! | Rejected | client_order_id u64 @16 (0 = none named), highest_request_id u64 @24, reason u8 @32, request_kind u8 @33 (0 = unreadable); option ClOrdId |
//! | Executed | order_id @16, client_order_id @24, trade_id @32, last_price i64 @40, last_quantity @48, leaves_quantity @56, cum_quantity @64, side u8 @72, liquidity u8 @73 |
//! | Canceled | order_id @16, client_order_id @24, resting_price i64 @32, canceled_quantity @40, cum_quantity @48, side u8 @56, reason u8 @57 |
//! | Replaced | order_id @16, client_order_id @24, price i64 @32, quantity @40, cum_quantity @48, side u8 @56, kept_place u8 @57; option ClOrdId |
//! | Restated | order_id @16, client_order_id @24, price i64 @32, leaves_quantity @40, cum_quantity @48, side u8 @56, reason u8 @57 |
//! | Expired | order_id @16, client_order_id @24, resting_price i64 @32, expired_quantity @40, cum_quantity @48, side u8 @56, reason u8 @57, rested u8 @58 |
//! | OrderState | order_id @16, client_order_id @24, price i64 @32, leaves_quantity @40, cum_quantity @48, side u8 @56, status u8 @57; option StopPrice |
//! | MassCanceled | orders u64 @16 |
//! | AdminDone | request_kind u8 @16 |
//!
//! Of Canceled, Replaced, Restated and OrderState the highest bit of the byte @57 says that there is no price.
//!
//! Those of version 2 of the rulebook (Triggered, MassQuoted, Settled, TradeRevised, Balance, Position, InstrumentState) have
//! their table in `report/rules.rs`.

use zerocopy::little_endian::{I64, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::admin::flag;
use crate::frame::Options;
use crate::layout::layout;
use crate::{
    Accepted, AccountId, AdminDone, CancelReason, Canceled, ClOrdId, ClientOrderId, DecodeError, Event,
    Executed, ExpireReason, Expired, FrameHeader, FrameKind, HEADER_LENGTH, InstrumentId, Liquidity,
    MassCanceled, OrdStatus, OrderFlags, OrderId, OrderStatusReport, OrderType, Output, Price, Quantity,
    Recipient, RejectReason, Rejected, Replaced, ReportNumber, RequestId, RestateReason, Restated, Sequence,
    Side, TimeInForce, TlvType, TradeId,
};

/// The bit of an order body's last byte that says that there is no price.
const UNPRICED: u8 = 0x80;

/// Bytes that every report has at most, and takes in the report log.
pub const REPORT_STRIDE: usize = 128;

/// Longest option of a report: a text client order id.
const OPTION_LENGTH_MAX: usize = 2 + ClOrdId::LENGTH_MAX;

/// A numbered report: an event with a recipient, and the text id of the request where it had one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The event with its place in the log.
    pub output: Output,
    /// Text id of the request; only with Accepted, Rejected and Replaced.
    pub cl_ord_id: Option<ClOrdId>,
}

macro_rules! report_layout {
    ($name:ident: $size:literal { $($offset:literal $field:ident: $ty:ty),* $(,)? }) => {
        layout!(
            /// Body of the report of that name.
            $name: $size { 0 number: U64, 8 sequence: U64, $($offset $field: $ty),* }
        );
        const _: () = assert!(HEADER_LENGTH + $size <= REPORT_STRIDE);
    };
}

// Behind the macro, which it uses too.
mod encode;
mod rules;

pub use encode::encode_report;

report_layout!(AcceptedBody: 44 {
    16 order_id: U64, 24 price: I64, 32 quantity: U64, 40 side: u8, 41 order_type: u8, 42 time_in_force: u8, 43 flags: u8,
});
report_layout!(RejectedBody: 34 {
    16 client_order_id: U64, 24 highest_request_id: U64, 32 reason: u8, 33 request_kind: u8,
});
report_layout!(ExecutedBody: 74 {
    16 order_id: U64, 24 client_order_id: U64, 32 trade_id: U64, 40 last_price: I64, 48 last_quantity: U64,
    56 leaves_quantity: U64, 64 cum_quantity: U64, 72 side: u8, 73 liquidity: u8,
});
// Canceled, Replaced, Restated, OrderState: an order, two quantities, its side and one byte that tells more.
report_layout!(OrderBody: 58 {
    16 order_id: U64, 24 client_order_id: U64, 32 price: I64, 40 quantity: U64, 48 cum_quantity: U64, 56 side: u8,
    57 detail: u8,
});
report_layout!(ExpiredBody: 59 {
    16 order_id: U64, 24 client_order_id: U64, 32 resting_price: I64, 40 quantity: U64, 48 cum_quantity: U64,
    56 side: u8, 57 reason: u8, 58 rested: u8,
});
report_layout!(MassCanceledBody: 24 { 16 orders: U64 });
report_layout!(AdminDoneBody: 17 { 16 request_kind: u8 });

const _: () = {
    assert!(HEADER_LENGTH + size_of::<AcceptedBody>() + OPTION_LENGTH_MAX <= REPORT_STRIDE);
    assert!(HEADER_LENGTH + size_of::<RejectedBody>() + OPTION_LENGTH_MAX <= REPORT_STRIDE);
    assert!(HEADER_LENGTH + size_of::<OrderBody>() + OPTION_LENGTH_MAX <= REPORT_STRIDE);
};

/// The parts of a report's header that the events keep.
struct Head {
    to: Recipient,
    request_id: RequestId,
    instrument: InstrumentId,
    account: AccountId,
}

impl Report {
    /// Encodes the report at the start of `stride` and zeroes the rest of it. `None`, and `stride` unchanged, where the
    /// event has no recipient.
    pub fn encode(&self, stride: &mut [u8; REPORT_STRIDE]) -> Option<()> {
        encode_report(&self.output, self.cl_ord_id.as_ref(), stride)
    }

    /// Decodes a report frame; padding up to the stride may follow it.
    ///
    /// # Errors
    /// [`DecodeError`] names the first thing that is wrong.
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let header = FrameHeader::read(frame)?;
        let body = frame.get(HEADER_LENGTH..header.length()).ok_or(DecodeError::Truncated)?;
        let (prefix, _) = <(U64, U64)>::read_prefix(body)?;
        let head = Head {
            to: Recipient { session: header.session(), number: ReportNumber(prefix.0.get()) },
            request_id: header.request_id(),
            instrument: header.instrument(),
            account: AccountId(header.connection().0),
        };
        let (event, options) = decode_event(header.kind().ok_or(DecodeError::Kind)?, &head, body)?;
        let cl_ord_id = options
            .get(TlvType::ClOrdId)
            .map(|text| ClOrdId::new(text).map_err(|_| DecodeError::Option))
            .transpose()?;
        let output = Output { sequence: Sequence(prefix.1.get()), log_time: header.timestamp(), event };
        Ok(Self { output, cl_ord_id })
    }
}

/// Reads the number and the sequence that every report body begins with.
trait ReadPrefix: Sized {
    fn read_prefix(body: &[u8]) -> Result<(Self, &[u8]), DecodeError>;
}

impl ReadPrefix for (U64, U64) {
    fn read_prefix(body: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let (number, rest) = U64::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
        let (sequence, rest) = U64::read_from_prefix(rest).map_err(|_| DecodeError::Truncated)?;
        Ok(((number, sequence), rest))
    }
}

fn fixed<T: FromBytes + Immutable + KnownLayout>(body: &[u8]) -> Result<(T, Options<'_>), DecodeError> {
    let (fixed, rest) = T::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
    Ok((fixed, Options::read(rest)?))
}

fn side(byte: u8) -> Result<Side, DecodeError> {
    Side::from_byte(byte).ok_or(DecodeError::Field("side"))
}

fn decode_event<'a>(
    kind: FrameKind,
    head: &Head,
    body: &'a [u8],
) -> Result<(Event, Options<'a>), DecodeError> {
    Ok(match kind {
        FrameKind::Accepted => {
            let (b, options) = fixed::<AcceptedBody>(body)?;
            (Event::Accepted(read_accepted(head, &b)?), options)
        }
        FrameKind::Rejected => {
            let (b, options) = fixed::<RejectedBody>(body)?;
            (Event::Rejected(read_rejected(head, &b)?), options)
        }
        FrameKind::Executed => {
            let (b, options) = fixed::<ExecutedBody>(body)?;
            (Event::Executed(read_executed(head, &b)?), options)
        }
        FrameKind::Canceled | FrameKind::Replaced | FrameKind::Restated | FrameKind::OrderState => {
            let (b, options) = fixed::<OrderBody>(body)?;
            (read_order(kind, head, &b, options.i64(TlvType::StopPrice)?.map(Price))?, options)
        }
        FrameKind::Expired => {
            let (b, options) = fixed::<ExpiredBody>(body)?;
            (Event::Expired(read_expired(head, &b)?), options)
        }
        FrameKind::MassCanceled => {
            let (b, options) = fixed::<MassCanceledBody>(body)?;
            let done = MassCanceled { to: head.to, request_id: head.request_id, orders: b.orders.get() };
            (Event::MassCanceled(done), options)
        }
        FrameKind::AdminDone => {
            let (b, options) = fixed::<AdminDoneBody>(body)?;
            let request_kind =
                FrameKind::from_byte(b.request_kind).ok_or(DecodeError::Field("request_kind"))?;
            let done = AdminDone {
                to: head.to,
                request_id: head.request_id,
                request_kind,
                instrument: head.instrument,
            };
            (Event::AdminDone(done), options)
        }
        kind => (rules::read(kind, head, body)?, Options::default()),
    })
}

fn read_accepted(head: &Head, b: &AcceptedBody) -> Result<Accepted, DecodeError> {
    let order_type = OrderType::from_byte(b.order_type).ok_or(DecodeError::Field("order_type"))?;
    Ok(Accepted {
        to: head.to,
        request_id: head.request_id,
        order_id: OrderId(b.order_id.get()),
        price: (order_type == OrderType::Limit).then_some(Price(b.price.get())),
        quantity: Quantity(b.quantity.get()),
        instrument: head.instrument,
        account: head.account,
        side: side(b.side)?,
        order_type,
        time_in_force: TimeInForce::from_byte(b.time_in_force).ok_or(DecodeError::Field("time_in_force"))?,
        flags: OrderFlags::from_byte(b.flags).ok_or(DecodeError::Field("flags"))?,
    })
}

fn read_rejected(head: &Head, b: &RejectedBody) -> Result<Rejected, DecodeError> {
    let request_kind = match b.request_kind {
        0 => None,
        byte => Some(FrameKind::from_byte(byte).ok_or(DecodeError::Field("request_kind"))?),
    };
    let client_order_id = b.client_order_id.get();
    Ok(Rejected {
        to: head.to,
        request_id: head.request_id,
        client_order_id: (client_order_id != 0).then_some(ClientOrderId(client_order_id)),
        highest_request_id: RequestId(b.highest_request_id.get()),
        instrument: head.instrument,
        request_kind,
        reason: RejectReason::from_byte(b.reason).ok_or(DecodeError::Field("reason"))?,
    })
}

fn read_executed(head: &Head, b: &ExecutedBody) -> Result<Executed, DecodeError> {
    Ok(Executed {
        to: head.to,
        request_id: head.request_id,
        order_id: OrderId(b.order_id.get()),
        client_order_id: ClientOrderId(b.client_order_id.get()),
        trade_id: TradeId(b.trade_id.get()),
        last_price: Price(b.last_price.get()),
        last_quantity: Quantity(b.last_quantity.get()),
        leaves_quantity: Quantity(b.leaves_quantity.get()),
        cum_quantity: Quantity(b.cum_quantity.get()),
        instrument: head.instrument,
        account: head.account,
        side: side(b.side)?,
        liquidity: Liquidity::from_byte(b.liquidity).ok_or(DecodeError::Field("liquidity"))?,
    })
}

fn read_order(
    kind: FrameKind,
    head: &Head,
    b: &OrderBody,
    stop_price: Option<Price>,
) -> Result<Event, DecodeError> {
    let (to, request_id, instrument, account) = (head.to, head.request_id, head.instrument, head.account);
    let order_id = OrderId(b.order_id.get());
    let client_order_id = ClientOrderId(b.client_order_id.get());
    let price = (b.detail & UNPRICED == 0).then_some(Price(b.price.get()));
    let detail = b.detail & !UNPRICED;
    let (quantity, cum_quantity) = (Quantity(b.quantity.get()), Quantity(b.cum_quantity.get()));
    let side = side(b.side)?;
    Ok(match kind {
        FrameKind::Canceled => Event::Canceled(Canceled {
            to,
            request_id,
            order_id,
            client_order_id,
            resting_price: price,
            canceled_quantity: quantity,
            cum_quantity,
            instrument,
            account,
            side,
            reason: CancelReason::from_byte(detail).ok_or(DecodeError::Field("reason"))?,
        }),
        FrameKind::Replaced => Event::Replaced(Replaced {
            to,
            request_id,
            order_id,
            client_order_id,
            price,
            quantity,
            cum_quantity,
            instrument,
            account,
            side,
            kept_place: flag(detail, "kept_place")?,
        }),
        FrameKind::Restated => Event::Restated(Restated {
            to,
            order_id,
            client_order_id,
            price,
            leaves_quantity: quantity,
            cum_quantity,
            instrument,
            account,
            side,
            reason: RestateReason::from_byte(detail).ok_or(DecodeError::Field("reason"))?,
        }),
        FrameKind::OrderState => Event::OrderStatus(OrderStatusReport {
            to,
            request_id,
            order_id,
            client_order_id,
            price,
            stop_price,
            leaves_quantity: quantity,
            cum_quantity,
            instrument,
            account,
            side,
            status: OrdStatus::from_byte(detail).ok_or(DecodeError::Field("status"))?,
        }),
        _ => return Err(DecodeError::Kind),
    })
}

fn read_expired(head: &Head, b: &ExpiredBody) -> Result<Expired, DecodeError> {
    Ok(Expired {
        to: head.to,
        request_id: head.request_id,
        order_id: OrderId(b.order_id.get()),
        client_order_id: ClientOrderId(b.client_order_id.get()),
        resting_price: flag(b.rested, "rested")?.then_some(Price(b.resting_price.get())),
        expired_quantity: Quantity(b.quantity.get()),
        cum_quantity: Quantity(b.cum_quantity.get()),
        instrument: head.instrument,
        account: head.account,
        side: side(b.side)?,
        reason: ExpireReason::from_byte(b.reason).ok_or(DecodeError::Field("reason"))?,
    })
}
