//! Which command the calling thread applies at the moment, so that a panic can name it. It must cost next to nothing: it
//! is noted for every command. It decides nothing.

use std::cell::Cell;

use crate::{Command, InstrumentId, Sequence};

/// A command in work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InWork {
    /// Its frame.
    pub sequence: Sequence,
    /// The instrument that it names, where it names one.
    pub instrument: Option<InstrumentId>,
}

thread_local! {
    static IN_WORK: Cell<Option<InWork>> = const { Cell::new(None) };
}

/// Notes `command` while `apply` applies it.
#[inline]
pub fn applying<T>(sequence: Sequence, command: &Command, apply: impl FnOnce() -> T) -> T {
    IN_WORK.set(Some(InWork { sequence, instrument: command.instrument() }));
    let applied = apply();
    IN_WORK.set(None);
    applied
}

/// The command that this thread applies now. It stays after a panic in it, which is when it is asked for.
#[must_use]
pub fn current() -> Option<InWork> {
    // A thread that is past its end applies nothing.
    IN_WORK.try_with(Cell::get).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_while_the_command_is_applied_and_after_a_panic_in_it() {
        let command = Command { body: crate::Body::EndOfDay, ..Command::default() };
        assert_eq!(current(), None);
        let during = applying(Sequence(7), &command, current);
        assert_eq!(during, Some(InWork { sequence: Sequence(7), instrument: None }));
        assert_eq!(current(), None);
        let command = Command {
            body: crate::Body::SetPhase(InstrumentId(3), crate::Phase::Halted),
            ..Command::default()
        };
        let caught = std::panic::catch_unwind(|| applying(Sequence(8), &command, || panic!("poison")));
        assert!(caught.is_err());
        assert_eq!(current(), Some(InWork { sequence: Sequence(8), instrument: Some(InstrumentId(3)) }));
    }
}
