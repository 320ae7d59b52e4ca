//! How the stages of one engine are told to stop, and what becomes of an error that none of them may survive. It must
//! not decide what is fatal: the stages do.

use std::fmt;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is done with the one line that says why the engine can't go on. It should end the process; where it returns
/// (tests, simulations), every stage stops where it is and releases nothing more.
#[derive(Clone)]
pub struct Fatal(Arc<dyn Fn(&str) + Send + Sync>);

impl Fatal {
    /// Calls `hook` with the line.
    pub fn new(hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Prints the line to standard error and ends the process with status 1, without unwinding or flushing anything.
    #[must_use]
    pub fn exit() -> Self {
        Self::new(|line| {
            eprintln!("fatal: {line}");
            process::exit(1);
        })
    }
}

impl fmt::Debug for Fatal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fatal")
    }
}

/// How far the engine is on its way to the end. The order matters: it only ever goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Course {
    /// Frames come and go.
    Running = 0,
    /// No more frames of the engine's own; the rest drains as the publishers go away.
    Stopping = 1,
    /// A stage that finds nothing to do has finished, though publishers may be left.
    Leaving = 2,
    /// Every stage finishes at once and closes nothing.
    Abandoned = 3,
}

/// Shared by the stages, the handle and the background threads of one engine.
#[derive(Debug)]
pub(crate) struct Control {
    // Raised only. Relaxed: it carries no data, the stages' own rings order what they hand over.
    course: AtomicU8,
    fault: Mutex<Option<String>>,
    fatal: Fatal,
}

impl Control {
    pub(crate) fn new(fatal: Fatal) -> Self {
        Self { course: AtomicU8::new(Course::Running as u8), fault: Mutex::new(None), fatal }
    }

    #[inline]
    pub(crate) fn is_at_least(&self, course: Course) -> bool {
        self.course.load(Ordering::Relaxed) >= course as u8
    }

    pub(crate) fn raise(&self, course: Course) {
        self.course.fetch_max(course as u8, Ordering::Relaxed);
    }

    /// Ends the engine: the first error is kept and given to the hook, later ones follow from it.
    #[cold]
    pub(crate) fn fail(&self, error: &dyn fmt::Display) {
        let line = error.to_string();
        {
            let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
            if fault.is_some() {
                return;
            }
            *fault = Some(line.clone());
        }
        self.raise(Course::Abandoned);
        (self.fatal.0)(&line);
    }

    /// The error that ended the engine, if one did.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_fault_is_told_and_kept() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let hook = Arc::clone(&told);
        let control = Control::new(Fatal::new(move |line| hook.lock().unwrap().push(line.to_owned())));
        assert!(!control.is_at_least(Course::Stopping));
        control.fail(&"disk gone");
        control.fail(&"and more");
        assert!(control.is_at_least(Course::Abandoned));
        assert_eq!(control.fault().as_deref(), Some("disk gone"));
        assert_eq!(*told.lock().unwrap(), ["disk gone"]);
    }

    #[test]
    fn the_course_never_goes_back() {
        let control = Control::new(Fatal::new(|_| ()));
        control.raise(Course::Leaving);
        control.raise(Course::Stopping);
        assert!(control.is_at_least(Course::Leaving));
        assert!(!control.is_at_least(Course::Abandoned));
    }
}
