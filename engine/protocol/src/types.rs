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
        /// Trades at the best opposite price; what is left rests there.
        MarketToLimit = 3 => "market_to_limit",
        /// A market order whose price is bounded by the instrument's protection; what is left rests there.
        MarketProtected = 4 => "market_protected",
        /// Follows the book without a limit of its own.
        Pegged = 5 => "pegged",
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
        /// Until its expiry time.
        GoodTillDate = 5 => "gtd",
        /// For the opening auction.
        AtTheOpen = 6 => "at_the_open",
        /// For the closing auction.
        AtTheClose = 7 => "at_the_close",
        /// For the auction that is on.
        GoodForAuction = 8 => "good_for_auction",
    }
);

wire_enum!(
    /// Whether an execution's order was resting or incoming.
    Liquidity {
        /// It was resting in the book.
        Maker = 1 => "maker",
        /// It came in and took from the book.
        Taker = 2 => "taker",
        /// It was resting without being shown.
        Hidden = 3 => "hidden",
        /// It traded in an uncross.
        Auction = 4 => "auction",
    }
);

wire_enum!(
    /// What an instrument accepts.
    Phase {
        /// Orders match as they come.
        Continuous = 1 => "continuous",
        /// New orders and replaces are rejected; cancels work.
        Halted = 2 => "halted",
        /// A call: orders rest and may cross.
        PreOpen = 3 => "pre_open",
        /// The call before the opening uncross.
        OpeningAuction = 4 => "opening_auction",
        /// The call after a price band was reached.
        VolatilityAuction = 5 => "volatility_auction",
        /// The call before the closing uncross.
        ClosingAuction = 6 => "closing_auction",
        /// Nothing but cancels and questions.
        Closed = 7 => "closed",
        /// Nothing but cancels and questions, in the middle of the day.
        CancelOnly = 8 => "cancel_only",
        /// Closed for good.
        Delisted = 9 => "delisted",
    }
);

impl Phase {
    /// Whether orders rest without trading and the book may be crossed.
    #[must_use]
    pub fn is_call(self) -> bool {
        self == Self::PreOpen || self.is_auction()
    }

    /// Whether it is a call that ends with an uncross and has an indicative price.
    #[must_use]
    pub fn is_auction(self) -> bool {
        matches!(self, Self::OpeningAuction | Self::VolatilityAuction | Self::ClosingAuction)
    }
}

wire_enum!(
    /// How an incoming order is shared out among the displayed orders of one price.
    Allocation {
        /// The oldest first.
        PriceTime = 1 => "price_time",
        /// In proportion to what each shows.
        ProRata = 2 => "pro_rata",
        /// The oldest first for all that it shows, then in proportion.
        ProRataTop = 3 => "pro_rata_top",
    }
);

wire_enum!(
    /// What moves the stops of an instrument.
    StopTrigger {
        /// The last trade's price.
        LastTrade = 1 => "last_trade",
        /// The best displayed price on the side that the stop would take from.
        BestQuote = 2 => "best_quote",
    }
);

wire_enum!(
    /// What happens where a trade would be outside a price band.
    BandAction {
        /// What is left of the incoming order expires.
        Reject = 1 => "reject",
        /// A volatility auction begins.
        Auction = 2 => "auction",
    }
);

wire_enum!(
    /// What a trade moves.
    Settlement {
        /// Positions of registered accounts only.
        None = 0 => "none",
        /// Base and quote currency, held at order entry.
        Cash = 1 => "cash",
        /// A position against margin.
        Margin = 2 => "margin",
    }
);

wire_enum!(
    /// What a pegged order follows.
    PegReference {
        /// The best displayed bid.
        BestBid = 1 => "best_bid",
        /// The best displayed ask.
        BestAsk = 2 => "best_ask",
        /// The middle between the two.
        Midpoint = 3 => "midpoint",
    }
);

wire_enum!(
    /// What is done instead of a trade within one group.
    SelfTradeAction {
        /// The resting order is canceled.
        CancelResting = 1 => "cancel_resting",
        /// What is left of the incoming order is canceled.
        CancelIncoming = 2 => "cancel_incoming",
        /// Both are canceled.
        CancelBoth = 3 => "cancel_both",
        /// Both lose the smaller open quantity.
        Decrement = 4 => "decrement",
    }
);

wire_enum!(
    /// Whom a kill switch stops.
    KillScope {
        /// Everybody.
        Venue = 1 => "venue",
        /// The users of a participant, and its accounts.
        Participant = 2 => "participant",
        /// An account.
        Account = 3 => "account",
    }
);

wire_enum!(
    /// Which price of an instrument an operator sets.
    PriceKind {
        /// What bands, collars and auctions are measured from.
        Reference = 1 => "reference",
        /// What positions are valued at.
        Mark = 2 => "mark",
    }
);

wire_enum!(
    /// What a user may do.
    Role {
        /// Trades.
        Trader = 1 => "trader",
        /// Trades and administers: users, instruments, phases, end of day.
        Operator = 2 => "operator",
        /// Reads the reports of its participant's sessions, and asks; neither trades nor administers.
        Observer = 3 => "observer",
    }
);

wire_enum!(
    /// State of an order, with the meaning of FIX tag 39.
    OrdStatus {
        /// Rests without an execution.
        New = 1 => "new",
        /// Rests after at least one execution.
        PartiallyFilled = 2 => "partially_filled",
        /// Waits outside the book: for its trigger, its auction, its parent, or a price to follow.
        Waiting = 3 => "waiting",
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
        /// The instrument is closed or delisted.
        InstrumentClosed = 31 => "instrument_closed",
        /// The instrument takes cancels only.
        CancelOnly = 32 => "cancel_only",
        /// The order's type or time in force is not for the instrument's phase.
        NotInThisPhase = 33 => "not_in_this_phase",
        /// More messages in this second than the session may send.
        Throttled = 34 => "throttled",
        /// No such account, or another participant's.
        UnknownAccount = 35 => "unknown_account",
        /// The instrument settles, and the user has no participant whose account could.
        AccountRequired = 36 => "account_required",
        /// A kill switch is on.
        Killed = 37 => "killed",
        /// The quantity is below the instrument's minimum.
        QuantityBelowMinimum = 38 => "quantity_below_minimum",
        /// The display quantities are zero, off the lot, or too large.
        DisplayInvalid = 39 => "display_invalid",
        /// The minimum quantity is zero, off the lot, or above the quantity.
        MinimumInvalid = 40 => "minimum_invalid",
        /// The peg's offset is off the tick or negative.
        PegInvalid = 41 => "peg_invalid",
        /// The trail's distance is zero or off the tick.
        TrailInvalid = 42 => "trail_invalid",
        /// The expiry time has passed.
        ExpireTimePast = 43 => "expire_time_past",
        /// Quantity times price is below the instrument's minimum.
        NotionalBelowMinimum = 44 => "notional_below_minimum",
        /// Quantity times price is above the instrument's maximum.
        NotionalAboveMaximum = 45 => "notional_above_maximum",
        /// No live order of that id could be the parent.
        UnknownParent = 46 => "unknown_parent",
        /// The group or bracket has as many orders as it can.
        GroupFull = 47 => "group_full",
        /// There is no price that the order's own could be made from.
        NoReference = 48 => "no_reference",
        /// A reduce-only order that could make the position larger or turn it.
        ReduceOnlyWouldIncrease = 49 => "reduce_only_would_increase",
        /// Not enough of the currency is free.
        InsufficientFunds = 50 => "insufficient_funds",
        /// Equity is below the margin that would be required.
        InsufficientMargin = 51 => "insufficient_margin",
        /// The entries of a mass quote do not get worse from one to the next, or its two sides meet.
        QuoteInvalid = 52 => "quote_invalid",
        /// Above the account's limit of an order's quantity.
        LimitQuantity = 53 => "limit_quantity",
        /// Above the account's limit of an order's notional.
        LimitNotional = 54 => "limit_notional",
        /// As many orders are open as the account's limit allows.
        LimitOpenOrders = 55 => "limit_open_orders",
        /// The notional of open orders would exceed the account's limit.
        LimitOpenNotional = 56 => "limit_open_notional",
        /// The position could exceed the account's net limit.
        LimitNetPosition = 57 => "limit_net_position",
        /// The position could exceed the account's gross limit.
        LimitGrossPosition = 58 => "limit_gross_position",
        /// The price is too far from the reference price.
        PriceCollar = 59 => "price_collar",
        /// The same order came a moment ago.
        DuplicateOrder = 60 => "duplicate_order",
        /// The time of a scheduled phase has passed.
        SchedulePast = 61 => "schedule_past",
        /// As many phases of the instrument are scheduled as there can be.
        ScheduleFull = 62 => "schedule_full",
        /// No such trade of today that can be busted or corrected.
        UnknownTrade = 63 => "unknown_trade",
        /// An amount outside what can be held.
        AmountInvalid = 64 => "amount_invalid",
        /// As many accounts exist as the capacity allows.
        AccountsFull = 65 => "accounts_full",
        /// Accounts have positions in the instrument.
        PositionsOpen = 66 => "positions_open",
        /// No such currency.
        UnknownCurrency = 67 => "unknown_currency",
        /// The currency, account or user belongs to something else for good.
        AccountExists = 68 => "account_exists",
        /// As many orders of the instrument follow its prices, pegged or trailing, as can.
        FollowingFull = 69 => "following_full",
        /// The operators ordered the request to be skipped, since applying it ended the engine.
        Skipped = 120 => "skipped",
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
        /// It would have traded with an order of its own group.
        SelfTrade = 6 => "self_trade",
        /// Another order of its group traded or ended, or its parent ended without a trade.
        Group = 7 => "group",
        /// The position that it was to reduce became smaller.
        ReduceOnly = 8 => "reduce_only",
        /// A newer mass quote replaced it.
        QuoteReplaced = 9 => "quote_replaced",
        /// A kill switch.
        KillSwitch = 10 => "kill_switch",
        /// The instrument was delisted.
        Delisted = 11 => "delisted",
        /// A triggered buy that the account can't pay.
        InsufficientFunds = 12 => "insufficient_funds",
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
        /// The minimum quantity could not trade at once.
        MinimumQuantity = 5 => "minimum_quantity",
        /// Its expiry time came.
        Expired = 6 => "expired",
        /// The auction that it was for is over.
        AuctionEnd = 7 => "auction_end",
        /// The next trade would have been outside a price band.
        PriceBand = 8 => "price_band",
    }
);

wire_enum!(
    /// Why an order was restated.
    RestateReason {
        /// An order goes on in the new trading day.
        NewDay = 1 => "new_day",
        /// A post-only order was given a price at which it does not trade.
        Slid = 2 => "slid",
        /// An order without a price comes to rest at one.
        Priced = 3 => "priced",
        /// Self-trade prevention took quantity from it.
        Decremented = 4 => "decremented",
        /// Its quantity became what its parent has executed.
        Resized = 5 => "resized",
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
        /// There is no such day or number of reports (drop copies).
        ReportsUnavailable = 9 => "reports_unavailable",
    }
);

/// Options of an order that are one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OrderFlags {
    /// Never takes: rejected where it would trade on entry.
    pub post_only: bool,
    /// With post-only: moved one tick away instead of being rejected.
    pub slide: bool,
    /// Never shown.
    pub hidden: bool,
    /// Must make the account's position smaller.
    pub reduce_only: bool,
}

impl OrderFlags {
    const POST_ONLY: u8 = 1;
    const SLIDE: u8 = 2;
    const HIDDEN: u8 = 4;
    const REDUCE_ONLY: u8 = 8;

    /// The flags of a byte; `None` where an unknown bit is set.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let known = Self::POST_ONLY | Self::SLIDE | Self::HIDDEN | Self::REDUCE_ONLY;
        (byte & !known == 0).then_some(Self {
            post_only: byte & Self::POST_ONLY != 0,
            slide: byte & Self::SLIDE != 0,
            hidden: byte & Self::HIDDEN != 0,
            reduce_only: byte & Self::REDUCE_ONLY != 0,
        })
    }

    /// The byte of the flags.
    #[must_use]
    #[inline]
    pub fn to_byte(self) -> u8 {
        // The lowest bits of the four bytes are moved together by one multiplication.
        ((self.bytes().wrapping_mul(0x0102_0408) >> 24) & 0xf) as u8
    }

    /// Whether only version 1 of the rulebook's flags are set.
    #[must_use]
    #[inline]
    pub fn is_plain(self) -> bool {
        self.bytes() <= 1
    }

    /// One byte of 0 or 1 for each, the first one lowest.
    #[inline]
    fn bytes(self) -> u32 {
        u32::from_le_bytes([
            self.post_only.into(),
            self.slide.into(),
            self.hidden.into(),
            self.reduce_only.into(),
        ])
    }
}
