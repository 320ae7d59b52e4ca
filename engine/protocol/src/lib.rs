//! Frames, commands, events, ids and their byte layouts: what every other crate agrees on.
//!
//! A leaf: it has no I/O, no clock, no threads and no randomness, and knows no other crate of the workspace. Nothing
//! decoded here is trusted: every decoder returns a value or a [`DecodeError`] for every input.

#![forbid(unsafe_code)]

mod admin;
mod command;
mod egress;
mod event;
mod frame;
mod hash;
mod ids;
pub mod in_work;
mod layout;
pub mod planted;
mod reasons;
mod report;
mod rules;
pub mod soupbin;
mod terms;
mod types;
mod wire;

pub use admin::{
    Capacities, Credential, InstrumentDefinition, SYMBOL_LENGTH, Symbol, USER_NAME_LENGTH, UserDefinition,
    UserName,
};
pub use command::{
    Body, CancelOrder, Command, LoginRequest, MassCancel, NewOrder, OrderKey, OrderStatusRequest,
    ReplaceOrder, Tick,
};
pub use egress::{DepthLevel, DepthSnapshot, Egress, Joined, MarketState, Notice};
pub use event::{
    Accepted, Added, AdminDone, Balance, Canceled, Checkpoint, Configured, Event, Executed, Expired,
    Indicative, InstrumentState, LoggedIn, LoginRefused, MarginCall, MassCanceled, MassQuoted, Named,
    OrderStatusReport, Output, Position, Recipient, Reduced, Rejected, Replaced, Restated, Settled, Skipped,
    Trade, TradeRevised, Triggered,
};
pub use frame::{
    COMMAND_LENGTH_MAX, DecodeError, FORMAT_VERSION, FRAME_LENGTH_MAX, FrameHeader, FrameKind, FrameWriter,
    HEADER_LENGTH, SLOT_LENGTH, TlvType, frame_slots,
};
pub use hash::{BookHash, OutcomeHash, StreamHash};
pub use ids::{
    AccountGroup, AccountId, Amount, ClOrdId, ClOrdIdError, ClientOrderId, ConnectionId, InstrumentId,
    OrderId, ParticipantId, Price, Quantity, ReportNumber, RequestId, Sequence, SessionId, Term, Timestamp,
    TradeId, TradingDay,
};
pub use reasons::{
    CancelReason, EndReason, ExpireReason, LoginRefusal, RefuseReason, RejectReason, RestateReason,
};
pub use report::{REPORT_STRIDE, Report, encode_report};
pub use rules::{
    AccountDefinition, CURRENCY_LENGTH, Currency, Fees, InstrumentRules, KillTarget, Limits, MassQuote,
    QUOTE_LEVELS_MAX, QuoteEntry, QuoteSide, TICK_ROWS_MAX, Throttle, TickRow, TickTable, Transfer,
    WHY_LENGTH_MAX,
};
pub use terms::{Peg, SelfTrade, Terms};
pub use types::{
    Allocation, BandAction, KillScope, Liquidity, MassCancelScope, OrdStatus, OrderFlags, OrderType,
    PegReference, Phase, PriceKind, Role, SelfTradeAction, Settlement, Side, StopTrigger, TimeInForce,
};
pub use wire::{
    DEPTH_LEVELS_MAX, DROP_COPY_LENGTH_MAX, DepthQuery, DropCopy, DropCopyRequest, InstrumentQuery, Refused,
    Unsequenced,
};
