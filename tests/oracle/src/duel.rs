//! The engine and the oracle side by side on the same commands, and all that is checked at every step.

use std::fmt;

use exchange::Exchange;
use protocol::{Body, Checkpoint, Command, Event, Output, Sequence, SessionId, Tick};

use crate::compare::{compare, live_orders};
use crate::ledger::Ledger;
use crate::model::{Fault, Oracle};
use crate::shadow::Shadow;

/// Engine and oracle disagree, or one of the invariants does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The command that brought it out, counted from 0.
    pub step: usize,
    /// What differs.
    pub what: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after command {}: {}", self.step, self.what)
    }
}

/// How a command comes to the venue.
#[derive(Clone, Copy)]
enum Way<'a> {
    Plain,
    /// With a text in its frame that says why.
    Because(&'a str),
    /// Its operators had the frame of this hash skipped.
    Skipped([u8; 32]),
}

/// Engine and oracle.
#[derive(Debug)]
pub struct Duel {
    exchange: Exchange,
    oracle: Oracle,
    ledger: Ledger,
    shadow: Shadow,
    outputs: Vec<Output>,
    steps: usize,
}

impl Duel {
    /// Two empty venues; the oracle may break a rule.
    #[must_use]
    pub fn new(fault: Option<Fault>) -> Self {
        Self {
            exchange: Exchange::new(),
            oracle: Oracle::new(fault),
            ledger: Ledger::default(),
            shadow: Shadow::default(),
            outputs: Vec::new(),
            steps: 0,
        }
    }

    /// The engine.
    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// Commands applied so far.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Applies a command of a made-up stream to both: a tick gets the engine's own last checkpoint.
    ///
    /// # Errors
    /// What differs in events, sessions, timers or counts.
    pub fn step(&mut self, command: &Command) -> Result<&[Output], Mismatch> {
        let command = self.with_checkpoint(command);
        self.replay(&command)
    }

    fn with_checkpoint(&self, command: &Command) -> Command {
        let mut command = *command;
        if let Body::Tick(tick) = &mut command.body {
            let last = self.exchange.checkpoint();
            *tick = Tick {
                checkpoint_sequence: last.map_or(Sequence(0), |checkpoint| checkpoint.sequence),
                checkpoint_hash: last.map_or(0, |checkpoint| checkpoint.running_hash),
            };
        }
        command
    }

    /// Applies a command whose frame carries a text that says why.
    ///
    /// # Errors
    /// What differs in events, sessions, timers or counts, or that such a text doesn't go with the command.
    pub fn step_because(&mut self, command: &Command, why: &str) -> Result<&[Output], Mismatch> {
        self.take(command, Way::Because(why))
    }

    /// Applies a command of a journal to both, as it is. It goes through its frame, as all commands do.
    ///
    /// # Errors
    /// What differs in events, sessions, timers or counts, or from a checkpoint that a tick carries.
    pub fn replay(&mut self, command: &Command) -> Result<&[Output], Mismatch> {
        self.take(command, Way::Plain)
    }

    /// Has both pass over a command that its operators had skipped.
    ///
    /// # Errors
    /// What differs in events, sessions, timers or counts.
    pub fn skip(&mut self, command: &Command, frame_hash: [u8; 32]) -> Result<&[Output], Mismatch> {
        self.take(command, Way::Skipped(frame_hash))
    }

    fn take(&mut self, command: &Command, way: Way<'_>) -> Result<&[Output], Mismatch> {
        let step = self.steps;
        self.steps += 1;
        self.apply(command, way).map_err(|what| Mismatch { step, what })?;
        Ok(&self.outputs)
    }

    fn apply(&mut self, command: &Command, way: Way<'_>) -> Result<(), String> {
        let frame = match way {
            Way::Because(why) => {
                let frame =
                    command.encode_because(why).ok_or_else(|| format!("no {why:?} goes with this"))?;
                if Command::why(frame.as_bytes()) != Some(why) {
                    return Err(format!("{why:?} is not read back"));
                }
                Some(frame)
            }
            Way::Plain | Way::Skipped(_) => command.encode(),
        };
        if let Some(frame) = frame {
            let decoded = Command::decode(frame.as_bytes());
            if decoded != *command {
                return Err(format!("decoded {decoded:?} from the frame of {command:?}"));
            }
        }
        self.outputs.clear();
        let before = self.exchange.log_time();
        self.exchange.prefetch(command);
        let expected = match way {
            Way::Plain | Way::Because(_) => {
                self.exchange.apply(command, &mut self.outputs);
                self.oracle.apply(command)
            }
            Way::Skipped(frame_hash) => {
                self.exchange.skip(command, frame_hash, &mut self.outputs);
                self.oracle.skip(command, frame_hash)
            }
        };
        self.compare_events(&expected)?;
        let log_time = before.max(command.timestamp);
        let stamped = self
            .outputs
            .iter()
            .all(|output| output.sequence.0 == self.steps as u64 && output.log_time == log_time);
        if !stamped || self.exchange.log_time() != log_time {
            return Err("an event's sequence or log time is wrong".into());
        }
        self.ledger.take(self.outputs.iter().map(|output| &output.event))?;
        for output in &self.outputs {
            self.shadow.take(&output.event).map_err(|what| format!("{what} after {:?}", output.event))?;
        }
        self.compare_session(command.session)?;
        if self.exchange.next_deadline() != self.oracle.next_deadline() {
            return Err(format!(
                "deadline {:?}, not {:?}",
                self.exchange.next_deadline(),
                self.oracle.next_deadline()
            ));
        }
        if self.exchange.rulebook_version() != self.oracle.rulebook() {
            return Err(format!(
                "rulebook version {}, not {}",
                self.exchange.rulebook_version(),
                self.oracle.rulebook()
            ));
        }
        match self.exchange.divergence() {
            None => Ok(()),
            Some(divergence) => Err(format!("{divergence:?}")),
        }
    }

    fn compare_events(&self, expected: &[Event]) -> Result<(), String> {
        let same = |output: &Output, event: &Event| match (output.event, event) {
            (Event::Checkpoint(ours), Event::Checkpoint(theirs)) => {
                ours.sequence == theirs.sequence
                    && self.exchange.checkpoint() == Some(ours)
                    && ours.running_hash == self.exchange.running_hash()
            }
            (ours, theirs) => ours == *theirs,
        };
        for (number, output) in self.outputs.iter().enumerate() {
            match expected.get(number) {
                Some(event) if same(output, event) => {}
                other => {
                    return Err(format!("event {number} is {:?}\nnot {other:?}", output.event));
                }
            }
        }
        match expected.get(self.outputs.len()) {
            None => Ok(()),
            Some(missing) => Err(format!("event {} is missing: {missing:?}", self.outputs.len())),
        }
    }

    fn compare_session(&self, id: SessionId) -> Result<(), String> {
        let ours = self
            .exchange
            .session(id)
            .map(|session| (session.connection, session.last_report, session.highest_request_id));
        let theirs = self.oracle.session(id);
        if ours == theirs { Ok(()) } else { Err(format!("session {id} is {ours:?}, not {theirs:?}")) }
    }

    /// Compares the full states, and checks that no book is crossed in continuous trading, that quantities and money are
    /// conserved, and that the events amount to the depth. It visits everything.
    ///
    /// # Errors
    /// What differs.
    pub fn check_state(&self) -> Result<(), Mismatch> {
        self.compare_state().map_err(|what| Mismatch { step: self.steps.saturating_sub(1), what })
    }

    fn compare_state(&self) -> Result<(), String> {
        compare(&self.exchange, &self.oracle)?;
        self.ledger.check(live_orders(&self.exchange).iter())?;
        self.shadow.check(&self.exchange)?;
        self.exchange.check_conservation()
    }

    /// Exports the engine, imports it again and goes on with the import, after comparing the two.
    ///
    /// # Errors
    /// The import fails or differs.
    pub fn round_trip(&mut self) -> Result<(), Mismatch> {
        let imported = self.reimported().map_err(|what| Mismatch { step: self.steps, what })?;
        self.exchange = imported;
        Ok(())
    }

    fn reimported(&self) -> Result<Exchange, String> {
        let mut records = Vec::new();
        self.exchange.export(&mut |record| records.push(record));
        let imported = Exchange::import(records).map_err(|error| format!("import: {error}"))?;
        let facts = |exchange: &Exchange| {
            let checkpoint =
                exchange.checkpoint().unwrap_or(Checkpoint { sequence: Sequence(0), running_hash: 0 });
            (
                (exchange.state_hash(), exchange.book_hash(), exchange.running_hash()),
                (exchange.sequence(), exchange.log_time(), exchange.trading_day(), exchange.next_deadline()),
                (exchange.counts(), checkpoint, exchange.rulebook_version()),
            )
        };
        let (ours, theirs) = (facts(&self.exchange), facts(&imported));
        if ours == theirs { Ok(imported) } else { Err(format!("imported {theirs:?}\nfrom {ours:?}")) }
    }
}
