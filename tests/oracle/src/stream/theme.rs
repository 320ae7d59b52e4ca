//! What a stream is about: which kinds of orders it has, and what operators do in it.

/// What a stream is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Theme {
    /// What version 1 of the rulebook has, under either version.
    Plain,
    /// Everything.
    Mixed,
    /// Icebergs, hidden orders, minimum quantities, market-to-limit and their like.
    Kinds,
    /// Stops and trailing stops.
    Stops,
    /// Pegged orders.
    Pegs,
    /// Groups and brackets.
    Groups,
    /// Mass quotes.
    Quotes,
    /// Pro-rata allocation, with self-trade prevention.
    ProRata,
    /// Phases, auctions, bands.
    Auctions,
    /// Accounts that hold money.
    Cash,
    /// Accounts that have margin.
    Margin,
    /// Limits, throttles and kill switches.
    Limits,
}

/// What makes an order one of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Iceberg,
    Hidden,
    Minimum,
    Slide,
    ToLimit,
    Protected,
    Stop,
    Trail,
    Peg,
    Oco,
    Child,
    SelfTrade,
    ReduceOnly,
    Auction,
    Dated,
    /// Options that may contradict each other.
    Any,
}

impl Theme {
    /// Every theme.
    pub const ALL: [Self; 12] = [
        Self::Plain,
        Self::Mixed,
        Self::Kinds,
        Self::Stops,
        Self::Pegs,
        Self::Groups,
        Self::Quotes,
        Self::ProRata,
        Self::Auctions,
        Self::Cash,
        Self::Margin,
        Self::Limits,
    ];

    /// The theme of the stream of a seed.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        Self::ALL[(seed % Self::ALL.len() as u64) as usize]
    }

    /// Whether its streams use what version 2 of the rulebook has.
    pub(super) fn is_special(self) -> bool {
        self != Self::Plain
    }

    /// One in how many commands may be administrative or concern a connection.
    pub(super) fn calms(self) -> &'static [u64] {
        match self {
            Self::Auctions | Self::Cash | Self::Margin | Self::Limits => &[8, 12, 25],
            Self::Mixed => &[10, 20, 60],
            _ => &[12, 40, 200],
        }
    }

    /// One in how many new orders is a mass quote.
    pub(super) fn quotes(self) -> u64 {
        match self {
            Self::Plain => 2_000,
            Self::Quotes => 3,
            _ => 25,
        }
    }

    /// Whether users have participants from the start.
    pub(super) fn has_accounts(self) -> bool {
        matches!(self, Self::Mixed | Self::Cash | Self::Margin | Self::Limits)
    }

    /// Whether trades move money from the start.
    pub(super) fn settles(self) -> bool {
        matches!(self, Self::Mixed | Self::Cash | Self::Margin)
    }

    /// Kinds of orders; each is as likely as the others, repeated ones more so.
    pub(super) fn kinds(self) -> &'static [Kind] {
        use Kind::{
            Any, Auction, Child, Dated, Hidden, Iceberg, Minimum, Oco, Peg, Plain, Protected, ReduceOnly,
            SelfTrade, Slide, Stop, ToLimit, Trail,
        };
        match self {
            Self::Plain => &[Plain],
            Self::Mixed => &[
                Plain, Plain, Plain, Plain, Plain, Plain, Iceberg, Hidden, Minimum, Slide, ToLimit,
                Protected, Stop, Trail, Peg, Oco, Child, SelfTrade, ReduceOnly, Auction, Dated, Any,
            ],
            Self::Kinds => &[
                Plain, Plain, Plain, Iceberg, Iceberg, Hidden, Hidden, Minimum, Minimum, Slide, ToLimit,
                Protected, SelfTrade, Dated, Any,
            ],
            Self::Stops => &[Plain, Plain, Plain, Plain, Stop, Stop, Stop, Trail, Trail, Iceberg, Any],
            Self::Pegs => &[Plain, Plain, Plain, Plain, Peg, Peg, Peg, Hidden, Minimum, Stop, Iceberg],
            Self::Groups => &[Plain, Plain, Plain, Oco, Oco, Oco, Child, Child, Child, Stop, Trail, Dated],
            Self::Quotes => &[Plain, Plain, Plain, Iceberg, Hidden, SelfTrade, Stop],
            Self::ProRata => &[Plain, Plain, Plain, Plain, Iceberg, Iceberg, Hidden, SelfTrade, Minimum],
            Self::Auctions => &[
                Plain, Plain, Plain, Auction, Auction, Auction, Iceberg, Hidden, Stop, Peg, Minimum, Dated,
                SelfTrade, Slide,
            ],
            Self::Cash | Self::Margin => &[
                Plain, Plain, Plain, Plain, Plain, ReduceOnly, Stop, Iceberg, Peg, ToLimit, Auction,
                SelfTrade, Oco, Child, Minimum,
            ],
            Self::Limits => &[Plain, Plain, Plain, Plain, ReduceOnly, ReduceOnly, Stop, Iceberg, SelfTrade],
        }
    }
}
