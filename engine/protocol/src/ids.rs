//! Newtypes for every id and number that travels through the engine. Two bare `u64` arguments are a bug.

use std::fmt;

macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

newtype!(
    /// Position of a frame in the log. The first frame is 1; 0 means that nothing has happened yet.
    Sequence(u64)
);
newtype!(
    /// Leadership term. A server alone stays in term 1.
    Term(u64)
);
newtype!(
    /// Nanoseconds since the Unix epoch.
    Timestamp(u64)
);
newtype!(
    /// A user's durable session. 0 is the server itself.
    SessionId(u32)
);
newtype!(
    /// One TCP connection. Numbers may be used again after a restart, since a start marks all connections lost.
    ConnectionId(u32)
);
newtype!(
    /// Id of a request in its session's one rising series, from 1.
    RequestId(u64)
);
newtype!(
    /// The request id of the order's own new-order request: how the owner names the order for life.
    ClientOrderId(u64)
);
newtype!(
    /// Venue-wide order number, given in the order of acceptance, from 1.
    OrderId(u64)
);
newtype!(
    /// Venue-wide trade number, from 1.
    TradeId(u64)
);
newtype!(
    /// Number of a report within its session and trading day, from 1, without gaps.
    ReportNumber(u64)
);
newtype!(
    /// Number of an instrument, chosen by the operator.
    InstrumentId(u32)
);
newtype!(
    /// Account an order is for. 0 is the session's only account.
    AccountId(u32)
);
newtype!(
    /// Who owns users and accounts. 0 is nobody.
    ParticipantId(u32)
);
newtype!(
    /// Accounts that share a fee schedule. 0 is all that have none of their own.
    AccountGroup(u32)
);
newtype!(
    /// Trading day, counted from 1 by the logged ends of day.
    TradingDay(u32)
);
newtype!(
    /// Price in the instrument's smallest price unit (10^-price_scale of the quote currency).
    Price(i64)
);
newtype!(
    /// Quantity in the instrument's smallest quantity unit (10^-quantity_scale).
    Quantity(u64)
);

impl Sequence {
    /// The sequence after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl SessionId {
    /// The server itself: configuration at start, ticks, starts.
    pub const SYSTEM: Self = Self(0);
}

/// A client order id given as text (FIX ClOrdID), 1 to 36 printable ASCII characters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClOrdId {
    length: u8,
    bytes: [u8; ClOrdId::LENGTH_MAX],
}

/// Why bytes are not a [`ClOrdId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClOrdIdError {
    /// Empty, or longer than [`ClOrdId::LENGTH_MAX`].
    #[error("a client order id has 1 to 36 characters, not {0}")]
    Length(usize),
    /// A byte outside 0x21..=0x7e.
    #[error("a client order id holds only printable ASCII characters without spaces")]
    Character,
}

impl ClOrdId {
    /// Most characters of a client order id.
    pub const LENGTH_MAX: usize = 36;

    /// Takes 1 to 36 printable ASCII characters without spaces.
    ///
    /// # Errors
    /// [`ClOrdIdError`] names what is wrong.
    pub fn new(bytes: &[u8]) -> Result<Self, ClOrdIdError> {
        if bytes.is_empty() || bytes.len() > Self::LENGTH_MAX {
            return Err(ClOrdIdError::Length(bytes.len()));
        }
        if !bytes.iter().all(u8::is_ascii_graphic) {
            return Err(ClOrdIdError::Character);
        }
        let mut id = Self { length: bytes.len() as u8, bytes: [0; Self::LENGTH_MAX] };
        id.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(id)
    }

    /// The characters as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for ClOrdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for ClOrdId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClOrdId({self})")
    }
}

/// Money in a currency's smallest unit, negative where it is owed. Wide, since it is a product of price and quantity.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C, packed(8))]
pub struct Amount(i128);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So much.
    #[must_use]
    pub fn new(units: i128) -> Self {
        Self(units)
    }

    /// How much.
    #[must_use]
    pub fn get(self) -> i128 {
        self.0
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Amount({})", self.get())
    }
}
