//! The short way to decode what nearly all frames are: an order, a cancel or a replace without optional fields. It must give
//! what the other way gives, which a test holds it to.

use zerocopy::FromBytes;

use super::orders::{CancelOrderBody, NewOrderBody, ReplaceOrderBody};
use super::{Body, CancelOrder, Command, NewOrder, ReplaceOrder};
use crate::frame::Options;
use crate::{FORMAT_VERSION, FrameHeader, FrameKind, HEADER_LENGTH};

impl Command {
    /// Decodes a frame into the place where the command is to stand: what [`decode`](Self::decode) gives, but faster where
    /// the frame is a plain one, as nearly all are.
    #[inline]
    pub fn decode_into(frame: &[u8], place: &mut Self) {
        if Self::decode_plain(frame, place).is_none() {
            *place = Self::decode(frame);
        }
    }

    /// Decodes an order, a cancel or a replace without optional fields. `None`, and `place` unchanged, where the frame is
    /// anything else, or something is wrong with it.
    #[inline]
    fn decode_plain(frame: &[u8], place: &mut Self) -> Option<()> {
        const NEW_ORDER: (u8, usize) = (FrameKind::NewOrder as u8, HEADER_LENGTH + size_of::<NewOrderBody>());
        const CANCEL: (u8, usize) =
            (FrameKind::CancelOrder as u8, HEADER_LENGTH + size_of::<CancelOrderBody>());
        const REPLACE: (u8, usize) =
            (FrameKind::ReplaceOrder as u8, HEADER_LENGTH + size_of::<ReplaceOrderBody>());
        let (header, body) = FrameHeader::ref_from_prefix(frame).ok()?;
        if header.version != FORMAT_VERSION {
            return None;
        }
        let none = Options::default();
        match (header.kind, header.length()) {
            NEW_ORDER => {
                let (fixed, _) = NewOrderBody::ref_from_prefix(body).ok()?;
                let order = NewOrder::of(header, fixed, &none).ok()?;
                *place = Self::of(header, Body::NewOrder(order));
            }
            CANCEL => {
                let (fixed, _) = CancelOrderBody::ref_from_prefix(body).ok()?;
                *place = Self::of(header, Body::CancelOrder(CancelOrder::of(fixed, &none).ok()?));
            }
            REPLACE => {
                let (fixed, _) = ReplaceOrderBody::ref_from_prefix(body).ok()?;
                *place = Self::of(header, Body::ReplaceOrder(ReplaceOrder::of(fixed, &none).ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}
