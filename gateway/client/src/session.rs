//! The client's side of a session as a value: bytes and time in, bytes to send and events out. It owns ids, report
//! numbers, resends, heartbeats and the way from member to member. It must not touch a socket or read a clock.
//!
//! ```text
//!            connect_due          connected           facts complete
//!   Waiting ------------> Connecting -------> Greeting --------------> Live | Replaying (a day that is over)
//!      ^                       |                 |                        |
//!      +--- back-off ----------+-----------------+---- disconnected ------+      any of them --> Ended
//! ```

mod inbound;
mod reach;
mod token;

use std::time::Duration;

use protocol::soupbin::{self, HEARTBEAT_SECONDS, Login, Packet, SILENCE_SECONDS};
use protocol::{
    Body, Command, ConnectionId, DepthQuery, DropCopyRequest, FrameHeader, FrameKind, InstrumentId,
    InstrumentQuery, ReportNumber, RequestId, SessionId, Symbol, Timestamp, TradingDay, Unsequenced,
};

use crate::config::WINDOW_MAX;
use crate::greeting::Greeting;
use crate::pending::Pending;
use crate::{ClientConfig, ClientError, ClientEvent, ConnectionLoss, Outcome, Start, SubmitError};

use reach::Reach;
use token::Token;

/// How long a session that is not available is asked for: the server holds a dead connection for its silence limit.
const SESSION_PATIENCE: Duration = Duration::from_secs(SILENCE_SECONDS + 10);
/// Sent bytes are dropped from the front of the buffer once they are this many.
const SENT_KEPT_MAX: usize = 1 << 20;

/// Correlates a query with its answer. Queries are never in the log; their ids have nothing to do with request ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// How a query names an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKey {
    /// By its number.
    Id(InstrumentId),
    /// By its symbol.
    Symbol(Symbol),
}

/// Takes a session's events in order.
type OnEvent<'a> = &'a mut dyn FnMut(ClientEvent);

#[derive(Debug)]
enum Link {
    Waiting {
        until: Duration,
    },
    Connecting,
    Greeting(Greeting),
    Live,
    /// The connection replays a day that is over: it takes no requests and ends with that day.
    Replaying,
    /// The logout is on its way.
    Leaving,
    Ended(ClientError),
}

/// Where the reports go on.
#[derive(Clone, Copy, Debug)]
struct Place {
    trading_day: TradingDay,
    last_report: ReportNumber,
}

/// The state machine. See the module's documentation.
#[derive(Debug)]
pub struct ClientSession {
    config: ClientConfig,
    link: Link,
    /// `None` before the first login.
    place: Option<Place>,
    /// A first live login has told which ids are free.
    ids_known: bool,
    pending: Pending,
    /// Set at a login with requests that the server has moved past: up to that report one of them may be answered.
    settle: Option<(ReportNumber, RequestId)>,
    /// The session's last report at this connection's login; later ones answer what this client sent.
    replayed_until: ReportNumber,
    out: Vec<u8>,
    out_sent: usize,
    reach: Reach,
    token: Token,
    address: String,
    unavailable_since: Option<Duration>,
    last_heard: Duration,
    last_sent: Duration,
    /// Since when something is unanswered on a live connection.
    waiting_since: Option<Duration>,
    query_last: u64,
    /// Queries of this connection that are not answered.
    queries_open: u64,
}

impl ClientSession {
    /// A session that has not connected yet.
    ///
    /// # Errors
    /// [`ClientError::Config`] for no address or a window outside its bounds.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        if config.addresses.is_empty() {
            return Err(ClientError::Config("there is no address to connect to"));
        }
        if config.window == 0 || config.window > WINDOW_MAX {
            return Err(ClientError::Config("the window is 1 to 1048576 requests"));
        }
        Ok(Self {
            link: Link::Waiting { until: Duration::ZERO },
            place: None,
            ids_known: false,
            pending: Pending::new(config.window),
            settle: None,
            replayed_until: ReportNumber(0),
            out: Vec::new(),
            out_sent: 0,
            reach: Reach::new(&config),
            token: Token::default(),
            address: String::new(),
            unavailable_since: None,
            last_heard: Duration::ZERO,
            last_sent: Duration::ZERO,
            waiting_since: None,
            query_last: 0,
            queries_open: 0,
            config,
        })
    }

    /// Takes a request and gives its id. It is sent as soon as the connection allows, again after a reconnect where
    /// needed, and has exactly one outcome.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing happened then.
    pub fn submit(&mut self, body: Body) -> Result<RequestId, SubmitError> {
        self.submit_frame(body, None)
    }

    /// The same for an administrative request, with a text of 1 to 64 characters that says why; it is in the log.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing happened then.
    pub fn submit_because(&mut self, body: Body, why: &str) -> Result<RequestId, SubmitError> {
        self.submit_frame(body, Some(why))
    }

    fn submit_frame(&mut self, body: Body, why: Option<&str>) -> Result<RequestId, SubmitError> {
        if matches!(self.link, Link::Ended(_) | Link::Leaving) {
            return Err(SubmitError::Ended);
        }
        if !self.ids_known {
            return Err(SubmitError::NotReady);
        }
        if self.pending.is_full() {
            return Err(SubmitError::WindowFull);
        }
        let request_id = self.pending.next_id();
        let command = Command {
            session: SessionId::SYSTEM,
            connection: ConnectionId(0),
            request_id,
            timestamp: Timestamp(0),
            body,
        };
        let frame = match why {
            Some(why) => command.encode_because(why).ok_or(SubmitError::Why)?,
            None => command.encode().ok_or(SubmitError::NotAllowed)?,
        };
        let kind = kind_of(frame.as_bytes()).filter(|kind| kind.is_from_client());
        let kind = kind.ok_or(SubmitError::NotAllowed)?;
        let start = self.out.len();
        soupbin::write_packet(&Packet::Unsequenced(frame.as_bytes()), &mut self.out);
        let is_live = self.is_live();
        self.pending.push(kind, &self.out[start..], is_live);
        if !is_live {
            self.out.truncate(start);
        }
        if let Body::MassQuote(quote) = body {
            // Its entries have the ids from its own on.
            let sides = [&quote.bids, &quote.asks];
            let entries: usize = sides.into_iter().flatten().map(|side| side.entries().len()).sum();
            self.pending.leave_out(entries.saturating_sub(1));
        }
        Ok(request_id)
    }

    /// Asks for the depth of an instrument, at most `levels` a side, with its phase and indicative price. Without a live connection nothing is asked: `None`.
    pub fn query_depth(&mut self, instrument: InstrumentId, levels: u8) -> Option<QueryId> {
        self.query(|request_id| {
            Unsequenced::DepthQuery(DepthQuery { request_id, instrument, levels, with_state: true })
        })
    }

    /// Asks for the definition of an instrument. Without a live connection nothing is asked: `None`.
    pub fn query_instrument(&mut self, key: InstrumentKey) -> Option<QueryId> {
        let (instrument, symbol) = match key {
            InstrumentKey::Id(instrument) => (instrument, None),
            InstrumentKey::Symbol(symbol) => (InstrumentId(0), Some(symbol)),
        };
        self.query(|request_id| {
            Unsequenced::InstrumentQuery(InstrumentQuery { request_id, instrument, symbol })
        })
    }

    /// Asks for the reports of another session: of a day (`None` for the current one), from a number on (`None` for those that
    /// are new from here on), and live from then on. They come as [`ClientEvent::DropCopy`] until the connection ends. Without
    /// a live connection nothing is asked: `None`.
    pub fn query_drop_copy(
        &mut self,
        session: SessionId,
        trading_day: Option<TradingDay>,
        from: Option<ReportNumber>,
    ) -> Option<QueryId> {
        self.query(|request_id| {
            Unsequenced::DropCopyRequest(DropCopyRequest { request_id, session, trading_day, from })
        })
    }

    fn query(&mut self, question: impl FnOnce(RequestId) -> Unsequenced) -> Option<QueryId> {
        if !matches!(self.link, Link::Live) {
            return None;
        }
        self.query_last += 1;
        self.queries_open += 1;
        let frame = question(RequestId(self.query_last)).encode();
        soupbin::write_packet(&Packet::Unsequenced(frame.as_bytes()), &mut self.out);
        Some(QueryId(self.query_last))
    }

    /// Logs out: what was submitted is sent first. The client ends when the server closes the connection.
    pub fn logout(&mut self, on_event: OnEvent<'_>) {
        match self.link {
            Link::Live | Link::Replaying => {
                soupbin::write_packet(&Packet::LogoutRequest, &mut self.out);
                self.link = Link::Leaving;
            }
            Link::Leaving | Link::Ended(_) => {}
            _ => self.end(ClientError::LoggedOut, on_event),
        }
    }

    /// The address to connect to, where it is time to; the caller then tells how it went.
    pub fn connect_due(&mut self, now: Duration) -> Option<String> {
        match self.link {
            Link::Waiting { until } if now >= until => {}
            _ => return None,
        }
        self.address = self.reach.next();
        self.link = Link::Connecting;
        Some(self.address.clone())
    }

    /// How long the connection asked for may take to be built.
    #[must_use]
    pub fn connect_limit(&self) -> Duration {
        self.reach.connect_limit()
    }

    /// The connection asked for is there.
    pub fn connected(&mut self, now: Duration) {
        self.out.clear();
        self.out_sent = 0;
        (self.last_heard, self.last_sent) = (now, now);
        (self.waiting_since, self.queries_open) = (None, 0);
        let (session, next) = match self.place {
            Some(place) => (soupbin::session_name(place.trading_day), place.last_report.0 + 1),
            None => (*b"          ", u64::from(self.config.start == Start::DayStart)),
        };
        let login = Login {
            username: *self.config.user.as_padded(),
            password: *self.config.password.as_padded(),
            session,
            next,
        };
        if let Some(text) = self.token.present() {
            soupbin::write_packet(&Packet::Debug(text.as_bytes()), &mut self.out);
        }
        soupbin::write_packet(&Packet::LoginRequest(login), &mut self.out);
        self.link = Link::Greeting(Greeting::new(now + self.reach.login_limit()));
    }

    /// The connection ended, or could not be built. Nothing received and not yet taken from it counts any more.
    pub fn disconnected(&mut self, now: Duration, loss: ConnectionLoss, on_event: OnEvent<'_>) {
        self.out.clear();
        self.out_sent = 0;
        let was_let_in = matches!(self.link, Link::Live | Link::Replaying | Link::Leaving);
        if matches!((&self.link, &loss), (Link::Greeting(_), ConnectionLoss::Closed(_))) {
            self.token.spurned();
        }
        let until = now + self.reach.pause(&loss, was_let_in);
        let ended = matches!(self.link, Link::Ended(_));
        let leaving = matches!(self.link, Link::Leaving);
        let planned = matches!(loss, ConnectionLoss::DayEnded | ConnectionLoss::Redirected(_));
        let reason = loss.to_string();
        on_event(ClientEvent::Disconnected(if leaving { ConnectionLoss::LoggedOut } else { loss }));
        if ended {
            return;
        }
        self.link = Link::Waiting { until };
        if leaving {
            self.end(ClientError::LoggedOut, on_event);
        } else if !self.config.reconnect && !planned && self.ids_known {
            self.end(ClientError::Lost(reason), on_event);
        }
    }

    /// Time passes: heartbeats, silence, limits. Call it when [`deadline`](Self::deadline) says so.
    pub fn tick(&mut self, now: Duration, on_event: OnEvent<'_>) {
        let is_unanswered = self.is_unanswered(now);
        let limit = match &self.link {
            Link::Greeting(greeting) if now >= greeting.deadline => ConnectionLoss::LoginTimeout,
            Link::Live | Link::Replaying | Link::Leaving
                if now >= self.last_heard + self.config.silence_limit =>
            {
                ConnectionLoss::Silent
            }
            Link::Live if is_unanswered => ConnectionLoss::Unanswered,
            Link::Live | Link::Replaying => {
                if self.outgoing().is_empty()
                    && now >= self.last_sent + Duration::from_secs(HEARTBEAT_SECONDS)
                {
                    soupbin::write_packet(&Packet::ClientHeartbeat, &mut self.out);
                }
                return;
            }
            _ => return,
        };
        self.disconnected(now, limit, on_event);
    }

    /// When [`tick`](Self::tick) must be called next, at the latest.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        let silence = self.last_heard + self.config.silence_limit;
        // What can't be written says that the client is there, too.
        let heartbeat = match self.outgoing().is_empty() {
            true => self.last_sent + Duration::from_secs(HEARTBEAT_SECONDS),
            false => silence,
        };
        match &self.link {
            Link::Greeting(greeting) => Some(greeting.deadline),
            Link::Live => {
                let unanswered = self.unanswered_at().unwrap_or(silence);
                Some(silence.min(heartbeat).min(unanswered))
            }
            Link::Replaying => Some(silence.min(heartbeat)),
            Link::Leaving => Some(silence),
            Link::Waiting { until } => Some(*until),
            Link::Connecting | Link::Ended(_) => None,
        }
    }

    /// Looks whether something is unanswered, and whether that is so for too long.
    fn is_unanswered(&mut self, now: Duration) -> bool {
        if self.pending.unsettled() == 0 && self.queries_open == 0 {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
        self.unanswered_at().is_some_and(|at| now >= at)
    }

    fn unanswered_at(&self) -> Option<Duration> {
        Some(self.waiting_since?.max(self.last_heard) + self.reach.answer_limit()?)
    }

    fn end(&mut self, error: ClientError, on_event: OnEvent<'_>) {
        self.link = Link::Ended(error);
        self.out.clear();
        self.out_sent = 0;
        while let Some((request_id, did_nothing)) = self.pending.oldest_unsettled(RequestId(u64::MAX - 1)) {
            self.pending.settle(request_id);
            let outcome = if did_nothing { Outcome::NotProcessed } else { Outcome::Unknown };
            on_event(ClientEvent::Outcome(request_id, outcome));
        }
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub fn outgoing(&self) -> &[u8] {
        &self.out[self.out_sent..]
    }

    /// The first `count` bytes of [`outgoing`](Self::outgoing) were sent.
    pub fn sent(&mut self, count: usize, now: Duration) {
        self.last_sent = now;
        self.out_sent += count;
        debug_assert!(self.out_sent <= self.out.len());
        if self.out_sent == self.out.len() {
            self.out.clear();
            self.out_sent = 0;
        } else if self.out_sent >= SENT_KEPT_MAX {
            self.out.drain(..self.out_sent);
            self.out_sent = 0;
        }
    }

    /// Whether the session wants the connection that it has: a caller whose connection is still open closes it otherwise.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Greeting(_) | Link::Live | Link::Replaying | Link::Leaving)
    }

    /// Whether requests go out at once.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.link, Link::Live)
    }

    /// When to connect again, where the session waits for that.
    #[must_use]
    pub fn retry_at(&self) -> Option<Duration> {
        match self.link {
            Link::Waiting { until } => Some(until),
            _ => None,
        }
    }

    /// Why it ended, where it has.
    #[must_use]
    pub fn ended(&self) -> Option<&ClientError> {
        match &self.link {
            Link::Ended(error) => Some(error),
            _ => None,
        }
    }

    /// The address connected to, or tried last.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Requests without an outcome.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.unsettled()
    }

    /// Id that the next request gets; `None` before the first login.
    #[must_use]
    pub fn next_request_id(&self) -> Option<RequestId> {
        self.ids_known.then(|| self.pending.next_id())
    }

    /// The last report seen, with its day; `None` before the first login.
    #[must_use]
    pub fn last_report(&self) -> Option<(TradingDay, ReportNumber)> {
        self.place.map(|place| (place.trading_day, place.last_report))
    }
}

fn kind_of(frame: &[u8]) -> Option<FrameKind> {
    FrameHeader::read(frame).ok()?.kind()
}
