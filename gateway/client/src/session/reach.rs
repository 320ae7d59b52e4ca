//! Which member is tried next, when, and how long it is waited for: the list, the leader that a member names, the pauses, the
//! limits. It knows nothing of what is said on a connection.

use std::time::Duration;

use crate::{ClientConfig, ConnectionLoss};

/// Pause behind the first round of tries; it doubles with each round.
const BACK_OFF_FIRST: Duration = Duration::from_millis(10);
/// Longest pause of the first rounds, in which the members elect a leader.
const BACK_OFF_SOON: Duration = Duration::from_millis(40);
/// How many rounds those are: about half a second.
const ROUNDS_SOON: u32 = 14;
/// Longest pause between two rounds.
const BACK_OFF_LAST: Duration = Duration::from_millis(250);
/// How long a login may take: the server verifies passwords one after the other.
const LOGIN_LIMIT: Duration = Duration::from_secs(10);
/// How long a connection may take to be built.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// Named leaders that are gone to in one round. Members that name each other, or one that is not there, cost no more.
const REDIRECTS_MAX: u32 = 4;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Reach {
    addresses: Vec<String>,
    answer_limit: Option<Duration>,
    next: usize,
    redirect: Option<String>,
    /// Named leaders gone to in this round.
    redirects: u32,
    /// Tries in this round.
    tried: usize,
    /// Rounds since the last login.
    rounds: u32,
    /// The member that is tried was named as the leader.
    is_named: bool,
    /// Times in a row that something was left unanswered.
    stalls: u32,
    /// Logins of this round that were left unanswered.
    round_stalls: usize,
    /// Rounds in a row in which all of them were.
    dead_rounds: u32,
    /// State of the jitter's generator (SplitMix64).
    random: u64,
}

impl Reach {
    pub(super) fn new(config: &ClientConfig) -> Self {
        Self {
            addresses: config.addresses.clone(),
            answer_limit: config.answer_limit,
            next: 0,
            redirect: None,
            redirects: 0,
            tried: 0,
            rounds: 0,
            is_named: false,
            stalls: 0,
            round_stalls: 0,
            dead_rounds: 0,
            random: config.seed,
        }
    }

    /// The address to try now.
    pub(super) fn next(&mut self) -> String {
        self.is_named = self.redirect.is_some();
        if let Some(leader) = self.redirect.take() {
            return leader;
        }
        let address = self.addresses.get(self.next % self.addresses.len()).cloned();
        self.next += 1;
        address.unwrap_or_default()
    }

    /// How long to wait behind a connection that ended so. `was_let_in` says that there had been a login on it.
    pub(super) fn pause(&mut self, loss: &ConnectionLoss, was_let_in: bool) -> Duration {
        match loss {
            ConnectionLoss::DayEnded => return Duration::ZERO,
            ConnectionLoss::Redirected(leader) if self.redirects < REDIRECTS_MAX => {
                self.redirects += 1;
                self.redirect = Some(leader.clone());
                return Duration::ZERO;
            }
            ConnectionLoss::LoginTimeout | ConnectionLoss::Unanswered => {
                self.stalls = self.stalls.saturating_add(1);
                self.round_stalls += usize::from(!was_let_in);
            }
            _ => {}
        }
        self.tried += 1;
        // A server that lets in and closes at once must not be asked without a pause.
        if self.tried < self.addresses.len() && !was_let_in {
            return Duration::ZERO;
        }
        self.dead_rounds = match self.round_stalls >= self.addresses.len() {
            true => self.dead_rounds.saturating_add(1),
            false => 0,
        };
        let pause = match self.rounds.checked_sub(ROUNDS_SOON) {
            None => BACK_OFF_FIRST.saturating_mul(1 << self.rounds).min(BACK_OFF_SOON),
            Some(later) => BACK_OFF_SOON.saturating_mul(2 << later.min(10)).min(BACK_OFF_LAST),
        };
        (self.tried, self.redirects, self.rounds) = (0, 0, self.rounds.saturating_add(1));
        self.round_stalls = 0;
        self.jittered(pause)
    }

    /// A login succeeded.
    pub(super) fn logged_in(&mut self) {
        (self.tried, self.redirects, self.rounds) = (0, 0, 0);
        (self.round_stalls, self.dead_rounds) = (0, 0);
    }

    /// What was asked was answered.
    pub(super) fn answered(&mut self) {
        self.stalls = 0;
    }

    /// How long something may be unanswered while nothing else is heard, where that is limited.
    pub(super) fn answer_limit(&self) -> Option<Duration> {
        self.doubled(self.stalls)
    }

    /// How long a login may be unanswered. A member that others name is given more and more time, since it may be slow; one
    /// that is only on the list is not, while others answer, since it may be stopped.
    pub(super) fn login_limit(&self) -> Duration {
        let times = if self.is_named { self.stalls } else { self.dead_rounds };
        self.doubled(times).unwrap_or(LOGIN_LIMIT)
    }

    /// How long a connection may take to be built.
    pub(super) fn connect_limit(&self) -> Duration {
        self.login_limit().min(CONNECT_LIMIT)
    }

    fn doubled(&self, times: u32) -> Option<Duration> {
        Some(self.answer_limit?.saturating_mul(1 << times.min(10)).min(LOGIN_LIMIT))
    }

    /// Between the half and the whole of it.
    fn jittered(&mut self, pause: Duration) -> Duration {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        let half = pause / 2;
        half + half.mul_f64((mixed >> 11) as f64 / (1u64 << 53) as f64)
    }
}
