//! Encoding reports: each is written once, field by field, into the place where it is to stand.

use zerocopy::little_endian::U64;

use super::{
    AcceptedBody, AdminDoneBody, ExecutedBody, ExpiredBody, MassCanceledBody, OrderBody, REPORT_STRIDE,
    RejectedBody, UNPRICED, rules,
};
use crate::frame::{FORMAT_VERSION, FrameInPlace};
use crate::{
    AccountId, ClOrdId, ClientOrderId, Event, FrameHeader, FrameKind, HEADER_LENGTH, InstrumentId, OrderId,
    Output, Price, Quantity, Recipient, RequestId, Side, TlvType,
};

/// A report's frame in the making: where it goes, and what every one of them begins with.
pub(super) struct Place<'a> {
    stride: &'a mut [u8; REPORT_STRIDE],
    to: Recipient,
    log_time: u64,
    pub(super) number: U64,
    pub(super) sequence: U64,
}

impl<'a> Place<'a> {
    /// Begins the frame of a report that answers `request`, about `at`.
    #[inline]
    pub(super) fn frame(
        self,
        kind: FrameKind,
        request: RequestId,
        at: (InstrumentId, AccountId),
    ) -> FrameInPlace<'a> {
        let header = FrameHeader {
            length: (HEADER_LENGTH as u16).into(),
            kind: kind as u8,
            version: FORMAT_VERSION,
            session: self.to.session.0.into(),
            request_id: request.0.into(),
            timestamp_ns: self.log_time.into(),
            connection: at.1.0.into(),
            instrument: at.0.0.into(),
        };
        FrameInPlace::new(self.stride, &header)
    }
}

/// Encodes the report that an event is, with the text id of its request, at the start of `stride`, and zeroes the rest of it.
/// `None`, and `stride` unchanged, where the event has no recipient.
#[inline]
pub fn encode_report(
    output: &Output,
    cl_ord_id: Option<&ClOrdId>,
    stride: &mut [u8; REPORT_STRIDE],
) -> Option<()> {
    let to = output.event.recipient()?;
    let place = Place {
        stride,
        to,
        log_time: output.log_time.0,
        number: to.number.0.into(),
        sequence: output.sequence.0.into(),
    };
    write(place, &output.event, cl_ord_id)
}

fn write(place: Place<'_>, event: &Event, cl_ord_id: Option<&ClOrdId>) -> Option<()> {
    let name = cl_ord_id.map(ClOrdId::as_bytes);
    let (number, sequence) = (place.number, place.sequence);
    let none = RequestId(0);
    let order = |order_id: OrderId,
                 id: ClientOrderId,
                 price: Option<Price>,
                 quantity: Quantity,
                 cum: Quantity,
                 side: Side,
                 detail: u8| {
        OrderBody {
            number,
            sequence,
            order_id: order_id.0.into(),
            client_order_id: id.0.into(),
            price: price.map_or(0, |price| price.0).into(),
            quantity: quantity.0.into(),
            cum_quantity: cum.0.into(),
            side: side.to_byte(),
            detail: detail | if price.is_some() { 0 } else { UNPRICED },
        }
    };
    let frame = match event {
        Event::Accepted(e) => place
            .frame(FrameKind::Accepted, e.request_id, (e.instrument, e.account))
            .body(&AcceptedBody {
                number,
                sequence,
                order_id: e.order_id.0.into(),
                price: e.price.map_or(0, |price| price.0).into(),
                quantity: e.quantity.0.into(),
                side: e.side.to_byte(),
                order_type: e.order_type.to_byte(),
                time_in_force: e.time_in_force.to_byte(),
                flags: e.flags.to_byte(),
            })
            .option(TlvType::ClOrdId, name),
        Event::Rejected(e) => place
            .frame(FrameKind::Rejected, e.request_id, (e.instrument, AccountId(0)))
            .body(&RejectedBody {
                number,
                sequence,
                client_order_id: e.client_order_id.map_or(0, |id| id.0).into(),
                highest_request_id: e.highest_request_id.0.into(),
                reason: e.reason.to_byte(),
                request_kind: e.request_kind.map_or(0, |kind| kind as u8),
            })
            .option(TlvType::ClOrdId, name),
        Event::Executed(e) => {
            place.frame(FrameKind::Executed, e.request_id, (e.instrument, e.account)).body(&ExecutedBody {
                number,
                sequence,
                order_id: e.order_id.0.into(),
                client_order_id: e.client_order_id.0.into(),
                trade_id: e.trade_id.0.into(),
                last_price: e.last_price.0.into(),
                last_quantity: e.last_quantity.0.into(),
                leaves_quantity: e.leaves_quantity.0.into(),
                cum_quantity: e.cum_quantity.0.into(),
                side: e.side.to_byte(),
                liquidity: e.liquidity.to_byte(),
            })
        }
        Event::Canceled(e) => {
            place.frame(FrameKind::Canceled, e.request_id, (e.instrument, e.account)).body(&order(
                e.order_id,
                e.client_order_id,
                e.resting_price,
                e.canceled_quantity,
                e.cum_quantity,
                e.side,
                e.reason.to_byte(),
            ))
        }
        Event::Replaced(e) => place
            .frame(FrameKind::Replaced, e.request_id, (e.instrument, e.account))
            .body(&order(
                e.order_id,
                e.client_order_id,
                e.price,
                e.quantity,
                e.cum_quantity,
                e.side,
                u8::from(e.kept_place),
            ))
            .option(TlvType::ClOrdId, name),
        Event::Restated(e) => place.frame(FrameKind::Restated, none, (e.instrument, e.account)).body(&order(
            e.order_id,
            e.client_order_id,
            e.price,
            e.leaves_quantity,
            e.cum_quantity,
            e.side,
            e.reason.to_byte(),
        )),
        Event::OrderStatus(e) => {
            let stop_price = e.stop_price.map(|price| price.0.to_le_bytes());
            place
                .frame(FrameKind::OrderState, e.request_id, (e.instrument, e.account))
                .body(&order(
                    e.order_id,
                    e.client_order_id,
                    e.price,
                    e.leaves_quantity,
                    e.cum_quantity,
                    e.side,
                    e.status.to_byte(),
                ))
                .option(TlvType::StopPrice, stop_price.as_ref().map(|bytes| &bytes[..]))
        }
        Event::Expired(e) => {
            place.frame(FrameKind::Expired, e.request_id, (e.instrument, e.account)).body(&ExpiredBody {
                number,
                sequence,
                order_id: e.order_id.0.into(),
                client_order_id: e.client_order_id.0.into(),
                resting_price: e.resting_price.map_or(0, |price| price.0).into(),
                quantity: e.expired_quantity.0.into(),
                cum_quantity: e.cum_quantity.0.into(),
                side: e.side.to_byte(),
                reason: e.reason.to_byte(),
                rested: u8::from(e.resting_price.is_some()),
            })
        }
        Event::MassCanceled(e) => place
            .frame(FrameKind::MassCanceled, e.request_id, (InstrumentId(0), AccountId(0)))
            .body(&MassCanceledBody { number, sequence, orders: e.orders.into() }),
        Event::AdminDone(e) => place
            .frame(FrameKind::AdminDone, e.request_id, (e.instrument, AccountId(0)))
            .body(&AdminDoneBody { number, sequence, request_kind: e.request_kind as u8 }),
        other => return rules::write(place, other),
    };
    frame.finish();
    Some(())
}
