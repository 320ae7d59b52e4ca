//! A state from the records that it was exported as. It behaves the same and has the same hashes; what is read is checked
//! first, since it comes from a disk.

mod accounts;
mod extra;

use protocol::planted::{Bug, is_on};
use protocol::{
    AccountId, Capacities, Checkpoint, ClOrdId, ClientOrderId, ConnectionId, Credential,
    InstrumentDefinition, InstrumentId, OrderFlags, OrderId, OrderKey, Phase, Price, Quantity, RequestId,
    Role, Sequence, SessionId, Side, Symbol, TimeInForce, Timestamp, TradingDay, UserDefinition, UserName,
};

use self::accounts::AccountsImport;
use crate::CAPACITIES_MAX;
use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::{Exchange, RULEBOOK_VERSION};
use crate::extras::{Extra, Standing};
use crate::instruments::{self, Instrument};
use crate::options;
use crate::orders::Orders;
use crate::record::{
    ExtraRecord, InstrumentRecord, NameRecord, OrderRecord, Record, SessionRecord, SpecialRecord, UserRecord,
    VenueRecord,
};
use crate::sessions::SYSTEM;

/// Orders for which room is made before they come. More are taken, but a wrong number costs no more memory than this.
const RESERVED_MAX: u32 = 1 << 23;

/// Why records are no state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The first record is not the venue's, or a later one is.
    #[error("a state begins with its one venue record")]
    Venue,
    /// A record of a kind that should have come before, or of a number that is not above the one before.
    #[error("a record of kind {0} is out of order")]
    Order(&'static str),
    /// A field's value is none that the field can have.
    #[error("a record's {0} is not valid")]
    Field(&'static str),
    /// A record names something that no record defined.
    #[error("a record names a {0} that does not exist")]
    Unknown(&'static str),
    /// An id that must be unique comes twice.
    #[error("a {0} comes twice")]
    Twice(&'static str),
    /// More of something than its capacity.
    #[error("more {0} than the capacity")]
    Capacity(&'static str),
    /// The venue record announced another number of them.
    #[error("there are {found} {what}, not {announced}")]
    Count {
        /// Of what.
        what: &'static str,
        /// As the venue record says.
        announced: u32,
        /// As came.
        found: u32,
    },
    /// Bids and asks of an instrument overlap.
    #[error("the book of instrument {0} is crossed")]
    Crossed(u32),
}

impl Exchange {
    /// The state that was exported as these records.
    ///
    /// # Errors
    /// [`ImportError`] names the first thing that is wrong.
    pub fn import(records: impl IntoIterator<Item = Record>) -> Result<Self, ImportError> {
        let mut importer = Importer::new();
        for record in records {
            importer.push(&record)?;
        }
        importer.finish()
    }
}

/// Orders whose memory is read together.
const FETCHED_TOGETHER: usize = 32;

/// How far an import has come: kinds of records come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Nothing,
    Sessions,
    Instruments,
    Specials,
    Accounts,
    Orders,
    Names,
}

/// Takes records one by one and becomes a state.
#[derive(Debug)]
pub struct Importer {
    exchange: Exchange,
    stage: Stage,
    /// As the venue record announced them: sessions, instruments, orders, text ids.
    announced: [u32; 4],
    /// Session records so far.
    sessions: u32,
    /// Session or instrument just before.
    last_number: u32,
    accounts: AccountsImport,
    /// What the next order has beyond its line.
    extra: Option<ExtraRecord>,
    /// The order just before.
    last_order: Option<OrderPlace>,
    /// Order ids with their sessions' places and handles, to be listed by session in the order of the ids.
    listed: Vec<(u64, u32, Handle)>,
}

/// Where an order is, for the check of canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OrderPlace {
    instrument: u32,
    section: Section,
    /// Rises from best to worst; of orders that wait, their order id.
    key: i128,
}

/// The parts of an instrument's orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    Displayed(Side),
    Hidden(Side),
    Waiting,
}

impl OrderPlace {
    fn of(instrument: u32, order: &Order, standing: Standing) -> Self {
        let price_key = -i128::from(book::key(order.side, order.price));
        let (section, key) = match standing {
            Standing::Displayed | Standing::Entering => (Section::Displayed(order.side), price_key),
            Standing::Hidden => (Section::Hidden(order.side), price_key),
            Standing::Waiting(_) => (Section::Waiting, order.order_id.0.into()),
        };
        Self { instrument, section, key }
    }
}

impl Default for Importer {
    fn default() -> Self {
        Self::new()
    }
}

impl Importer {
    /// Before the first record.
    #[must_use]
    pub fn new() -> Self {
        Self {
            exchange: Exchange::new(),
            stage: Stage::Nothing,
            announced: [0; 4],
            sessions: 0,
            last_number: 0,
            accounts: AccountsImport::default(),
            extra: None,
            last_order: None,
            listed: Vec::new(),
        }
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// [`ImportError`] names what is wrong; the importer is of no use after it.
    pub fn push(&mut self, record: &Record) -> Result<(), ImportError> {
        match record {
            Record::Venue(venue) => self.venue(venue),
            Record::Session(session) => self.session(session),
            Record::Instrument(instrument) => self.instrument(instrument),
            Record::Special(special) => self.special(special),
            Record::Accounts(record) => {
                self.advance(Stage::Accounts, "account")?;
                self.accounts.push(&mut self.exchange, record)
            }
            Record::Extra(extra) => {
                self.advance(Stage::Orders, "order")?;
                if self.extra.replace((**extra).clone()).is_some() {
                    return Err(ImportError::Order("extra"));
                }
                Ok(())
            }
            Record::Order(order) => self.order(order),
            Record::Name(name) => self.name(name),
        }
    }

    /// Reads ahead what taking in some tens of records will touch, so that their misses wait together. It changes
    /// nothing, and leaving it out changes nothing but speed.
    pub fn fetch(&self, records: &[Record]) {
        let fetched = records.iter().fold(0, |mix, record| match record {
            Record::Order(order) => {
                let session = self.exchange.sessions.place(SessionId(order.session)).unwrap_or(SYSTEM);
                mix ^ self.exchange.orders.touch(session, order.client_order_id).raw()
            }
            _ => mix,
        });
        std::hint::black_box(fetched);
    }

    /// The state, after the last record.
    ///
    /// # Errors
    /// Records are missing, or they contradict each other.
    pub fn finish(mut self) -> Result<Exchange, ImportError> {
        if self.stage == Stage::Nothing {
            return Err(ImportError::Venue);
        }
        self.accounts.finish()?;
        self.advance(Stage::Names, "end")?;
        let counts = self.exchange.counts();
        let found = [self.sessions, counts.instruments, counts.orders, counts.cl_ord_ids];
        for (at, what) in ["sessions", "instruments", "orders", "text ids"].into_iter().enumerate() {
            if found[at] != self.announced[at] {
                return Err(ImportError::Count { what, announced: self.announced[at], found: found[at] });
            }
        }
        // From version 2 on an order that was taken in always finds its level.
        if self.exchange.rulebook_version == 1 && counts.levels > self.exchange.capacities.levels {
            return Err(ImportError::Capacity("levels"));
        }
        let may_not_cross = |one: &Instrument| one.phase == Phase::Continuous && !one.stopped;
        if let Some(crossed) =
            self.exchange.instruments.iter().find(|one| may_not_cross(one) && one.book.is_crossed())
        {
            return Err(ImportError::Crossed(crossed.definition.instrument.0));
        }
        for place in 0..counts.instruments {
            if self.exchange.instruments.get(place).phase.is_auction() {
                self.exchange.sum_up(place);
            }
        }
        if self.extra.is_some() {
            return Err(ImportError::Order("extra"));
        }
        self.exchange.check_parents()?;
        self.listed.sort_unstable_by_key(|(order_id, ..)| *order_id);
        if self.listed.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(ImportError::Twice("order id"));
        }
        for group in self.listed.chunks(FETCHED_TOGETHER) {
            let arena = &self.exchange.orders.arena;
            // In the order of acceptance each order is a miss; read like this, those of a group wait together.
            let fetched = group.iter().fold(0, |mix, (.., handle)| mix ^ arena.links(*handle).older.raw());
            std::hint::black_box(fetched);
            for (_, session, handle) in group {
                self.exchange.sessions.adopt(&mut self.exchange.orders.arena, *session, *handle);
            }
        }
        self.exchange.find_unfinished();
        Ok(self.exchange)
    }

    fn advance(&mut self, stage: Stage, kind: &'static str) -> Result<(), ImportError> {
        if self.stage == Stage::Nothing {
            return Err(ImportError::Venue);
        }
        if stage < self.stage {
            return Err(ImportError::Order(kind));
        }
        if stage > self.stage {
            if self.stage <= Stage::Accounts && stage > Stage::Accounts {
                self.exchange.renew_settling();
            }
            self.stage = stage;
            self.last_number = 0;
        }
        Ok(())
    }

    fn venue(&mut self, record: &VenueRecord) -> Result<(), ImportError> {
        if self.stage != Stage::Nothing {
            return Err(ImportError::Venue);
        }
        let [orders, levels, cl_ord_ids, sessions, instruments] = record.capacities;
        let capacities = Capacities { orders, levels, cl_ord_ids, sessions, instruments };
        let max = &CAPACITIES_MAX;
        if orders > max.orders
            || levels > max.levels
            || cl_ord_ids > max.cl_ord_ids
            || sessions > max.sessions
            || instruments > max.instruments
        {
            return Err(ImportError::Field("capacities"));
        }
        if !(1..=RULEBOOK_VERSION).contains(&record.rulebook_version) {
            return Err(ImportError::Field("rulebook version"));
        }
        let [session_count, instrument_count, order_count, name_count] = record.counts;
        if session_count > sessions + 1
            || instrument_count > instruments
            || order_count > orders
            || name_count > cl_ord_ids
        {
            return Err(ImportError::Capacity("records"));
        }
        let exchange = &mut self.exchange;
        exchange.sequence = Sequence(record.sequence);
        exchange.log_time = Timestamp(record.log_time);
        exchange.trading_day = TradingDay(record.trading_day);
        exchange.rulebook_version = record.rulebook_version;
        exchange.running_hash = record.running_hash;
        exchange.checkpoint = (record.checkpoint_sequence != 0).then_some(Checkpoint {
            sequence: Sequence(record.checkpoint_sequence),
            running_hash: record.checkpoint_hash,
        });
        exchange.last_order_id = record.last_order_id;
        exchange.last_trade_id = record.last_trade_id;
        exchange.seed = record.seed;
        exchange.ignored = record.ignored_frames;
        exchange.capacities = capacities;
        exchange.orders = Orders::with_room(order_count.min(RESERVED_MAX) as usize);
        self.announced = record.counts;
        self.listed.reserve(order_count.min(RESERVED_MAX) as usize);
        self.stage = Stage::Sessions;
        Ok(())
    }

    fn session(&mut self, record: &SessionRecord) -> Result<(), ImportError> {
        self.advance(Stage::Sessions, "session")?;
        let sessions = &mut self.exchange.sessions;
        let place = match &record.user {
            // The server's own session is there from the beginning, and is exported first.
            None if record.session == SessionId::SYSTEM.0 && self.sessions == 0 => SYSTEM,
            Some(user) if record.session > self.last_number => {
                let user = user_definition(record.session, user)?;
                if sessions.by_name(&user.name).is_some() {
                    return Err(ImportError::Twice("user name"));
                }
                sessions.add(user)
            }
            _ => return Err(ImportError::Order("session")),
        };
        self.sessions += 1;
        self.last_number = record.session;
        let session = sessions.get_mut(place);
        let highest_request_id = if is_on(Bug::IdsOutsideSnapshot) { 0 } else { record.highest_request_id };
        session.highest_request_id = RequestId(highest_request_id);
        session.last_report = record.last_report;
        session.connection = record.connection.map(ConnectionId);
        if record.deadline.is_some() {
            sessions.set_deadline(place, record.deadline.map(Timestamp));
        }
        Ok(())
    }

    fn instrument(&mut self, record: &InstrumentRecord) -> Result<(), ImportError> {
        self.advance(Stage::Instruments, "instrument")?;
        let definition = InstrumentDefinition {
            instrument: InstrumentId(record.instrument),
            symbol: Symbol::from_padded(&record.symbol).ok_or(ImportError::Field("symbol"))?,
            price_scale: record.price_scale,
            quantity_scale: record.quantity_scale,
            tick_size: Price(record.tick_size),
            lot_size: Quantity(record.lot_size),
            price_min: Price(record.price_min),
            price_max: Price(record.price_max),
            quantity_max: Quantity(record.quantity_max),
        };
        if !instruments::is_valid(&definition) {
            return Err(ImportError::Field("definition"));
        }
        if record.instrument <= self.last_number {
            return Err(ImportError::Order("instrument"));
        }
        if self.exchange.instruments.by_symbol(&definition.symbol).is_some() {
            return Err(ImportError::Twice("symbol"));
        }
        self.last_number = record.instrument;
        self.exchange.instruments.add(Instrument {
            phase: Phase::from_byte(record.phase).ok_or(ImportError::Field("phase"))?,
            stopped: record.stopped,
            last_trade: record.last_trade.map(Price),
            ..Instrument::new(definition)
        });
        Ok(())
    }

    fn special(&mut self, record: &SpecialRecord) -> Result<(), ImportError> {
        self.advance(Stage::Specials, "special part")?;
        if record.instrument <= self.last_number {
            return Err(ImportError::Order("special part"));
        }
        self.last_number = record.instrument;
        self.exchange.import_special(record)
    }

    fn order(&mut self, record: &OrderRecord) -> Result<(), ImportError> {
        self.advance(Stage::Orders, "order")?;
        let exchange = &mut self.exchange;
        let unknown = ImportError::Unknown;
        let place =
            exchange.instruments.place(InstrumentId(record.instrument)).ok_or(unknown("instrument"))?;
        let session = exchange.sessions.place(SessionId(record.session)).ok_or(unknown("session"))?;
        let extra = match self.extra.take() {
            None => None,
            Some(extra) => Some(extra::extra_of(&extra, exchange.accounts.place(AccountId(record.account)))?),
        };
        let order = order_of(record, place, session, extra.as_ref())?;
        if order.order_id.0 > exchange.last_order_id || order.order_id.0 == 0 {
            return Err(ImportError::Field("order id"));
        }
        let standing = extra.as_ref().map_or(Standing::Displayed, |extra| extra.standing);
        let at = OrderPlace::of(record.instrument, &order, standing);
        if self.last_order.is_some_and(|before| before > at) {
            return Err(ImportError::Order("order"));
        }
        self.last_order = Some(at);
        if exchange.orders.arena.live() >= exchange.capacities.orders {
            return Err(ImportError::Capacity("orders"));
        }
        if exchange.orders.find(session, &OrderKey::Id(order.client_order_id)).is_some() {
            return Err(ImportError::Twice("client order id"));
        }
        let handle = match extra {
            Some(extra) => exchange.import_order(order, extra),
            None => {
                let handle = exchange.orders.admit_unlisted(order);
                let book = &mut exchange.instruments.get_mut(place).book;
                exchange.levels += u32::from(book.append(&mut exchange.orders.arena, handle));
                handle
            }
        };
        self.listed.push((record.order_id, session, handle));
        Ok(())
    }

    fn name(&mut self, record: &NameRecord) -> Result<(), ImportError> {
        self.advance(Stage::Names, "text id")?;
        let exchange = &mut self.exchange;
        let session =
            exchange.sessions.place(SessionId(record.session)).ok_or(ImportError::Unknown("session"))?;
        let characters =
            record.text.get(..usize::from(record.length)).ok_or(ImportError::Field("text id"))?;
        let text = ClOrdId::new(characters).map_err(|_| ImportError::Field("text id"))?;
        let name = exchange
            .orders
            .names
            .claim(session, &text, exchange.capacities.cl_ord_ids)
            .map_err(|_| ImportError::Twice("text id"))?;
        if record.client_order_id == 0 {
            return Ok(());
        }
        let key = OrderKey::Id(ClientOrderId(record.client_order_id));
        let handle = exchange.orders.find(session, &key).ok_or(ImportError::Unknown("order"))?;
        if exchange.orders.arena.links(handle).name.is_some() {
            return Err(ImportError::Twice("order's text id"));
        }
        exchange.orders.rename(handle, name);
        Ok(())
    }
}

fn user_definition(session: u32, record: &UserRecord) -> Result<UserDefinition, ImportError> {
    Ok(UserDefinition {
        session: SessionId(session),
        name: UserName::from_padded(&record.name).ok_or(ImportError::Field("user name"))?,
        credential: Credential { scheme: record.scheme, salt: record.salt, hash: record.hash },
        role: Role::from_byte(record.role).ok_or(ImportError::Field("role"))?,
        enabled: record.enabled,
        cancel_on_disconnect: record.cancel_on_disconnect,
        grace_ms: record.grace_ms,
    })
}

fn order_of(
    record: &OrderRecord,
    instrument: u32,
    session: u32,
    extra: Option<&Extra>,
) -> Result<Order, ImportError> {
    let reserve = extra.map_or(0, |extra| extra.reserve);
    let total = record.leaves.checked_add(record.cum).and_then(|sum| sum.checked_add(reserve));
    if record.leaves == 0 || total.is_none() {
        return Err(ImportError::Field("open quantity"));
    }
    if record.client_order_id == 0 {
        return Err(ImportError::Field("client order id"));
    }
    let time_in_force =
        TimeInForce::from_byte(record.time_in_force).ok_or(ImportError::Field("time in force"))?;
    let is_plain = matches!(time_in_force, TimeInForce::Day | TimeInForce::GoodTillCancel);
    let is_timed = extra.is_some_and(|it| it.terms.expire_time().is_some());
    let good = match extra {
        None => is_plain,
        Some(extra) => {
            is_timed == (time_in_force == TimeInForce::GoodTillDate)
                && (extra.is_child() || options::may_rest(time_in_force))
        }
    };
    if !good {
        return Err(ImportError::Field("time in force"));
    }
    Ok(Order {
        price: Price(record.price),
        leaves: record.leaves,
        cum: record.cum,
        order_id: OrderId(record.order_id),
        client_order_id: ClientOrderId(record.client_order_id),
        session,
        account: AccountId(record.account),
        instrument,
        next: Handle::NONE,
        prev: Handle::NONE,
        side: Side::from_byte(record.side).ok_or(ImportError::Field("side"))?,
        time_in_force,
        flag_bits: OrderFlags::from_byte(record.flags).ok_or(ImportError::Field("flags"))?.to_byte(),
        special: false,
    })
}
