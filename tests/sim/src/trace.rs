//! What happened in a run: a hash of every event, the lines themselves where they are wanted, and the first promise that
//! was broken. It must not decide anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Takes a lock that a panic may have poisoned: the run ends with that panic anyway.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Inner {
    now: u64,
    hash: u64,
    events: u64,
    lines: Option<Vec<String>>,
    violation: Option<String>,
}

/// The record of a run. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(Arc<Mutex<Inner>>);

impl Trace {
    /// With `keep` the lines are kept.
    pub(crate) fn new(keep: bool) -> Self {
        let inner = Inner { lines: keep.then(Vec::new), ..Inner::default() };
        Self(Arc::new(Mutex::new(inner)))
    }

    /// Virtual time from here on, in milliseconds.
    pub(crate) fn at(&self, now: u64) {
        lock(&self.0).now = now;
    }

    /// Something happened.
    pub(crate) fn event(&self, kind: &'static str, fields: &[u64]) {
        let mut inner = lock(&self.0);
        let inner = &mut *inner;
        let mut hash = inner.hash ^ inner.now;
        for word in kind.bytes().map(u64::from).chain(fields.iter().copied()) {
            hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
        inner.hash = hash;
        inner.events += 1;
        if let Some(lines) = &mut inner.lines {
            let fields: Vec<String> = fields.iter().map(u64::to_string).collect();
            lines.push(format!("{:>7} {kind} {}", inner.now, fields.join(" ")));
        }
    }

    /// A remark for people, which is not part of the hash.
    pub(crate) fn remark(&self, line: impl FnOnce() -> String) {
        let mut inner = lock(&self.0);
        let now = inner.now;
        if let Some(lines) = &mut inner.lines {
            lines.push(format!("{now:>7} {}", line()));
        }
    }

    /// A promise is broken. The first one is kept.
    pub(crate) fn violated(&self, what: impl Into<String>) {
        let mut inner = lock(&self.0);
        if inner.violation.is_none() {
            let what = format!("at {} ms: {}", inner.now, what.into());
            if let Some(lines) = &mut inner.lines {
                lines.push(format!("VIOLATION {what}"));
            }
            inner.violation = Some(what);
        }
    }

    pub(crate) fn violation(&self) -> Option<String> {
        lock(&self.0).violation.clone()
    }

    pub(crate) fn hash(&self) -> u64 {
        lock(&self.0).hash
    }

    pub(crate) fn take_lines(&self) -> Vec<String> {
        lock(&self.0).lines.take().unwrap_or_default()
    }
}
