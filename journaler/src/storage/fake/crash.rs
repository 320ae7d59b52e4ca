//! Going through the states that a power cut can leave, one by one.

use super::FakeStorage;
use super::model::{Image, Model, Operation};

/// A disk after a power cut.
#[derive(Debug)]
pub struct CrashState {
    /// Number of operations of the record that were carried out, the last of them perhaps in part.
    pub operation: usize,
    /// What the last of them was.
    pub description: String,
    /// Which choice of survivors this is.
    pub choice: usize,
    /// The last number that was noted before the cut.
    pub noted: Option<u64>,
    /// The disk, as found by the next start.
    pub storage: FakeStorage,
}

/// All power cuts of a recorded run: after each operation, each choice of survivors among the changes that were not yet
/// durable. Up to `choices_max` subsets an operation: all of them where there are no more, else none, all, each one
/// alone, all but one, each prefix, and random ones from the seed. An operation that leaves nothing in doubt makes no
/// state of its own unless what is durable or noted changed.
#[derive(Debug)]
pub struct CrashStates {
    log: Vec<Operation>,
    model: Model,
    noted: Option<u64>,
    /// Operations carried out.
    operation: usize,
    choice: usize,
    choices: usize,
    choices_max: usize,
    seed: u64,
}

impl CrashStates {
    /// The power cuts since [`FakeStorage::record`].
    ///
    /// # Panics
    /// If nothing was recorded.
    pub fn new(storage: &FakeStorage, choices_max: usize, seed: u64) -> Self {
        let disk = storage.disk();
        let log = disk.log.clone().expect("record() was called before the run");
        let start: Image = disk.start.clone();
        let model = Model::new(start);
        Self { log, model, noted: None, operation: 0, choice: 0, choices: 1, choices_max, seed }
    }

    fn advance(&mut self) -> bool {
        let Some(operation) = self.log.get(self.operation) else { return false };
        self.model.carry_out(operation);
        if let Operation::Note(number) = operation {
            self.noted = Some(*number);
        }
        self.operation += 1;
        self.choice = 0;
        let adds_doubt = !matches!(operation, Operation::Note(_)) || self.model.pending() == 0;
        let subsets = 1_usize.checked_shl(self.model.pending() as u32).unwrap_or(usize::MAX);
        self.choices = if adds_doubt { subsets.min(self.choices_max) } else { 1 };
        true
    }

    fn keeps(&self, choice: usize, place: usize) -> bool {
        let pending = self.model.pending();
        if pending < usize::BITS as usize && 1_usize << pending <= self.choices_max {
            return choice >> place & 1 == 1;
        }
        match choice {
            0 => false,
            1 => true,
            _ => {
                let (kind, which) = ((choice - 2) / pending, (choice - 2) % pending);
                match kind {
                    0 => place == which,
                    1 => place != which,
                    2 => place < which,
                    _ => {
                        let random = mix(mix(self.seed ^ self.operation as u64, choice as u64), place as u64);
                        // A different density each time, so that sparse and dense survivors both come.
                        random % 8 <= choice as u64 % 7
                    }
                }
            }
        }
    }
}

/// One step of a 64-bit mixing function: equal inputs give equal outputs on every machine.
fn mix(state: u64, word: u64) -> u64 {
    let mixed = (state ^ word).wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Iterator for CrashStates {
    type Item = CrashState;

    fn next(&mut self) -> Option<CrashState> {
        while self.choice == self.choices {
            if !self.advance() {
                return None;
            }
        }
        let choice = self.choice;
        self.choice += 1;
        let image = self.model.survivors(&mut |place| self.keeps(choice, place));
        let description = match self.operation.checked_sub(1).and_then(|last| self.log.get(last)) {
            None => "before the first operation".to_owned(),
            Some(Operation::Write { inode, offset, bytes }) => {
                format!("write of {} bytes at {offset} of file {inode}", bytes.len())
            }
            Some(operation) => format!("{operation:?}"),
        };
        Some(CrashState {
            operation: self.operation,
            description,
            choice,
            noted: self.noted,
            storage: FakeStorage::with_image(image),
        })
    }
}
