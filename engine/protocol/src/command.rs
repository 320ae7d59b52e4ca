//! Commands: what the business logic is told, decoded from a frame, and the encoders that clients and the server use.
//!
//! Bodies behind the frame header (offsets within the body; all integers little-endian):
//!
//! | kind | body |
//! |---|---|
//! | NewOrder | price i64 @0 (0 for a market order), quantity u64 @8, account u32 @16, side u8 @20, order_type u8 @21, time_in_force u8 @22, flags u8 @23; options ClOrdId and those of [`Terms`] |
//! | CancelOrder | client_order_id u64 @0 (0 where OrigClOrdId names the order), side u8 @8; options ClOrdId, OrigClOrdId |
//! | ReplaceOrder | client_order_id u64 @0, price i64 @8, quantity u64 @16 (the new total), side u8 @24; options ClOrdId, OrigClOrdId, StopPrice, DisplayQuantity, Unpriced |
//! | MassCancel | scope u8 @0, side u8 @1 (0 where the scope has none), session u32 @2 (0 = the sender's own; another one is for operators) |
//! | OrderStatus | client_order_id u64 @0; option OrigClOrdId |
//! | Login | trading_day u32 @0 (0 = the current one) |
//! | Logout, Start, EndOfDay | none |
//! | Disconnect | reason u8 @0 |
//! | Tick | checkpoint_sequence u64 @0, checkpoint_hash u64 @8 |
//! | SetCapacities | orders, levels, cl_ord_ids, sessions, instruments: u32 each |
//! | SetRulebook | version u32 @0 |
//! | PutInstrument | symbol 16 @0, tick_size i64 @16, lot_size u64 @24, price_min i64 @32, price_max i64 @40, quantity_max u64 @48, price_scale u8 @56, quantity_scale u8 @57 |
//! | SetPhase | phase u8 @0 |
//! | PutUser | session u32 @0, grace_ms u32 @4, name 6 @8, scheme u8 @14, role u8 @15, salt 16 @16, hash 32 @32, enabled u8 @64, cancel_on_disconnect u8 @65 |
//! | DisconnectUser | session u32 @0 |
//!
//! Bodies of the kinds from version 2 of the rulebook on are in `docs/native-order-entry.md`, and beside their structs. All
//! administrative kinds take the option Why, which is for readers of the log: it is checked and not decoded.

use zerocopy::FromBytes;
use zerocopy::little_endian::{U32, U64};

use crate::admin::{CapacitiesBody, InstrumentBody, UserBody};
use crate::frame::Options;
use crate::layout::layout;
use crate::{
    AccountDefinition, AccountGroup, AccountId, Capacities, ClOrdId, ClientOrderId, ConnectionId, Currency,
    DecodeError, EndReason, Fees, FrameHeader, FrameKind, FrameWriter, HEADER_LENGTH, InstrumentDefinition,
    InstrumentId, InstrumentRules, KillTarget, Limits, MassQuote, OrderFlags, OrderType, ParticipantId,
    Phase, Price, PriceKind, Quantity, RequestId, Sequence, SessionId, Side, StreamHash, Terms, Throttle,
    TickTable, TimeInForce, Timestamp, TlvType, TradeId, TradingDay, Transfer, UserDefinition,
    WHY_LENGTH_MAX,
};

mod orders;
mod plain;
mod rules;

/// One decoded frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Who sent it. [`SessionId::SYSTEM`] is the server.
    pub session: SessionId,
    /// The connection it came on.
    pub connection: ConnectionId,
    /// Id in the session's rising series.
    pub request_id: RequestId,
    /// When the gateway received it.
    pub timestamp: Timestamp,
    /// What it asks for.
    pub body: Body,
}

impl Command {
    /// The instrument that it names, where it names one by itself: a cancel names an order.
    #[inline]
    #[must_use]
    pub fn instrument(&self) -> Option<InstrumentId> {
        match &self.body {
            Body::NewOrder(order) => Some(order.instrument),
            Body::MassCancel(cancel) => cancel.instrument,
            Body::PutInstrument(definition) => Some(definition.instrument),
            Body::SetPhase(instrument, _) => Some(*instrument),
            _ => None,
        }
    }
}

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// The frame did not decode: answered, and nothing else happens.
    Malformed(DecodeError),
    /// New order.
    NewOrder(NewOrder),
    /// Cancel an order.
    CancelOrder(CancelOrder),
    /// Change an order.
    ReplaceOrder(ReplaceOrder),
    /// Cancel many orders.
    MassCancel(MassCancel),
    /// Ask for an order's state.
    OrderStatus(OrderStatusRequest),
    /// Replace quotes by a ladder.
    MassQuote(MassQuote),
    /// A connection wants the session.
    Login(LoginRequest),
    /// The client logged out.
    Logout,
    /// The connection is lost.
    Disconnect(EndReason),
    /// All connections are lost: the server started.
    Start,
    /// Log time moves.
    Tick(Tick),
    /// The trading day ends.
    EndOfDay,
    /// New capacities.
    SetCapacities(Capacities),
    /// The rules of this version are in force from here on.
    SetRulebook(u32),
    /// Create an instrument; repeating a definition is no error.
    PutInstrument(InstrumentDefinition),
    /// Halt or resume.
    SetPhase(InstrumentId, Phase),
    /// Create or change a user.
    PutUser(UserDefinition),
    /// End a user's connection.
    DisconnectUser(SessionId),
    /// Set an instrument's rules.
    PutRules(InstrumentId, InstrumentRules),
    /// Set an instrument's tick table.
    PutTickTable(InstrumentId, TickTable),
    /// Schedule a phase for a time.
    SchedulePhase(InstrumentId, Timestamp, Phase),
    /// Forget what is scheduled.
    ClearSchedule(InstrumentId),
    /// Set a reference or mark price.
    SetPrice(InstrumentId, PriceKind, Price),
    /// Close an instrument for good.
    Delist(InstrumentId),
    /// Set an instrument's fees for a group of accounts.
    SetFees(InstrumentId, AccountGroup, Fees),
    /// Set an account's limits, for an instrument or for all that have none of their own.
    SetLimits(AccountId, Option<InstrumentId>, Limits),
    /// Set the seed of what is drawn.
    SetSeed(u64),
    /// Create a currency with its number of decimals.
    PutCurrency(Currency, u8),
    /// Create or change an account.
    PutAccount(AccountDefinition),
    /// Give a user its participant; 0 takes it away.
    SetParticipant(SessionId, ParticipantId),
    /// Bound a session's messages.
    SetThrottle(SessionId, Throttle),
    /// Deposit or withdraw.
    Transfer(Transfer),
    /// Stop trading, or lift that.
    Kill(KillTarget, bool),
    /// Take a trade back.
    BustTrade(TradeId),
    /// Give a trade another price.
    CorrectTrade(TradeId, Price),
    /// Ask for balances and positions; account 0 is the venue's own fees.
    QueryAccount(AccountId),
    /// Ask for prices and open interest.
    QueryInstrument(InstrumentId),
}

/// A new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// What is traded.
    pub instrument: InstrumentId,
    /// Buy or sell.
    pub side: Side,
    /// Market or limit.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// Its one-bit options.
    pub flags: OrderFlags,
    /// Limit price; `None` for a market order.
    pub price: Option<Price>,
    /// Total quantity.
    pub quantity: Quantity,
    /// For whom.
    pub account: AccountId,
    /// Text id, unique in the session's trading day.
    pub cl_ord_id: Option<ClOrdId>,
    /// What few orders have.
    pub terms: Terms,
}

/// How a request names an order of its own session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderKey {
    /// By the request id of its new-order request.
    Id(ClientOrderId),
    /// By its current text id.
    Text(ClOrdId),
}

/// Cancel an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CancelOrder {
    /// Which one.
    pub order: OrderKey,
    /// The order's side, where the sender gives it; a wrong one is a reject.
    pub side: Option<Side>,
    /// Text id of the request itself.
    pub cl_ord_id: Option<ClOrdId>,
}

/// Change an order's price or total quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaceOrder {
    /// Which one.
    pub order: OrderKey,
    /// The order's side, where the sender gives it; a wrong one is a reject.
    pub side: Option<Side>,
    /// New limit price; `None` for an order that has none.
    pub price: Option<Price>,
    /// New total quantity, executions included, as in FIX.
    pub quantity: Quantity,
    /// New stop price, where it is to be another one.
    pub stop_price: Option<Price>,
    /// New display quantity, where it is to be another one.
    pub display: Option<Quantity>,
    /// Text id of the request; the order's current one once it is accepted.
    pub cl_ord_id: Option<ClOrdId>,
}

/// Cancel many orders of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassCancel {
    /// Whose orders; another session's is for operators.
    pub session: SessionId,
    /// The instrument, where the scope has one.
    pub instrument: Option<InstrumentId>,
    /// The side, where the scope has one.
    pub side: Option<Side>,
}

/// Ask for an order's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusRequest {
    /// Which one.
    pub order: OrderKey,
}

/// A verified login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRequest {
    /// The trading day whose reports the client wants, `None` for the current one.
    pub trading_day: Option<TradingDay>,
}

/// Log time moves, and the running hash at the previous tick is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick {
    /// Sequence of the tick before; 0 where there is none.
    pub checkpoint_sequence: Sequence,
    /// Running hash after that sequence.
    pub checkpoint_hash: u64,
}

layout!(
    /// Body of OrderStatus.
    OrderStatusBody: 8 { 0 client_order_id: U64 }
);
layout!(
    /// Body of Login.
    LoginBody: 4 { 0 trading_day: U32 }
);
layout!(
    /// Body of the kinds with one byte: Disconnect (reason) and SetPhase (phase).
    ByteBody: 1 { 0 value: u8 }
);
layout!(
    /// Body of Tick.
    TickBody: 16 { 0 checkpoint_sequence: U64, 8 checkpoint_hash: U64 }
);
layout!(
    /// Body of SetRulebook.
    RulebookBody: 4 { 0 version: U32 }
);
layout!(
    /// Body of DisconnectUser.
    SessionBody: 4 { 0 session: U32 }
);

impl Default for Command {
    /// What a ring's cell holds before anything was decoded into it.
    fn default() -> Self {
        Self {
            session: SessionId::SYSTEM,
            connection: ConnectionId(0),
            request_id: RequestId(0),
            timestamp: Timestamp(0),
            body: Body::Malformed(DecodeError::Truncated),
        }
    }
}

impl Command {
    /// Decodes a frame, slot padding allowed. Total: what does not decode becomes [`Body::Malformed`] with as much of
    /// the header as can be read.
    #[must_use]
    pub fn decode(frame: &[u8]) -> Self {
        match Self::try_decode(frame) {
            Ok(command) => command,
            Err(error) => match FrameHeader::read_from_prefix(frame) {
                Ok((header, _)) => Self::of(&header, Body::Malformed(error)),
                Err(_) => Self { body: Body::Malformed(error), ..Self::default() },
            },
        }
    }

    /// Decodes a frame, slot padding allowed.
    ///
    /// # Errors
    /// [`DecodeError`] names the first thing that is wrong.
    pub fn try_decode(frame: &[u8]) -> Result<Self, DecodeError> {
        let header = FrameHeader::read(frame)?;
        let body = frame.get(HEADER_LENGTH..header.length()).ok_or(DecodeError::Truncated)?;
        let kind = header.kind().ok_or(DecodeError::Kind)?;
        Ok(Self::of(&header, decode_body(kind, &header, body)?))
    }

    /// Encodes the command as the frame that [`decode`](Self::decode) reads. [`Body::Malformed`] has no frame.
    #[must_use]
    pub fn encode(&self) -> Option<FrameWriter> {
        let writer = |kind| {
            FrameWriter::new(kind, self.session, self.request_id, self.timestamp).connection(self.connection)
        };
        Some(match &self.body {
            Body::Malformed(_) => return None,
            Body::NewOrder(order) => order.write(writer(FrameKind::NewOrder)),
            Body::CancelOrder(cancel) => cancel.write(writer(FrameKind::CancelOrder)),
            Body::ReplaceOrder(replace) => replace.write(writer(FrameKind::ReplaceOrder)),
            Body::MassCancel(cancel) => cancel.write(writer(FrameKind::MassCancel)),
            Body::OrderStatus(request) => {
                let (id, text) = request.order.parts();
                writer(FrameKind::OrderStatus)
                    .body(&OrderStatusBody { client_order_id: id })
                    .option(TlvType::OrigClOrdId, text.as_ref().map(ClOrdId::as_bytes))
            }
            Body::Login(login) => writer(FrameKind::Login)
                .body(&LoginBody { trading_day: login.trading_day.map_or(0, |day| day.0).into() }),
            Body::Logout => writer(FrameKind::Logout),
            Body::Disconnect(reason) => {
                writer(FrameKind::Disconnect).body(&ByteBody { value: reason.to_byte() })
            }
            Body::Start => writer(FrameKind::Start),
            Body::Tick(tick) => writer(FrameKind::Tick).body(&TickBody {
                checkpoint_sequence: tick.checkpoint_sequence.0.into(),
                checkpoint_hash: tick.checkpoint_hash.into(),
            }),
            Body::EndOfDay => writer(FrameKind::EndOfDay),
            Body::SetCapacities(capacities) => writer(FrameKind::SetCapacities).body(&capacities.body()),
            Body::SetRulebook(version) => {
                writer(FrameKind::SetRulebook).body(&RulebookBody { version: (*version).into() })
            }
            Body::PutInstrument(definition) => {
                writer(FrameKind::PutInstrument).instrument(definition.instrument).body(&definition.body())
            }
            Body::SetPhase(instrument, phase) => {
                writer(FrameKind::SetPhase).instrument(*instrument).body(&ByteBody { value: phase.to_byte() })
            }
            Body::PutUser(user) => writer(FrameKind::PutUser).body(&user.body()),
            Body::DisconnectUser(session) => {
                writer(FrameKind::DisconnectUser).body(&SessionBody { session: session.0.into() })
            }
            Body::MassQuote(quote) => quote.write(writer(FrameKind::MassQuote)),
            body => rules::encode(body, writer)?,
        })
    }

    /// The same frame with the text that says why; `None` where [`encode`](Self::encode) gives none, or the text is empty,
    /// too long, or for a kind that takes none.
    #[must_use]
    pub fn encode_because(&self, why: &str) -> Option<FrameWriter> {
        let fits = !why.is_empty() && why.len() <= WHY_LENGTH_MAX;
        let frame = self.encode()?.option(TlvType::Why, fits.then_some(why.as_bytes()));
        (fits && Self::try_decode(frame.as_bytes()).is_ok()).then_some(frame)
    }

    /// The text of a frame that says why its request was made.
    #[must_use]
    pub fn why(frame: &[u8]) -> Option<&str> {
        let header = FrameHeader::read(frame).ok()?;
        let body = frame.get(HEADER_LENGTH..header.length())?;
        let options = body.get(rules::fixed_length(header.kind()?, body)?..)?;
        std::str::from_utf8(Options::read(options).ok()?.get(TlvType::Why)?).ok()
    }

    /// Hash of the request without its sender, its time and its text: what [`Configured`](crate::Configured) carries.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = StreamHash::default();
        if let Some(frame) = self.encode() {
            hash.bytes(&frame.as_bytes()[28..]);
        }
        hash.value()
    }

    #[inline]
    fn of(header: &FrameHeader, body: Body) -> Self {
        Self {
            session: header.session(),
            connection: header.connection(),
            request_id: header.request_id(),
            timestamp: header.timestamp(),
            body,
        }
    }
}

/// Splits a body into its fixed part and its options.
fn fixed<T>(body: &[u8]) -> Result<(T, Options<'_>), DecodeError>
where
    T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout,
{
    let (fixed, rest) = T::read_from_prefix(body).map_err(|_| DecodeError::Truncated)?;
    Ok((fixed, Options::read(rest)?))
}

fn bare<T>(body: &[u8]) -> Result<T, DecodeError>
where
    T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout,
{
    let (fixed, options) = fixed::<T>(body)?;
    check_why(&options)?;
    Ok(fixed)
}

/// A body without any option.
fn alone<T>(body: &[u8]) -> Result<T, DecodeError>
where
    T: FromBytes + zerocopy::Immutable + zerocopy::KnownLayout,
{
    let (fixed, options) = fixed::<T>(body)?;
    if options.has_other_than(&[]) { Err(DecodeError::Option) } else { Ok(fixed) }
}

/// The only option of an administrative request is a good text.
fn check_why(options: &Options<'_>) -> Result<(), DecodeError> {
    let is_good = options.get(TlvType::Why).is_none_or(|text| {
        !text.is_empty() && text.len() <= WHY_LENGTH_MAX && std::str::from_utf8(text).is_ok()
    });
    if options.has_other_than(&[TlvType::Why]) || !is_good { Err(DecodeError::Option) } else { Ok(()) }
}

fn decode_body(kind: FrameKind, header: &FrameHeader, body: &[u8]) -> Result<Body, DecodeError> {
    Ok(match kind {
        FrameKind::NewOrder => Body::NewOrder(NewOrder::read(header, body)?),
        FrameKind::CancelOrder => Body::CancelOrder(CancelOrder::read(body)?),
        FrameKind::ReplaceOrder => Body::ReplaceOrder(ReplaceOrder::read(body)?),
        FrameKind::MassCancel => Body::MassCancel(MassCancel::read(header, body)?),
        FrameKind::OrderStatus => {
            let (fixed, options) = fixed::<OrderStatusBody>(body)?;
            if options.has_other_than(&[TlvType::OrigClOrdId]) {
                return Err(DecodeError::Option);
            }
            Body::OrderStatus(OrderStatusRequest { order: OrderKey::read(fixed.client_order_id, &options)? })
        }
        FrameKind::Login => {
            let day = alone::<LoginBody>(body)?.trading_day.get();
            Body::Login(LoginRequest { trading_day: (day != 0).then_some(TradingDay(day)) })
        }
        FrameKind::Logout if body.is_empty() => Body::Logout,
        FrameKind::Start if body.is_empty() => Body::Start,
        FrameKind::Logout | FrameKind::Start => return Err(DecodeError::Option),
        FrameKind::EndOfDay => {
            check_why(&Options::read(body)?)?;
            Body::EndOfDay
        }
        FrameKind::MassQuote => Body::MassQuote(MassQuote::read(header, body)?),
        FrameKind::Disconnect => Body::Disconnect(
            EndReason::from_byte(alone::<ByteBody>(body)?.value).ok_or(DecodeError::Field("reason"))?,
        ),
        FrameKind::Tick => {
            let tick = alone::<TickBody>(body)?;
            Body::Tick(Tick {
                checkpoint_sequence: Sequence(tick.checkpoint_sequence.get()),
                checkpoint_hash: tick.checkpoint_hash.get(),
            })
        }
        FrameKind::SetCapacities => {
            Body::SetCapacities(Capacities::from_body(&bare::<CapacitiesBody>(body)?))
        }
        FrameKind::SetRulebook => Body::SetRulebook(bare::<RulebookBody>(body)?.version.get()),
        FrameKind::PutInstrument => Body::PutInstrument(InstrumentDefinition::from_body(
            header.instrument(),
            &bare::<InstrumentBody>(body)?,
        )?),
        FrameKind::SetPhase => Body::SetPhase(
            header.instrument(),
            Phase::from_byte(bare::<ByteBody>(body)?.value).ok_or(DecodeError::Field("phase"))?,
        ),
        FrameKind::PutUser => Body::PutUser(UserDefinition::from_body(&bare::<UserBody>(body)?)?),
        FrameKind::DisconnectUser => {
            Body::DisconnectUser(SessionId(bare::<SessionBody>(body)?.session.get()))
        }
        kind => rules::decode(kind, header, body)?,
    })
}
