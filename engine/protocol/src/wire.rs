//! Unnumbered messages between client and gateway, never in the log: refusals, depth and instrument queries.
//!
//! | kind | from | body |
//! |---|---|---|
//! | Refused | gateway | reason u8 @0, request_kind u8 @1 (0 = unreadable); the header's request id is the request refused |
//! | DepthQuery | client | levels u8 @0: how many a side at most; the header's instrument |
//! | Depth | gateway | sequence u64 @0, bids u8 @8, asks u8 @9, then bids and asks, best first: price i64, quantity u64, orders u32 each |
//! | InstrumentQuery | client | symbol 16 @0; all spaces: by the header's instrument |
//! | InstrumentDefinition | gateway | body of PutInstrument; the header's instrument |

use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U32, U64};

use crate::admin::InstrumentBody;
use crate::layout::layout;
use crate::{
    DecodeError, DepthLevel, DepthSnapshot, FrameHeader, FrameKind, FrameWriter, HEADER_LENGTH,
    InstrumentDefinition, InstrumentId, Price, Quantity, RefuseReason, RequestId, SYMBOL_LENGTH, Sequence,
    SessionId, Symbol, Timestamp,
};

/// Most levels a side of a depth answer.
pub const DEPTH_LEVELS_MAX: usize = 20;

layout!(
    /// Body of Refused.
    RefusedBody: 2 { 0 reason: u8, 1 request_kind: u8 }
);
layout!(
    /// Body of DepthQuery.
    DepthQueryBody: 1 { 0 levels: u8 }
);
layout!(
    /// Fixed part of Depth.
    DepthBody: 10 { 0 sequence: U64, 8 bids: u8, 9 asks: u8 }
);
layout!(
    /// One level of Depth.
    LevelBody: 20 { 0 price: I64, 8 quantity: U64, 16 orders: U32 }
);
layout!(
    /// Body of InstrumentQuery.
    InstrumentQueryBody: 16 { 0 symbol: [u8; SYMBOL_LENGTH] }
);

const _: () = assert!(
    HEADER_LENGTH + size_of::<DepthBody>() + 2 * DEPTH_LEVELS_MAX * size_of::<LevelBody>()
        <= crate::FRAME_LENGTH_MAX
);

/// A gateway's refusal of a request: nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The request, 0 where the frame did not tell.
    pub request_id: RequestId,
    /// Why.
    pub reason: RefuseReason,
    /// Kind of the request; `None` where the frame did not tell.
    pub request_kind: Option<FrameKind>,
}

/// A client's question for depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthQuery {
    /// Echoed in the answer.
    pub request_id: RequestId,
    /// Of which instrument.
    pub instrument: InstrumentId,
    /// Levels a side at most; the answer has no more than [`DEPTH_LEVELS_MAX`].
    pub levels: u8,
}

/// A client's question for an instrument's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentQuery {
    /// Echoed in the answer.
    pub request_id: RequestId,
    /// By number, where there is no symbol.
    pub instrument: InstrumentId,
    /// By symbol.
    pub symbol: Option<Symbol>,
}

/// A decoded unnumbered message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unsequenced {
    /// To the client.
    Refused(Refused),
    /// To the gateway.
    DepthQuery(DepthQuery),
    /// To the client.
    Depth(RequestId, DepthSnapshot),
    /// To the gateway.
    InstrumentQuery(InstrumentQuery),
    /// To the client.
    InstrumentDefinition(RequestId, InstrumentDefinition),
}

impl Unsequenced {
    /// Decodes a frame of one of the unnumbered kinds.
    ///
    /// # Errors
    /// [`DecodeError`] names the first thing that is wrong; another kind is [`DecodeError::Kind`].
    pub fn decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let header = FrameHeader::read(frame)?;
        let body = frame.get(HEADER_LENGTH..header.length()).ok_or(DecodeError::Truncated)?;
        let request_id = header.request_id();
        Ok(match header.kind().ok_or(DecodeError::Kind)? {
            FrameKind::Refused => {
                let fixed = whole::<RefusedBody>(body)?;
                Self::Refused(Refused {
                    request_id,
                    reason: RefuseReason::from_byte(fixed.reason).ok_or(DecodeError::Field("reason"))?,
                    request_kind: FrameKind::from_byte(fixed.request_kind),
                })
            }
            FrameKind::DepthQuery => Self::DepthQuery(DepthQuery {
                request_id,
                instrument: header.instrument(),
                levels: whole::<DepthQueryBody>(body)?.levels,
            }),
            FrameKind::Depth => Self::Depth(request_id, decode_depth(header.instrument(), body)?),
            FrameKind::InstrumentQuery => {
                let symbol = whole::<InstrumentQueryBody>(body)?.symbol;
                let symbol = match symbol.iter().all(|byte| *byte == b' ') {
                    true => None,
                    false => Some(Symbol::from_padded(&symbol).ok_or(DecodeError::Field("symbol"))?),
                };
                Self::InstrumentQuery(InstrumentQuery { request_id, instrument: header.instrument(), symbol })
            }
            FrameKind::InstrumentDefinition => Self::InstrumentDefinition(
                request_id,
                InstrumentDefinition::from_body(header.instrument(), &whole::<InstrumentBody>(body)?)?,
            ),
            _ => return Err(DecodeError::Kind),
        })
    }

    /// Encodes the message as the frame that [`decode`](Self::decode) reads.
    #[must_use]
    pub fn encode(&self) -> FrameWriter<{ crate::FRAME_LENGTH_MAX }> {
        let writer = |kind, request_id| FrameWriter::new(kind, SessionId(0), request_id, Timestamp(0));
        match self {
            Self::Refused(refused) => writer(FrameKind::Refused, refused.request_id).body(&RefusedBody {
                reason: refused.reason.to_byte(),
                request_kind: refused.request_kind.map_or(0, |kind| kind as u8),
            }),
            Self::DepthQuery(query) => writer(FrameKind::DepthQuery, query.request_id)
                .instrument(query.instrument)
                .body(&DepthQueryBody { levels: query.levels }),
            Self::Depth(request_id, depth) => {
                let bids = &depth.bids[..depth.bids.len().min(DEPTH_LEVELS_MAX)];
                let asks = &depth.asks[..depth.asks.len().min(DEPTH_LEVELS_MAX)];
                let fixed = DepthBody {
                    sequence: depth.sequence.0.into(),
                    bids: bids.len() as u8,
                    asks: asks.len() as u8,
                };
                let start = writer(FrameKind::Depth, *request_id).instrument(depth.instrument).body(&fixed);
                bids.iter().chain(asks).fold(start, |frame, level| {
                    frame.body(&LevelBody {
                        price: level.price.0.into(),
                        quantity: level.quantity.0.into(),
                        orders: level.orders.into(),
                    })
                })
            }
            Self::InstrumentQuery(query) => writer(FrameKind::InstrumentQuery, query.request_id)
                .instrument(query.instrument)
                .body(&InstrumentQueryBody {
                    symbol: query.symbol.map_or([b' '; SYMBOL_LENGTH], |symbol| *symbol.as_padded()),
                }),
            Self::InstrumentDefinition(request_id, definition) => {
                writer(FrameKind::InstrumentDefinition, *request_id)
                    .instrument(definition.instrument)
                    .body(&definition.body())
            }
        }
    }
}

/// A body that is exactly its fixed part.
fn whole<T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout>(body: &[u8]) -> Result<T, DecodeError> {
    T::read_from_bytes(body).map_err(|_| DecodeError::Truncated)
}

fn decode_depth(instrument: InstrumentId, body: &[u8]) -> Result<DepthSnapshot, DecodeError> {
    let (fixed, mut rest) = DepthBody::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
    let mut levels = |count: u8| {
        (0..count)
            .map(|_| {
                let (level, behind) =
                    LevelBody::read_from_prefix(rest).map_err(|_| DecodeError::Truncated)?;
                rest = behind;
                Ok(DepthLevel {
                    price: Price(level.price.get()),
                    quantity: Quantity(level.quantity.get()),
                    orders: level.orders.get(),
                })
            })
            .collect::<Result<Vec<_>, DecodeError>>()
    };
    let bids = levels(fixed.bids)?;
    let asks = levels(fixed.asks)?;
    if !rest.is_empty() {
        return Err(DecodeError::Option);
    }
    Ok(DepthSnapshot { instrument, sequence: Sequence(fixed.sequence.get()), bids, asks })
}
