//! Work of low priority. It must not be done on a thread that has that priority also while it waits.

use std::{io, panic, thread};

/// Lowest priority of a normal thread on Linux.
pub const NICE_LOWEST: i32 = 19;

/// Does `work` on a thread of its own with that niceness, and waits for it.
///
/// The kernel closes a killed process's files once its last thread has run to its end. On a machine that others keep busy, a
/// thread of low priority is given the time for that only after a second or two, and until then clients and the other members of
/// a cluster see connections that look alive. So there is such a thread only while there is such work.
///
/// # Errors
/// The system starts no thread; nothing is done then.
pub fn at_low_priority<T: Send>(name: &str, nice: i32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let lowered = move || {
            // On Linux the call is about the calling thread; without it the work is done all the same.
            if let Err(error) = rustix::process::setpriority_process(None, nice) {
                tracing::warn!(%error, "background work keeps its priority");
            }
            work()
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, lowered)?;
        Ok(thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice() -> i32 {
        rustix::process::getpriority_process(None).expect("a thread has a priority")
    }

    #[test]
    fn only_the_work_has_the_priority() {
        let before = nice();
        let within = at_low_priority("low", NICE_LOWEST, nice).expect("a thread");
        assert_eq!((within, nice()), (NICE_LOWEST, before));
    }
}
