//! What happens when an invariant is broken: the process ends at once, in every build profile. A thread that unwinds
//! would leave the others running on half a state. Where a command broke it, the line names that command and what an
//! operator can do, since each start will come to it again.

use std::io::Write;
use std::panic::{self, PanicHookInfo};

use protocol::in_work::{self, InWork};

/// Makes every panic, on any thread, write one line to standard error and abort the process.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        // Straight to the descriptor: the logger may be what panicked.
        let _ = writeln!(std::io::stderr(), "{}", describe(info));
        std::process::abort();
    }));
}

/// Plants the poison that a test names in the environment: an order of that quantity, in lots, breaks an invariant. Only
/// builds with debug assertions can.
#[cfg(debug_assertions)]
pub fn plant_poison() {
    let named = std::env::var("RINGPIT_PLANTED_POISON").ok().and_then(|text| text.parse().ok());
    named.into_iter().for_each(protocol::planted::plant_poison);
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let what = info
        .payload()
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| info.payload().downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let thread = std::thread::current();
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let what = what.replace('\n', "; ");
    let end = match in_work::current() {
        None => "the process ends here, and a restart recovers from the journal".to_owned(),
        Some(InWork { sequence, instrument }) => {
            let of = instrument.map_or_else(String::new, |instrument| format!(" (instrument {instrument})"));
            format!(
                "the process ends here, in the middle of the command at sequence {sequence}{of}; if it ends there again at \
                 the next start, `ringpit journal skip --sequence {sequence}` says what leaving it out means"
            )
        }
    };
    format!(
        "ringpit: internal error on thread `{}` at {place}: {what}; {end}",
        thread.name().unwrap_or("unnamed")
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Output;

    use protocol::{Body, Command, InstrumentId, Phase, Sequence, in_work};

    /// Set in the child process, which is this very test run again.
    const CHILD: &str = "RINGPIT_TEST_PANICS";

    #[test]
    fn a_panic_on_any_thread_is_one_line_and_ends_the_process() {
        if std::env::var_os(CHILD).is_some() {
            super::install();
            let thread = std::thread::Builder::new().name("matching".to_owned()).spawn(|| {
                let books: Vec<u8> = Vec::new();
                assert_eq!(books.len(), 1, "the books\nare gone");
            });
            // Without the hook the thread's panic would end here, and the process well.
            let _ = thread.expect("a thread").join();
            std::process::exit(0);
        }
        let (output, line) = run_child("a_panic_on_any_thread_is_one_line_and_ends_the_process");
        assert!(line.contains("on thread `matching` at ") && line.contains("the books; are gone"), "{line}");
        assert!(!line.contains("journal skip"), "{output:?}");
    }

    #[test]
    fn a_panic_in_a_command_names_it_and_what_helps() {
        if std::env::var_os(CHILD).is_some() {
            super::install();
            let body = Body::SetPhase(InstrumentId(3), Phase::Halted);
            let command = Command { body, ..Command::default() };
            in_work::applying(Sequence(17), &command, || panic!("poison"));
        }
        let (output, line) = run_child("a_panic_in_a_command_names_it_and_what_helps");
        for part in ["poison", "sequence 17 (instrument 3)", "`ringpit journal skip --sequence 17`"] {
            assert!(line.contains(part), "{part:?} is not in {line:?}: {output:?}");
        }
    }

    /// Runs a test of this module again as a child that must abort; gives its line.
    fn run_child(test: &str) -> (Output, String) {
        let this = std::env::current_exe().expect("the test binary");
        let output = std::process::Command::new(this)
            .args(["--exact", &format!("panics::tests::{test}"), "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the child runs");
        const SIGABRT: i32 = 6;
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with("ringpit: internal error")).collect();
        assert_eq!(lines.len(), 1, "one line: {text}");
        let line = lines.concat();
        (output, line)
    }
}
