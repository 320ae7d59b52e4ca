//! What a gateway is configured with, and the values that it refuses.

use std::net::SocketAddr;
use std::time::Duration;

use protocol::soupbin::{HEARTBEAT_SECONDS, SILENCE_SECONDS};

use crate::buffers::{CONNECTION_BYTES, IN_BYTES, OUT_BYTES};
use crate::throttle::ThrottleLimits;

/// What has happened to a request before its report is sent, as clients are told after their login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DurabilityLevel {
    /// A server alone has handed it to its operating system; a majority of a cluster's members has received it.
    Memory,
    /// A server alone has it on disk.
    #[default]
    Disk,
    /// A majority of a cluster's members has it on disk.
    Quorum,
}

impl DurabilityLevel {
    /// Its name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Quorum => "quorum",
        }
    }
}

/// One SoupBinTCP listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayConfig {
    /// Where it listens; port 0 is any free one.
    pub address: SocketAddr,
    /// Whether an address other than loopback is meant: passwords and orders go over it in the clear.
    pub allow_remote: bool,
    /// The durability that clients are told after their login.
    pub durability: DurabilityLevel,
    /// Limits of the listener.
    pub listener: ListenerLimits,
    /// Limits of each session.
    pub session: SessionLimits,
}

/// Limits of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerLimits {
    /// Connections at once.
    pub connections_max: usize,
    /// Connections at once from one address.
    pub connections_per_address_max: usize,
    /// Passwords verified at once, each on a thread of its own with 19 MiB. 1 to 2.
    pub verifiers: usize,
    /// Logins that wait for a verifier; one more is turned away.
    pub verifications_waiting_max: usize,
    /// Failed logins from one address.
    pub failed_logins: ThrottleLimits,
    /// How long a stop waits for the connections to take their last reports.
    pub stop_deadline: Duration,
}

/// Limits of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// From the connection to its login packet.
    pub login_deadline: Duration,
    /// From the login packet to its answer.
    pub verdict_deadline: Duration,
    /// How long a login waits where nobody is known to lead, before it is refused for that. Clients of a cluster wait for longer
    /// before they try another member.
    pub leader_wait: Duration,
    /// The server sends a heartbeat after so long without anything else.
    pub heartbeat: Duration,
    /// The connection is dropped after so long without a byte from the client.
    pub silence: Duration,
    /// A client that takes no byte of what waits for it is dropped after so long.
    pub stall: Duration,
    /// A client that had caught up, lags by more reports than this, and isn't taking bytes, is dropped.
    pub backlog_max: u64,
    /// From a logout, or the end of the session, to the end of the connection.
    pub ending_deadline: Duration,
    /// Messages that it may send; `None` = no limit.
    pub throttle: Option<ThrottleLimits>,
    /// Newest version of the rulebook that the server knows: a newer one must not get into its log.
    pub rulebook_max: u32,
}

impl Default for ListenerLimits {
    fn default() -> Self {
        Self {
            connections_max: 1024,
            connections_per_address_max: 256,
            verifiers: 2,
            verifications_waiting_max: 256,
            failed_logins: ThrottleLimits { rate: 1, burst: 20 },
            stop_deadline: Duration::from_secs(5),
        }
    }
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            login_deadline: Duration::from_secs(10),
            verdict_deadline: Duration::from_secs(10),
            leader_wait: Duration::from_millis(200),
            heartbeat: Duration::from_secs(HEARTBEAT_SECONDS),
            silence: Duration::from_secs(SILENCE_SECONDS),
            stall: Duration::from_secs(15),
            backlog_max: 1_000_000,
            ending_deadline: Duration::from_secs(5),
            throttle: Some(ThrottleLimits { rate: 2_000_000, burst: 2_000_000 }),
            rulebook_max: 1,
        }
    }
}

/// A configuration that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The address is not loopback and that was not allowed.
    #[error(
        "{0} is not a loopback address: passwords and orders would go over it in the clear. Set allow_remote if that is meant"
    )]
    NotLoopback(SocketAddr),
    /// A limit of zero, or one beyond its bound.
    #[error("{0} must be within {1} to {2}")]
    Limit(&'static str, u64, u64),
}

impl GatewayConfig {
    /// A listener with the default limits.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            allow_remote: false,
            durability: DurabilityLevel::default(),
            listener: ListenerLimits::default(),
            session: SessionLimits::default(),
        }
    }

    /// Most bytes that the connections' buffers take together.
    #[must_use]
    pub fn memory_max(&self) -> u64 {
        (self.listener.connections_max as u64) * CONNECTION_BYTES
    }

    /// Refuses values that can't work or are unsafe.
    ///
    /// # Errors
    /// [`ConfigError`] names the first of them.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.address.ip().is_loopback() && !self.allow_remote {
            return Err(ConfigError::NotLoopback(self.address));
        }
        let listener = &self.listener;
        let session = &self.session;
        let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let hour_ms = 3_600_000;
        let checks = [
            ("connections_max", listener.connections_max as u64, 1, 65_536),
            ("connections_per_address_max", listener.connections_per_address_max as u64, 1, 65_536),
            ("verifiers", listener.verifiers as u64, 1, 2),
            ("verifications_waiting_max", listener.verifications_waiting_max as u64, 1, 65_536),
            ("failed_logins.rate", u64::from(listener.failed_logins.rate), 1, 1_000_000),
            ("failed_logins.burst", u64::from(listener.failed_logins.burst), 1, 1_000_000),
            ("stop_deadline (ms)", ms(listener.stop_deadline), 1, hour_ms),
            ("login_deadline (ms)", ms(session.login_deadline), 1, hour_ms),
            ("verdict_deadline (ms)", ms(session.verdict_deadline), 1, hour_ms),
            ("heartbeat (ms)", ms(session.heartbeat), 1, hour_ms),
            ("silence (ms)", ms(session.silence), 1, hour_ms),
            ("stall (ms)", ms(session.stall), 1, hour_ms),
            ("backlog_max", session.backlog_max, 1, u64::MAX),
            ("ending_deadline (ms)", ms(session.ending_deadline), 1, hour_ms),
            ("throttle.rate", session.throttle.map_or(1, |limits| u64::from(limits.rate)), 1, 1_000_000_000),
            (
                "throttle.burst",
                session.throttle.map_or(1, |limits| u64::from(limits.burst)),
                1,
                u64::from(u32::MAX),
            ),
        ];
        for (name, value, min, max) in checks {
            if !(min..=max).contains(&value) {
                return Err(ConfigError::Limit(name, min, max));
            }
        }
        Ok(())
    }
}

const _: () = assert!(CONNECTION_BYTES > (IN_BYTES + OUT_BYTES) as u64);
