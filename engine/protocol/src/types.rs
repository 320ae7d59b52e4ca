//! Enumerations with a fixed byte for each value. An unknown byte is a decoding error, never a default.

use std::fmt;

macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $value:literal => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$vdoc])* $variant = $value),+ }

        impl $name {
            /// Every value, in the order of its byte.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value of a byte, if there is one.
            #[must_use]
            pub fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($value => Some(Self::$variant),)+ _ => None }
            }

            /// The byte of the value.
            #[must_use]
            pub fn to_byte(self) -> u8 {
                self as u8
            }

            /// The name used in text: logs, scenarios, command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The value of a name used in text.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

wire_enum!(
    /// Side of an order.
    Side {
        /// Bids.
        Buy = 1 => "buy",
        /// Asks.
        Sell = 2 => "sell",
    }
);

impl Side {
    /// The side it trades against.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Buy => Self::Sell,
            Self::Sell => Self::Buy,
        }
    }
}

wire_enum!(
    /// How an order's price is found.
    OrderType {
        /// Trades at whatever rests; what is left expires.
        Market = 1 => "market",
        /// Trades at its price or better.
        Limit = 2 => "limit",
    }
);

wire_enum!(
    /// How long an order lives.
    TimeInForce {
        /// Until the logged end of day.
        Day = 1 => "day",
        /// Until it is filled or canceled.
        GoodTillCancel = 2 => "gtc",
        /// What can't trade at once expires.
        ImmediateOrCancel = 3 => "ioc",
        /// All at once or nothing.
        FillOrKill = 4 => "fok",
    }
);

wire_enum!(
    /// Whether an execution's order was resting or incoming.
    Liquidity {
        /// It was resting in the book.
        Maker = 1 => "maker",
        /// It came in and took from the book.
        Taker = 2 => "taker",
    }
);

wire_enum!(
    /// What an instrument accepts.
    Phase {
        /// Orders match as they come.
        Continuous = 1 => "continuous",
        /// New orders and replaces are rejected; cancels work.
        Halted = 2 => "halted",
    }
);

wire_enum!(
    /// What a user may do.
    Role {
        /// Trades.
        Trader = 1 => "trader",
        /// Trades and administers: users, instruments, phases, end of day.
        Operator = 2 => "operator",
    }
);

wire_enum!(
    /// State of an order, with the meaning of FIX tag 39.
    OrdStatus {
        /// Rests without an execution.
        New = 1 => "new",
        /// Rests after at least one execution.
        PartiallyFilled = 2 => "partially_filled",
    }
);

wire_enum!(
    /// Why a request was refused by the business logic. The request had no other effect.
    RejectReason {
        /// The request id is not above the highest seen of its session.
        IdNotRising = 1 => "id_not_rising",
        /// The frame's connection is not the session's live one.
        NotLoggedIn = 2 => "not_logged_in",
        /// The session's role doesn't allow the request.
        NotAuthorized = 3 => "not_authorized",
        /// The frame did not decode.
        Malformed = 4 => "malformed",
        /// No such instrument.
        UnknownInstrument = 5 => "unknown_instrument",
        /// The instrument is halted.
        InstrumentHalted = 6 => "instrument_halted",
        /// The order is not there, is done, or is another session's.
        UnknownOrder = 7 => "unknown_order",
        /// The text client order id was used before on this trading day.
        DuplicateClOrdId = 8 => "duplicate_cl_ord_id",
        /// The quantity is zero.
        QuantityZero = 9 => "quantity_zero",
        /// The quantity is above the instrument's maximum.
        QuantityAboveMaximum = 10 => "quantity_above_maximum",
        /// The quantity is no multiple of the lot size.
        QuantityNotOnLot = 11 => "quantity_not_on_lot",
        /// The price is no multiple of the tick size.
        PriceNotOnTick = 12 => "price_not_on_tick",
        /// The price is outside the instrument's limits.
        PriceOutsideLimits = 13 => "price_outside_limits",
        /// The order is post-only and would take from the book.
        PostOnlyWouldTrade = 14 => "post_only_would_trade",
        /// The order's options contradict each other (a market order that is post-only, for one).
        OptionsConflict = 15 => "options_conflict",
        /// The venue does not offer an option of the order (yet).
        OptionNotOffered = 16 => "option_not_offered",
        /// The new total quantity is not above what was executed already.
        TooLate = 17 => "too_late",
        /// As many orders are live as the capacity allows.
        OrdersFull = 18 => "orders_full",
        /// As many price levels are in use as the capacity allows.
        LevelsFull = 19 => "levels_full",
        /// As many text ids were used today as the capacity allows.
        IdsFull = 20 => "ids_full",
        /// As many sessions exist as the capacity allows.
        SessionsFull = 21 => "sessions_full",
        /// As many instruments exist as the capacity allows.
        InstrumentsFull = 22 => "instruments_full",
        /// The instrument id or symbol exists already with another definition.
        InstrumentExists = 23 => "instrument_exists",
        /// The session id or user name exists already for another user.
        UserExists = 24 => "user_exists",
        /// No such user.
        UnknownUser = 25 => "unknown_user",
        /// A definition that can't work: tick or lot of zero, minimum above maximum, and the like.
        DefinitionInvalid = 26 => "definition_invalid",
        /// A capacity below what is in use, or above what the engine can hold.
        CapacityInvalid = 27 => "capacity_invalid",
        /// The order's side, as given with the request, is not the order's.
        SideMismatch = 28 => "side_mismatch",
        /// The instrument was stopped after an internal error was found in it; cancels work.
        InstrumentStopped = 29 => "instrument_stopped",
        /// The rulebook version is below the one in force.
        RulebookLower = 30 => "rulebook_lower",
    }
);

wire_enum!(
    /// Why a live order was canceled.
    CancelReason {
        /// Its owner asked.
        Requested = 1 => "requested",
        /// Part of a mass cancel of its owner.
        MassCancel = 2 => "mass_cancel",
        /// Its session's connection ended and the session cancels on disconnect.
        Disconnected = 3 => "disconnected",
        /// An operator asked.
        Operator = 4 => "operator",
        /// A replace set its total quantity to what was executed already.
        ReplacedToExecuted = 5 => "replaced_to_executed",
    }
);

wire_enum!(
    /// Why an order, or what was left of it, expired.
    ExpireReason {
        /// What an immediate-or-cancel order could not trade.
        ImmediateOrCancel = 1 => "immediate_or_cancel",
        /// A fill-or-kill order that could not trade whole.
        FillOrKill = 2 => "fill_or_kill",
        /// What a market order found no counterparty for.
        NoLiquidity = 3 => "no_liquidity",
        /// The trading day ended.
        EndOfDay = 4 => "end_of_day",
    }
);

wire_enum!(
    /// Why an order was restated.
    RestateReason {
        /// A good-till-cancel order goes on in the new trading day.
        NewDay = 1 => "new_day",
    }
);

wire_enum!(
    /// Which of a session's orders a mass cancel means.
    MassCancelScope {
        /// All of them.
        All = 1 => "all",
        /// Those of the frame's instrument.
        Instrument = 2 => "instrument",
        /// Those of one side.
        Side = 3 => "side",
        /// Those of the frame's instrument and one side.
        InstrumentSide = 4 => "instrument_side",
    }
);

wire_enum!(
    /// Why the business logic refused a login.
    LoginRefusal {
        /// The user is unknown or disabled.
        UnknownUser = 1 => "unknown_user",
        /// The session has a live connection.
        AlreadyLoggedIn = 2 => "already_logged_in",
    }
);

wire_enum!(
    /// Why a connection ended.
    EndReason {
        /// The client logged out.
        Logout = 1 => "logout",
        /// The socket closed.
        Closed = 2 => "closed",
        /// Nothing was heard for the silence limit.
        Silent = 3 => "silent",
        /// The client broke the protocol.
        Protocol = 4 => "protocol",
        /// The client read too slowly.
        SlowReader = 5 => "slow_reader",
        /// An operator disconnected or disabled the user.
        Operator = 6 => "operator",
        /// The server stops, starts, or lost leadership.
        Server = 7 => "server",
        /// The trading day ended.
        EndOfDay = 8 => "end_of_day",
    }
);

wire_enum!(
    /// Why a gateway refused a request. It is not in the log; nothing happened.
    RefuseReason {
        /// The frame does not decode.
        Malformed = 1 => "malformed",
        /// More messages a second than the session may send.
        Throttled = 2 => "throttled",
        /// The disk is nearly full: only cancels are taken.
        DiskFull = 3 => "disk_full",
        /// This member doesn't lead.
        NotLeader = 4 => "not_leader",
        /// The server is stopping.
        Stopping = 5 => "stopping",
        /// A kind of frame that clients may not send.
        NotAllowed = 6 => "not_allowed",
        /// No such instrument (queries).
        UnknownInstrument = 7 => "unknown_instrument",
        /// The server doesn't know this version of the rulebook and would have to stop at it.
        RulebookUnknown = 8 => "rulebook_unknown",
    }
);

/// Options of an order that are one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderFlags {
    /// Never takes: rejected where it would trade on entry.
    pub post_only: bool,
}

impl OrderFlags {
    const POST_ONLY: u8 = 1;

    /// The flags of a byte; `None` where an unknown bit is set.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        (byte & !Self::POST_ONLY == 0).then_some(Self { post_only: byte & Self::POST_ONLY != 0 })
    }

    /// The byte of the flags.
    #[must_use]
    pub fn to_byte(self) -> u8 {
        if self.post_only { Self::POST_ONLY } else { 0 }
    }
}
