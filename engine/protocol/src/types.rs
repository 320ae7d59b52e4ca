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

pub(crate) use wire_enum;

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
