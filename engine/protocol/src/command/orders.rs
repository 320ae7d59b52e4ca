//! Requests about orders as frames: their fixed bodies, and the options behind them.

use zerocopy::little_endian::{I64, U32, U64};

use super::{CancelOrder, MassCancel, NewOrder, OrderKey, ReplaceOrder, bare, fixed};
use crate::frame::Options;
use crate::layout::layout;
use crate::{
    AccountId, ClOrdId, ClientOrderId, DecodeError, FrameHeader, FrameWriter, HEADER_LENGTH, MassCancelScope,
    OrderFlags, OrderType, Price, Quantity, SessionId, Side, Terms, TimeInForce, TlvType,
};

layout!(
    /// Body of NewOrder.
    NewOrderBody: 24 {
        0 price: I64, 8 quantity: U64, 16 account: U32, 20 side: u8, 21 order_type: u8, 22 time_in_force: u8, 23 flags: u8,
    }
);
const _: () = assert!(
    HEADER_LENGTH + size_of::<NewOrderBody>() <= crate::SLOT_LENGTH,
    "a plain order is one cache line"
);

layout!(
    /// Body of CancelOrder.
    CancelOrderBody: 9 { 0 client_order_id: U64, 8 side: u8 }
);
layout!(
    /// Body of ReplaceOrder.
    ReplaceOrderBody: 25 { 0 client_order_id: U64, 8 price: I64, 16 quantity: U64, 24 side: u8 }
);
layout!(
    /// Body of MassCancel.
    MassCancelBody: 6 { 0 scope: u8, 1 side: u8, 2 session: U32 }
);

impl OrderKey {
    #[inline]
    pub(super) fn read(id: U64, options: &Options<'_>) -> Result<Self, DecodeError> {
        match (id.get(), cl_ord_id(options, TlvType::OrigClOrdId)?) {
            (0, Some(text)) => Ok(Self::Text(text)),
            (id, None) => Ok(Self::Id(ClientOrderId(id))),
            (_, Some(_)) => Err(DecodeError::Field("client_order_id")),
        }
    }

    pub(super) fn parts(&self) -> (U64, Option<ClOrdId>) {
        match self {
            Self::Id(id) => (id.0.into(), None),
            Self::Text(text) => (0.into(), Some(*text)),
        }
    }
}

#[inline]
fn cl_ord_id(options: &Options<'_>, tlv: TlvType) -> Result<Option<ClOrdId>, DecodeError> {
    options.get(tlv).map(|text| ClOrdId::new(text).map_err(|_| DecodeError::Option)).transpose()
}

/// A side byte where 0 means that the sender gives none.
#[inline]
fn optional_side(byte: u8) -> Result<Option<Side>, DecodeError> {
    match byte {
        0 => Ok(None),
        byte => Side::from_byte(byte).map(Some).ok_or(DecodeError::Field("side")),
    }
}

/// Every option that a new order takes.
const NEW_ORDER_TLVS: [TlvType; Terms::TLVS.len() + 1] = {
    let mut tlvs = [TlvType::ClOrdId; Terms::TLVS.len() + 1];
    let mut at = 0;
    while at < Terms::TLVS.len() {
        tlvs[at + 1] = Terms::TLVS[at];
        at += 1;
    }
    tlvs
};

impl NewOrder {
    pub(super) fn read(header: &FrameHeader, body: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, options) = fixed::<NewOrderBody>(body)?;
        Self::of(header, &fixed, &options)
    }

    #[inline]
    pub(super) fn of(
        header: &FrameHeader,
        fixed: &NewOrderBody,
        options: &Options<'_>,
    ) -> Result<Self, DecodeError> {
        let order_type = OrderType::from_byte(fixed.order_type).ok_or(DecodeError::Field("order_type"))?;
        let price = match (order_type, fixed.price.get()) {
            (OrderType::Limit, price) => Some(Price(price)),
            (_, 0) => None,
            (_, _) => return Err(DecodeError::Field("price")),
        };
        // What nearly all orders have is looked at first.
        let terms = if options.has_other_than(&[TlvType::ClOrdId]) {
            if options.has_other_than(&NEW_ORDER_TLVS) {
                return Err(DecodeError::Option);
            }
            Terms::read(options)?
        } else {
            Terms::default()
        };
        Ok(Self {
            instrument: header.instrument(),
            side: Side::from_byte(fixed.side).ok_or(DecodeError::Field("side"))?,
            order_type,
            time_in_force: TimeInForce::from_byte(fixed.time_in_force)
                .ok_or(DecodeError::Field("time_in_force"))?,
            flags: OrderFlags::from_byte(fixed.flags).ok_or(DecodeError::Field("flags"))?,
            price,
            quantity: Quantity(fixed.quantity.get()),
            account: AccountId(fixed.account.get()),
            cl_ord_id: cl_ord_id(options, TlvType::ClOrdId)?,
            terms,
        })
    }

    pub(super) fn write(&self, writer: FrameWriter) -> FrameWriter {
        let frame = writer
            .instrument(self.instrument)
            .body(&NewOrderBody {
                price: self.price.map_or(0, |price| price.0).into(),
                quantity: self.quantity.0.into(),
                account: self.account.0.into(),
                side: self.side.to_byte(),
                order_type: self.order_type.to_byte(),
                time_in_force: self.time_in_force.to_byte(),
                flags: self.flags.to_byte(),
            })
            .option(TlvType::ClOrdId, self.cl_ord_id.as_ref().map(ClOrdId::as_bytes));
        self.terms.write(frame)
    }
}

impl CancelOrder {
    pub(super) fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, options) = fixed::<CancelOrderBody>(body)?;
        Self::of(&fixed, &options)
    }

    #[inline]
    pub(super) fn of(fixed: &CancelOrderBody, options: &Options<'_>) -> Result<Self, DecodeError> {
        if options.has_other_than(&[TlvType::ClOrdId, TlvType::OrigClOrdId]) {
            return Err(DecodeError::Option);
        }
        Ok(Self {
            order: OrderKey::read(fixed.client_order_id, options)?,
            side: optional_side(fixed.side)?,
            cl_ord_id: cl_ord_id(options, TlvType::ClOrdId)?,
        })
    }

    pub(super) fn write(&self, writer: FrameWriter) -> FrameWriter {
        let (id, text) = self.order.parts();
        writer
            .body(&CancelOrderBody { client_order_id: id, side: self.side.map_or(0, Side::to_byte) })
            .option(TlvType::ClOrdId, self.cl_ord_id.as_ref().map(ClOrdId::as_bytes))
            .option(TlvType::OrigClOrdId, text.as_ref().map(ClOrdId::as_bytes))
    }
}

impl ReplaceOrder {
    pub(super) fn read(body: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, options) = fixed::<ReplaceOrderBody>(body)?;
        Self::of(&fixed, &options)
    }

    #[inline]
    pub(super) fn of(fixed: &ReplaceOrderBody, options: &Options<'_>) -> Result<Self, DecodeError> {
        if options.has_other_than(&[
            TlvType::ClOrdId,
            TlvType::OrigClOrdId,
            TlvType::StopPrice,
            TlvType::DisplayQuantity,
            TlvType::Unpriced,
        ]) {
            return Err(DecodeError::Option);
        }
        let price = match (options.get(TlvType::Unpriced), fixed.price.get()) {
            (None, price) => Some(Price(price)),
            (Some([]), 0) => None,
            (Some([]), _) => return Err(DecodeError::Field("price")),
            (Some(_), _) => return Err(DecodeError::Option),
        };
        Ok(Self {
            order: OrderKey::read(fixed.client_order_id, options)?,
            side: optional_side(fixed.side)?,
            price,
            quantity: Quantity(fixed.quantity.get()),
            stop_price: options.i64(TlvType::StopPrice)?.map(Price),
            display: options.u64(TlvType::DisplayQuantity)?.map(Quantity),
            cl_ord_id: cl_ord_id(options, TlvType::ClOrdId)?,
        })
    }

    pub(super) fn write(&self, writer: FrameWriter) -> FrameWriter {
        let (id, text) = self.order.parts();
        let stop_price = self.stop_price.map(|price| price.0.to_le_bytes());
        let display = self.display.map(|quantity| quantity.0.to_le_bytes());
        writer
            .body(&ReplaceOrderBody {
                client_order_id: id,
                price: self.price.map_or(0, |price| price.0).into(),
                quantity: self.quantity.0.into(),
                side: self.side.map_or(0, Side::to_byte),
            })
            .option(TlvType::ClOrdId, self.cl_ord_id.as_ref().map(ClOrdId::as_bytes))
            .option(TlvType::OrigClOrdId, text.as_ref().map(ClOrdId::as_bytes))
            .option(TlvType::StopPrice, stop_price.as_ref().map(|bytes| &bytes[..]))
            .option(TlvType::DisplayQuantity, display.as_ref().map(|bytes| &bytes[..]))
            .option(TlvType::Unpriced, self.price.is_none().then_some(&[][..]))
    }
}

impl MassCancel {
    pub(super) fn read(header: &FrameHeader, body: &[u8]) -> Result<Self, DecodeError> {
        let fixed = bare::<MassCancelBody>(body)?;
        let scope = MassCancelScope::from_byte(fixed.scope).ok_or(DecodeError::Field("scope"))?;
        let instrument = matches!(scope, MassCancelScope::Instrument | MassCancelScope::InstrumentSide)
            .then_some(header.instrument());
        let side = optional_side(fixed.side)?;
        if side.is_some() != matches!(scope, MassCancelScope::Side | MassCancelScope::InstrumentSide) {
            return Err(DecodeError::Field("side"));
        }
        let session = match fixed.session.get() {
            0 => header.session(),
            session => SessionId(session),
        };
        Ok(Self { session, instrument, side })
    }

    /// The scope that the instrument and the side amount to.
    #[must_use]
    pub fn scope(&self) -> MassCancelScope {
        match (self.instrument, self.side) {
            (None, None) => MassCancelScope::All,
            (Some(_), None) => MassCancelScope::Instrument,
            (None, Some(_)) => MassCancelScope::Side,
            (Some(_), Some(_)) => MassCancelScope::InstrumentSide,
        }
    }

    pub(super) fn write(&self, writer: FrameWriter) -> FrameWriter {
        writer.instrument(self.instrument.unwrap_or_default()).body(&MassCancelBody {
            scope: self.scope().to_byte(),
            side: self.side.map_or(0, Side::to_byte),
            session: self.session.0.into(),
        })
    }
}
