//! Random journals against the format's promises: any batching reads as the same frames, any tail that is cut off or
//! overwritten is an earlier journal or an error, and random bytes are never a journal.

use journaler::{Journal, JournalError, JournalReader, SharedStorage};
use protocol::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{append, check_frames, fake, options, seeded};

const ROUNDS: u32 = 300;

fn random_journal(random: &mut StdRng) -> (journaler::storage::fake::FakeStorage, SharedStorage, u64, u64) {
    let (fake, storage) = fake();
    let segment_bytes = random.random_range(3..20) * 4096;
    let (mut journal, _) = Journal::open(storage.clone(), options(segment_bytes)).unwrap();
    for _ in 0..random.random_range(1..12) {
        append(&mut journal, random.random_range(1..80)).unwrap();
    }
    let last = journal.journaled_sequence().0;
    if random.random() {
        journal.close().unwrap();
    }
    (fake, storage, segment_bytes, last)
}

#[test]
fn any_batching_reads_as_the_same_frames() {
    let (_, mut random) = seeded(21);
    for _ in 0..ROUNDS {
        let (_, storage, segment_bytes, last) = random_journal(&mut random);
        assert_eq!(check_frames(storage.clone(), 1, last).unwrap(), last);
        let (_, recovery) = Journal::open(storage, options(segment_bytes)).unwrap();
        assert_eq!((recovery.last_sequence, recovery.cut.len()), (Sequence(last), 0));
    }
}

/// Overwrites a random range with random bytes, zeros or bytes from elsewhere in the journal.
fn scribble(storage: &SharedStorage, random: &mut StdRng) -> String {
    let names = storage.list("journal").unwrap();
    let path = format!("journal/{}", names[random.random_range(0..names.len())]);
    let file = storage.open(&path, journaler::storage::Access::ReadWrite).unwrap();
    let length = file.length().unwrap();
    let offset = random.random_range(0..length);
    let mut bytes = vec![0; random.random_range(1..6000.min(length - offset + 1).max(2)) as usize];
    bytes.truncate((length - offset) as usize);
    match random.random_range(0..3) {
        0 => random.fill(&mut bytes[..]),
        1 => {}
        _ => {
            let from = random.random_range(0..length) / 512 * 512;
            file.read_at(&mut bytes, from).unwrap();
        }
    }
    file.write_all_at(&bytes, offset).unwrap();
    path
}

#[test]
fn scribbled_journals_are_an_error_or_a_true_prefix() {
    let (_, mut random) = seeded(22);
    let (mut errors, mut prefixes, mut whole) = (0, 0, 0);
    for _ in 0..ROUNDS {
        let (_, storage, segment_bytes, last) = random_journal(&mut random);
        scribble(&storage, &mut random);
        match Journal::open(storage.clone(), options(segment_bytes)) {
            Err(error) => {
                assert!(matches!(error, JournalError::Corrupt(_)), "{error}");
                errors += 1;
            }
            Ok((_, recovery)) => match check_frames(storage, 1, recovery.last_sequence.0) {
                Err(error) => {
                    assert!(matches!(error, JournalError::Corrupt(_)), "{error}");
                    errors += 1;
                }
                Ok(read) if read == last => whole += 1,
                Ok(_) => {
                    assert!(!recovery.cut.is_empty(), "frames are missing and nothing was said");
                    prefixes += 1;
                }
            },
        }
    }
    println!("scribbled: {errors} refused, {prefixes} cut and told, {whole} unharmed");
    assert!(errors > 0 && prefixes > 0 && whole > 0);
}

#[test]
fn random_bytes_are_no_journal() {
    let (_, mut random) = seeded(23);
    for _ in 0..ROUNDS {
        let (_, storage) = fake();
        storage.create_dir("journal").unwrap();
        let file = storage.create("journal/segment-0000000001").unwrap();
        let mut bytes = vec![0; random.random_range(0..9) * 2048];
        random.fill(&mut bytes[..]);
        file.write_all_at(&bytes, 0).unwrap();
        if let Ok(reader) = JournalReader::open(storage.clone()) {
            assert!(reader.frames_from(Sequence(1)).unwrap().next_frame(Sequence(1)).is_err());
        }
        // Opening finds no frames; what never was a segment of this cluster vouches for nothing.
        if let Ok((_, recovery)) = Journal::open(storage, options(16 << 10)) {
            assert_eq!(recovery.last_sequence, Sequence(0));
            assert!(!recovery.cut.is_empty());
        }
    }
}
