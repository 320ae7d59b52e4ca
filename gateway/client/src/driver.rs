//! A client over TCP: drives a [`ClientSession`] on the caller's thread. One read and one write carry as many messages as
//! there are. It owns the socket and the clock, and knows nothing of the protocol.

mod building;

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use protocol::{
    Body, DepthSnapshot, InstrumentDefinition, InstrumentId, ReportNumber, RequestId, SessionId, TradingDay,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use building::{Building, Progress};

use crate::{
    ClientConfig, ClientError, ClientEvent, ClientSession, ConnectionLoss, InstrumentKey, QueryId,
    SubmitError,
};

/// Bytes read at a time; a packet has no more than 1,027.
const READ_BUFFER: usize = 256 * 1024;
/// Reads between two writes at most, so that a flood of reports does not keep requests back.
const READS_MAX: usize = 4;
/// Longest wait between two looks at the clock.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Events kept while a blocking call waits for its answer; it stops reading beyond.
const EVENTS_KEPT_MAX: usize = 1 << 20;

/// A connection to the venue that mends itself. Not `Sync`: one thread drives it, by calling [`poll`](Self::poll) or any
/// of the calls that wait.
#[derive(Debug)]
pub struct Client {
    session: ClientSession,
    socket: Option<TcpStream>,
    /// A connection on its way, while there is none.
    building: Option<Building>,
    started: Instant,
    buffer: Vec<u8>,
    buffered: usize,
    /// Bytes could not be written: the peer must read first.
    blocked: bool,
    kept: VecDeque<ClientEvent>,
}

impl Client {
    /// Connects and logs in, trying for `patience`; the events up to the login come with the next [`poll`](Self::poll).
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when there was no login in time, [`ClientError::Login`] when it was rejected.
    pub fn connect(config: ClientConfig, patience: Duration) -> Result<Self, ClientError> {
        let mut client = Self {
            session: ClientSession::new(config)?,
            socket: None,
            building: None,
            started: Instant::now(),
            buffer: vec![0; READ_BUFFER],
            buffered: 0,
            blocked: false,
            kept: VecDeque::new(),
        };
        let mut address = String::new();
        let mut reason = "no answer to the login".to_owned();
        while client.session.next_request_id().is_none() {
            let left = patience.saturating_sub(client.now());
            if left.is_zero() {
                return Err(ClientError::Unreachable { address, waited: patience, reason });
            }
            let from = client.kept.len();
            client.step(left)?;
            for event in client.kept.iter().skip(from) {
                if let ClientEvent::Disconnected(loss) = event {
                    reason = format!("{loss}");
                }
            }
            client.session.address().clone_into(&mut address);
        }
        Ok(client)
    }

    /// Takes a request and gives its id. It is written by the next call that waits or polls.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing happened then.
    pub fn submit(&mut self, body: Body) -> Result<RequestId, SubmitError> {
        self.session.submit(body)
    }

    /// The same for an administrative request, with a text of 1 to 64 characters that says why; it is in the log.
    ///
    /// # Errors
    /// [`SubmitError`]; nothing happened then.
    pub fn submit_because(&mut self, body: Body, why: &str) -> Result<RequestId, SubmitError> {
        self.session.submit_because(body, why)
    }

    /// Writes what waits, reads what is there, waiting up to `timeout` for something to happen, and hands out what
    /// happened. A lost connection is built again here.
    ///
    /// # Errors
    /// Why the client ended; its events up to that come first.
    pub fn poll(
        &mut self,
        timeout: Duration,
        mut on_event: impl FnMut(ClientEvent),
    ) -> Result<(), ClientError> {
        if self.kept.is_empty() {
            return self.step_with(timeout, &mut on_event);
        }
        self.kept.drain(..).for_each(&mut on_event);
        self.step_with(Duration::ZERO, &mut on_event)
    }

    /// The next event, waiting up to `timeout` for it.
    ///
    /// # Errors
    /// Why the client ended, once all its events were taken.
    pub fn next_event(&mut self, timeout: Duration) -> Result<Option<ClientEvent>, ClientError> {
        let deadline = self.now() + timeout;
        while self.kept.is_empty() {
            let left = deadline.saturating_sub(self.now());
            let stepped = self.step(left);
            if self.kept.is_empty() {
                stepped?;
                if left.is_zero() {
                    return Ok(None);
                }
            }
        }
        Ok(self.kept.pop_front())
    }

    /// The definition of an instrument; `None` where there is none. Other events are kept meanwhile.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`] after `patience`, or why the client ended.
    pub fn instrument(
        &mut self,
        key: InstrumentKey,
        patience: Duration,
    ) -> Result<Option<InstrumentDefinition>, ClientError> {
        self.ask(
            patience,
            |session| session.query_instrument(key),
            |id, event| match event {
                ClientEvent::Instrument(of, definition) if *of == id => Some(Some(*definition)),
                ClientEvent::QueryRefused(of, _) if *of == id => Some(None),
                _ => None,
            },
        )
    }

    /// The best `levels` of an instrument's two sides, its phase and indicative price; `None` where there is no such instrument. Other events are kept
    /// meanwhile.
    ///
    /// # Errors
    /// [`ClientError::NoAnswer`] after `patience`, or why the client ended.
    pub fn depth(
        &mut self,
        instrument: InstrumentId,
        levels: u8,
        patience: Duration,
    ) -> Result<Option<DepthSnapshot>, ClientError> {
        self.ask(
            patience,
            |session| session.query_depth(instrument, levels),
            |id, event| match event {
                ClientEvent::Depth(of, depth) if *of == id => Some(Some(depth.clone())),
                ClientEvent::QueryRefused(of, _) if *of == id => Some(None),
                _ => None,
            },
        )
    }

    /// Asks for the reports of another session, see [`ClientSession::query_drop_copy`].
    pub fn query_drop_copy(
        &mut self,
        session: SessionId,
        trading_day: Option<TradingDay>,
        from: Option<ReportNumber>,
    ) -> Option<QueryId> {
        self.session.query_drop_copy(session, trading_day, from)
    }

    /// Asks until there is an answer: a connection that is lost in between takes its questions with it.
    fn ask<T>(
        &mut self,
        patience: Duration,
        mut question: impl FnMut(&mut ClientSession) -> Option<QueryId>,
        answer: impl Fn(QueryId, &ClientEvent) -> Option<T>,
    ) -> Result<T, ClientError> {
        let deadline = self.now() + patience;
        let mut asked = None;
        loop {
            if asked.is_none() {
                asked = question(&mut self.session);
            }
            let from = self.kept.len();
            let left = deadline.saturating_sub(self.now());
            if left.is_zero() || from >= EVENTS_KEPT_MAX {
                return Err(ClientError::NoAnswer(patience));
            }
            self.step(left)?;
            let mut at = from;
            while let Some(event) = self.kept.get(at) {
                if let Some(found) = asked.and_then(|id| answer(id, event)) {
                    self.kept.remove(at);
                    return Ok(found);
                }
                if matches!(event, ClientEvent::Disconnected(_)) {
                    asked = None;
                }
                at += 1;
            }
        }
    }

    /// Logs out and waits until the server has closed the connection. What happened meanwhile is handed out; requests that
    /// are still pending end as [`Outcome::Unknown`](crate::Outcome::Unknown), so wait for their outcomes before.
    ///
    /// # Errors
    /// Why the client ended, where that was not the logout.
    pub fn logout(
        mut self,
        patience: Duration,
        mut on_event: impl FnMut(ClientEvent),
    ) -> Result<(), ClientError> {
        let deadline = self.now() + patience;
        self.kept.drain(..).for_each(&mut on_event);
        self.session.logout(&mut on_event);
        loop {
            let left = deadline.saturating_sub(self.now());
            match self.step_with(left, &mut on_event) {
                Err(ClientError::LoggedOut) => return Ok(()),
                Err(error) => return Err(error),
                Ok(()) if left.is_zero() => return Err(ClientError::NoAnswer(patience)),
                Ok(()) => {}
            }
        }
    }

    /// Requests without an outcome.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.session.pending()
    }

    /// Whether requests go out at once.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.session.is_live()
    }

    /// Whether the peer doesn't take what waits to be written: waiting for its socket to be readable is not enough then.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.blocked || self.building.is_some()
    }

    /// How long a caller that waits for several clients may wait, at most, before it polls this one.
    #[must_use]
    pub fn next_look(&self) -> Duration {
        let due = self.building.as_ref().map(Building::deadline).or(self.session.deadline());
        due.map_or(WAIT_MAX, |due| due.saturating_sub(self.now())).min(WAIT_MAX)
    }

    /// The last report seen, with its day.
    #[must_use]
    pub fn last_report(&self) -> Option<(TradingDay, ReportNumber)> {
        self.session.last_report()
    }

    /// The socket, for a caller that waits for several clients at a time; `None` while there is no connection.
    #[must_use]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        let building = self.building.as_ref().map(Building::as_fd);
        self.socket.as_ref().map(AsFd::as_fd).or(building)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// One step whose events are kept.
    fn step(&mut self, timeout: Duration) -> Result<(), ClientError> {
        let mut kept = std::mem::take(&mut self.kept);
        let stepped = self.step_with(timeout, &mut |event| kept.push_back(event));
        self.kept = kept;
        stepped
    }

    fn step_with(
        &mut self,
        timeout: Duration,
        on_event: &mut dyn FnMut(ClientEvent),
    ) -> Result<(), ClientError> {
        let now = self.now();
        self.session.tick(now, on_event);
        self.drop_unwanted();
        if self.socket.is_none() {
            self.build(timeout, on_event);
        }
        if self.socket.is_some() {
            self.write(on_event);
            self.wait(timeout);
            self.read(on_event);
            self.write(on_event);
        }
        match self.session.ended() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Builds the connection, or waits a while for its time.
    fn build(&mut self, timeout: Duration, on_event: &mut dyn FnMut(ClientEvent)) {
        if self.session.ended().is_some() {
            self.building = None;
            return;
        }
        if self.building.is_none() {
            if let Some(retry_at) = self.session.retry_at() {
                let wait = retry_at.saturating_sub(self.now()).min(timeout);
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
            }
            let Some(address) = self.session.connect_due(self.now()) else { return };
            self.buffered = 0;
            self.blocked = false;
            match Building::start(&address, self.session.connect_limit(), self.now()) {
                Ok(building) => self.building = Some(building),
                Err(error) => return self.not_built(&error, on_event),
            }
        }
        self.wait(timeout);
        let Some(building) = self.building.take() else { return };
        match building.look(self.now()) {
            Ok(Progress::Pending(building)) => self.building = Some(building),
            Ok(Progress::Done(socket)) => {
                self.socket = Some(socket);
                self.session.connected(self.now());
            }
            Err(error) => self.not_built(&error, on_event),
        }
    }

    fn not_built(&mut self, error: &io::Error, on_event: &mut dyn FnMut(ClientEvent)) {
        let loss = ConnectionLoss::ConnectFailed(format!("{}: {error}", self.session.address()));
        self.session.disconnected(self.now(), loss, on_event);
    }

    fn write(&mut self, on_event: &mut dyn FnMut(ClientEvent)) {
        self.blocked = false;
        while !self.session.outgoing().is_empty() {
            let Some(socket) = &mut self.socket else { return };
            match socket.write(self.session.outgoing()) {
                Ok(0) => return self.lost("the connection takes no more bytes", on_event),
                Ok(count) => self.session.sent(count, self.started.elapsed()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked = true;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // What the server still had to say before it closed is read first; reading then finds the end.
                Err(_) => return,
            }
        }
    }

    /// Waits until the socket has something, or takes something where it did not before.
    fn wait(&self, timeout: Duration) {
        let Some(socket) = self.as_fd() else { return };
        let timeout = timeout.min(self.next_look());
        if timeout.is_zero() {
            return;
        }
        let flags = if self.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let limit = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
        // An interrupted or failed wait is an early one: the read that follows finds out what there is.
        let _ = poll(&mut [PollFd::from_borrowed_fd(socket, flags)], Some(&limit));
    }

    fn read(&mut self, on_event: &mut dyn FnMut(ClientEvent)) {
        for _ in 0..READS_MAX {
            let Some(socket) = &mut self.socket else { return };
            let Some(free) = self.buffer.get_mut(self.buffered..) else { return };
            let room = free.len();
            let count = match socket.read(free) {
                Ok(0) => return self.lost("the server closed the connection", on_event),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return self.lost(&error.to_string(), on_event),
            };
            self.buffered += count;
            let now = self.now();
            let taken = self.session.received(&self.buffer[..self.buffered], now, on_event);
            self.buffer.copy_within(taken..self.buffered, 0);
            self.buffered -= taken;
            self.drop_unwanted();
            if count < room {
                return;
            }
        }
    }

    fn lost(&mut self, reason: &str, on_event: &mut dyn FnMut(ClientEvent)) {
        self.socket = None;
        self.session.disconnected(self.now(), ConnectionLoss::Closed(reason.to_owned()), on_event);
    }

    fn drop_unwanted(&mut self) {
        if !self.session.is_connected() {
            self.socket = None;
        }
    }
}
