//! How far a long work is: a bar on a terminal, log lines for a server without one, and the rate at the end.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Time between two log lines.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// Calls between two looks at the clock.
const LOOK_EVERY: u64 = 1024;
const TEMPLATE: &str = "{prefix} {wide_bar} {human_pos}/{human_len} {per_sec} {eta}";

/// Who reads along where there is no terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// The log: a line now and then.
    Log,
    /// Nobody.
    Nothing,
}

/// Shows how far a work is.
#[derive(Debug)]
pub struct Meter {
    what: &'static str,
    bar: Option<ProgressBar>,
    without: Without,
    started: Instant,
    told: Instant,
    calls: u64,
    done: u64,
}

/// What a work came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// Units done.
    pub units: u64,
    /// Seconds taken.
    pub seconds: f64,
}

impl Rate {
    /// Units a second.
    #[must_use]
    pub fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.units as f64 / self.seconds } else { 0.0 }
    }
}

impl Meter {
    /// A meter at nothing. The bar goes to standard error if that is a terminal.
    #[must_use]
    pub fn new(what: &'static str, without: Without) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0).with_prefix(what);
            // The template is a constant; if it were wrong, the plain bar would do.
            bar.set_style(
                ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            bar
        });
        let now = Instant::now();
        Self { what, bar, without, started: now, told: now, calls: 0, done: 0 }
    }

    /// The work is at `done` of `total` units. Cheap enough for every unit.
    pub fn at(&mut self, done: u64, total: u64) {
        self.done = done;
        self.calls += 1;
        if !self.calls.is_multiple_of(LOOK_EVERY) && done < total {
            return;
        }
        self.show(done, total);
    }

    /// As [`at`](Self::at), shown at once: for a work that is looked at now and then.
    pub fn show(&mut self, done: u64, total: u64) {
        self.done = done;
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        } else if self.without == Without::Log && self.told.elapsed() >= LINE_EVERY {
            self.told = Instant::now();
            tracing::info!(done, total, "{}", self.what);
        }
    }

    /// The work is done.
    #[must_use]
    pub fn finish(self) -> Rate {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        Rate { units: self.done, seconds: self.started.elapsed().as_secs_f64() }
    }
}
