//! What is on a member's disk: read from outside, as a checker may. It must not change a byte.

use journaler::storage::fake::FakeStorage;
use journaler::{BATCH_HEADER_BYTES, BatchHeader, DumpedBatch, JournalReader};
use oracle::random::Random;
use protocol::Sequence;

/// Whether a disk has this frame: with `durable` as it would be after a power cut that keeps nothing of what is not synced.
/// What was pruned behind a snapshot was there.
pub(crate) fn has_frame(disk: &FakeStorage, durable: bool, sequence: Sequence, frame: &[u8]) -> bool {
    let image = if durable { disk.power_cut(|_| false) } else { disk.clone() };
    let Ok(reader) = JournalReader::open(image.shared()) else { return false };
    if reader.first_sequence() > sequence {
        return true;
    }
    let Ok(mut cursor) = reader.frames_from(sequence) else { return false };
    matches!(cursor.next_frame(sequence), Ok(Some((_, found))) if found == frame)
}

/// A batch that stands in the journal.
struct Stands {
    file: String,
    offset: u64,
    header: BatchHeader,
}

impl Stands {
    /// Whether `later` shows that this one was whole once. An entry of the same write doesn't: a power cut may tear both.
    fn is_vouched_for_by(&self, later: &Self) -> bool {
        let entry = if self.header.kind.is_entry() { self.header.index } else { self.header.index + 1 };
        let (kind, index, written) = (later.header.kind, later.header.index, later.header.write_index);
        let same_write = kind.is_entry() && index > entry && written <= entry;
        later.file == self.file
            && (later.header.durable_sequence >= self.header.first_sequence || !same_write)
    }
}

/// A byte of the journal's last written segment that batches behind it vouch for.
pub(crate) fn vouched_byte(disk: &FakeStorage, random: &mut Random) -> Option<(String, u64)> {
    let storage = disk.shared();
    let mut all: Vec<Stands> = Vec::new();
    let (first, last) = (Sequence(0), Sequence(u64::MAX));
    let dumped = journaler::dump(&storage, None, first, last, &mut |batch| {
        let DumpedBatch { file, offset, header, .. } = batch;
        all.push(Stands { file: file.to_owned(), offset, header: header.clone() });
    });
    dumped.ok()?;
    let last_file = all.last()?.file.clone();
    all.retain(|batch| batch.file == last_file);
    let vouched: Vec<&Stands> = all
        .iter()
        .enumerate()
        .filter(|(place, batch)| all.iter().skip(place + 1).any(|later| batch.is_vouched_for_by(later)))
        .map(|(_, batch)| batch)
        .collect();
    if vouched.is_empty() {
        return None;
    }
    let batch = *random.pick(&vouched);
    let length = BATCH_HEADER_BYTES + batch.header.payload_bytes;
    Some((last_file, batch.offset + random.below(length as u64)))
}
