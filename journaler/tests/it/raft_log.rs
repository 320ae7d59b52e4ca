//! The journal as a Raft log: entries of three kinds, truncation, what a start tells, and the reader of entries.

use journaler::{
    Durability, EntryKind, EntryReader, Journal, JournalError, JournalOptions, LogEnd, LogSummary, NewEntry,
    SharedStorage, verify,
};
use protocol::{Sequence, Term};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{CLUSTER, fake, frames, options, seeded};

/// An entry as the tests remember it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) term: Term,
    pub(crate) kind: EntryKind,
    pub(crate) count: u64,
    pub(crate) payload: Vec<u8>,
}

/// The log as it should be, in memory.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) before: LogEnd,
    pub(crate) entries: Vec<Written>,
    pub(crate) committed_index: u64,
}

impl Model {
    pub(crate) fn behind(before: LogEnd) -> Self {
        Self { before, entries: Vec::new(), committed_index: before.index }
    }

    pub(crate) fn new() -> Self {
        Self::behind(LogEnd::default())
    }

    pub(crate) fn last_index(&self) -> u64 {
        self.before.index + self.entries.len() as u64
    }

    fn kept(&self, index: u64) -> &[Written] {
        &self.entries[..(index - self.before.index) as usize]
    }

    /// Sequence of the last frame up to entry `index`.
    pub(crate) fn sequence_at(&self, index: u64) -> u64 {
        self.before.sequence.0 + self.kept(index).iter().map(|entry| entry.count).sum::<u64>()
    }

    pub(crate) fn term(&self) -> Term {
        self.entries.last().map_or(self.before.term, |entry| entry.term)
    }

    pub(crate) fn truncate_after(&mut self, index: u64) {
        self.entries.truncate((index - self.before.index) as usize);
    }

    /// Entries that may come next. Their frames say which sequence they have, and in which term they were written.
    pub(crate) fn next(&self, random: &mut StdRng, many: u64) -> Vec<Written> {
        let mut sequence = self.sequence_at(self.last_index()) + 1;
        let mut term = self.term();
        let mut next = Vec::new();
        for _ in 0..many {
            term.0 += u64::from(random.random_range(0..6) == 0);
            let (kind, count) = match random.random_range(0..6) {
                0 => (EntryKind::Blank, 0),
                1 => (EntryKind::Membership, 0),
                _ => (EntryKind::Frames, random.random_range(1..30)),
            };
            let payload = match kind {
                EntryKind::Frames => {
                    let mut slots = frames(sequence, count);
                    slots[20..28].copy_from_slice(&random.random::<u64>().to_le_bytes());
                    slots
                }
                EntryKind::Blank => Vec::new(),
                EntryKind::Membership => (0..random.random_range(0..5000)).map(|_| random.random()).collect(),
            };
            sequence += count;
            next.push(Written { term, kind, count, payload });
        }
        next
    }

    fn summary(&self) -> LogSummary {
        let (mut terms, mut memberships) = (Vec::new(), Vec::new());
        for (entry, index) in self.entries.iter().zip(self.before.index + 1..) {
            if terms.last().is_none_or(|(term, _)| *term != entry.term) {
                terms.push((entry.term, index));
            }
            if entry.kind == EntryKind::Membership {
                memberships.push((index, entry.term, entry.payload.clone()));
            }
        }
        LogSummary {
            first_index: self.before.index + 1,
            last_index: self.last_index(),
            before: self.before,
            terms,
            memberships,
            committed_index: self.committed_index,
            committed_sequence: Sequence(self.sequence_at(self.committed_index)),
        }
    }
}

pub(crate) fn raft_options(segment_bytes: u64) -> JournalOptions {
    JournalOptions { summarize: true, ..options(segment_bytes) }
}

pub(crate) fn append(journal: &mut Journal, entries: &[Written]) -> Result<Sequence, JournalError> {
    let new: Vec<NewEntry<'_>> = entries
        .iter()
        .map(|entry| NewEntry { term: entry.term, kind: entry.kind, payload: &entry.payload })
        .collect();
    journal.append_entries(&new)
}

/// Reads all entries of the model with `reader`, in pieces of random length, and compares.
pub(crate) fn check_entries(
    reader: &mut EntryReader,
    model: &Model,
    random: &mut StdRng,
) -> Result<(), String> {
    let last = model.last_index();
    let mut from = model.before.index + 1;
    while from <= last {
        let bytes_max = random.random_range(0..100_000);
        let read =
            reader.read(from, last + 1, bytes_max).map_err(|error| format!("entry {from}: {error}"))?;
        let bytes: usize = read.iter().map(|entry| entry.payload.len()).sum();
        if read.is_empty() || (read.len() > 1 && bytes > bytes_max) {
            return Err(format!(
                "{} entries of {bytes} bytes from {from} with at most {bytes_max}",
                read.len()
            ));
        }
        for entry in read {
            let written = &model.entries[(from - model.before.index - 1) as usize];
            let same = entry.index == from
                && (entry.term, entry.kind, entry.count) == (written.term, written.kind, written.count)
                && entry.first_sequence.0 == model.sequence_at(from - 1) + 1
                && entry.payload == written.payload;
            if !same {
                return Err(format!("entry {from} is read as something else"));
            }
            from += 1;
        }
    }
    Ok(())
}

/// Opens the journal anew and compares what it says with the model.
fn reopen(storage: &SharedStorage, model: &Model, options: JournalOptions) -> Journal {
    let (journal, recovery) = Journal::open(storage.clone(), options).unwrap();
    assert!(recovery.cut.is_empty(), "{:?}", recovery.cut);
    let mut expected = model.summary();
    let found = recovery.log.unwrap();
    // What was committed after the last write was not written.
    assert!(found.committed_index <= expected.committed_index);
    expected.committed_index = found.committed_index;
    expected.committed_sequence = Sequence(model.sequence_at(found.committed_index));
    assert_eq!(found, expected);
    assert_eq!((journal.index(), journal.term()), (model.last_index(), model.term()));
    journal
}

#[test]
fn a_log_is_what_was_appended_and_not_truncated() {
    let (_, mut random) = seeded(31);
    for round in 0..40 {
        let (_, storage) = fake();
        // Some are so long that places within them are remembered.
        let blocks = if round % 8 == 7 { 512 } else { random.random_range(6..40) };
        let segment_bytes = blocks * 4096;
        let durability = if round % 2 == 0 { Durability::Disk } else { Durability::Memory };
        let options = JournalOptions { durability, ..raft_options(segment_bytes) };
        let (mut model, mut journal) = if round % 4 < 2 {
            (Model::new(), Journal::open(storage.clone(), options.clone()).unwrap().0)
        } else {
            let before = LogEnd { index: 77, sequence: Sequence(1234), term: Term(5) };
            let behind = Journal::create_behind(storage.clone(), options.clone(), before).unwrap();
            (Model::behind(before), behind)
        };
        let mut readers = [journal.entry_reader(), EntryReader::open(storage.clone()).unwrap()];
        for _ in 0..60 {
            let reader = &mut readers[usize::from(random.random::<bool>())];
            match random.random_range(0..12) {
                0..7 => {
                    let entries = model.next(&mut random, [1, 1, 3, 12][round % 4]);
                    append(&mut journal, &entries).unwrap();
                    model.entries.extend(entries);
                }
                7 | 8 => {
                    let index = random.random_range(model.committed_index..=model.last_index());
                    journal.truncate_after(index).unwrap();
                    model.truncate_after(index);
                    for reader in &mut readers {
                        let gone = reader.read(index + 1, index + 2, 0);
                        assert!(matches!(gone, Err(JournalError::EntryPastEnd { .. })), "{gone:?}");
                    }
                }
                9 => {
                    model.committed_index = random.random_range(model.committed_index..=model.last_index());
                    journal.set_committed(model.committed_index);
                }
                10 => {
                    if random.random() {
                        journal.close().unwrap();
                    } else {
                        drop(journal);
                    }
                    journal = reopen(&storage, &model, options.clone());
                    readers[0] = journal.entry_reader();
                    journal.set_committed(model.committed_index);
                }
                _ => check_entries(reader, &model, &mut random).unwrap(),
            }
            assert_eq!(journal.index(), model.last_index());
            assert_eq!(journal.journaled_sequence().0, model.sequence_at(model.last_index()));
            assert_eq!(journal.committed_index(), model.committed_index);
            for reader in &mut readers {
                check_questions(reader, &model, &mut random);
            }
        }
        for reader in &mut readers {
            check_entries(reader, &model, &mut random).unwrap();
        }
        drop(journal);
        let stat = verify(&storage, Some(CLUSTER), &mut |_| {}).unwrap();
        assert_eq!((stat.index, stat.term), (model.last_index(), model.term()));
    }
}

/// Asks for a random entry's term and sequence, and for the entry at a random sequence.
fn check_questions(reader: &mut EntryReader, model: &Model, random: &mut StdRng) {
    let (before, last) = (model.before, model.last_index());
    let index = random.random_range(before.index..=last);
    let term = if index == before.index { before.term } else { model.kept(index).last().unwrap().term };
    assert_eq!(reader.summary_of(index).unwrap(), (term, Sequence(model.sequence_at(index))));
    let sequence = random.random_range(before.sequence.0..=model.sequence_at(last) + 3);
    let at = |index: u64| model.sequence_at(index);
    let newest = (before.index..=last).rfind(|index| at(*index) <= sequence).map(at).unwrap();
    let index = (before.index..=last).find(|index| at(*index) == newest).unwrap();
    let end = reader.entry_at(Sequence(sequence)).unwrap();
    assert_eq!((end.index, end.sequence.0), (index, model.sequence_at(index)));
    assert!(matches!(reader.summary_of(last + 1), Err(JournalError::EntryPastEnd { .. })));
}
