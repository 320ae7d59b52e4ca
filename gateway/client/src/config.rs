//! What a client is told before it starts: where the server is, who it is, how much it may have in flight.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use protocol::UserName;
use protocol::soupbin::SILENCE_SECONDS;

/// Most characters of a password: SoupBinTCP's login has room for no more.
pub(crate) const PASSWORD_LENGTH: usize = 10;

/// Most requests that may be pending in one session.
pub(crate) const WINDOW_MAX: usize = 1 << 20;

/// How long one of several members may leave something unanswered at first.
const ANSWER_LIMIT: Duration = Duration::from_millis(300);
/// How long one of several members may be silent: three heartbeats.
const SILENCE_LIMIT: Duration = Duration::from_secs(3);

/// A password as SoupBinTCP carries it: 1 to 10 printable ASCII characters. It is never shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password([u8; PASSWORD_LENGTH]);

impl Password {
    /// Takes 1 to 10 printable ASCII characters without spaces; `None` for anything else.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.is_empty() || bytes.len() > PASSWORD_LENGTH || !bytes.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let mut padded = [b' '; PASSWORD_LENGTH];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(Self(padded))
    }

    pub(crate) fn as_padded(&self) -> &[u8; PASSWORD_LENGTH] {
        &self.0
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(..)")
    }
}

/// Which reports of the current trading day the first login asks for. Later logins always go on where the last one ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// Only those that are yet to come.
    #[default]
    New,
    /// All since the day began.
    DayStart,
}

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// Members of the venue as `host:port`, tried in this order. A member's `leader=` goes before them.
    pub addresses: Vec<String>,
    /// The login name.
    pub user: UserName,
    /// Its password.
    pub password: Password,
    /// Most requests pending at a time, counted from the oldest that has no outcome: 1 to 2^20.
    pub window: usize,
    /// Which reports the first login asks for.
    pub start: Start,
    /// Whether a lost connection is built again. Without it a loss ends the client, and what is pending is
    /// [`Outcome::Unknown`](crate::Outcome::Unknown).
    pub reconnect: bool,
    /// How long the server may leave a request, a query or a login unanswered, and say nothing else, before the connection is
    /// given up and the next member is tried: a member that is stopped, or can't reach its peers, still accepts connections. It
    /// doubles with each time in a row at a member that others name as the leader, or at all of them, up to ten seconds, so
    /// that a slow venue is reached too.
    /// `None` waits for the silence limit: where there is nobody else to ask, giving up wins nothing.
    pub answer_limit: Option<Duration>,
    /// How long the server may be silent at all. It sends a heartbeat a second.
    pub silence_limit: Duration,
    /// Seed of the jitter in the pauses between tries, so that not all clients come back at the same moment.
    pub seed: u64,
}

impl ClientConfig {
    /// A configuration for one address: a window of 1,024, only new reports, reconnecting.
    #[must_use]
    pub fn new(address: impl Into<String>, user: UserName, password: Password) -> Self {
        Self {
            addresses: vec![address.into()],
            user,
            password,
            window: 1024,
            start: Start::New,
            reconnect: true,
            answer_limit: None,
            silence_limit: Duration::from_secs(SILENCE_SECONDS),
            seed: RandomState::new().build_hasher().finish(),
        }
    }

    /// A configuration for the members of a cluster, otherwise as [`new`](Self::new): a member that leaves something
    /// unanswered for 300 ms, or is silent for 3 s, is left for the next one.
    #[must_use]
    pub fn members(addresses: Vec<String>, user: UserName, password: Password) -> Self {
        Self {
            addresses,
            answer_limit: Some(ANSWER_LIMIT),
            silence_limit: SILENCE_LIMIT,
            ..Self::new(String::new(), user, password)
        }
    }
}
