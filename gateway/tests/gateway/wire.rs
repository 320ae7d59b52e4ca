//! Messages as bytes, and packets as text.

use protocol::soupbin::{Login, Packet, write_packet};
use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, Command, ConnectionId, DepthQuery, Event, InstrumentId,
    MassCancel, MassCanceled, NewOrder, OrderFlags, OrderKey, OrderType, Output, Price, Quantity,
    REPORT_STRIDE, Recipient, ReplaceOrder, Report, ReportNumber, RequestId, Sequence, SessionId, Side,
    TimeInForce, Timestamp, Unsequenced,
};

pub(crate) const SESSION: SessionId = SessionId(7);
pub(crate) const CURRENT: &str = "";

pub(crate) fn login_packet(name: &str, password: &str, session: &str, next: u64) -> Vec<u8> {
    let login = Login { username: pad(name), password: pad(password), session: pad(session), next };
    packet(&Packet::LoginRequest(login))
}

pub(crate) fn packet(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_packet(packet, &mut bytes);
    bytes
}

fn pad<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [b' '; LENGTH];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

pub(crate) fn message(frame: &[u8]) -> Vec<u8> {
    packet(&Packet::Unsequenced(frame))
}

pub(crate) fn frame(id: u64, body: Body) -> Vec<u8> {
    let command = Command {
        session: SessionId::SYSTEM,
        connection: ConnectionId(0),
        request_id: RequestId(id),
        timestamp: Timestamp(0),
        body,
    };
    command.encode().expect("a body with a frame").as_bytes().to_vec()
}

pub(crate) fn new_order() -> Body {
    Body::NewOrder(NewOrder {
        instrument: InstrumentId(1),
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: OrderFlags::default(),
        price: Some(Price(100)),
        quantity: Quantity(10),
        account: AccountId(0),
        cl_ord_id: None,
        terms: protocol::Terms::default(),
    })
}

pub(crate) fn cancel() -> Body {
    Body::CancelOrder(CancelOrder { order: OrderKey::Id(ClientOrderId(1)), side: None, cl_ord_id: None })
}

pub(crate) fn replace() -> Body {
    Body::ReplaceOrder(ReplaceOrder {
        order: OrderKey::Id(ClientOrderId(1)),
        side: None,
        price: Some(Price(101)),
        quantity: Quantity(9),
        stop_price: None,
        display: None,
        cl_ord_id: None,
    })
}

pub(crate) fn mass_cancel() -> Body {
    Body::MassCancel(MassCancel { session: SessionId::SYSTEM, instrument: None, side: None })
}

pub(crate) fn depth_query(id: u64, instrument: u32) -> Vec<u8> {
    let (request_id, instrument) = (RequestId(id), InstrumentId(instrument));
    let query = DepthQuery { request_id, instrument, levels: 5, with_state: false };
    Unsequenced::DepthQuery(query).encode().as_bytes().to_vec()
}

/// Report `number` of a session, as it stands in the report log; it answers the request of that number.
pub(crate) fn report(session: SessionId, number: u64) -> [u8; REPORT_STRIDE] {
    let to = Recipient { session, number: ReportNumber(number) };
    let event = Event::MassCanceled(MassCanceled { to, request_id: RequestId(number), orders: number });
    let output = Output { sequence: Sequence(number), log_time: Timestamp(number), event };
    let mut stride = [0; REPORT_STRIDE];
    Report { output, cl_ord_id: None }.encode(&mut stride).expect("an event with a recipient");
    stride
}

/// A packet from the server as a line of text.
pub(crate) fn describe(packet: &Packet<'_>) -> String {
    match packet {
        Packet::Debug(text) => format!("+{}", String::from_utf8_lossy(text)),
        Packet::LoginAccepted { session, next } => {
            format!("A {} {next}", String::from_utf8_lossy(session))
        }
        Packet::LoginRejected(reason) => format!("J {}", char::from(*reason)),
        Packet::Sequenced(frame) => match Report::decode(frame).map(|report| report.output.event) {
            Ok(event) => format!("S {}", event.recipient().map_or(0, |to| to.number.0)),
            Err(error) => format!("S {error}"),
        },
        Packet::ServerHeartbeat => "H".to_owned(),
        Packet::EndOfSession => "Z".to_owned(),
        Packet::Unsequenced(frame) => match Unsequenced::decode(frame) {
            Ok(Unsequenced::Refused(refused)) => {
                let kind = refused.request_kind.map_or("unreadable".to_owned(), |kind| format!("{kind:?}"));
                format!("refused {} {kind} {}", refused.request_id, refused.reason)
            }
            Ok(Unsequenced::Depth(id, depth)) => format!("depth {id} of {}", depth.instrument),
            Ok(Unsequenced::InstrumentDefinition(id, definition)) => {
                format!("instrument {id} {}", definition.symbol)
            }
            other => format!("{other:?}"),
        },
        other => format!("{other:?}"),
    }
}
