//! What a reject or an answer tells of a request.

use protocol::{Body, ClOrdId, ClientOrderId, FrameKind, InstrumentId, OrderKey};

/// What a reject tells of a request: kind, instrument, the order's number, the request's text id.
pub(super) fn describe(
    body: &Body,
) -> (Option<FrameKind>, InstrumentId, Option<ClientOrderId>, Option<ClOrdId>) {
    let number = |key: &OrderKey| match key {
        OrderKey::Id(id) if id.0 > 0 => Some(*id),
        _ => None,
    };
    let none = InstrumentId(0);
    match body {
        Body::Malformed(_) => (None, none, None, None),
        Body::NewOrder(new) => (Some(FrameKind::NewOrder), new.instrument, None, new.cl_ord_id),
        Body::CancelOrder(cancel) => {
            (Some(FrameKind::CancelOrder), none, number(&cancel.order), cancel.cl_ord_id)
        }
        Body::ReplaceOrder(replace) => {
            (Some(FrameKind::ReplaceOrder), none, number(&replace.order), replace.cl_ord_id)
        }
        Body::MassCancel(cancel) => {
            (Some(FrameKind::MassCancel), cancel.instrument.unwrap_or(none), None, None)
        }
        Body::OrderStatus(status) => (Some(FrameKind::OrderStatus), none, number(&status.order), None),
        Body::Login(_) => (Some(FrameKind::Login), none, None, None),
        Body::Logout => (Some(FrameKind::Logout), none, None, None),
        Body::Disconnect(_) => (Some(FrameKind::Disconnect), none, None, None),
        Body::Start => (Some(FrameKind::Start), none, None, None),
        Body::Tick(_) => (Some(FrameKind::Tick), none, None, None),
        Body::EndOfDay => (Some(FrameKind::EndOfDay), none, None, None),
        Body::SetCapacities(_) => (Some(FrameKind::SetCapacities), none, None, None),
        Body::SetRulebook(_) => (Some(FrameKind::SetRulebook), none, None, None),
        Body::PutInstrument(definition) => {
            (Some(FrameKind::PutInstrument), definition.instrument, None, None)
        }
        Body::SetPhase(instrument, _) => (Some(FrameKind::SetPhase), *instrument, None, None),
        Body::PutUser(_) => (Some(FrameKind::PutUser), none, None, None),
        Body::DisconnectUser(_) => (Some(FrameKind::DisconnectUser), none, None, None),
        Body::MassQuote(quote) => (Some(FrameKind::MassQuote), quote.instrument, None, None),
        Body::PutRules(instrument, _) => (Some(FrameKind::PutRules), *instrument, None, None),
        Body::PutTickTable(instrument, _) => (Some(FrameKind::PutTickTable), *instrument, None, None),
        Body::SchedulePhase(instrument, ..) => (Some(FrameKind::SchedulePhase), *instrument, None, None),
        Body::ClearSchedule(instrument) => (Some(FrameKind::ClearSchedule), *instrument, None, None),
        Body::SetPrice(instrument, ..) => (Some(FrameKind::SetPrice), *instrument, None, None),
        Body::Delist(instrument) => (Some(FrameKind::Delist), *instrument, None, None),
        Body::SetFees(instrument, ..) => (Some(FrameKind::SetFees), *instrument, None, None),
        Body::SetLimits(_, instrument, _) => {
            (Some(FrameKind::SetLimits), instrument.unwrap_or(none), None, None)
        }
        Body::SetSeed(_) => (Some(FrameKind::SetSeed), none, None, None),
        Body::PutCurrency(..) => (Some(FrameKind::PutCurrency), none, None, None),
        Body::PutAccount(_) => (Some(FrameKind::PutAccount), none, None, None),
        Body::SetParticipant(..) => (Some(FrameKind::SetParticipant), none, None, None),
        Body::SetThrottle(..) => (Some(FrameKind::SetThrottle), none, None, None),
        Body::Transfer(_) => (Some(FrameKind::Transfer), none, None, None),
        Body::Kill(..) => (Some(FrameKind::Kill), none, None, None),
        Body::BustTrade(_) => (Some(FrameKind::BustTrade), none, None, None),
        Body::CorrectTrade(..) => (Some(FrameKind::CorrectTrade), none, None, None),
        Body::QueryAccount(_) => (Some(FrameKind::QueryAccount), none, None, None),
        Body::QueryInstrument(instrument) => (Some(FrameKind::QueryInstrument), *instrument, None, None),
    }
}
