//! The input ring stepped on one thread: what each reader sees when, at every limit, wrap and edge.

use std::convert::Infallible;

use rand::RngExt;
use ring::{
    Claimed, FRAME_BYTES_MAX, FramePoller, Full, InputRing, LOGIC_BATCH_MAX, Polled, PublishError, Published,
    RingError, WakeSet, frame_ring, input_ring,
};

use crate::frames::{Label, check, frame, generator, random_length, seed};

fn new_ring(slots: usize) -> InputRing<Label> {
    input_ring(slots, WakeSet::default()).expect("a legal size")
}

/// Reads at most `limit` slots of raw frames.
fn read(poller: &mut FramePoller, limit: usize) -> (Polled, Vec<Label>) {
    let mut labels = Vec::new();
    let polled = poller.poll(limit, |batch| {
        assert_eq!(batch.slots() * 64, batch.runs().iter().map(|run| run.len()).sum::<usize>());
        assert_eq!(batch.frames().count(), batch.len());
        let joined: Vec<u8> = batch.frames().flatten().copied().collect();
        assert_eq!(joined, batch.runs().concat(), "frames and runs are the same bytes");
        labels.extend(batch.frames().map(check));
        Ok::<_, Infallible>(())
    });
    (polled.expect("infallible"), labels)
}

fn decode(ring: &mut InputRing<Label>, limit: usize) -> Polled {
    ring.unmarshal.poll(limit, |bytes, label| *label = check(bytes))
}

/// Applies up to `limit` frames and stops after `stop`.
fn apply(ring: &mut InputRing<Label>, limit: usize, stop: usize) -> (Polled, Vec<Label>) {
    let mut labels = Vec::new();
    let polled = ring.logic.poll(limit, |batch| {
        let taken = stop.min(batch.len());
        labels.extend(batch.iter().take(taken));
        taken
    });
    (polled, labels)
}

#[test]
fn logic_sees_a_frame_only_when_all_three_have_released_it() {
    // Each order of the three; logic sees nothing before the third.
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let mut ring = new_ring(64);
        ring.ingress.try_publish(&frame(200, 1, 7)).expect("room");
        for reader in order {
            assert_eq!(apply(&mut ring, 8, 8), (Polled::Idle, vec![]));
            let polled = match reader {
                0 => read(&mut ring.journal, usize::MAX).0,
                1 => read(&mut ring.replicate, usize::MAX).0,
                _ => decode(&mut ring, usize::MAX),
            };
            assert_eq!(polled, Polled::Work(1));
        }
        let (polled, labels) = apply(&mut ring, 8, 8);
        assert_eq!(polled, Polled::Work(1));
        assert_eq!((labels[0].publisher, labels[0].count), (1, 7));
    }
}

#[test]
fn a_journal_error_releases_nothing() {
    let mut ring = new_ring(64);
    for count in 0..3 {
        ring.ingress.try_publish(&frame(100, 1, count)).expect("room");
    }
    let failed = ring.journal.poll(usize::MAX, |batch| {
        assert_eq!(batch.len(), 3);
        Err("disk")
    });
    assert_eq!(failed, Err("disk"));
    read(&mut ring.replicate, usize::MAX);
    decode(&mut ring, usize::MAX);
    assert_eq!(apply(&mut ring, 8, 8).0, Polled::Idle, "not journaled");
    let (polled, labels) = read(&mut ring.journal, usize::MAX);
    assert_eq!(polled, Polled::Work(3));
    assert_eq!(
        labels.iter().map(|label| label.count).collect::<Vec<_>>(),
        [0, 1, 2],
        "the same frames again"
    );
    assert_eq!(apply(&mut ring, 8, 8).0, Polled::Work(3));
}

#[test]
fn a_limit_cuts_between_frames_and_never_starves() {
    let mut ring = new_ring(64);
    // 2, 16, 1 and 3 slots.
    for (count, length) in [128, 1024, 32, 130].into_iter().enumerate() {
        ring.ingress.try_publish(&frame(length, 0, count as u64)).expect("room");
    }
    let mut counts = |limit: usize| -> Vec<u64> {
        read(&mut ring.journal, limit).1.iter().map(|label| label.count).collect()
    };
    assert_eq!(counts(0), [0], "at least one frame");
    assert_eq!(counts(1), [1], "though it is longer than the limit");
    assert_eq!(counts(3), [2], "not the second, which would not be whole");
    assert_eq!(counts(3), [3]);
}

#[test]
fn logic_looks_ahead_and_stops_where_it_likes() {
    let mut ring = new_ring(64);
    for count in 0..10 {
        ring.ingress.try_publish(&frame(32 + 90 * count as usize % 400, 0, count)).expect("room");
    }
    read(&mut ring.journal, usize::MAX);
    read(&mut ring.replicate, usize::MAX);
    decode(&mut ring, usize::MAX);
    let polled = ring.logic.poll(6, |batch| {
        assert_eq!(batch.len(), 6);
        assert_eq!(batch.get(0).map(|label| label.count), Some(0));
        assert_eq!(batch.get(5).map(|label| label.count), Some(5), "ahead");
        assert_eq!(batch.get(6), None, "past the batch");
        0
    });
    assert_eq!(polled, Polled::Idle, "nothing taken");
    let mut counts = |limit, stop| -> Vec<u64> {
        apply(&mut ring, limit, stop).1.iter().map(|label| label.count).collect()
    };
    assert_eq!(counts(6, 2), [0, 1]);
    assert_eq!(counts(6, 6), [2, 3, 4, 5, 6, 7]);
    assert_eq!(counts(0, 9), [8], "at least one");
    assert_eq!(counts(LOGIC_BATCH_MAX + 1, 9), [9]);
    assert_eq!(apply(&mut ring, 6, 6).0, Polled::Idle);
}

#[test]
fn a_full_ring_refuses_and_recovers() {
    let mut ring = new_ring(64);
    for count in 0..3 {
        ring.ingress.try_publish(&frame(FRAME_BYTES_MAX, 0, count)).expect("room");
    }
    ring.ingress.try_publish(&frame(900, 0, 3)).expect("room for 15 slots of 16");
    assert_eq!(ring.ingress.free_slots(), 1);
    let full = |missing| Err(PublishError::Full(Full { missing }));
    assert_eq!(ring.ingress.try_publish(&frame(65, 0, 9)), full(1));
    assert_eq!(ring.ingress.try_publish(&frame(FRAME_BYTES_MAX, 0, 9)), full(15));
    ring.ingress.try_publish(&frame(64, 0, 4)).expect("room for exactly one slot");
    assert_eq!(ring.ingress.try_publish(&frame(32, 0, 9)), full(1));

    // The three alone make no room: logic still has to read.
    read(&mut ring.journal, usize::MAX);
    read(&mut ring.replicate, usize::MAX);
    decode(&mut ring, usize::MAX);
    assert_eq!(ring.ingress.try_publish(&frame(32, 0, 9)), full(1));
    // Logic releases one frame of sixteen slots.
    assert_eq!(apply(&mut ring, 8, 1).1.len(), 1);
    assert_eq!(ring.ingress.free_slots(), 16);
    ring.ingress.try_publish(&frame(FRAME_BYTES_MAX, 0, 5)).expect("room again");
    assert_eq!(ring.ingress.try_publish(&frame(32, 0, 9)), full(1));
    let rest: Vec<u64> = {
        read(&mut ring.journal, usize::MAX);
        read(&mut ring.replicate, usize::MAX);
        decode(&mut ring, usize::MAX);
        apply(&mut ring, 8, 8).1.iter().map(|label| label.count).collect()
    };
    assert_eq!(rest, [1, 2, 3, 4, 5], "the refused ones left no trace");
    assert_eq!(ring.ingress.free_slots(), 64);
}

#[test]
fn a_publisher_knows_the_slots_of_its_claim() {
    let mut ring = new_ring(64);
    let mut other = ring.ingress.clone();
    ring.ingress.try_publish_many(&[&frame(64, 0, 0), &frame(130, 0, 1)]).expect("room");
    assert_eq!(ring.ingress.claimed(), Claimed { slots: 4, last: 3 });
    other.try_publish(&frame(65, 1, 2)).expect("room");
    assert_eq!(other.claimed(), Claimed { slots: 2, last: 5 });
    let whole = padded(64, 0, 3);
    ring.ingress.publish_some(&whole).expect("room");
    assert_eq!(ring.ingress.claimed(), Claimed { slots: 1, last: 6 });
}

#[test]
fn bad_frames_are_refused_before_the_claim() {
    let mut ring = new_ring(64);
    let bad = |declared, actual| Err(PublishError::BadLength { declared, actual });
    assert_eq!(ring.ingress.try_publish(&[]), bad(0, 0));
    assert_eq!(ring.ingress.try_publish(&[32]), bad(0, 1));
    let mut short = frame(32, 0, 0);
    short.truncate(31);
    assert_eq!(ring.ingress.try_publish(&short), bad(32, 31));
    short[0] = 31;
    assert_eq!(ring.ingress.try_publish(&short), bad(31, 31));
    assert_eq!(ring.ingress.try_publish(&frame(1025, 0, 0)), bad(1025, 1025));
    let good = frame(64, 0, 0);
    assert_eq!(ring.ingress.try_publish_many(&[&good, &short]), bad(31, 31), "all or none");
    let many = vec![&good[..]; 65];
    assert_eq!(
        ring.ingress.try_publish_many(&many),
        Err(PublishError::ClaimTooLarge { slots: 65, capacity: 64 })
    );
    assert_eq!(ring.ingress.try_publish_many(&[]), Ok(()));
    assert_eq!(read(&mut ring.journal, usize::MAX).0, Polled::Idle, "nothing was published");
    assert_eq!(ring.ingress.try_publish_many(&many[..64]), Ok(()), "a whole ring at once");
    assert_eq!(read(&mut ring.journal, usize::MAX).0, Polled::Work(64));
}

#[test]
fn the_ring_drains_and_then_shuts_down_when_the_last_publisher_is_gone() {
    let mut ring = new_ring(64);
    let mut second = ring.ingress.clone();
    ring.ingress.try_publish(&frame(300, 1, 1)).expect("room");
    let InputRing { ingress, mut journal, replicate, unmarshal, logic } = ring;
    drop(ingress);
    assert_eq!(read(&mut journal, usize::MAX).0, Polled::Work(1));
    assert_eq!(read(&mut journal, usize::MAX).0, Polled::Idle, "one publisher is left");
    second.try_publish(&frame(64, 2, 1)).expect("room");
    let mut ring = InputRing { ingress: second.clone(), journal, replicate, unmarshal, logic };
    drop(second);
    let InputRing { ingress, mut journal, mut replicate, mut unmarshal, mut logic } = ring;
    drop(ingress);
    assert_eq!(read(&mut journal, usize::MAX).0, Polled::Work(1), "what was published is still read");
    assert_eq!(read(&mut journal, usize::MAX).0, Polled::Shutdown);
    assert_eq!(read(&mut journal, usize::MAX).0, Polled::Shutdown, "and stays so");
    assert_eq!(logic.poll(8, |batch| batch.len()), Polled::Idle, "the others have not read yet");
    assert_eq!(read(&mut replicate, 1).0, Polled::Work(1));
    assert_eq!(read(&mut replicate, 1).0, Polled::Work(1));
    assert_eq!(read(&mut replicate, 1).0, Polled::Shutdown);
    assert_eq!(unmarshal.poll(usize::MAX, |bytes, label| *label = check(bytes)), Polled::Work(2));
    assert_eq!(unmarshal.poll(usize::MAX, |_, _| ()), Polled::Shutdown);
    assert_eq!(logic.poll(1, |batch| batch.len()), Polled::Work(1));
    assert_eq!(logic.poll(1, |batch| batch.len()), Polled::Work(1));
    assert_eq!(logic.poll(1, |batch| batch.len()), Polled::Shutdown);
    ring = new_ring(64);
    drop(ring.ingress);
    assert_eq!(ring.logic.poll(1, |batch| batch.len()), Polled::Shutdown, "also when nothing ever came");
}

#[test]
fn sizes_are_checked() {
    for slots in [0, 1, 32, 63, 65, 100, ring::RING_SLOTS_MAX * 2, usize::MAX] {
        let refused = input_ring::<Label>(slots, WakeSet::default()).err();
        assert_eq!(refused, Some(RingError::Slots { slots }));
        assert_eq!(frame_ring(slots, WakeSet::default()).err(), refused);
    }
}

/// Random frames, claims and limits through a small ring, so that frames wrap at every slot: each reader sees exactly
/// what was published, in order, against a plain list as the model.
#[test]
fn random_steps_match_a_list() {
    let mut random = generator(seed(), 0);
    for slots in [64, 128] {
        let mut ring = new_ring(slots);
        let mut published: Vec<Label> = Vec::new();
        let (mut journaled, mut replicated, mut applied) = (Vec::new(), Vec::new(), Vec::new());
        let (mut fulls, mut decoded) = (0, 0);
        for _ in 0..20_000 {
            let limit = [1, 7, 16, 40, usize::MAX][random.random_range(0..5)];
            match random.random_range(0..6) {
                0 | 1 => {
                    let frames: Vec<Vec<u8>> = (0..random.random_range(1..4))
                        .map(|next| frame(random_length(&mut random), 3, published.len() as u64 + next))
                        .collect();
                    let claim: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
                    match ring.ingress.try_publish_many(&claim) {
                        Ok(()) => published.extend(frames.iter().map(|frame| {
                            let mut padded = frame.clone();
                            padded.resize(frame.len().next_multiple_of(64), 0);
                            check(&padded)
                        })),
                        Err(PublishError::Full(_)) => fulls += 1,
                        Err(error) => panic!("{error}"),
                    }
                }
                2 => journaled.extend(read(&mut ring.journal, limit).1),
                3 => replicated.extend(read(&mut ring.replicate, limit).1),
                4 => {
                    if let Polled::Work(frames) = decode(&mut ring, limit) {
                        decoded += frames;
                    }
                }
                _ => applied.extend(apply(&mut ring, limit, random.random_range(0..8)).1),
            }
            assert!(applied.len() <= journaled.len().min(replicated.len()).min(decoded));
        }
        assert!(
            fulls > 100 && applied.len() > 1_000,
            "the run reached the edges: {fulls}, {}",
            applied.len()
        );
        assert_eq!(journaled, published[..journaled.len()]);
        assert_eq!(replicated, published[..replicated.len()]);
        assert_eq!(applied, published[..applied.len()]);
    }
}

/// A frame as a reader gets it.
fn padded(length: usize, publisher: u8, count: u64) -> Vec<u8> {
    let mut bytes = frame(length, publisher, count);
    bytes.resize(length.next_multiple_of(64), 0);
    bytes
}

#[test]
fn a_frame_ring_has_one_reader_which_alone_makes_room() {
    let (mut ingress, mut frames) = frame_ring(64, WakeSet::default()).expect("a legal size");
    let mut second = ingress.clone();
    assert_eq!(read(&mut frames, usize::MAX), (Polled::Idle, vec![]));
    ingress.try_publish(&frame(300, 1, 1)).expect("room");
    second.try_publish(&frame(FRAME_BYTES_MAX, 2, 1)).expect("room");
    assert_eq!(ingress.free_slots(), 64 - 5 - 16);
    let (polled, labels) = read(&mut frames, 5);
    assert_eq!((polled, labels.len(), labels[0].publisher), (Polled::Work(1), 1, 1));
    assert_eq!(ingress.free_slots(), 64 - 16);
    let refused =
        frames.poll(usize::MAX, |batch| if batch.len() == 1 { Err("no room behind") } else { Ok(()) });
    assert_eq!(refused, Err("no room behind"));
    assert_eq!(ingress.free_slots(), 64 - 16, "what was not taken stays");
    drop((ingress, second));
    assert_eq!(read(&mut frames, usize::MAX).0, Polled::Work(1));
    assert_eq!(read(&mut frames, usize::MAX).0, Polled::Shutdown);
}

#[test]
fn some_frames_are_taken_where_not_all_fit() {
    let (mut ingress, mut frames) = frame_ring(64, WakeSet::default()).expect("a legal size");
    // 1, 16, 2 and 45 slots in frames of 15, then one more than there is room for.
    let lengths = [64, 1024, 65, 960, 960, 960, 32];
    let all: Vec<u8> =
        lengths.iter().zip(0..).flat_map(|(length, count)| padded(*length, 0, count)).collect();
    let nothing = Ok(Published::default());
    assert_eq!(ingress.publish_some(&[]), nothing);
    let published = Published { frames: 6, bytes: 64 * 64 };
    assert_eq!(ingress.publish_some(&all), Ok(published), "up to the last slot");
    let rest = &all[published.bytes..];
    assert_eq!(ingress.publish_some(rest), nothing, "full");
    let counts = |labels: Vec<Label>| labels.iter().map(|label| label.count).collect::<Vec<_>>();
    assert_eq!(counts(read(&mut frames, 1).1), [0]);
    assert_eq!(ingress.publish_some(rest), Ok(Published { frames: 1, bytes: 64 }));
    assert_eq!(counts(read(&mut frames, usize::MAX).1), [1, 2, 3, 4, 5, 6]);

    let bad = |declared, actual| Err(PublishError::BadLength { declared, actual });
    let good = padded(64, 0, 0);
    assert_eq!(ingress.publish_some(&good[..63]), bad(64, 63), "cut");
    assert_eq!(ingress.publish_some(&[good.as_slice(), &[7]].concat()), bad(0, 1), "a rest");
    for length in [0_u16, 31, 1025, u16::MAX] {
        let mut wrong = vec![0; 1 << 16];
        wrong[..2].copy_from_slice(&length.to_le_bytes());
        let refused = ingress.publish_some(&[good.as_slice(), &wrong].concat());
        assert!(matches!(refused, Err(PublishError::BadLength { .. })), "{length}: {refused:?}");
    }
    assert_eq!(read(&mut frames, usize::MAX).0, Polled::Idle, "nothing of them was published");
}

/// Slots cut anywhere between frames, published as room allows: the reader sees the same list.
#[test]
fn frames_in_random_pieces_come_in_order() {
    let mut random = generator(seed(), 1);
    let (mut ingress, mut frames) = frame_ring(64, WakeSet::default()).expect("a legal size");
    let published: Vec<Vec<u8>> =
        (0..5_000).map(|count| padded(random_length(&mut random), 0, count)).collect();
    let expected: Vec<Label> = published.iter().map(|frame| check(frame)).collect();
    let (mut next, mut seen, mut partly) = (0, Vec::new(), 0);
    while seen.len() < expected.len() {
        let end = published.len().min(next + random.random_range(0..20));
        let piece = published[next..end].concat();
        let taken = ingress.publish_some(&piece).expect("whole frames");
        partly += usize::from(taken.frames > 0 && taken.bytes < piece.len());
        let taken_frames = &published[next..next + taken.frames];
        assert_eq!(taken.bytes, taken_frames.iter().map(Vec::len).sum::<usize>());
        next += taken.frames;
        seen.extend(read(&mut frames, random.random_range(0..40)).1);
    }
    assert!(partly > 100, "the run reached the edges: {partly}");
    assert_eq!(seen, expected);
}
