//! Random command streams: the engine against the oracle, with conservation, no crossed book, and export and import
//! checked throughout. `RINGPIT_COMMANDS` says how many commands, `RINGPIT_SEED` where to begin.

use oracle::campaign;
use oracle::scenario::stream_text;

const COMMANDS: u64 = 200_000;
const SEED: u64 = 20_260_101;
/// Commands of one stream: its own sessions, instruments and capacities.
const STREAM: u64 = 4_000;

fn number(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")),
        Err(_) => default,
    }
}

#[test]
fn random_streams_agree_with_the_oracle() {
    let (commands, first) = (number("RINGPIT_COMMANDS", COMMANDS), number("RINGPIT_SEED", SEED));
    let streams = commands.div_ceil(STREAM);
    println!("{streams} streams of {STREAM} commands, RINGPIT_SEED={first}");
    let (mut orders, mut trades) = (0, 0);
    for seed in first..first + streams {
        match campaign::run(seed, STREAM as usize, None) {
            Ok(duel) => {
                orders += duel.exchange().counts().orders_accepted;
                trades += duel.exchange().counts().trades;
            }
            Err(failure) => panic!(
                "seed {}: {}\nthe shortest stream that fails:\n{}",
                failure.seed,
                failure.mismatch,
                stream_text(&failure.commands)
            ),
        }
    }
    println!("{orders} orders accepted, {trades} trades");
    assert!(orders > commands / 10 && trades > commands / 20, "the streams trade");
}
