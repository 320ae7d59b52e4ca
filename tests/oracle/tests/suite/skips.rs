//! Commands that operators had skipped: nothing but an answer comes of them.

use oracle::duel::Duel;
use oracle::random::Random;
use oracle::stream::Generator;
use protocol::{Event, Output};

#[test]
fn skipped_commands_do_nothing_but_answer() {
    let mut answered = 0;
    for seed in 1..=24 {
        let (mut generator, mut dice) = (Generator::new(seed), Random::new(!seed));
        let mut duel = Duel::new(None);
        for step in 0..2_000 {
            let command = generator.command();
            let frame_hash = [step as u8; 32];
            let skips = dice.one_in(40);
            let stepped = if skips { duel.skip(&command, frame_hash) } else { duel.step(&command) };
            let outputs = stepped.unwrap_or_else(|mismatch| panic!("seed {seed}: {mismatch}"));
            if skips {
                let [Output { event: Event::Skipped(skipped), .. }, rest @ ..] = outputs else {
                    panic!("seed {seed}: {outputs:?}")
                };
                assert_eq!(skipped.frame_hash, frame_hash);
                let reports = rest.iter().filter(|output| !matches!(output.event, Event::Named(_)));
                assert!(reports.clone().count() <= 1 && reports.clone().all(is_reject), "{outputs:?}");
                answered += reports.count();
            }
            if step % 50 == 0 || skips {
                let checked = duel.check_state().and_then(|()| duel.round_trip());
                checked.unwrap_or_else(|mismatch| panic!("seed {seed}: {mismatch}"));
            }
        }
    }
    assert!(answered > 100, "{answered} were answered");
}

fn is_reject(output: &Output) -> bool {
    matches!(output.event, Event::Rejected(_))
}
