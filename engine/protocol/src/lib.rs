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
mod layout;
pub mod planted;
mod report;
pub mod soupbin;
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
pub use egress::{DepthLevel, DepthSnapshot, Egress, Notice};
pub use event::{
    Accepted, Added, AdminDone, Canceled, Checkpoint, Event, Executed, Expired, LoggedIn, LoginRefused,
    MassCanceled, Named, OrderStatusReport, Output, Recipient, Reduced, Rejected, Replaced, Restated, Trade,
};
pub use frame::{
    COMMAND_LENGTH_MAX, DecodeError, FORMAT_VERSION, FRAME_LENGTH_MAX, FrameHeader, FrameKind, FrameWriter,
    HEADER_LENGTH, SLOT_LENGTH, TlvType, frame_slots,
};
pub use hash::{BookHash, OutcomeHash, StreamHash};
pub use ids::{
    AccountId, ClOrdId, ClOrdIdError, ClientOrderId, ConnectionId, InstrumentId, OrderId, Price, Quantity,
    ReportNumber, RequestId, Sequence, SessionId, Term, Timestamp, TradeId, TradingDay,
};
pub use report::{REPORT_STRIDE, Report};
pub use types::{
    CancelReason, EndReason, ExpireReason, Liquidity, LoginRefusal, MassCancelScope, OrdStatus, OrderFlags,
    OrderType, Phase, RefuseReason, RejectReason, RestateReason, Role, Side, TimeInForce,
};
pub use wire::{DEPTH_LEVELS_MAX, DepthQuery, InstrumentQuery, Refused, Unsequenced};
