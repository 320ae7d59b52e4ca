//! What happens when an invariant is broken: the process ends at once, in every build profile. A thread that unwinds
//! would leave the others running on half a state.

use std::io::Write;
use std::panic::{self, PanicHookInfo};

/// Makes every panic, on any thread, write one line to standard error and abort the process.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        // Straight to the descriptor: the logger may be what panicked.
        let _ = writeln!(std::io::stderr(), "{}", describe(info));
        std::process::abort();
    }));
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
    format!(
        "ringpit: internal error on thread `{}` at {place}: {what}; the process ends here, and a restart recovers from \
         the journal",
        thread.name().unwrap_or("unnamed"),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

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
        let this = std::env::current_exe().expect("the test binary");
        let name = "panics::tests::a_panic_on_any_thread_is_one_line_and_ends_the_process";
        let output = Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .expect("the child runs");
        const SIGABRT: i32 = 6;
        assert_eq!(output.status.signal(), Some(SIGABRT), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|line| line.starts_with("ringpit: internal error")).expect("the line");
        assert!(line.contains("on thread `matching` at ") && line.contains("the books; are gone"), "{line}");
    }
}
