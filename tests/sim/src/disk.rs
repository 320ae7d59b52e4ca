//! What is on a member's disk: read from outside, as a checker may. It must not change a byte.

use journaler::storage::Access;
use journaler::storage::fake::FakeStorage;
use journaler::{BLOCK_BYTES, JOURNAL_FOLDER, JournalReader};
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

/// A byte of the journal's last written segment that batches behind it vouch for.
pub(crate) fn vouched_byte(disk: &FakeStorage, random: &mut Random) -> Option<(String, u64)> {
    let storage = disk.shared();
    for name in storage.list(JOURNAL_FOLDER).ok()?.iter().rev() {
        let path = format!("{JOURNAL_FOLDER}/{name}");
        let file = storage.open(&path, Access::Read).ok()?;
        let mut bytes = vec![0; usize::try_from(file.length().ok()?).ok()?];
        file.read_at(&mut bytes, 0).ok()?;
        let written: Vec<usize> = bytes
            .chunks(BLOCK_BYTES)
            .enumerate()
            .filter(|(_, block)| block.iter().any(|byte| *byte != 0))
            .map(|(place, _)| place)
            .collect();
        if written.is_empty() {
            continue;
        }
        // Behind the header, and with at least two writes of one block each behind it.
        let blocks = written.get(1..written.len().checked_sub(6)?)?;
        if blocks.is_empty() {
            return None;
        }
        let block = *random.pick(blocks) * BLOCK_BYTES;
        let used: Vec<usize> =
            (block..block + BLOCK_BYTES).filter(|at| bytes.get(*at).is_some_and(|byte| *byte != 0)).collect();
        return Some((path, *random.pick(&used) as u64));
    }
    None
}
