//! The simulation's own tests: seeds that must be clean, and that a seed gives the same run each time.

use std::time::{Duration, Instant};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// `SIM_SEED` runs one seed, `SIM_SEEDS` so many; at most `SIM_SECONDS`.
#[test]
fn seeds_are_clean() {
    let started = Instant::now();
    let budget = Duration::from_secs(number("SIM_SECONDS", 60));
    let from = number("SIM_SEED", 0);
    let count = if std::env::var("SIM_SEED").is_ok() { 1 } else { number("SIM_SEEDS", 300) };
    let mut ran = 0;
    for seed in from..from + count {
        if started.elapsed() > budget {
            break;
        }
        let outcome = sim::run(seed, false);
        ran += 1;
        if let Some(violation) = outcome.violation {
            panic!("{violation}\n{}", sim::replay_command(seed));
        }
    }
    println!("{ran} seeds in {:.1} s", started.elapsed().as_secs_f64());
    assert!(ran >= count.min(10), "only {ran} seeds in {budget:?}");
}

#[test]
#[cfg_attr(not(tokio_unstable), ignore = "tokio was built without seeds: `tests/run sim`")]
fn a_seed_replays_exactly() {
    for seed in 0..number("SIM_REPLAYS", 20) {
        let (first, second) = (sim::run(seed, true), sim::run(seed, true));
        let differs = first.lines.iter().zip(&second.lines).find(|(a, b)| a != b);
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}: {differs:?}");
    }
}
