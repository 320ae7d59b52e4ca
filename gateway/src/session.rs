//! One connection's SoupBinTCP session as a state machine: bytes, notices and time in; packets, frames and wishes out.
//! It has neither socket nor clock, decides nothing about business, and keeps no report: it knows the number of the
//! next one.
//!
//! ```text
//!  AwaitingLogin --L--> Verifying --ok--> Entering --LoggedIn--> Live --O, stop, operator--> Ending --> Closed
//!       |                   |  \            |    \                 |                                      ^
//!       |                   |   \--older day-----------> Replaying-+--day over, all sent: Z --------------+
//!       +---- deadline -----+---- refused --+     \-- lost --> Abandoned --verdict--------------------> Closed
//! ```
//!
//! In a cluster a session lives in the term in which its login packet came. When that is over it is
//! [`deposed`](Session::deposed): it takes and publishes nothing more, sends what the report log has, and closes.
//!
//! What the driver does, in a loop: read into [`Inbound`], [`receive`](Session::receive) until it needs more bytes, publish
//! what waits there, then the [`control`](Session::control) frame, fill the [`Outbound`] with reports while
//! [`wants`](Session::wants) says so, write it, and wait for the next of socket, notice and
//! [`next_deadline`](Session::next_deadline).

mod commands;
mod copies;
mod ending;
mod login;
mod stream;
mod term;

use std::time::Duration;

use protocol::soupbin::{Packet, read_packet};
use protocol::{
    Body, Command, ConnectionId, DepthQuery, DropCopyRequest, EndReason, FrameWriter, InstrumentQuery,
    LoginRequest, RequestId, SessionId, Term, Timestamp, Unsequenced,
};

use crate::admission::Admission;
use crate::buffers::{Inbound, Outbound};
use crate::config::{DurabilityLevel, SessionLimits};
use crate::resume::{RESUME, Token};
use crate::throttle::Throttle;

use commands::Fate;
use copies::DropCopies;
pub use copies::{Copying, place_of};
use login::Entry;
pub use login::{Attempt, Identity};
use stream::Stream;
pub use stream::Wanted;

/// A moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since some fixed moment; never goes back.
    pub monotonic: Duration,
    /// Wall time, for the frames' stamps.
    pub unix: Timestamp,
}

/// What holds at a moment for all sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What is taken in.
    pub admission: Admission,
    /// The term in which this member leads.
    pub term: Option<Term>,
    /// Whether another member is known to lead.
    pub led_elsewhere: bool,
    /// Whether what is not in the log may be answered.
    pub confirmed: bool,
}

/// Why [`Session::receive`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// There is no room for an answer: write first.
    Full,
    /// The bytes must wait for a verdict or a leader, or will never be looked at.
    Wait,
    /// What comes next can't be answered before the leadership is confirmed; nothing behind it may be looked at either.
    Unconfirmed,
    /// A login came to a member that doesn't lead: call [`Session::not_leader`].
    NotLeader,
    /// The password must be verified: call [`Session::verified`] or [`Session::refuse`].
    Verify(Attempt),
    /// The client wants a token to come back with.
    Resume,
    /// A question: call [`Session::answer`] with what is known, then go on receiving.
    Query(Query),
}

/// A client's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// For depth.
    Depth(DepthQuery),
    /// For a definition.
    Instrument(InstrumentQuery),
    /// For the reports of another session.
    DropCopy(DropCopyRequest),
}

/// Reason byte of a refused login: the name or the password is wrong, or the user is disabled.
pub const NOT_AUTHORIZED: u8 = b'A';
/// Reason byte of a refused login: the session or the number is not there, the session is in use, or the server is busy.
pub const NOT_AVAILABLE: u8 = b'S';
/// Reason byte of a refused login: this member doesn't lead. An extension of ours.
pub const NOT_LEADER: u8 = b'L';

#[derive(Clone, Copy, Debug)]
enum State {
    AwaitingLogin {
        deadline: Duration,
    },
    Verifying {
        attempt: Attempt,
        deadline: Duration,
    },
    Entering {
        entry: Entry,
        deadline: Duration,
    },
    /// The client is gone while its Login frame was on its way.
    Abandoned {
        reason: EndReason,
        deadline: Duration,
    },
    Live(Stream),
    /// An older day's reports are read; nothing is taken in.
    Replaying(Stream),
    /// The last reports go out; `ended` once the exchange has ended the connection, so that no more come.
    Ending {
        stream: Stream,
        reason: EndReason,
        ended: bool,
        deadline: Duration,
    },
    /// Nothing more happens, but what is in the outbound buffer may still be sent until the deadline.
    Closed {
        flush_until: Option<Duration>,
    },
}

/// A frame of the session's own that must get into the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    Login,
    Logout,
    Disconnect(EndReason),
}

/// One connection's session.
#[derive(Debug)]
pub struct Session {
    connection: ConnectionId,
    limits: SessionLimits,
    durability: DurabilityLevel,
    state: State,
    /// The term that the session belongs to, from its login packet until it is [deposed](Self::deposed).
    term: Option<Term>,
    is_deposed: bool,
    /// The leader to name at the end of a session that was deposed.
    leader: Option<String>,
    /// Until when a login waits for a leader.
    leader_due: Option<Duration>,
    /// What the client presented before its login.
    token: Option<Token>,
    /// What becomes of the message that comes next, which waits for the leadership to be confirmed.
    held: Option<Fate>,
    /// The user's session, from the verified password on.
    session: SessionId,
    control: Option<Control>,
    /// The exchange may hold the connection as the session's live one, so that its end must be told.
    in_exchange: bool,
    throttle: Option<Throttle>,
    copies: DropCopies,
    last_sent: Duration,
    last_heard: Duration,
    /// When the client last took bytes, or nothing waited for it.
    last_taken: Duration,
    refused: u64,
    end: Option<EndReason>,
}

impl Session {
    /// A connection that was accepted at `now`. `durability` is what a client is told after its login.
    #[must_use]
    pub fn new(
        connection: ConnectionId,
        limits: SessionLimits,
        durability: DurabilityLevel,
        now: Now,
    ) -> Self {
        let at = now.monotonic;
        Self {
            connection,
            limits,
            durability,
            state: State::AwaitingLogin { deadline: at + limits.login_deadline },
            term: None,
            is_deposed: false,
            leader: None,
            leader_due: None,
            token: None,
            held: None,
            session: SessionId::SYSTEM,
            control: None,
            in_exchange: false,
            throttle: limits.throttle.map(|limits| Throttle::new(limits, at)),
            copies: DropCopies::default(),
            last_sent: at,
            last_heard: at,
            last_taken: at,
            refused: 0,
            end: None,
        }
    }

    /// Looks at the packets that came in, in order, until something is needed of the driver. Frames that pass are stamped
    /// and kept in `inbound`, to be published in that order.
    pub fn receive(
        &mut self,
        now: Now,
        standing: Standing,
        inbound: &mut Inbound,
        out: &mut Outbound,
    ) -> Step {
        if let Some(throttle) = &mut self.throttle {
            throttle.refill(now.monotonic);
        }
        loop {
            if !self.takes_packets() {
                return Step::Wait;
            }
            if !out.has_room() {
                return Step::Full;
            }
            let length = match read_packet(inbound.unparsed()) {
                Ok(None) => return Step::More,
                Ok(Some((Packet::Unsequenced(_), length))) => length,
                Ok(Some((Packet::LoginRequest(_), _))) if self.must_wait(standing) => {
                    return Step::Unconfirmed;
                }
                Ok(Some((Packet::LoginRequest(_), _))) if self.waits_for_leader(now, standing) => {
                    return Step::Wait;
                }
                Ok(Some((packet, length))) => {
                    let step = self.session_packet(now, standing, &packet, out);
                    inbound.skip(length);
                    match step {
                        Some(step) => return step,
                        None => continue,
                    }
                }
                Err(_) => {
                    self.close(now, EndReason::Protocol, out);
                    return Step::Wait;
                }
            };
            if let Some(step) = self.message(now, standing, length, inbound, out) {
                return step;
            }
        }
    }

    /// Bytes came from the client.
    pub fn heard(&mut self, now: Now) {
        self.last_heard = now.monotonic;
    }

    /// The client took bytes; `left` wait for it.
    pub fn taken(&mut self, now: Now, left: usize) {
        self.last_taken = now.monotonic;
        if left == 0 && matches!(self.state, State::Closed { .. }) {
            self.state = State::Closed { flush_until: None };
        }
    }

    /// Answers a question. The caller asked only after [`receive`](Self::receive) made sure that there is room.
    pub fn answer(&mut self, now: Now, answer: &Unsequenced, out: &mut Outbound) {
        if let Unsequenced::Refused(_) = answer {
            self.refused += 1;
        }
        self.send(now, &Packet::Unsequenced(answer.encode().as_bytes()), out);
    }

    /// The frame that must be published next, after the frames that wait in the inbound buffer.
    #[must_use]
    pub fn control(&self, now: Now) -> Option<FrameWriter> {
        let body = match self.control? {
            Control::Login => Body::Login(LoginRequest { trading_day: None }),
            Control::Logout => Body::Logout,
            Control::Disconnect(reason) => Body::Disconnect(reason),
        };
        let command = Command {
            session: self.session,
            connection: self.connection,
            request_id: RequestId(0),
            timestamp: now.unix,
            body,
        };
        command.encode()
    }

    /// Whether there is a [`control`](Self::control) frame.
    #[must_use]
    pub fn has_control(&self) -> bool {
        self.control.is_some()
    }

    /// The [`control`](Self::control) frame is in the ring.
    pub fn control_published(&mut self) {
        self.in_exchange = self.control == Some(Control::Login);
        self.control = None;
    }

    /// The output stage told that the exchange ended the connection.
    pub fn ended(&mut self, now: Now, why: EndReason) {
        self.in_exchange = false;
        if matches!(self.control, Some(Control::Logout | Control::Disconnect(_))) {
            self.control = None;
        }
        match &mut self.state {
            // The day's end is seen by the day, after the day's last report.
            State::Live(_) if why == EndReason::EndOfDay => {}
            State::Live(stream) => {
                let deadline = now.monotonic + self.limits.ending_deadline;
                self.state = State::Ending { stream: *stream, reason: why, ended: true, deadline };
            }
            State::Ending { ended, .. } => *ended = true,
            _ => {}
        }
    }

    /// The server stops: nothing more is taken in, the reports that are due go out, and the connection ends.
    pub fn stop(&mut self, now: Now, out: &mut Outbound) {
        match self.state {
            State::AwaitingLogin { .. } | State::Verifying { .. } => self.refuse(now, NOT_AVAILABLE, out),
            State::Live(stream) => self.end_live(now, stream, EndReason::Server),
            State::Entering { .. } | State::Replaying(_) => self.close(now, EndReason::Server, out),
            State::Abandoned { .. } | State::Ending { .. } | State::Closed { .. } => {}
        }
    }

    /// The socket is gone, or the driver gives it up: nothing more can be sent.
    pub fn lost(&mut self, now: Now, reason: EndReason) {
        self.leave(now, reason);
        if let State::Closed { flush_until } = &mut self.state {
            *flush_until = None;
        }
    }

    /// Time went on. `reading` is false while the driver doesn't read, when silence is not the client's.
    pub fn tick(&mut self, now: Now, reading: bool, out: &mut Outbound) {
        let at = now.monotonic;
        if !reading {
            self.last_heard = at;
        }
        if out.pending().is_empty() {
            self.last_taken = at;
        }
        match self.state {
            State::AwaitingLogin { deadline } if at >= deadline => {
                self.close(now, EndReason::Silent, out);
            }
            State::Verifying { deadline, .. } if at >= deadline => self.refuse(now, NOT_AVAILABLE, out),
            State::Entering { deadline, .. } if at >= deadline => self.close(now, EndReason::Server, out),
            State::Abandoned { reason, deadline } if at >= deadline => {
                self.control = Some(Control::Disconnect(reason));
                self.state = State::Closed { flush_until: None };
            }
            State::Ending { reason, deadline, .. } if at >= deadline => self.close(now, reason, out),
            State::Closed { flush_until: Some(deadline) } if at >= deadline => {
                self.lost(now, EndReason::Closed)
            }
            State::Live(_) | State::Replaying(_) | State::Ending { .. } => self.tick_open(now, out),
            _ => {}
        }
    }

    fn tick_open(&mut self, now: Now, out: &mut Outbound) {
        let at = now.monotonic;
        if at >= self.last_taken + self.limits.stall {
            self.lost(now, EndReason::SlowReader);
        } else if at >= self.last_heard + self.limits.silence {
            self.close(now, EndReason::Silent, out);
        } else if at >= self.last_sent + self.limits.heartbeat && out.pending().is_empty() {
            self.send(now, &Packet::ServerHeartbeat, out);
        }
    }

    /// When [`tick`](Self::tick) must be called at the latest, in the time of [`Now::monotonic`].
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let open = (self.last_sent + self.limits.heartbeat)
            .min(self.last_heard + self.limits.silence)
            .min(self.last_taken + self.limits.stall);
        match self.state {
            State::AwaitingLogin { deadline } => {
                Some(self.leader_due.map_or(deadline, |due| due.min(deadline)))
            }
            State::Verifying { deadline, .. }
            | State::Entering { deadline, .. }
            | State::Abandoned { deadline, .. } => Some(deadline),
            State::Live(_) | State::Replaying(_) => Some(open),
            State::Ending { deadline, .. } => Some(open.min(deadline)),
            State::Closed { flush_until } => flush_until,
        }
    }

    /// Whether bytes from the client are wanted.
    #[must_use]
    pub fn takes_packets(&self) -> bool {
        !self.is_deposed
            && matches!(
                self.state,
                State::AwaitingLogin { .. } | State::Live(_) | State::Replaying(_) | State::Ending { .. }
            )
    }

    /// Whether the socket is of no more use: what could be sent is sent.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { flush_until: None } | State::Abandoned { .. })
    }

    /// Whether nothing is left to do: the socket is of no more use and the exchange knows.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Closed { flush_until: None }) && self.control.is_none()
    }

    /// Whether a Login frame is on its way, so that a verdict is due.
    #[must_use]
    pub fn awaits_verdict(&self) -> bool {
        matches!(self.state, State::Entering { .. } | State::Abandoned { .. })
    }

    /// Whether the client is gone, and a verdict is due only so that the exchange can be told.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        matches!(self.state, State::Abandoned { .. })
    }

    /// Whether the client has its session, and may send commands.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.state, State::Live(_))
    }

    /// Whether the client was let in, if only to read.
    #[must_use]
    pub fn is_let_in(&self) -> bool {
        matches!(self.state, State::Live(_) | State::Replaying(_) | State::Ending { .. })
    }

    /// The user's session; [`SessionId::SYSTEM`] before the password was verified.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Why the connection ended.
    #[must_use]
    pub fn end(&self) -> Option<EndReason> {
        self.end
    }

    /// Messages refused so far.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// A packet other than a message.
    fn session_packet(
        &mut self,
        now: Now,
        standing: Standing,
        packet: &Packet<'_>,
        out: &mut Outbound,
    ) -> Option<Step> {
        match (packet, self.state) {
            (Packet::LoginRequest(login), State::AwaitingLogin { .. }) => {
                self.term = standing.term;
                if self.term.is_none() {
                    return Some(Step::NotLeader);
                }
                return self.attempt(now, login, out).map(Step::Verify);
            }
            (Packet::Debug(text), State::AwaitingLogin { .. }) if text.starts_with(RESUME.as_bytes()) => {
                self.token = Token::read(text);
            }
            (_, State::AwaitingLogin { .. }) => self.close(now, EndReason::Protocol, out),
            (Packet::Debug(text), State::Live(_)) if *text == RESUME.as_bytes() => return Some(Step::Resume),
            (Packet::ClientHeartbeat | Packet::Debug(_), _) => {}
            (Packet::LogoutRequest, State::Live(stream)) => self.end_live(now, stream, EndReason::Logout),
            (Packet::LogoutRequest, State::Replaying(_)) => self.close(now, EndReason::Logout, out),
            (Packet::LogoutRequest, _) => {}
            _ => self.close(now, EndReason::Protocol, out),
        }
        None
    }

    fn send(&mut self, now: Now, packet: &Packet<'_>, out: &mut Outbound) {
        out.packet(packet);
        self.last_sent = now.monotonic;
    }
}
