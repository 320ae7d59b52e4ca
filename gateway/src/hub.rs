//! From the output stage to the connections: wakes and verdicts, and the tables of users and instruments.
//!
//! [`HubEgress`] runs on an engine thread. For reports it looks into maps of its own and wakes tasks; it takes no lock of
//! ours, but where an observer came or went since it last looked. Logins and definitions, which are rare, take a lock that gateways hold no longer than it takes to copy one
//! entry, never across I/O or a wait. How many reports there are is the report log's to say, so it is not kept here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::{
    ConnectionId, Egress, EndReason, InstrumentDefinition, InstrumentId, InstrumentQuery, Joined, LoggedIn,
    LoginRefused, Notice, ParticipantId, ReportNumber, Role, SessionId, Symbol, TradingDay, UserDefinition,
    UserName,
};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// What a hub knows at the start, from the recovered exchange.
#[derive(Clone, Debug, Default)]
pub struct HubSeed {
    /// The current trading day.
    pub trading_day: TradingDay,
    /// Connections are numbered from behind this one. Processes whose frames can come into one log, the members of a cluster
    /// and each start of them, take places of their own, so that what is told of another's connection reaches nobody here.
    pub last_connection: ConnectionId,
    /// All users.
    pub users: Vec<UserDefinition>,
    /// Participants of sessions that have one.
    pub participants: Vec<(SessionId, ParticipantId, Joined)>,
    /// All instruments.
    pub instruments: Vec<InstrumentDefinition>,
}

/// What the exchange said to a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginVerdict {
    /// The connection has the session.
    LoggedIn(LoggedIn),
    /// It doesn't get it.
    Refused(LoginRefused),
}

/// What all gateways of a server share. Clones are the same hub.
#[derive(Clone, Debug)]
pub struct Hub {
    shared: Arc<Shared>,
}

/// The output stage's end of a hub. There is one.
#[derive(Debug)]
pub struct HubEgress {
    shared: Arc<Shared>,
    live: HashMap<SessionId, Arc<Mailbox>>,
    /// The shared table as it was at `watched_version`.
    watched: Watched,
    watched_version: u64,
}

/// Who is to be woken for another session's reports.
type Watched = HashMap<SessionId, Vec<Arc<Mailbox>>>;

/// A connection's end of a hub, and its number. Dropping it gives the place back.
#[derive(Debug)]
pub struct Port {
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Stored with Release after the last notice of the old day, so that who loads the new one (Acquire) finds all reports
    /// of the old one in the report log.
    day: AtomicU32,
    last_connection: AtomicU32,
    ports: Mutex<HashMap<ConnectionId, Arc<Mailbox>>>,
    definitions: Mutex<Definitions>,
    watched: Mutex<Watched>,
    /// Rises with each change of `watched`, under its lock; read without it. An observer that comes while a report is told may
    /// miss the wake-up for that one: it looks by itself at least once a heartbeat.
    watched_version: AtomicU64,
}

#[derive(Debug)]
struct Mailbox {
    connection: ConnectionId,
    wake: Notify,
    verdict: Mutex<Option<LoginVerdict>>,
    /// An [`EndReason`]'s byte, 0 while the connection is live. Stored with Release after the reports that came before it,
    /// loaded with Acquire before the report log is read.
    ended: AtomicU8,
}

#[derive(Debug, Default)]
struct Definitions {
    users: HashMap<UserName, UserDefinition>,
    names: HashMap<SessionId, UserName>,
    participants: HashMap<SessionId, (ParticipantId, Joined)>,
    instruments: HashMap<InstrumentId, InstrumentDefinition>,
    symbols: HashMap<Symbol, InstrumentId>,
}

/// A panic under one of these locks would be a broken invariant, which ends the process; the data is whole in any case.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Definitions {
    fn put_user(&mut self, user: &UserDefinition) {
        if let Some(old) = self.names.insert(user.session, user.name)
            && old != user.name
        {
            self.users.remove(&old);
        }
        self.users.insert(user.name, *user);
    }

    fn put_participant(&mut self, session: SessionId, participant: ParticipantId, joined: Joined) {
        if participant == ParticipantId(0) {
            self.participants.remove(&session);
        } else {
            self.participants.insert(session, (participant, joined));
        }
    }

    /// The first report of a day that a session's user may read of another session: an operator any user's, an observer
    /// those of its participant's, from when they became so (rule 96). `None`: it may read none.
    fn may_observe(&self, observer: SessionId, session: SessionId, day: TradingDay) -> Option<ReportNumber> {
        let role = self.names.get(&observer).and_then(|name| self.users.get(name)).map(|user| user.role);
        match role {
            Some(Role::Operator) => self.names.contains_key(&session).then_some(ReportNumber(1)),
            Some(Role::Observer) => {
                let (own, _) = self.participants.get(&observer)?;
                let (of, joined) = self.participants.get(&session)?;
                joined.first_of(day).filter(|_| own == of)
            }
            Some(Role::Trader) | None => None,
        }
    }

    fn put_instrument(&mut self, instrument: &InstrumentDefinition) {
        self.symbols.insert(instrument.symbol, instrument.instrument);
        self.instruments.insert(instrument.instrument, *instrument);
    }
}

impl Hub {
    /// A hub and the end that the output stage notifies.
    #[must_use]
    pub fn new(seed: &HubSeed) -> (Self, HubEgress) {
        let mut definitions = Definitions::default();
        seed.users.iter().for_each(|user| definitions.put_user(user));
        for (session, of, joined) in &seed.participants {
            definitions.put_participant(*session, *of, *joined);
        }
        seed.instruments.iter().for_each(|instrument| definitions.put_instrument(instrument));
        let shared = Arc::new(Shared {
            day: AtomicU32::new(seed.trading_day.0),
            last_connection: AtomicU32::new(seed.last_connection.0),
            ports: Mutex::default(),
            definitions: Mutex::new(definitions),
            watched: Mutex::default(),
            watched_version: AtomicU64::new(0),
        });
        let egress = HubEgress {
            shared: Arc::clone(&shared),
            live: HashMap::new(),
            watched: Watched::new(),
            watched_version: 0,
        };
        (Self { shared }, egress)
    }

    /// The current trading day, as far as told.
    #[must_use]
    pub fn trading_day(&self) -> TradingDay {
        TradingDay(self.shared.day.load(Ordering::Acquire))
    }

    /// The user of a login name.
    #[must_use]
    pub fn user(&self, name: UserName) -> Option<UserDefinition> {
        lock(&self.shared.definitions).users.get(&name).copied()
    }

    /// All users.
    #[must_use]
    pub fn users(&self) -> Vec<UserDefinition> {
        lock(&self.shared.definitions).users.values().copied().collect()
    }

    /// All instruments.
    #[must_use]
    pub fn instruments(&self) -> Vec<InstrumentDefinition> {
        lock(&self.shared.definitions).instruments.values().copied().collect()
    }

    /// The instrument that a question is about.
    #[must_use]
    pub fn instrument(&self, query: &InstrumentQuery) -> Option<InstrumentDefinition> {
        let definitions = lock(&self.shared.definitions);
        let number = match &query.symbol {
            Some(symbol) => definitions.symbols.get(symbol)?,
            None => &query.instrument,
        };
        definitions.instruments.get(number).copied()
    }

    /// The first report of a day that a session's user may read of another session now; `None`: it may read none.
    #[must_use]
    pub fn may_observe(
        &self,
        observer: SessionId,
        session: SessionId,
        day: TradingDay,
    ) -> Option<ReportNumber> {
        lock(&self.shared.definitions).may_observe(observer, session, day)
    }

    /// Gives a connection its number and its mailbox. A number comes again only after four billion others, and never one that
    /// is in use.
    #[must_use]
    pub fn connect(&self) -> Port {
        let mut ports = lock(&self.shared.ports);
        let connection = loop {
            let number = self.shared.last_connection.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let connection = ConnectionId(number);
            if number != 0 && !ports.contains_key(&connection) {
                break connection;
            }
        };
        let mailbox = Arc::new(Mailbox {
            connection,
            wake: Notify::new(),
            verdict: Mutex::default(),
            ended: AtomicU8::new(0),
        });
        ports.insert(connection, Arc::clone(&mailbox));
        Port { mailbox, shared: Arc::clone(&self.shared) }
    }

    /// Wakes every connection of every gateway.
    pub(crate) fn wake_all(&self) {
        lock(&self.shared.ports).values().for_each(|mailbox| mailbox.wake.notify_one());
    }
}

impl Port {
    /// The connection's number.
    #[must_use]
    pub fn connection(&self) -> ConnectionId {
        self.mailbox.connection
    }

    /// Completes once something was told since it last completed.
    pub fn told(&self) -> Notified<'_> {
        self.mailbox.wake.notified()
    }

    /// The verdict on the login, once.
    #[must_use]
    pub fn take_verdict(&self) -> Option<LoginVerdict> {
        lock(&self.mailbox.verdict).take()
    }

    /// Wakes the connection for another session's reports, too, for as long as it is there.
    pub fn observe(&self, session: SessionId) {
        self.shared.change_watched(|watched| {
            let observers = watched.entry(session).or_default();
            if !observers.iter().any(|observer| Arc::ptr_eq(observer, &self.mailbox)) {
                observers.push(Arc::clone(&self.mailbox));
            }
        });
    }

    /// Whether anybody is woken for another session's reports.
    fn watches(&self) -> bool {
        let is_own = |observer: &Arc<Mailbox>| Arc::ptr_eq(observer, &self.mailbox);
        lock(&self.shared.watched).values().any(|observers| observers.iter().any(is_own))
    }

    /// Why the exchange ended the connection, once it did.
    #[must_use]
    pub fn ended(&self) -> Option<EndReason> {
        EndReason::from_byte(self.mailbox.ended.load(Ordering::Acquire))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        lock(&self.shared.ports).remove(&self.mailbox.connection);
        if self.watches() {
            self.shared.change_watched(|watched| {
                watched.retain(|_, observers| {
                    observers.retain(|observer| !Arc::ptr_eq(observer, &self.mailbox));
                    !observers.is_empty()
                });
            });
        }
    }
}

impl Shared {
    fn change_watched(&self, change: impl FnOnce(&mut Watched)) {
        let mut watched = lock(&self.watched);
        change(&mut watched);
        // Pairs with the load of the egress, which then takes the lock.
        self.watched_version.fetch_add(1, Ordering::Release);
    }
}

impl HubEgress {
    /// Wakes whoever reads a session's reports.
    fn wake_readers(&mut self, session: SessionId) {
        if let Some(mailbox) = self.live.get(&session) {
            mailbox.wake.notify_one();
        }
        let version = self.shared.watched_version.load(Ordering::Acquire);
        if version != self.watched_version {
            self.watched = lock(&self.shared.watched).clone();
            self.watched_version = version;
        }
        if !self.watched.is_empty()
            && let Some(observers) = self.watched.get(&session)
        {
            observers.iter().for_each(|observer| observer.wake.notify_one());
        }
    }

    fn verdict(&mut self, connection: ConnectionId, verdict: LoginVerdict) {
        // A connection that is not here is of another start, or gone; its Disconnect frame is on its way.
        let Some(mailbox) = lock(&self.shared.ports).get(&connection).cloned() else { return };
        *lock(&mailbox.verdict) = Some(verdict);
        mailbox.wake.notify_one();
        if let LoginVerdict::LoggedIn(logged_in) = verdict {
            self.live.insert(logged_in.session, mailbox);
        }
    }

    fn ended(&mut self, session: SessionId, connection: ConnectionId, reason: EndReason) {
        if self.live.get(&session).is_some_and(|mailbox| mailbox.connection == connection)
            && let Some(mailbox) = self.live.remove(&session)
        {
            mailbox.ended.store(reason.to_byte(), Ordering::Release);
            mailbox.wake.notify_one();
        }
    }
}

impl Egress for HubEgress {
    fn notify(&mut self, notice: Notice) {
        match notice {
            Notice::Reports(session, _, _) => self.wake_readers(session),
            Notice::LoggedIn(verdict) => self.verdict(verdict.connection, LoginVerdict::LoggedIn(verdict)),
            Notice::LoginRefused(verdict) => {
                self.verdict(verdict.connection, LoginVerdict::Refused(verdict));
            }
            Notice::ConnectionEnded(session, connection, reason) => self.ended(session, connection, reason),
            Notice::DayStarted(day) => {
                self.shared.day.store(day.0, Ordering::Release);
                self.live.values().for_each(|mailbox| mailbox.wake.notify_one());
            }
            Notice::Instrument(instrument) => lock(&self.shared.definitions).put_instrument(&instrument),
            Notice::User(user) => lock(&self.shared.definitions).put_user(&user),
            Notice::Participant(session, participant, joined) => {
                lock(&self.shared.definitions).put_participant(session, participant, joined);
            }
        }
    }
}
