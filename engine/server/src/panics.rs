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
