//! Bugs planted one at a time: the simulation must find each of them. Prints which seed found it, and how many it took; the
//! list in docs/testing.md is what this prints.

use sim::{Bug, plant};

/// Seeds that a bug may take.
const SEEDS_MAX: u64 = 400;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// `SIM_BUG` plants only that one; `SIM_SEED` is the first seed, `SIM_SEEDS` how many a bug may take.
#[test]
fn every_planted_bug_is_found() {
    let only = std::env::var("SIM_BUG").ok();
    let from = number("SIM_SEED", 0);
    let count = number("SIM_SEEDS", SEEDS_MAX);
    // Panics are among what the bugs cause.
    std::panic::set_hook(Box::new(|_| ()));
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        if only.as_ref().is_some_and(|only| *only != format!("{bug:?}")) {
            continue;
        }
        plant(Some(*bug));
        let found =
            (from..from + count).map(|seed| sim::run(seed, false)).find(|run| run.violation.is_some());
        plant(None);
        match found {
            Some(run) => {
                let what = run.violation.unwrap_or_default();
                let first = what.lines().next().unwrap_or_default();
                println!("{bug:?}: seed {}, {} needed: {first}", run.seed, run.seed - from + 1);
            }
            None => {
                println!("{bug:?}: not found");
                missed.push(*bug);
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not found within {count} seeds each: {missed:?}");
}
