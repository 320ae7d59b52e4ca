//! Ends the process when a closure unwinds while ring slots are held. It must not be caught by anything: a stage that
//! died with slots in hand would either let unprocessed frames go on (they look journaled) or wedge the ring.

use std::io::Write;
use std::mem;
use std::process;

/// Aborts the process when dropped; call [`AbortOnUnwind::defuse`] on the way out.
pub(crate) struct AbortOnUnwind(&'static str);

impl AbortOnUnwind {
    pub(crate) fn new(place: &'static str) -> Self {
        Self(place)
    }

    #[inline]
    pub(crate) fn defuse(self) {
        mem::forget(self);
    }
}

impl Drop for AbortOnUnwind {
    #[cold]
    fn drop(&mut self) {
        // A closed stderr must not turn this into a second panic.
        let _ = writeln!(std::io::stderr(), "fatal: panic while {}; aborting", self.0);
        process::abort();
    }
}
