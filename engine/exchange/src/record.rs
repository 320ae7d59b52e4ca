//! The records that a state is exported as: plain structs of raw numbers, archived by rkyv. Their meaning is versioned by
//! the snapshot that holds them.
//!
//! The order is canonical: the venue, the server's own session and the users by session id, the instruments by number,
//! what some of them have beyond their definition in the same order, accounts, the orders by instrument, and the text ids
//! of the trading day in the order of their use. Orders of an instrument are
//! displayed bids and asks, hidden bids and asks, each best price first, oldest in the queue first, and then those that
//! wait, by order id; a special one comes behind its [`Record::Extra`].

use protocol::StreamHash;
use rkyv::{Archive, Deserialize, Serialize};

pub(crate) mod accounts;
mod extra;
mod special;

use self::accounts::AccountsRecord;
pub use self::extra::ExtraRecord;
pub use self::special::{ChangeRecord, SpecialRecord, ToldRecord};

/// One piece of the state.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub enum Record {
    /// What there is one of. The first record.
    Venue(Box<VenueRecord>),
    /// A session and its user.
    Session(Box<SessionRecord>),
    /// An instrument.
    Instrument(Box<InstrumentRecord>),
    /// What an instrument has beyond its definition.
    Special(Box<SpecialRecord>),
    /// A piece of what accounts are.
    Accounts(Box<AccountsRecord>),
    /// What the order of the next record has beyond it.
    Extra(Box<ExtraRecord>),
    /// A live order, behind all that come before it in its queue.
    Order(OrderRecord),
    /// A text id used today.
    Name(NameRecord),
}

/// Counters, hashes and capacities.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct VenueRecord {
    /// Last frame applied.
    pub sequence: u64,
    /// Log time there, Unix nanoseconds.
    pub log_time: u64,
    /// Running hash there.
    pub running_hash: u64,
    /// Sequence of the last tick; 0 where there was none.
    pub checkpoint_sequence: u64,
    /// Running hash there.
    pub checkpoint_hash: u64,
    /// Number of the last order accepted.
    pub last_order_id: u64,
    /// Number of the last trade.
    pub last_trade_id: u64,
    /// Seed of what is drawn.
    pub seed: u64,
    /// Frames of sessions that don't exist.
    pub ignored_frames: u64,
    /// Trading day.
    pub trading_day: u32,
    /// Version of the rules in force.
    pub rulebook_version: u32,
    /// Capacities: orders, levels, text ids, sessions, instruments.
    pub capacities: [u32; 5],
    /// How many records follow: sessions (the server's own included), instruments, orders, text ids.
    pub counts: [u32; 4],
}

/// A session with its user.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Highest request id used.
    pub highest_request_id: u64,
    /// Reports of the trading day.
    pub last_report: u64,
    /// When its orders are canceled, Unix nanoseconds.
    pub deadline: Option<u64>,
    /// Its number.
    pub session: u32,
    /// The live connection.
    pub connection: Option<u32>,
    /// The user; the server's own session has none.
    pub user: Option<UserRecord>,
}

/// A user's definition.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct UserRecord {
    /// Grace of cancel-on-disconnect in milliseconds.
    pub grace_ms: u32,
    /// Name, padded with spaces.
    pub name: [u8; 6],
    /// Number of the credential's scheme.
    pub scheme: u8,
    /// Byte of the role.
    pub role: u8,
    /// Salt of the credential.
    pub salt: [u8; 16],
    /// Hash of the credential.
    pub hash: [u8; 32],
    /// May log in.
    pub enabled: bool,
    /// Cancels on disconnect.
    pub cancel_on_disconnect: bool,
}

/// An instrument's definition and phase.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct InstrumentRecord {
    /// Its number.
    pub instrument: u32,
    /// Symbol, padded with spaces.
    pub symbol: [u8; 16],
    /// Decimals of a price.
    pub price_scale: u8,
    /// Decimals of a quantity.
    pub quantity_scale: u8,
    /// Byte of the phase.
    pub phase: u8,
    /// Stopped for good after a breach.
    pub stopped: bool,
    /// Tick size.
    pub tick_size: i64,
    /// Lot size.
    pub lot_size: u64,
    /// Lowest price.
    pub price_min: i64,
    /// Highest price.
    pub price_max: i64,
    /// Largest quantity.
    pub quantity_max: u64,
    /// Price of the last trade.
    pub last_trade: Option<i64>,
}

/// A live order.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct OrderRecord {
    /// Price at which it rests; 0 of an order that waits.
    pub price: i64,
    /// What is left in its queue.
    pub leaves: u64,
    /// Executed so far.
    pub cum: u64,
    /// The venue's order id.
    pub order_id: u64,
    /// The owner's id of the order.
    pub client_order_id: u64,
    /// The owner.
    pub session: u32,
    /// The account.
    pub account: u32,
    /// The instrument.
    pub instrument: u32,
    /// Byte of the side.
    pub side: u8,
    /// Byte of the time in force.
    pub time_in_force: u8,
    /// Byte of the flags.
    pub flags: u8,
}

/// A text id used today.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct NameRecord {
    /// Client order id of the live order whose current one it is; 0 where there is none.
    pub client_order_id: u64,
    /// The session.
    pub session: u32,
    /// Characters.
    pub length: u8,
    /// The characters, then zeros.
    pub text: [u8; 36],
}

const _: () = assert!(size_of::<ArchivedRecord>() == 64, "most of a snapshot is orders of this size");

impl Record {
    /// Takes every field into a hash.
    pub(crate) fn fold(&self, hash: &mut StreamHash) {
        match self {
            Self::Venue(venue) => venue.fold(hash),
            Self::Session(session) => {
                hash.pair(2, session.session.into());
                hash.pair(session.highest_request_id, session.last_report);
                hash.pair(session.deadline.is_some().into(), session.deadline.unwrap_or(0));
                hash.pair(session.connection.is_some().into(), session.connection.unwrap_or(0).into());
                if let Some(user) = &session.user {
                    user.fold(hash);
                }
            }
            Self::Instrument(instrument) => {
                hash.pair(4, instrument.instrument.into());
                hash.bytes(&instrument.symbol);
                let flags = [
                    instrument.price_scale,
                    instrument.quantity_scale,
                    instrument.phase,
                    instrument.stopped.into(),
                ];
                hash.pair(u32::from_le_bytes(flags).into(), instrument.tick_size as u64);
                hash.pair(instrument.lot_size, instrument.price_min as u64);
                hash.pair(instrument.price_max as u64, instrument.quantity_max);
                if let Some(price) = instrument.last_trade {
                    hash.word(price as u64);
                }
            }
            Self::Special(special) => special.fold(hash),
            Self::Accounts(record) => record.fold(hash),
            Self::Extra(extra) => extra.fold(hash),
            Self::Order(order) => {
                let detail = u32::from_le_bytes([order.side, order.time_in_force, order.flags, 5]);
                hash.pair(u64::from(order.instrument) << 32 | u64::from(detail), order.price as u64);
                hash.pair(order.leaves, order.cum);
                hash.pair(order.order_id, order.client_order_id);
                hash.pair(order.session.into(), order.account.into());
            }
            Self::Name(name) => {
                hash.pair(6, name.session.into());
                hash.pair(name.client_order_id, name.length.into());
                hash.bytes(&name.text);
            }
        }
    }
}

impl UserRecord {
    fn fold(&self, hash: &mut StreamHash) {
        hash.word(3);
        hash.bytes(&self.name);
        hash.bytes(&self.salt);
        hash.bytes(&self.hash);
        let flags = [self.scheme, self.role, self.enabled.into(), self.cancel_on_disconnect.into()];
        hash.pair(self.grace_ms.into(), u32::from_le_bytes(flags).into());
    }
}

impl VenueRecord {
    fn fold(&self, hash: &mut StreamHash) {
        hash.pair(1, self.sequence);
        hash.pair(self.log_time, self.running_hash);
        hash.pair(self.checkpoint_sequence, self.checkpoint_hash);
        hash.pair(self.last_order_id, self.last_trade_id);
        hash.word(self.seed);
        hash.pair(self.ignored_frames, self.trading_day.into());
        hash.word(self.rulebook_version.into());
        for number in self.capacities.iter().chain(&self.counts) {
            hash.word((*number).into());
        }
    }
}
