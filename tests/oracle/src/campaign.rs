//! Random streams through a [`Duel`], and the shortest stream that still fails.

use protocol::Command;

use crate::duel::{Duel, Mismatch};
use crate::model::Fault;
use crate::random::Random;
use crate::stream::Generator;

/// Commands between two comparisons of all that rests.
const STATE_CHECKED_EVERY: usize = 50;
/// Longest stream that is checked whole after each command while it is shrunk.
const CHECKED_AT_EVERY_STEP: usize = 64;
/// Shorter streams that are tried before the shortest so far is good enough.
const TRIALS_MAX: usize = 20_000;

/// A stream that fails.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The stream's seed.
    pub seed: u64,
    /// The shortest stream found that fails.
    pub commands: Vec<Command>,
    /// How the shortest one fails.
    pub mismatch: Mismatch,
}

/// Runs the stream of a seed for so many commands. The engine is exported and imported again now and then.
///
/// # Errors
/// The shrunk failure.
pub fn run(seed: u64, commands: usize, fault: Option<Fault>) -> Result<Duel, Box<Failure>> {
    let mut generator = Generator::new(seed);
    let mut dice = Random::new(!seed);
    let mut duel = Duel::new(fault);
    let mut stream = Vec::with_capacity(commands);
    for number in 0..commands {
        let command = generator.command();
        stream.push(command);
        let checked = duel.step(&command).map(|_| ()).and_then(|()| {
            if number % STATE_CHECKED_EVERY == 0 || number + 1 == commands {
                duel.check_state()?;
            }
            if dice.one_in(400) { duel.round_trip() } else { Ok(()) }
        });
        if let Err(mismatch) = checked {
            return Err(Box::new(shrink(seed, stream, mismatch, fault)));
        }
    }
    Ok(duel)
}

/// How a stream fails. Short ones are checked whole after each command, long ones now and then.
fn failure(commands: &[Command], fault: Option<Fault>) -> Option<Mismatch> {
    let every = if commands.len() <= CHECKED_AT_EVERY_STEP { 1 } else { STATE_CHECKED_EVERY };
    let mut duel = Duel::new(fault);
    for (number, command) in commands.iter().enumerate() {
        let checked = duel.step(command).map(|_| ()).and_then(|()| {
            if (number + 1).is_multiple_of(every) || number + 1 == commands.len() {
                duel.check_state()?;
                duel.round_trip()?;
            }
            Ok(())
        });
        if let Err(mismatch) = checked {
            return Some(mismatch);
        }
    }
    None
}

/// Leaves out whatever can be left out, in ever smaller pieces, while the stream still fails.
fn shrink(seed: u64, mut stream: Vec<Command>, mismatch: Mismatch, fault: Option<Fault>) -> Failure {
    let mut shortest = mismatch;
    let mut piece = stream.len() / 2;
    let mut trials = 0;
    while piece > 0 && trials < TRIALS_MAX {
        let mut at = 0;
        let mut shorter = false;
        while at < stream.len() && trials < TRIALS_MAX {
            let mut trial = stream.clone();
            trial.drain(at..(at + piece).min(stream.len()));
            trials += 1;
            if let Some(mismatch) = failure(&trial, fault) {
                trial.truncate(mismatch.step + 1);
                stream = trial;
                shortest = mismatch;
                shorter = true;
            } else {
                at += piece;
            }
        }
        if piece == 1 && !shorter {
            break;
        }
        piece = (piece / 2).max(1);
    }
    Failure { seed, commands: stream, mismatch: shortest }
}
