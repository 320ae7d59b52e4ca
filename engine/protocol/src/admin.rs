//! Definitions that operators put into the log: capacities, instruments, users.

use std::fmt;

use zerocopy::little_endian::{I64, U32, U64};

use crate::layout::layout;
use crate::{DecodeError, InstrumentId, Price, Quantity, Role, SessionId};

/// Most characters of an instrument's symbol.
pub const SYMBOL_LENGTH: usize = 16;
/// Most characters of a user name, as SoupBinTCP's login has room for.
pub const USER_NAME_LENGTH: usize = 6;

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $length:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; $length]);

        impl $name {
            /// Takes 1 to the maximum of printable ASCII characters without spaces; `None` for anything else.
            #[must_use]
            pub fn new(text: &str) -> Option<Self> {
                let bytes = text.as_bytes();
                if bytes.is_empty() || bytes.len() > $length || !bytes.iter().all(u8::is_ascii_graphic) {
                    return None;
                }
                let mut padded = [b' '; $length];
                padded[..bytes.len()].copy_from_slice(bytes);
                Some(Self(padded))
            }

            /// Takes the space-padded bytes of a layout.
            #[must_use]
            pub fn from_padded(bytes: &[u8; $length]) -> Option<Self> {
                Self::new(std::str::from_utf8(bytes).ok()?.trim_end_matches(' '))
            }

            /// The space-padded bytes.
            #[must_use]
            pub fn as_padded(&self) -> &[u8; $length] {
                &self.0
            }

            /// The characters without padding.
            #[must_use]
            pub fn as_str(&self) -> &str {
                std::str::from_utf8(&self.0).unwrap_or_default().trim_end_matches(' ')
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                write!(f, "{}({})", stringify!($name), self.as_str())
            }
        }
    };
}

pub(crate) use name;

name!(
    /// An instrument's symbol: 1 to 16 printable ASCII characters.
    Symbol,
    SYMBOL_LENGTH
);
name!(
    /// A user's name: 1 to 6 printable ASCII characters.
    UserName,
    USER_NAME_LENGTH
);

/// How many of each thing the engine holds at most. Equal on all members; a full one is a reject with its own reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Live orders.
    pub orders: u32,
    /// Price levels with orders, over all instruments.
    pub levels: u32,
    /// Text client order ids used in a trading day, over all sessions.
    pub cl_ord_ids: u32,
    /// Sessions.
    pub sessions: u32,
    /// Instruments.
    pub instruments: u32,
}

impl Default for Capacities {
    fn default() -> Self {
        Self {
            orders: 8_000_000,
            levels: 2_000_000,
            cl_ord_ids: 4_000_000,
            sessions: 10_000,
            instruments: 200_000,
        }
    }
}

layout!(
    /// Body of SetCapacities.
    CapacitiesBody: 20 {
        0 orders: U32, 4 levels: U32, 8 cl_ord_ids: U32, 12 sessions: U32, 16 instruments: U32,
    }
);

impl Capacities {
    pub(crate) fn body(&self) -> CapacitiesBody {
        CapacitiesBody {
            orders: self.orders.into(),
            levels: self.levels.into(),
            cl_ord_ids: self.cl_ord_ids.into(),
            sessions: self.sessions.into(),
            instruments: self.instruments.into(),
        }
    }

    pub(crate) fn from_body(body: &CapacitiesBody) -> Self {
        Self {
            orders: body.orders.get(),
            levels: body.levels.get(),
            cl_ord_ids: body.cl_ord_ids.get(),
            sessions: body.sessions.get(),
            instruments: body.instruments.get(),
        }
    }
}

/// An instrument's grid and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentDefinition {
    /// Its number, chosen by the operator.
    pub instrument: InstrumentId,
    /// Its symbol, unique in the venue.
    pub symbol: Symbol,
    /// Decimals of a price: a [`Price`] of 1 is 10^-price_scale. At most 12.
    pub price_scale: u8,
    /// Decimals of a quantity: a [`Quantity`] of 1 is 10^-quantity_scale. At most 12.
    pub quantity_scale: u8,
    /// Every price is a multiple of it. Above zero.
    pub tick_size: Price,
    /// Every quantity is a multiple of it. Above zero.
    pub lot_size: Quantity,
    /// Lowest price of an order. Zero and negative prices are allowed where this allows them.
    pub price_min: Price,
    /// Highest price of an order.
    pub price_max: Price,
    /// Largest quantity of an order.
    pub quantity_max: Quantity,
}

layout!(
    /// Body of PutInstrument, and of the InstrumentDefinition answer.
    InstrumentBody: 58 {
        0 symbol: [u8; SYMBOL_LENGTH],
        16 tick_size: I64,
        24 lot_size: U64,
        32 price_min: I64,
        40 price_max: I64,
        48 quantity_max: U64,
        56 price_scale: u8,
        57 quantity_scale: u8,
    }
);

impl InstrumentDefinition {
    pub(crate) fn body(&self) -> InstrumentBody {
        InstrumentBody {
            symbol: *self.symbol.as_padded(),
            tick_size: self.tick_size.0.into(),
            lot_size: self.lot_size.0.into(),
            price_min: self.price_min.0.into(),
            price_max: self.price_max.0.into(),
            quantity_max: self.quantity_max.0.into(),
            price_scale: self.price_scale,
            quantity_scale: self.quantity_scale,
        }
    }

    pub(crate) fn from_body(instrument: InstrumentId, body: &InstrumentBody) -> Result<Self, DecodeError> {
        Ok(Self {
            instrument,
            symbol: Symbol::from_padded(&body.symbol).ok_or(DecodeError::Field("symbol"))?,
            price_scale: body.price_scale,
            quantity_scale: body.quantity_scale,
            tick_size: Price(body.tick_size.get()),
            lot_size: Quantity(body.lot_size.get()),
            price_min: Price(body.price_min.get()),
            price_max: Price(body.price_max.get()),
            quantity_max: Quantity(body.quantity_max.get()),
        })
    }
}

/// A password's Argon2id hash with its salt. The parameters belong to the scheme's number and are fixed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Credential {
    /// Number of the scheme: 1 = Argon2id, 19 MiB, 2 passes, 1 lane. Another one never verifies.
    pub scheme: u8,
    /// Random salt.
    pub salt: [u8; 16],
    /// The hash.
    pub hash: [u8; 32],
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credential(scheme {})", self.scheme)
    }
}

/// A user and its one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserDefinition {
    /// The user's session, chosen by the operator. Never 0.
    pub session: SessionId,
    /// The login name, unique in the venue.
    pub name: UserName,
    /// What the password must hash to.
    pub credential: Credential,
    /// What the user may do.
    pub role: Role,
    /// A disabled user can't log in; its resting orders stay.
    pub enabled: bool,
    /// Whether the loss of the connection cancels the session's orders.
    pub cancel_on_disconnect: bool,
    /// How long after the loss of the connection they are canceled, in milliseconds; a login in time prevents it.
    pub grace_ms: u32,
}

layout!(
    /// Body of PutUser.
    UserBody: 66 {
        0 session: U32,
        4 grace_ms: U32,
        8 name: [u8; USER_NAME_LENGTH],
        14 scheme: u8,
        15 role: u8,
        16 salt: [u8; 16],
        32 hash: [u8; 32],
        64 enabled: u8,
        65 cancel_on_disconnect: u8,
    }
);

pub(crate) fn flag(byte: u8, field: &'static str) -> Result<bool, DecodeError> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Field(field)),
    }
}

impl UserDefinition {
    pub(crate) fn body(&self) -> UserBody {
        UserBody {
            session: self.session.0.into(),
            grace_ms: self.grace_ms.into(),
            name: *self.name.as_padded(),
            scheme: self.credential.scheme,
            role: self.role.to_byte(),
            salt: self.credential.salt,
            hash: self.credential.hash,
            enabled: u8::from(self.enabled),
            cancel_on_disconnect: u8::from(self.cancel_on_disconnect),
        }
    }

    pub(crate) fn from_body(body: &UserBody) -> Result<Self, DecodeError> {
        Ok(Self {
            session: SessionId(body.session.get()),
            name: UserName::from_padded(&body.name).ok_or(DecodeError::Field("name"))?,
            credential: Credential { scheme: body.scheme, salt: body.salt, hash: body.hash },
            role: Role::from_byte(body.role).ok_or(DecodeError::Field("role"))?,
            enabled: flag(body.enabled, "enabled")?,
            cancel_on_disconnect: flag(body.cancel_on_disconnect, "cancel_on_disconnect")?,
            grace_ms: body.grace_ms.get(),
        })
    }
}
