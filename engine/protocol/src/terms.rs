//! Terms of an order beyond price, quantity and time in force: the optional fields of a new order, packed, since nearly all
//! orders have none of them.

use crate::frame::Options;
use crate::{
    ClientOrderId, DecodeError, FrameWriter, PegReference, Price, Quantity, SelfTradeAction, Timestamp,
    TlvType,
};

/// What a pegged order follows, and how far behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peg {
    /// What it follows.
    pub reference: PegReference,
    /// Distance away from the other side, in price units; negative ones are rejected.
    pub offset: i64,
}

/// Which orders an order must not trade with, and what happens instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfTrade {
    /// Orders of the same group don't trade with each other.
    pub group: u32,
    /// What happens where this order comes in.
    pub action: SelfTradeAction,
}

/// Terms that few orders have. A field is there only if its bit in `present` is set; the others are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    stop_price: i64,
    trail: u64,
    display: u64,
    display_high: u64,
    expire_time: u64,
    minimum: u64,
    peg_offset: i64,
    oco: u64,
    parent: u64,
    self_trade_group: u32,
    present: u16,
    peg_reference: u8,
    self_trade_action: u8,
}

const _: () = assert!(size_of::<Terms>() == 80, "terms are moved about with each command");

macro_rules! terms {
    ($($(#[$doc:meta])* $name:ident, $set:ident, $ty:ty, $tlv:ident, $field:ident: $wrap:path, $unwrap:expr;)+) => {
        impl Terms {
            $(
                $(#[$doc])*
                #[must_use]
                #[inline]
                pub fn $name(&self) -> Option<$ty> {
                    self.has(TlvType::$tlv).then(|| $wrap(self.$field))
                }

                /// The same terms with another value of it.
                #[must_use]
                pub fn $set(mut self, value: Option<$ty>) -> Self {
                    let raw: Option<_> = value.map($unwrap);
                    self.mark(TlvType::$tlv, raw.is_some());
                    self.$field = raw.unwrap_or_default();
                    self
                }
            )+
        }
    };
}

terms! {
    /// Price at which it becomes active.
    stop_price, with_stop_price, Price, StopPrice, stop_price: Price, |price: Price| price.0;
    /// Distance at which the stop price follows the trigger, in price units.
    trail, with_trail, u64, TrailDistance, trail: std::convert::identity, |trail: u64| trail;
    /// Quantity shown at a time.
    display, with_display, Quantity, DisplayQuantity, display: Quantity, |quantity: Quantity| quantity.0;
    /// Largest quantity that a refill shows; each is drawn between the display quantity and it.
    display_high, with_display_high, Quantity, DisplayHigh, display_high: Quantity, |quantity: Quantity| quantity.0;
    /// When it expires.
    expire_time, with_expire_time, Timestamp, ExpireTime, expire_time: Timestamp, |time: Timestamp| time.0;
    /// Least quantity of an execution.
    minimum, with_minimum, Quantity, MinimumQuantity, minimum: Quantity, |quantity: Quantity| quantity.0;
    /// Number of the group of which one order cancels the others.
    oco, with_oco, u64, Oco, oco: std::convert::identity, |group: u64| group;
    /// The order whose end it waits for.
    parent, with_parent, ClientOrderId, Parent, parent: ClientOrderId, |id: ClientOrderId| id.0;
}

impl Terms {
    /// Whether it has none of them.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// What it follows.
    #[must_use]
    pub fn peg(&self) -> Option<Peg> {
        let reference = PegReference::from_byte(self.peg_reference)?;
        self.has(TlvType::Peg).then_some(Peg { reference, offset: self.peg_offset })
    }

    /// The same terms with another peg.
    #[must_use]
    pub fn with_peg(mut self, peg: Option<Peg>) -> Self {
        self.mark(TlvType::Peg, peg.is_some());
        self.peg_reference = peg.map_or(0, |peg| peg.reference.to_byte());
        self.peg_offset = peg.map_or(0, |peg| peg.offset);
        self
    }

    /// Whom it does not trade with.
    #[must_use]
    pub fn self_trade(&self) -> Option<SelfTrade> {
        let action = SelfTradeAction::from_byte(self.self_trade_action)?;
        self.has(TlvType::SelfTrade).then_some(SelfTrade { group: self.self_trade_group, action })
    }

    /// The same terms with another group.
    #[must_use]
    pub fn with_self_trade(mut self, self_trade: Option<SelfTrade>) -> Self {
        self.mark(TlvType::SelfTrade, self_trade.is_some());
        self.self_trade_group = self_trade.map_or(0, |self_trade| self_trade.group);
        self.self_trade_action = self_trade.map_or(0, |self_trade| self_trade.action.to_byte());
        self
    }

    #[inline]
    fn has(&self, tlv: TlvType) -> bool {
        self.present & (1 << tlv as u16) != 0
    }

    fn mark(&mut self, tlv: TlvType, is_there: bool) {
        let bit = 1 << tlv as u16;
        self.present = if is_there { self.present | bit } else { self.present & !bit };
    }

    pub(crate) const TLVS: [TlvType; 10] = [
        TlvType::StopPrice,
        TlvType::TrailDistance,
        TlvType::DisplayQuantity,
        TlvType::DisplayHigh,
        TlvType::ExpireTime,
        TlvType::MinimumQuantity,
        TlvType::Peg,
        TlvType::SelfTrade,
        TlvType::Oco,
        TlvType::Parent,
    ];

    pub(crate) fn read(options: &Options<'_>) -> Result<Self, DecodeError> {
        let terms = Self::default()
            .with_stop_price(options.i64(TlvType::StopPrice)?.map(Price))
            .with_trail(options.u64(TlvType::TrailDistance)?)
            .with_display(options.u64(TlvType::DisplayQuantity)?.map(Quantity))
            .with_display_high(options.u64(TlvType::DisplayHigh)?.map(Quantity))
            .with_expire_time(options.u64(TlvType::ExpireTime)?.map(Timestamp))
            .with_minimum(options.u64(TlvType::MinimumQuantity)?.map(Quantity))
            .with_oco(options.u64(TlvType::Oco)?)
            .with_parent(options.u64(TlvType::Parent)?.map(ClientOrderId));
        let peg = match options.get(TlvType::Peg) {
            None => None,
            Some([reference, offset @ ..]) => Some(Peg {
                reference: PegReference::from_byte(*reference).ok_or(DecodeError::Option)?,
                offset: i64::from_le_bytes(offset.try_into().map_err(|_| DecodeError::Option)?),
            }),
            Some([]) => return Err(DecodeError::Option),
        };
        let self_trade = match options.get(TlvType::SelfTrade) {
            None => None,
            Some([action, group @ ..]) => Some(SelfTrade {
                group: u32::from_le_bytes(group.try_into().map_err(|_| DecodeError::Option)?),
                action: SelfTradeAction::from_byte(*action).ok_or(DecodeError::Option)?,
            }),
            Some([]) => return Err(DecodeError::Option),
        };
        Ok(terms.with_peg(peg).with_self_trade(self_trade))
    }

    pub(crate) fn write(&self, mut writer: FrameWriter) -> FrameWriter {
        let numbers = [
            (TlvType::StopPrice, self.stop_price as u64),
            (TlvType::TrailDistance, self.trail),
            (TlvType::DisplayQuantity, self.display),
            (TlvType::DisplayHigh, self.display_high),
            (TlvType::ExpireTime, self.expire_time),
            (TlvType::MinimumQuantity, self.minimum),
            (TlvType::Oco, self.oco),
            (TlvType::Parent, self.parent),
        ];
        for (tlv, value) in numbers {
            if self.has(tlv) {
                writer = writer.option(tlv, Some(&value.to_le_bytes()));
            }
        }
        if let Some(peg) = self.peg() {
            let mut bytes = [0; 9];
            bytes[0] = peg.reference.to_byte();
            bytes[1..].copy_from_slice(&peg.offset.to_le_bytes());
            writer = writer.option(TlvType::Peg, Some(&bytes));
        }
        if let Some(self_trade) = self.self_trade() {
            let mut bytes = [0; 5];
            bytes[0] = self_trade.action.to_byte();
            bytes[1..].copy_from_slice(&self_trade.group.to_le_bytes());
            writer = writer.option(TlvType::SelfTrade, Some(&bytes));
        }
        writer
    }
}
