//! SoupBinTCP 3.0 packets as bytes: length u16 big-endian (type byte and payload), type, payload. Source: the Nasdaq
//! SoupBinTCP specification.
//!
//! Two uses of ours go beyond it: the server sends `U` packets for answers outside the numbered reports, and `+` packets
//! of the form `name=value` right after a login.

use crate::TradingDay;

/// Longest packet accepted: a frame, its type byte and room for debug text.
pub const PACKET_LENGTH_MAX: usize = crate::FRAME_LENGTH_MAX + 1;
/// Seconds after which either side sends a heartbeat if it sent nothing else.
pub const HEARTBEAT_SECONDS: u64 = 1;
/// Seconds of silence after which either side drops the connection.
pub const SILENCE_SECONDS: u64 = 15;

/// A trading day's session name on the wire: its number in 10 decimal digits.
#[must_use]
pub fn session_name(day: TradingDay) -> [u8; 10] {
    let mut rest = day.0;
    let mut name = [b'0'; 10];
    for digit in name.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

/// The trading day of a session name: decimal digits with zeros before or spaces around them. `None` for anything else; all spaces,
/// which a client sends for the current session, name no day.
#[must_use]
pub fn session_day(name: &[u8; 10]) -> Option<TradingDay> {
    let digits = std::str::from_utf8(name).ok()?.trim_matches(' ');
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().map(TradingDay)
}

/// A packet, borrowed from the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// `+`: free text.
    Debug(&'a [u8]),
    /// `A`: login accepted; session (10 characters, padded) and the number of the next sequenced message.
    LoginAccepted {
        /// The session: see [`session_name`].
        session: [u8; 10],
        /// Number of the next sequenced message.
        next: u64,
    },
    /// `J`: login rejected; `A` not authorised, `S` session not available.
    LoginRejected(u8),
    /// `S`: one numbered message.
    Sequenced(&'a [u8]),
    /// `H`: server heartbeat.
    ServerHeartbeat,
    /// `Z`: end of session.
    EndOfSession,
    /// `L`: login request.
    LoginRequest(Login),
    /// `U`: one unnumbered message.
    Unsequenced(&'a [u8]),
    /// `R`: client heartbeat.
    ClientHeartbeat,
    /// `O`: logout request.
    LogoutRequest,
}

/// Fields of a login request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Login {
    /// User name, padded with spaces.
    pub username: [u8; 6],
    /// Password, padded with spaces.
    pub password: [u8; 10],
    /// Requested session; all spaces = the current one.
    pub session: [u8; 10],
    /// Number of the first message wanted: 0 = only new ones, 1 = from the start.
    pub next: u64,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login")
            .field("username", &String::from_utf8_lossy(&self.username))
            .field("session", &String::from_utf8_lossy(&self.session))
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Why bytes are not a packet. The connection can't go on after any of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// Length 0, or above [`PACKET_LENGTH_MAX`].
    #[error("packet length {0} is outside 1..=1025")]
    Length(usize),
    /// A type byte that SoupBinTCP doesn't have.
    #[error("packet type {0:#04x} is unknown")]
    Type(u8),
    /// A payload that its type can't have.
    #[error("the payload of a packet of type {0:#04x} is malformed")]
    Payload(u8),
}

/// Reads the packet at the start of `bytes`: the packet and how many bytes it took, or `None` where more must come.
/// The length is checked as soon as it is there.
///
/// # Errors
/// [`PacketError`]; nothing behind the bytes can be trusted then.
pub fn read_packet(bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, PacketError> {
    let [high, low, rest @ ..] = bytes else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if length == 0 || length > PACKET_LENGTH_MAX {
        return Err(PacketError::Length(length));
    }
    let Some(content) = rest.get(..length) else { return Ok(None) };
    let [kind, payload @ ..] = content else { return Err(PacketError::Length(length)) };
    Ok(Some((decode(*kind, payload)?, 2 + length)))
}

fn decode(kind: u8, payload: &[u8]) -> Result<Packet<'_>, PacketError> {
    let malformed = PacketError::Payload(kind);
    let empty = |packet| if payload.is_empty() { Ok(packet) } else { Err(malformed) };
    match kind {
        b'+' => Ok(Packet::Debug(payload)),
        b'A' => {
            let (session, number) = payload.split_first_chunk::<10>().ok_or(malformed)?;
            Ok(Packet::LoginAccepted { session: *session, next: read_number(number).ok_or(malformed)? })
        }
        b'J' => match payload {
            [reason] => Ok(Packet::LoginRejected(*reason)),
            _ => Err(malformed),
        },
        b'S' => Ok(Packet::Sequenced(payload)),
        b'H' => empty(Packet::ServerHeartbeat),
        b'Z' => empty(Packet::EndOfSession),
        b'L' => read_login(payload).map(Packet::LoginRequest).ok_or(malformed),
        b'U' => Ok(Packet::Unsequenced(payload)),
        b'R' => empty(Packet::ClientHeartbeat),
        b'O' => empty(Packet::LogoutRequest),
        other => Err(PacketError::Type(other)),
    }
}

fn read_login(payload: &[u8]) -> Option<Login> {
    let (username, rest) = payload.split_first_chunk::<6>()?;
    let (password, rest) = rest.split_first_chunk::<10>()?;
    let (session, number) = rest.split_first_chunk::<10>()?;
    Some(Login { username: *username, password: *password, session: *session, next: read_number(number)? })
}

/// Reads 20 characters: decimal digits with spaces around them; all spaces are 0.
fn read_number(bytes: &[u8]) -> Option<u64> {
    let bytes: &[u8; 20] = bytes.try_into().ok()?;
    let digits = std::str::from_utf8(bytes).ok()?.trim_matches(' ');
    if digits.is_empty() {
        return Some(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

/// Appends the packet to `out`.
///
/// # Panics
/// If the payload is longer than a packet can be: the callers' payloads are frames and short texts.
pub fn write_packet(packet: &Packet<'_>, out: &mut Vec<u8>) {
    match packet {
        Packet::Debug(text) => write_parts(out, b'+', &[text]),
        Packet::LoginAccepted { session, next } => {
            write_parts(out, b'A', &[session, format!("{next:>20}").as_bytes()]);
        }
        Packet::LoginRejected(reason) => write_parts(out, b'J', &[&[*reason]]),
        Packet::Sequenced(message) => write_parts(out, b'S', &[message]),
        Packet::ServerHeartbeat => write_parts(out, b'H', &[]),
        Packet::EndOfSession => write_parts(out, b'Z', &[]),
        Packet::LoginRequest(login) => write_parts(
            out,
            b'L',
            &[&login.username, &login.password, &login.session, format!("{:>20}", login.next).as_bytes()],
        ),
        Packet::Unsequenced(message) => write_parts(out, b'U', &[message]),
        Packet::ClientHeartbeat => write_parts(out, b'R', &[]),
        Packet::LogoutRequest => write_parts(out, b'O', &[]),
    }
}

fn write_parts(out: &mut Vec<u8>, kind: u8, parts: &[&[u8]]) {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    assert!(length <= PACKET_LENGTH_MAX, "a payload of {length} bytes is no frame");
    out.extend_from_slice(&(length as u16).to_be_bytes());
    out.push(kind);
    for part in parts {
        out.extend_from_slice(part);
    }
}
