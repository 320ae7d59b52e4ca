//! A client of bare bytes, for what the client library would never send: it can say anything, and hears what is said.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};

use protocol::soupbin::{Login, Packet, read_packet, write_packet};
use protocol::{
    Body, Command, ConnectionId, RefuseReason, Report, RequestId, SessionId, Timestamp, Unsequenced,
};
use socket2::{Domain, Protocol, Socket, Type};

use crate::harness::PATIENCE;

const RECEIVE_BYTES: usize = 64 * 1024;

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Login accepted; number of the next report.
    Accepted(u64),
    /// Login rejected.
    Rejected(char),
    /// A debug packet.
    Fact(String),
    /// A report, by its number.
    Report(u64),
    /// A message was refused.
    Refused(RefuseReason),
    /// A drop copy, by its report's number; `None`: all that there are were sent.
    Copy(Option<u64>),
    /// `Z`.
    EndOfSession,
    /// Any other unnumbered message.
    Other,
}

/// A connection.
pub(crate) struct Raw {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Raw {
    /// Connects from the loopback address 127.0.0.`host`, so that it has limits of its own.
    pub(crate) fn connect_from(host: u8, to: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        // Little room for what is not read, so that a client that does not read soon takes nothing.
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
        let from = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), 0);
        socket.bind(&from.into())?;
        socket.connect(&to.into())?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    /// Connects and logs in, which must succeed.
    #[track_caller]
    pub(crate) fn login(to: SocketAddr, user: &str, password: &str, session: &str, next: u64) -> Self {
        Self::login_from(1, to, user, password, session, next)
    }

    /// As [`login`](Self::login), from 127.0.0.`host`.
    #[track_caller]
    pub(crate) fn login_from(
        host: u8,
        to: SocketAddr,
        user: &str,
        password: &str,
        session: &str,
        next: u64,
    ) -> Self {
        let mut raw = Self::connect_from(host, to).expect("the server takes connections");
        raw.send(&login(user, password, session, next)).expect("sent");
        match raw.next() {
            Some(Said::Accepted(_)) => raw,
            other => panic!("the login of {user} got {other:?}"),
        }
    }

    /// Logs in from 127.0.0.`host` to hear what is new; `None` while an earlier connection of the session is there.
    #[track_caller]
    pub(crate) fn try_login_from(host: u8, to: SocketAddr, user: &str, password: &str) -> Option<Self> {
        let mut raw = Self::connect_from(host, to).expect("the server takes connections");
        raw.send(&login(user, password, "", 0)).expect("sent");
        match raw.next() {
            Some(Said::Accepted(_)) => Some(raw),
            Some(Said::Rejected('S')) => None,
            other => panic!("the login of {user} got {other:?}"),
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// The connection is gone.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Asks for the end; a read-only session takes no heed of it.
    pub(crate) fn log_out(&mut self) {
        // One that the server has closed already needs none.
        let _ = self.send(&bytes(&Packet::LogoutRequest));
    }

    /// The next thing said, without heartbeats; `None` once the server has closed.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Said> {
        loop {
            if let Some((packet, length)) = read_packet(&self.buffer).expect("a server's bytes are packets") {
                let said = said(&packet);
                self.buffer.drain(..length);
                match said {
                    Some(said) => return Some(said),
                    None => continue,
                }
            }
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return None,
                Ok(length) => self.buffer.extend_from_slice(&bytes[..length]),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("neither an answer nor the end of the connection: {error}"),
            }
        }
    }

    /// All that is said until the server closes.
    #[track_caller]
    pub(crate) fn until_closed(&mut self) -> Vec<Said> {
        std::iter::from_fn(|| self.next()).collect()
    }
}

/// A login packet.
pub(crate) fn login(user: &str, password: &str, session: &str, next: u64) -> Vec<u8> {
    let login = Login { username: padded(user), password: padded(password), session: padded(session), next };
    bytes(&Packet::LoginRequest(login))
}

/// A packet's bytes.
pub(crate) fn bytes(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_packet(packet, &mut bytes);
    bytes
}

/// A request as a packet.
pub(crate) fn request(id: u64, body: Body) -> Vec<u8> {
    bytes(&Packet::Unsequenced(&frame(id, body)))
}

/// A request's frame.
pub(crate) fn frame(id: u64, body: Body) -> Vec<u8> {
    let command = Command {
        session: SessionId(0),
        connection: ConnectionId(0),
        request_id: RequestId(id),
        timestamp: Timestamp(0),
        body,
    };
    command.encode().expect("a client's request has a frame").as_bytes().to_vec()
}

fn padded<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [b' '; LENGTH];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

fn said(packet: &Packet<'_>) -> Option<Said> {
    Some(match packet {
        Packet::LoginAccepted { next, .. } => Said::Accepted(*next),
        Packet::LoginRejected(reason) => Said::Rejected(char::from(*reason)),
        Packet::Debug(text) => Said::Fact(String::from_utf8_lossy(text).into_owned()),
        Packet::Sequenced(frame) => {
            Said::Report(number_of(&Report::decode(frame).expect("a report decodes")))
        }
        Packet::Unsequenced(frame) => match Unsequenced::decode(frame).expect("an answer decodes") {
            Unsequenced::Refused(refused) => Said::Refused(refused.reason),
            Unsequenced::DropCopy(copy) => Said::Copy(copy.report.as_ref().map(number_of)),
            _ => Said::Other,
        },
        Packet::EndOfSession => Said::EndOfSession,
        Packet::ServerHeartbeat => return None,
        other => panic!("a server must not send {other:?}"),
    })
}

fn number_of(report: &Report) -> u64 {
    report.output.event.recipient().expect("a report has a number").number.0
}
