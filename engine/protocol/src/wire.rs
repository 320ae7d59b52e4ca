//! Unnumbered messages between client and gateway, never in the log: refusals, depth and instrument queries, drop copies.
//!
//! | kind | from | body |
//! |---|---|---|
//! | Refused | gateway | reason u8 @0, request_kind u8 @1 (0 = unreadable); the header's request id is the request refused |
//! | DepthQuery | client | levels u8 @0: how many a side at most, with_state u8 @1: 0 or 1, may be left out; the header's instrument |
//! | Depth | gateway | sequence u64 @0, bids u8 @8, asks u8 @9, then bids and asks, best first: price i64, quantity u64, orders u32 each; then, where the query had with_state 1, the state of 27 bytes: phase u8 @0, surplus_side u8 @1 (0 = neither), trades u8 @2 (0 = nothing would trade, and the rest is 0), price i64 @3, quantity u64 @11, surplus u64 @19 |
//! | InstrumentQuery | client | symbol 16 @0; all spaces: by the header's instrument |
//! | InstrumentDefinition | gateway | body of PutInstrument; the header's instrument |
//! | DropCopyRequest | client | session u32 @0, trading_day u32 @4 (0 = the current one), from u64 @8 (0 = only new ones) |
//! | DropCopy | gateway | session u32 @0, trading_day u32 @4, then the report's frame; none: all that there are so far were sent |

use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U32, U64};

use crate::admin::InstrumentBody;
use crate::layout::layout;
use crate::{
    DecodeError, DepthLevel, DepthSnapshot, FrameHeader, FrameKind, FrameWriter, HEADER_LENGTH, Indicative,
    InstrumentDefinition, InstrumentId, MarketState, Phase, Price, Quantity, REPORT_STRIDE, RefuseReason,
    Report, ReportNumber, RequestId, SYMBOL_LENGTH, Sequence, SessionId, Side, Symbol, Timestamp, TradingDay,
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
    /// Body of DepthQuery that says whether it asks for the state.
    StateQueryBody: 2 { 0 levels: u8, 1 with_state: u8 }
);
layout!(
    /// State in Depth, behind the levels.
    StateBody: 27 { 0 phase: u8, 1 surplus_side: u8, 2 trades: u8, 3 price: I64, 11 quantity: U64, 19 surplus: U64 }
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

layout!(
    /// Body of DropCopyRequest.
    DropCopyRequestBody: 16 { 0 session: U32, 4 trading_day: U32, 8 from: U64 }
);
layout!(
    /// Fixed part of DropCopy; the report's frame follows.
    DropCopyBody: 8 { 0 session: U32, 4 trading_day: U32 }
);

/// Most bytes of a drop copy's frame.
pub const DROP_COPY_LENGTH_MAX: usize = HEADER_LENGTH + size_of::<DropCopyBody>() + REPORT_STRIDE;

const _: () = assert!(
    HEADER_LENGTH
        + size_of::<DepthBody>()
        + 2 * DEPTH_LEVELS_MAX * size_of::<LevelBody>()
        + size_of::<StateBody>()
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
    /// Whether the answer is to tell phase and indicative price, too. Clients from before there was this don't ask for it.
    pub with_state: bool,
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

/// An observer's question for the reports of a session, from a number on and live from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCopyRequest {
    /// Echoed in every report.
    pub request_id: RequestId,
    /// Whose reports.
    pub session: SessionId,
    /// Of which day; `None` for the current one.
    pub trading_day: Option<TradingDay>,
    /// The first one; `None` for those that are new from here on.
    pub from: Option<ReportNumber>,
}

/// A report of another session, or word that all that there are so far were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropCopy {
    /// The question.
    pub request_id: RequestId,
    /// Whose report.
    pub session: SessionId,
    /// Of which day.
    pub trading_day: TradingDay,
    /// The report; `None` once all that there are so far were sent.
    pub report: Option<Report>,
}

impl DropCopy {
    /// Encodes a drop copy around the bytes of a report's frame, which are not looked at; none for the word that all were
    /// sent.
    #[must_use]
    pub fn encode_raw(
        request_id: RequestId,
        session: SessionId,
        trading_day: TradingDay,
        report: &[u8],
    ) -> FrameWriter<DROP_COPY_LENGTH_MAX> {
        FrameWriter::new(FrameKind::DropCopy, session, request_id, Timestamp(0))
            .body(&DropCopyBody { session: session.0.into(), trading_day: trading_day.0.into() })
            .append(report)
    }

    fn read(request_id: RequestId, body: &[u8]) -> Result<Self, DecodeError> {
        let (fixed, report) = DropCopyBody::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
        Ok(Self {
            request_id,
            session: SessionId(fixed.session.get()),
            trading_day: TradingDay(fixed.trading_day.get()),
            report: if report.is_empty() { None } else { Some(Report::decode(report)?) },
        })
    }
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
    /// To the gateway.
    DropCopyRequest(DropCopyRequest),
    /// To the client.
    DropCopy(DropCopy),
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
            FrameKind::DepthQuery => {
                let StateQueryBody { levels, with_state } = match body {
                    [levels] => StateQueryBody { levels: *levels, with_state: 0 },
                    body => whole(body)?,
                };
                if with_state > 1 {
                    return Err(DecodeError::Field("with_state"));
                }
                let instrument = header.instrument();
                Self::DepthQuery(DepthQuery { request_id, instrument, levels, with_state: with_state == 1 })
            }
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
            FrameKind::DropCopyRequest => {
                let fixed = whole::<DropCopyRequestBody>(body)?;
                Self::DropCopyRequest(DropCopyRequest {
                    request_id,
                    session: SessionId(fixed.session.get()),
                    trading_day: Some(TradingDay(fixed.trading_day.get())).filter(|day| day.0 != 0),
                    from: Some(ReportNumber(fixed.from.get())).filter(|number| number.0 != 0),
                })
            }
            FrameKind::DropCopy => Self::DropCopy(DropCopy::read(request_id, body)?),
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
            Self::DepthQuery(query) => {
                let start = writer(FrameKind::DepthQuery, query.request_id).instrument(query.instrument);
                match query.with_state {
                    false => start.body(&DepthQueryBody { levels: query.levels }),
                    true => start.body(&StateQueryBody { levels: query.levels, with_state: 1 }),
                }
            }
            Self::Depth(request_id, depth) => {
                let bids = &depth.bids[..depth.bids.len().min(DEPTH_LEVELS_MAX)];
                let asks = &depth.asks[..depth.asks.len().min(DEPTH_LEVELS_MAX)];
                let fixed = DepthBody {
                    sequence: depth.sequence.0.into(),
                    bids: bids.len() as u8,
                    asks: asks.len() as u8,
                };
                let start = writer(FrameKind::Depth, *request_id).instrument(depth.instrument).body(&fixed);
                let levels = bids.iter().chain(asks).fold(start, |frame, level| {
                    frame.body(&LevelBody {
                        price: level.price.0.into(),
                        quantity: level.quantity.0.into(),
                        orders: level.orders.into(),
                    })
                });
                match &depth.state {
                    Some(state) => levels.body(&state_body(state)),
                    None => levels,
                }
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
            Self::DropCopyRequest(request) => {
                writer(FrameKind::DropCopyRequest, request.request_id).body(&DropCopyRequestBody {
                    session: request.session.0.into(),
                    trading_day: request.trading_day.map_or(0, |day| day.0).into(),
                    from: request.from.map_or(0, |number| number.0).into(),
                })
            }
            Self::DropCopy(copy) => {
                let mut stride = [0; REPORT_STRIDE];
                let there = copy.report.and_then(|report| report.encode(&mut stride));
                let length = there.map_or(0, |()| usize::from(u16::from_le_bytes([stride[0], stride[1]])));
                FrameWriter::new(FrameKind::DropCopy, copy.session, copy.request_id, Timestamp(0))
                    .body(&DropCopyBody {
                        session: copy.session.0.into(),
                        trading_day: copy.trading_day.0.into(),
                    })
                    .append(&stride[..length])
            }
        }
    }
}

/// A body that is exactly its fixed part.
fn whole<T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout>(body: &[u8]) -> Result<T, DecodeError> {
    T::read_from_bytes(body).map_err(|_| DecodeError::Truncated)
}

fn state_body(state: &MarketState) -> StateBody {
    let trades = state.indicative.filter(|indicative| indicative.price.is_some());
    StateBody {
        phase: state.phase.to_byte(),
        surplus_side: trades.and_then(|it| it.surplus_side).map_or(0, Side::to_byte),
        trades: trades.is_some().into(),
        price: trades.and_then(|it| it.price).map_or(0, |price| price.0).into(),
        quantity: trades.map_or(0, |it| it.quantity.0).into(),
        surplus: trades.map_or(0, |it| it.surplus.0).into(),
    }
}

fn decode_state(instrument: InstrumentId, body: &[u8]) -> Result<MarketState, DecodeError> {
    let fixed = whole::<StateBody>(body)?;
    let surplus_side = match fixed.surplus_side {
        0 => None,
        byte => Some(Side::from_byte(byte).ok_or(DecodeError::Field("surplus_side"))?),
    };
    let indicative = Indicative {
        instrument,
        price: Some(Price(fixed.price.get())),
        quantity: Quantity(fixed.quantity.get()),
        surplus: Quantity(fixed.surplus.get()),
        surplus_side,
    };
    Ok(MarketState {
        phase: Phase::from_byte(fixed.phase).ok_or(DecodeError::Field("phase"))?,
        indicative: (fixed.trades != 0).then_some(indicative),
    })
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
    let state = match rest {
        [] => None,
        rest => Some(decode_state(instrument, rest)?),
    };
    Ok(DepthSnapshot { instrument, sequence: Sequence(fixed.sequence.get()), bids, asks, state })
}
