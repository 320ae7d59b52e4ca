//! The end of an engine whose state is contradicted, by the log or by the other members: nothing more comes out, and what
//! shows it is kept in the data directory. It must not judge who is right.

use std::io::{self, ErrorKind};

use journaler::SharedStorage;
use protocol::{Checkpoint, Sequence};
use serde_json::json;

use crate::checkpoints::Checkpoints;
use crate::control::{Control, Course};

/// Two running hashes at one sequence.
#[derive(Clone, Debug)]
pub(crate) struct Contradiction<'a> {
    pub(crate) sequence: Sequence,
    /// The own one; `None` where it is no longer known.
    pub(crate) own: Option<u64>,
    pub(crate) expected: u64,
    /// Who expects it: the log, or who of the members.
    pub(crate) by: &'a str,
}

/// Where evidence goes.
#[derive(Debug)]
pub(crate) struct Evidence {
    storage: SharedStorage,
    /// Whether other members can tell what is right.
    is_member: bool,
}

impl Evidence {
    pub(crate) fn new(storage: SharedStorage, is_member: bool) -> Self {
        Self { storage, is_member }
    }

    /// Ends the engine: first every stage stops where it is, then the evidence is written, then the process ends.
    #[cold]
    pub(crate) fn end(
        &self,
        control: &Control,
        checkpoints: &Checkpoints,
        contradiction: &Contradiction<'_>,
    ) {
        control.raise(Course::Abandoned);
        let Contradiction { sequence, own, expected, by } = contradiction;
        let kept = match self.write(contradiction, &checkpoints.recent()) {
            Ok(path) => format!("the evidence is in {}", self.storage.locate(&path).display()),
            Err(error) => format!("the evidence could not be written: {error}"),
        };
        let own = own.map_or_else(|| "no longer known".to_owned(), |own| format!("{own:016x}"));
        let advice = if self.is_member {
            "; this member is wrong where the majority says otherwise: leave it stopped, keep a copy of its data directory as evidence, then empty the directory and let the member join again"
        } else {
            ""
        };
        control.fail(&format_args!(
            "the state contradicts {by}: running hash at sequence {sequence} is {own}, expected is {expected:016x}; {kept}{advice}"
        ));
    }

    /// Gives the file's path in the data directory. What an earlier start found there stays.
    fn write(&self, contradiction: &Contradiction<'_>, recent: &[Checkpoint]) -> io::Result<String> {
        let Contradiction { sequence, own, expected, by } = contradiction;
        let hash = |hash: u64| format!("{hash:016x}");
        let checkpoints: Vec<_> = recent
            .iter()
            .map(|own| json!({ "sequence": own.sequence.0, "running_hash": hash(own.running_hash) }))
            .collect();
        let text = json!({
            "sequence": sequence.0,
            "own_hash": own.map(hash),
            "expected_hash": hash(*expected),
            "contradicted_by": by,
            "checkpoints": checkpoints,
        });
        let path = format!("divergence-{sequence}.json");
        match self.storage.create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => {
                let file = created?;
                file.write_all_at(format!("{text:#}\n").as_bytes(), 0)?;
                file.sync_data()?;
                self.storage.sync_dir("")?;
            }
        }
        Ok(path)
    }
}
