//! Threads that verify passwords, and the count of an address's failures. A flood of logins must cost no more than those
//! threads and a queue of a fixed length: they work at a low priority, and never on the gateway's thread.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use protocol::Credential;
use tokio::sync::oneshot;

use journaler::at_low_priority;

use crate::credentials::{PASSWORD_LENGTH_MAX, SCHEME, Verifier};
use crate::throttle::{Throttle, ThrottleLimits};

/// Addresses whose failures are counted one by one; further ones share one count.
const ADDRESSES_MAX: usize = 4096;
/// A tenth of a core where the engine's threads want all of it. With the lowest priority there is, a machine that others keep
/// busy would let nobody log in for seconds.
const NICE: i32 = 10;

struct Job {
    credential: Credential,
    password: [u8; PASSWORD_LENGTH_MAX],
    length: usize,
    answer: oneshot::Sender<bool>,
}

/// Verifies passwords off the gateway's thread. The threads end with it.
#[derive(Debug)]
pub(crate) struct Verifiers {
    jobs: SyncSender<Job>,
}

impl Verifiers {
    /// `threads` threads, for which at most `waiting_max` logins wait.
    pub(crate) fn start(threads: usize, waiting_max: usize) -> io::Result<Self> {
        let (jobs, waiting) = sync_channel::<Job>(waiting_max);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let waiting = Arc::clone(&waiting);
            thread::Builder::new().name(format!("password-{number}")).spawn(move || work(&waiting))?;
        }
        Ok(Self { jobs })
    }

    /// Asks whether `password` is the credential's; without a credential, the answer takes as long and is no. `None` when
    /// too many wait.
    pub(crate) fn ask(
        &self,
        credential: Option<Credential>,
        password: &[u8],
    ) -> Option<oneshot::Receiver<bool>> {
        // No password has this hash: 32 zero bytes are no more likely than any other guess.
        let nobody = Credential { scheme: SCHEME, salt: [0; 16], hash: [0; 32] };
        let (answer, answered) = oneshot::channel();
        let length = password.len().min(PASSWORD_LENGTH_MAX);
        let mut job = Job {
            credential: credential.unwrap_or(nobody),
            password: [0; PASSWORD_LENGTH_MAX],
            length,
            answer,
        };
        job.password[..length].copy_from_slice(&password[..length]);
        self.jobs.try_send(job).ok()?;
        Some(answered)
    }
}

fn work(waiting: &Mutex<Receiver<Job>>) {
    let mut verifier = Verifier::default();
    loop {
        // One thread waits in the channel, the other for the lock.
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        // A client that is gone needs no answer and no 20 ms.
        if !job.answer.is_closed() {
            let password = job.password.get(..job.length).unwrap_or_default();
            let verified = at_low_priority("password", NICE, || verifier.verify(&job.credential, password));
            // Where there is no thread for it, nobody is let in.
            let _ = job.answer.send(verified.unwrap_or(false));
        }
    }
}

/// Failed logins by address.
#[derive(Debug)]
pub(crate) struct FailedLogins {
    limits: ThrottleLimits,
    addresses: HashMap<IpAddr, Throttle>,
    others: Throttle,
}

impl FailedLogins {
    pub(crate) fn new(limits: ThrottleLimits, now: Duration) -> Self {
        Self { limits, addresses: HashMap::new(), others: Throttle::new(limits, now) }
    }

    /// Whether an address may try another login.
    pub(crate) fn allows(&mut self, address: IpAddr, now: Duration) -> bool {
        let full = self.addresses.len() >= ADDRESSES_MAX;
        match self.addresses.get_mut(&address) {
            Some(throttle) => {
                throttle.refill(now);
                throttle.is_enough()
            }
            None if full => {
                self.others.refill(now);
                self.others.is_enough()
            }
            None => true,
        }
    }

    /// Counts a failure.
    pub(crate) fn failed(&mut self, address: IpAddr, now: Duration) {
        let known = self.addresses.contains_key(&address);
        if !known && self.addresses.len() >= ADDRESSES_MAX {
            self.addresses.retain(|_, throttle| {
                throttle.refill(now);
                !throttle.is_full()
            });
        }
        let throttle = match known || self.addresses.len() < ADDRESSES_MAX {
            true => self.addresses.entry(address).or_insert_with(|| Throttle::new(self.limits, now)),
            false => &mut self.others,
        };
        throttle.refill(now);
        throttle.take(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_address_and_the_table_is_bounded() {
        let limits = ThrottleLimits { rate: 1, burst: 2 };
        let second = Duration::from_secs;
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut failed = FailedLogins::new(limits, second(0));
        for _ in 0..2 {
            assert!(failed.allows(address(1), second(0)));
            failed.failed(address(1), second(0));
        }
        assert!(!failed.allows(address(1), second(0)), "the burst is used up");
        assert!(failed.allows(address(2), second(0)), "another address is not concerned");
        assert!(failed.allows(address(1), second(1)), "time earns another try");

        for number in 0..ADDRESSES_MAX as u32 + 64 {
            failed.failed(address(number), second(1));
            failed.failed(address(number), second(1));
        }
        assert_eq!(failed.addresses.len(), ADDRESSES_MAX);
        assert!(!failed.allows(address(1 << 20), second(1)), "those beyond the table share one count");
        failed.failed(address(1 << 20), second(9));
        assert_eq!(failed.addresses.len(), 1, "what time has made good again is forgotten");
    }
}
