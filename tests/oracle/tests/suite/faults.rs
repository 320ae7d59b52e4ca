//! Wrong rules planted into the oracle: random streams must notice each of them, and shrink to few commands.

use oracle::campaign;
use oracle::model::Fault;
use oracle::scenario::stream_text;

/// Streams that are tried, of all themes in turn.
const STREAMS: u64 = 120;
/// Commands of a stream.
const COMMANDS: usize = 1_500;
/// Longest stream that a fault may need: users, accounts, currencies and rules are commands too, and a correction names its
/// trade by number, so that the trades before it can't be left out.
const COMMANDS_MAX: usize = 64;

#[test]
fn every_planted_fault_is_noticed() {
    for fault in Fault::ALL {
        let found = (1..=STREAMS).find_map(|seed| campaign::run(seed, COMMANDS, Some(*fault)).err());
        let failure = found.unwrap_or_else(|| panic!("{fault:?} was not noticed"));
        println!("{fault:?}: seed {}, {} commands", failure.seed, failure.commands.len());
        let without = campaign::run(failure.seed, COMMANDS, None);
        assert!(without.is_ok(), "seed {} differs without {fault:?} too", failure.seed);
        let text = stream_text(&failure.commands);
        assert!(failure.commands.len() <= COMMANDS_MAX, "{fault:?} does not shrink to few commands:\n{text}");
    }
}
