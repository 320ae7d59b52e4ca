//! One connection: the driver of a [`Session`] over a socket. It reads, publishes, reads reports and writes; the rules are
//! the session's. All connections of a gateway run on its one thread, so nothing here may block, and a busy one yields.

mod copies;
mod login;
mod recording;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use journaler::ReportReader;
use protocol::{
    DEPTH_LEVELS_MAX, DepthQuery, DepthSnapshot, EndReason, FrameKind, InstrumentQuery, RefuseReason,
    Refused, RequestId, Unsequenced, UserName,
};
use recorder::Writer;
use ring::{Ingress, PublishError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Sleep, sleep, sleep_until, timeout};

use self::recording::Unsent;
use crate::admission::{AdmissionSource, DepthSource};
use crate::buffers::{Inbound, Outbound};
use crate::clock::Clock;
use crate::config::{DurabilityLevel, SessionLimits};
use crate::hub::{Hub, LoginVerdict, Port};
use crate::leadership::Leadership;
use crate::listener::StatsCells;
use crate::resume::ResumeKeys;
use crate::session::{Attempt, Now, Query, Session, Standing, Step};
use crate::verifier::{FailedLogins, Verifiers};

/// Frames of one claim in the ring at most: enough to spread its cost, few enough to find room in a busy ring.
const PUBLISH_MAX: usize = 256;
/// How soon a connection tries again when the ring was full, or the leadership was not confirmed.
const RETRY: Duration = Duration::from_millis(1);
/// How long a closed connection still takes what the client sends, so that the client gets the last bytes, and not a
/// reset.
const LINGER: Duration = Duration::from_secs(1);
/// Bytes read at once that show a client in full flow, after which the others get their turn.
const LARGE_READ: usize = 16 * 1024;

/// What the connections of one gateway share; all on its thread.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) limits: SessionLimits,
    pub(crate) durability: DurabilityLevel,
    pub(crate) hub: Hub,
    pub(crate) ingress: RefCell<Ingress>,
    pub(crate) reports: ReportReader,
    pub(crate) depth: DepthSource,
    pub(crate) admission: AdmissionSource,
    pub(crate) leadership: Arc<dyn Leadership>,
    pub(crate) resume: ResumeKeys,
    pub(crate) verifiers: Verifiers,
    pub(crate) failed_logins: RefCell<FailedLogins>,
    pub(crate) stopping: Cell<bool>,
    /// Connections that are not finished.
    pub(crate) active: Cell<usize>,
    /// Told when `active` sinks.
    pub(crate) left: Notify,
    /// Reports as read from the log, on their way into a connection's buffer.
    pub(crate) strides: RefCell<Vec<u8>>,
    pub(crate) recorder: RefCell<Writer>,
    pub(crate) stats: Arc<StatsCells>,
}

/// One connection.
pub(crate) struct Connection {
    shared: Rc<Shared>,
    address: IpAddr,
    port: Port,
    session: Session,
    inbound: Inbound,
    out: Outbound,
    verification: Option<(Attempt, oneshot::Receiver<bool>)>,
    /// A password was looked at; its owner is not told yet.
    verified: Option<(Attempt, bool)>,
    /// Who the login was for.
    name: Option<UserName>,
    /// A question that is not answered yet. What came behind it waits.
    asked: Option<Query>,
    /// The ring had no room for what waits.
    blocked: bool,
    /// Something can't be answered before the leadership is confirmed.
    unconfirmed: bool,
    /// Whether the socket was being read, so that silence is the client's.
    reading: bool,
    let_in: bool,
    refused: u64,
    unsent: Unsent,
}

/// What a wait came to.
#[derive(Default)]
struct Happened {
    read: Option<io::Result<usize>>,
    wrote: Option<io::Result<usize>>,
    verified: Option<bool>,
    timer: bool,
}

impl Connection {
    pub(crate) fn new(shared: Rc<Shared>, address: IpAddr) -> Self {
        let port = shared.hub.connect();
        let now = shared.clock.now();
        let session = Session::new(port.connection(), shared.limits, shared.durability, now);
        Self {
            shared,
            address,
            port,
            session,
            inbound: Inbound::default(),
            out: Outbound::default(),
            verification: None,
            verified: None,
            name: None,
            asked: None,
            blocked: false,
            unconfirmed: false,
            reading: true,
            let_in: false,
            refused: 0,
            unsent: Unsent::default(),
        }
    }

    /// Runs the connection to its end: until the socket is of no more use and the exchange knows that.
    pub(crate) async fn run(mut self, mut stream: TcpStream) {
        let (mut reader, mut writer) = stream.split();
        let mut timer = pin!(sleep_until(tokio::time::Instant::now()));
        loop {
            self.work();
            if self.session.is_closed() {
                break;
            }
            self.arm(timer.as_mut());
            let happened = self.wait(&mut reader, &mut writer, timer.as_mut()).await;
            let is_busy = matches!(happened.read, Some(Ok(length)) if length >= LARGE_READ);
            self.take_in(happened);
            if is_busy {
                tokio::task::yield_now().await;
            }
        }
        // What is left is at most a last word that fits the socket's buffer, or of no use to anybody.
        let _ = writer.try_write(self.out.pending());
        self.inbound.abandon();
        self.log_end();
        tokio::join!(linger(reader, writer), self.settle());
    }

    /// Everything that can be done without waiting.
    fn work(&mut self) {
        let now = self.shared.clock.now();
        self.unconfirmed = false;
        self.look_at_term(now);
        if self.shared.stopping.get() {
            self.session.stop(now, &mut self.out);
        }
        self.take_notices(now);
        if let Some((attempt, is_right)) = self.verified.take() {
            self.verified(now, &attempt, is_right);
        }
        self.session.tick(now, self.reading, &mut self.out);
        self.intake(now);
        self.pump(now);
        if self.session.has_control() {
            // The last report, or its lack, has ended the session; the exchange must not wait for the socket to hear it.
            self.blocked = !self.publish(now);
        }
        if self.session.refused() != self.refused {
            let more = self.session.refused() - self.refused;
            self.shared.stats.refused.fetch_add(more, Ordering::Relaxed);
            self.refused += more;
        }
    }

    /// Ends the session where its term is over.
    fn look_at_term(&mut self, now: Now) {
        let term = self.shared.leadership.term();
        if self.session.has_outlived(term) {
            self.inbound.abandon();
            self.asked = None;
            // A leader again, but in another term: then there is no other that could be named.
            let leader = if term.is_none() { self.shared.leadership.leader() } else { None };
            self.session.deposed(now, leader, &mut self.out);
        }
    }

    /// Whether what is not in the log may be answered; where not, what waits for it is tried again soon. To be asked
    /// **behind** the look at what the answer tells, which then was right at a moment at which nobody else led.
    fn is_confirmed(&mut self) -> bool {
        let is_confirmed = self.shared.leadership.is_confirmed();
        self.unconfirmed |= !is_confirmed;
        is_confirmed
    }

    fn take_notices(&mut self, now: Now) {
        if self.session.awaits_verdict() && (self.session.is_abandoned() || self.is_confirmed()) {
            match self.port.take_verdict() {
                Some(LoginVerdict::LoggedIn(verdict)) => {
                    let last = match self.session.login_day() {
                        Some(day) if day != verdict.trading_day => {
                            self.shared.reports.available(verdict.session, day)
                        }
                        _ => verdict.last_report,
                    };
                    self.session.logged_in(now, &verdict, last, &mut self.out);
                    self.enter();
                }
                Some(LoginVerdict::Refused(verdict)) => {
                    self.session.login_refused(now, &verdict, &mut self.out);
                }
                None => {}
            }
        }
        // Before the report log is read, so that all reports before the end are found there.
        if let Some(reason) = self.port.ended() {
            self.session.ended(now, reason);
        }
    }

    /// Publishes what waits and looks at what came in, until the one or the other must wait.
    fn intake(&mut self, now: Now) {
        let leadership = &self.shared.leadership;
        let standing = Standing {
            admission: (self.shared.admission)(),
            term: leadership.term(),
            led_elsewhere: leadership.term().is_none() && leadership.leader().is_some(),
            confirmed: leadership.is_confirmed(),
        };
        loop {
            self.blocked = !self.publish(now);
            if self.blocked || !self.answer_question(now) {
                return;
            }
            match self.session.receive(now, standing, &mut self.inbound, &mut self.out) {
                Step::Verify(attempt) => self.verify(now, attempt),
                Step::Query(query) => self.asked = Some(query),
                Step::Resume => self.give_token(now),
                Step::NotLeader => {
                    self.session.not_leader(now, self.shared.leadership.leader(), &mut self.out);
                }
                Step::Unconfirmed => {
                    self.unconfirmed = true;
                    break;
                }
                Step::More | Step::Full | Step::Wait => break,
            }
        }
        self.blocked = !self.publish(now);
    }

    /// Answers the question that waits, where there is one; `false` where it must go on waiting.
    fn answer_question(&mut self, now: Now) -> bool {
        let Some(query) = self.asked else { return true };
        let answer = match &query {
            Query::DropCopy(request) => {
                if !self.is_confirmed() {
                    return false;
                }
                self.begin_copy(request)
            }
            Query::Depth(query) => Some(self.depth(query)),
            Query::Instrument(query) => Some(self.definition(query)),
        };
        if !self.is_confirmed() {
            return false;
        }
        self.asked = None;
        if let Some(answer) = answer {
            self.session.answer(now, &answer, &mut self.out);
        }
        true
    }

    /// Publishes the frames that wait, then the session's own; `false` where the ring has no room for all, or the term is
    /// over.
    fn publish(&mut self, now: Now) -> bool {
        let mut ingress = self.shared.ingress.borrow_mut();
        let mut claim = PUBLISH_MAX;
        while self.inbound.frames_waiting() > 0 {
            if self.session.has_outlived(self.shared.leadership.term()) {
                return false;
            }
            let mut frames: [&[u8]; PUBLISH_MAX] = [&[]; PUBLISH_MAX];
            let count = self.inbound.frames_waiting().min(claim);
            frames.iter_mut().zip(self.inbound.frames()).for_each(|(slot, frame)| *slot = frame);
            let began = self.shared.recorder.borrow().ticks();
            match ingress.try_publish_many(&frames[..count]) {
                Ok(()) => {
                    self.inbound.published(count);
                    self.record_published(began, count, ingress.claimed());
                }
                Err(PublishError::Full(_) | PublishError::ClaimTooLarge { .. }) if count > 1 => {
                    claim = count / 2;
                }
                Err(PublishError::Full(_)) => return false,
                Err(error) => unreachable!("a frame that was checked is not taken: {error}"),
            }
        }
        if let Some(frame) = self.session.control(now) {
            if self.session.has_outlived(self.shared.leadership.term()) {
                return false;
            }
            let began = self.shared.recorder.borrow().ticks();
            match ingress.try_publish(frame.as_bytes()) {
                Ok(()) => {
                    self.session.control_published();
                    self.record_published(began, 1, ingress.claimed());
                }
                Err(PublishError::Full(_)) => return false,
                Err(error) => unreachable!("a frame built here is not taken: {error}"),
            }
        }
        true
    }

    fn log_end(&self) {
        let reason = self.session.end().map_or("login refused", EndReason::name);
        let (session, connection) = (self.session.session().0, self.port.connection().0);
        if self.let_in {
            self.shared.stats.sessions.fetch_sub(1, Ordering::Relaxed);
            tracing::info!(session, connection, reason, "connection ended");
        } else {
            tracing::debug!(connection, address = %self.address, reason, "connection ended before its login");
        }
        if self.session.end() == Some(EndReason::SlowReader) {
            self.shared.stats.slow_readers.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn depth(&self, query: &DepthQuery) -> Unsequenced {
        let levels = usize::from(query.levels).min(DEPTH_LEVELS_MAX);
        match (self.shared.depth)(query.instrument, levels) {
            Some(depth) => {
                // Clients from before there was a state refuse an answer with one.
                let state = depth.state.filter(|_| query.with_state);
                Unsequenced::Depth(query.request_id, DepthSnapshot { state, ..depth })
            }
            None => refused(query.request_id, RefuseReason::UnknownInstrument, FrameKind::DepthQuery),
        }
    }

    fn definition(&self, query: &InstrumentQuery) -> Unsequenced {
        match self.shared.hub.instrument(query) {
            Some(definition) => Unsequenced::InstrumentDefinition(query.request_id, definition),
            None => refused(query.request_id, RefuseReason::UnknownInstrument, FrameKind::InstrumentQuery),
        }
    }

    /// Fills the outbound buffer with reports.
    fn pump(&mut self, now: Now) {
        // Before the log is read: a later day then means that all reports of this one are there.
        let today = self.shared.hub.trading_day();
        let is_copied = self.pump_copies(now, today);
        while let Some(wanted) = self.session.wants() {
            self.out.make_room();
            let max = self.out.reports_max();
            if max == 0 {
                return;
            }
            let mut strides = self.shared.strides.borrow_mut();
            strides.clear();
            let read = self.shared.reports.read(wanted.session, wanted.day, wanted.next, max, &mut strides);
            let (is_all, sent) = match read {
                Ok(count) => {
                    self.unsent.add(&strides);
                    // The day ends for the client once it has the drop copies of the day, too.
                    let is_all = count < max && (is_copied || self.session.copies() == 0);
                    (count < max, self.session.reports(now, today, &strides, is_all, &mut self.out))
                }
                Err(error) => {
                    tracing::error!(%error, session = wanted.session.0, "a report can't be read");
                    self.session.lost(now, EndReason::Server);
                    return;
                }
            };
            if let Err(error) = sent {
                tracing::error!(%error, "a report can't be sent");
                self.session.lost(now, EndReason::Server);
            }
            if is_all {
                return;
            }
        }
    }

    /// Sets the timer for the session's next deadline, but moves it only where it would ring too late: most deadlines
    /// move on before they come, and a timer that rings early costs one look a second.
    fn arm(&self, timer: Pin<&mut Sleep>) {
        let mut due = self.session.next_deadline();
        if self.blocked || self.unconfirmed {
            let retry = self.shared.clock.now().monotonic + RETRY;
            due = Some(due.map_or(retry, |due| due.min(retry)));
        }
        if let Some(due) = due.map(|due| self.shared.clock.instant(due))
            && (timer.is_elapsed() || due < timer.deadline())
        {
            timer.reset(due);
        }
    }

    /// Waits for whatever comes first, and takes all that is there by then.
    async fn wait(
        &mut self,
        reader: &mut ReadHalf<'_>,
        writer: &mut WriteHalf<'_>,
        mut timer: Pin<&mut Sleep>,
    ) -> Happened {
        self.reading =
            !self.blocked && !self.unconfirmed && self.session.takes_packets() && self.out.has_room();
        let mut told = pin!(self.port.told());
        let inbound = &mut self.inbound;
        let out = &self.out;
        let reading = self.reading;
        let verification = &mut self.verification;
        poll_fn(|context| {
            let mut happened = Happened::default();
            let space: &mut [u8] = if reading { inbound.space() } else { &mut [] };
            if !space.is_empty() {
                let mut buffer = ReadBuf::new(space);
                if let Poll::Ready(read) = Pin::new(&mut *reader).poll_read(context, &mut buffer) {
                    happened.read = Some(read.map(|()| buffer.filled().len()));
                }
            }
            if !out.pending().is_empty()
                && let Poll::Ready(wrote) = Pin::new(&mut *writer).poll_write(context, out.pending())
            {
                happened.wrote = Some(wrote);
            }
            if let Some((_, answer)) = verification
                && let Poll::Ready(answer) = Pin::new(answer).poll(context)
            {
                happened.verified = Some(answer.unwrap_or(false));
            }
            happened.timer = timer.as_mut().poll(context).is_ready();
            let was_told = told.as_mut().poll(context).is_ready();
            let is_nothing =
                happened.read.is_none() && happened.wrote.is_none() && happened.verified.is_none();
            if is_nothing && !happened.timer && !was_told { Poll::Pending } else { Poll::Ready(happened) }
        })
        .await
    }

    fn take_in(&mut self, happened: Happened) {
        let now = self.shared.clock.now();
        match happened.wrote {
            Some(Ok(length)) => {
                self.out.took(length);
                self.record_sent();
                self.session.taken(now, self.out.pending().len());
            }
            Some(Err(_)) => self.lose(now),
            None => {}
        }
        match happened.read {
            Some(Ok(length)) if length > 0 => {
                self.inbound.received(length);
                self.session.heard(now);
            }
            Some(_) => self.lose(now),
            None => {}
        }
        if let Some(is_right) = happened.verified
            && let Some((attempt, _)) = self.verification.take()
        {
            self.verified = Some((attempt, is_right));
        }
        if happened.timer
            && self.out.reports_max() == 0
            && let Some(wanted) = self.session.wants()
        {
            let last = self.shared.reports.available(wanted.session, wanted.day);
            self.session.backlog(now, last);
        }
    }

    fn lose(&mut self, now: Now) {
        self.session.lost(now, EndReason::Closed);
        self.out.abandon();
    }

    /// Sees to it that the exchange hears of the end, however long the ring is full.
    async fn settle(&mut self) {
        while !self.session.is_finished() {
            let now = self.shared.clock.now();
            self.look_at_term(now);
            self.take_notices(now);
            self.session.tick(now, false, &mut self.out);
            if !self.publish(now) || !self.session.is_finished() {
                tokio::select! {
                    () = self.port.told() => {}
                    () = sleep(RETRY) => {}
                }
            }
        }
    }
}

fn refused(request_id: RequestId, reason: RefuseReason, kind: FrameKind) -> Unsequenced {
    Unsequenced::Refused(Refused { request_id, reason, request_kind: Some(kind) })
}

/// Ends the sending direction, then takes what the client still sends for a while.
async fn linger(mut reader: ReadHalf<'_>, mut writer: WriteHalf<'_>) {
    let _ = writer.shutdown().await;
    let mut waste = [0; 1024];
    let _ = timeout(LINGER, async { while matches!(reader.read(&mut waste).await, Ok(1..)) {} }).await;
}
