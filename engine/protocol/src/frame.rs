//! The frame: one header for ring slot, journal and wire, a fixed body by kind, and optional fields behind it.
//!
//! ```text
//! offset  length  field          all integers little-endian
//!      0       2  length         bytes of the frame with this header, without slot padding: 32..=1024
//!      2       1  kind           FrameKind
//!      3       1  version        FORMAT_VERSION
//!      4       4  session        the user's session; 0 = the server
//!      8       8  request_id     of the session's rising series; in a report: of the request it answers, 0 = unsolicited
//!     16       8  timestamp_ns   Unix time; in a command: when the gateway received it; in a report: log time
//!     24       4  connection     the connection a command came on; in a report: the account
//!     28       4  instrument     0 where the kind has none
//!     32       .  body           by kind
//!      .       .  options        type u8, length u8, value; up to `length`
//! ```

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{ConnectionId, InstrumentId, RequestId, SessionId, Timestamp};

mod options;
mod write;

pub(crate) use options::Options;
pub use options::TlvType;
pub(crate) use write::FrameInPlace;
pub use write::{COMMAND_LENGTH_MAX, FrameWriter};

/// Bytes of a ring slot.
pub const SLOT_LENGTH: usize = 64;
/// Most bytes of a frame: 16 slots.
pub const FRAME_LENGTH_MAX: usize = 1024;
/// Bytes of a frame's header.
pub const HEADER_LENGTH: usize = size_of::<FrameHeader>();
/// Version of the frame format that this build writes, and the only one that it reads.
pub const FORMAT_VERSION: u8 = 1;

const _: () = assert!(HEADER_LENGTH == 32);

/// The header of every frame. The module's documentation has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct FrameHeader {
    pub(crate) length: U16,
    pub(crate) kind: u8,
    pub(crate) version: u8,
    pub(crate) session: U32,
    pub(crate) request_id: U64,
    pub(crate) timestamp_ns: U64,
    pub(crate) connection: U32,
    pub(crate) instrument: U32,
}

const _: () = {
    assert!(std::mem::offset_of!(FrameHeader, kind) == 2);
    assert!(std::mem::offset_of!(FrameHeader, version) == 3);
    assert!(std::mem::offset_of!(FrameHeader, session) == 4);
    assert!(std::mem::offset_of!(FrameHeader, request_id) == 8);
    assert!(std::mem::offset_of!(FrameHeader, timestamp_ns) == 16);
    assert!(std::mem::offset_of!(FrameHeader, connection) == 24);
    assert!(std::mem::offset_of!(FrameHeader, instrument) == 28);
};

/// Slots that a frame of `length` bytes takes.
#[must_use]
pub fn frame_slots(length: usize) -> usize {
    length.div_ceil(SLOT_LENGTH)
}

impl FrameHeader {
    /// Reads the header of a frame and checks its length against the bytes at hand (slot padding may follow) and its
    /// version.
    ///
    /// # Errors
    /// Too few bytes, a length outside 32..=1024 or beyond `bytes`, another version, an unknown kind.
    #[inline]
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (header, _) = Self::read_from_prefix(bytes).map_err(|_| DecodeError::Truncated)?;
        let length = header.length();
        if !(HEADER_LENGTH..=FRAME_LENGTH_MAX).contains(&length) {
            return Err(DecodeError::Length);
        }
        if length > bytes.len() {
            return Err(DecodeError::Truncated);
        }
        if header.version != FORMAT_VERSION {
            return Err(DecodeError::Version);
        }
        FrameKind::from_byte(header.kind).ok_or(DecodeError::Kind)?;
        Ok(header)
    }

    /// Overwrites what a gateway decides, not the client: session, connection, receive time. `frame` is one that
    /// [`read`](Self::read) took; shorter bytes stay as they are.
    pub fn stamp(frame: &mut [u8], session: SessionId, connection: ConnectionId, timestamp: Timestamp) {
        if let Ok((header, _)) = Self::mut_from_prefix(frame) {
            header.session = session.0.into();
            header.connection = connection.0.into();
            header.timestamp_ns = timestamp.0.into();
        }
    }

    /// Bytes of the frame with its header, without slot padding.
    #[must_use]
    pub fn length(&self) -> usize {
        usize::from(self.length.get())
    }

    /// Kind of the frame; `None` for a byte that no kind has.
    #[must_use]
    pub fn kind(&self) -> Option<FrameKind> {
        FrameKind::from_byte(self.kind)
    }

    /// The session that the frame is of, or for.
    #[must_use]
    pub fn session(&self) -> SessionId {
        SessionId(self.session.get())
    }

    /// Id of the request.
    #[must_use]
    pub fn request_id(&self) -> RequestId {
        RequestId(self.request_id.get())
    }

    /// Receive time of a command, log time of a report.
    #[must_use]
    pub fn timestamp(&self) -> Timestamp {
        Timestamp(self.timestamp_ns.get())
    }

    /// The connection that a command came on. A report has the account in this place.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        ConnectionId(self.connection.get())
    }

    /// The instrument, 0 where the kind has none.
    #[must_use]
    pub fn instrument(&self) -> InstrumentId {
        InstrumentId(self.instrument.get())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $value:literal),+ $(,)?) => {
        /// Kind of a frame. 1..=63 are commands (in the log), 64..=127 numbered reports, 128 and up are unnumbered
        /// messages between client and gateway that are never in the log.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FrameKind { $($(#[$doc])* $variant = $value),+ }

        impl FrameKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The kind of a byte, if there is one.
            #[must_use]
            #[inline]
            pub fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

kinds! {
    /// New order.
    NewOrder = 1,
    /// Cancel an order.
    CancelOrder = 2,
    /// Change price or total quantity of an order.
    ReplaceOrder = 3,
    /// Cancel many orders of one session.
    MassCancel = 4,
    /// Ask for the state of an order; answered by a numbered report.
    OrderStatus = 5,
    /// Replace a session's quotes in an instrument by a ladder.
    MassQuote = 6,
    /// A client's credentials were verified; take it in.
    Login = 16,
    /// The client logged out.
    Logout = 17,
    /// The connection ended in any other way.
    Disconnect = 18,
    /// First frame of every start and term: all connections are lost.
    Start = 32,
    /// Log time moves; carries the last checkpoint.
    Tick = 33,
    /// The trading day ends.
    EndOfDay = 34,
    /// Set the capacities.
    SetCapacities = 35,
    /// Switch to the rules of a newer version of the program.
    SetRulebook = 36,
    /// Set the seed of what is drawn.
    SetSeed = 37,
    /// Stop trading of the venue, a participant or an account, or lift that.
    Kill = 38,
    /// Give a user its participant.
    SetParticipant = 39,
    /// Bound a session's messages.
    SetThrottle = 40,
    /// Take a trade back.
    BustTrade = 41,
    /// Give a trade another price.
    CorrectTrade = 42,
    /// Ask for an account's balances and positions.
    QueryAccount = 43,
    /// Ask for an instrument's prices and open interest.
    QueryInstrument = 44,
    /// Create a currency.
    PutCurrency = 45,
    /// Create or change an account.
    PutAccount = 46,
    /// Deposit or withdraw.
    Transfer = 47,
    /// Create an instrument, or repeat its definition.
    PutInstrument = 48,
    /// Halt or resume an instrument.
    SetPhase = 49,
    /// Create or change a user.
    PutUser = 50,
    /// Disconnect a user.
    DisconnectUser = 51,
    /// Set an instrument's rules.
    PutRules = 52,
    /// Set an instrument's tick table.
    PutTickTable = 53,
    /// Schedule a phase.
    SchedulePhase = 54,
    /// Forget an instrument's schedule.
    ClearSchedule = 55,
    /// Set an instrument's reference or mark price.
    SetPrice = 56,
    /// Close an instrument for good.
    Delist = 57,
    /// Set an account's limits.
    SetLimits = 58,
    /// Set an instrument's fees.
    SetFees = 59,
    /// The order was accepted.
    Accepted = 64,
    /// The request was rejected.
    Rejected = 65,
    /// The order traded.
    Executed = 66,
    /// The order was canceled.
    Canceled = 67,
    /// The order was replaced.
    Replaced = 68,
    /// The order goes on, changed by the venue.
    Restated = 69,
    /// The order, or what was left of it, expired.
    Expired = 70,
    /// State of an order, as asked.
    OrderState = 71,
    /// A mass cancel is done.
    MassCanceled = 72,
    /// An administrative request is done.
    AdminDone = 73,
    /// A stop was triggered.
    Triggered = 74,
    /// A mass quote is done.
    MassQuoted = 75,
    /// What a trade did to an account.
    Settled = 76,
    /// A trade was taken back or given another price.
    TradeRevised = 77,
    /// A balance, as asked.
    Balance = 78,
    /// A position, as asked.
    Position = 79,
    /// An instrument's prices and open interest, as asked.
    InstrumentState = 80,
    /// The gateway refused a request.
    Refused = 128,
    /// Client asks for the depth of an instrument.
    DepthQuery = 129,
    /// Depth of an instrument.
    Depth = 130,
    /// Client asks for instrument definitions.
    InstrumentQuery = 131,
    /// Definition of an instrument.
    InstrumentDefinition = 132,
    /// Client asks for the reports of another session.
    DropCopyRequest = 133,
    /// A report of another session.
    DropCopy = 134,
}

impl FrameKind {
    /// Whether the kind goes through the input ring and the journal.
    #[must_use]
    pub fn is_command(self) -> bool {
        (self as u8) < 64
    }

    /// Whether a client may send the kind (an operator's role is checked by the business logic).
    #[must_use]
    pub fn is_from_client(self) -> bool {
        matches!(
            self,
            Self::NewOrder
                | Self::CancelOrder
                | Self::ReplaceOrder
                | Self::MassCancel
                | Self::OrderStatus
                | Self::EndOfDay
                | Self::SetCapacities
                | Self::SetRulebook
                | Self::PutInstrument
                | Self::SetPhase
                | Self::PutUser
                | Self::DisconnectUser
                | Self::MassQuote
                | Self::SetSeed
                | Self::Kill
                | Self::SetParticipant
                | Self::SetThrottle
                | Self::BustTrade
                | Self::CorrectTrade
                | Self::QueryAccount
                | Self::QueryInstrument
                | Self::PutCurrency
                | Self::PutAccount
                | Self::Transfer
                | Self::PutRules
                | Self::PutTickTable
                | Self::SchedulePhase
                | Self::ClearSchedule
                | Self::SetPrice
                | Self::Delist
                | Self::SetLimits
                | Self::SetFees
        )
    }
}

/// Why bytes are not a frame that this build understands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the header's length, or than the kind's fixed part.
    #[default]
    #[error("the frame is cut short")]
    Truncated,
    /// Length outside 32..=1024.
    #[error("the frame's length is outside 32..=1024")]
    Length,
    /// A version that this build doesn't read.
    #[error("the frame's format version is not 1")]
    Version,
    /// A kind that this build doesn't know, or that is not expected here.
    #[error("the frame's kind is unknown here")]
    Kind,
    /// A field holds a value that it can't have.
    #[error("field `{0}` holds a value that it can't have")]
    Field(&'static str),
    /// An optional field is cut short, unknown, doubled, or of the wrong length.
    #[error("an optional field is cut short, unknown, doubled or of the wrong length")]
    Option,
}
