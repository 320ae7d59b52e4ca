//! The recorder from its writers to what is read back: nothing is lost that is not counted, whatever happens to the bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use recorder::{
    BUFFER_WORDS, Contents, Drain, Entry, Join, Reading, Record, Recorder, Writer, stages, ticks,
};

recorder::points! {
    static TABLE;
    NONE = "test.none": "nothing";
    ONE = "test.one": "{a}";
    TWO = "test.two": "{a} and {b}";
    FOUR = "test.four": "{a}, {b}, {c} and {d}";
}

/// The seed of a randomised test: RINGPIT_SEED, or a new one. It is printed, so that a failure can be had again.
fn seeded(test: &str) -> StdRng {
    let seed = match std::env::var("RINGPIT_SEED") {
        Ok(text) => text.parse().expect("RINGPIT_SEED is a number"),
        Err(_) => rand::rng().random_range(0..1_000_000),
    };
    println!("{test}: RINGPIT_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

fn reading(ticks: u64) -> Reading {
    Reading { ticks, monotonic_ns: ticks / 2, wall_ns: 1_000_000 + ticks / 2 }
}

/// A file's bytes of what a drain has.
fn begin(drain: &mut Drain, now: u64) -> Vec<u8> {
    let mut file = Vec::new();
    drain.begin(&mut file, 7, &reading(now), 2_000_000_000);
    file
}

fn write(drain: &mut Drain, file: &mut Vec<u8>) {
    drain.blocks(file);
    drain.written();
}

fn passed(record: &Record) -> Option<(usize, [u64; 4])> {
    match record.entry {
        Entry::Passed { point, arguments } => Some((point, arguments)),
        Entry::Lost(_) => None,
    }
}

/// One writer after another records at random and is drained at random, over many rounds of its buffer; each record comes
/// back in order, or is counted as lost.
#[test]
fn what_is_recorded_is_read_back_or_counted() {
    let mut random = seeded("what_is_recorded_is_read_back_or_counted");
    let (recorder, mut drain) = Recorder::new(TABLE);
    let mut writers: Vec<Writer> =
        (0..3).map(|number| recorder.writer(&format!("writer {number}"))).collect();
    let mut recorded: Vec<Vec<(usize, [u64; 4])>> = vec![Vec::new(); writers.len()];
    let mut file = begin(&mut drain, ticks::now());
    let mut failed_writes = 0;
    for _ in 0..40 {
        for (writer, recorded) in writers.iter_mut().zip(&mut recorded) {
            let burst = match random.random_range(0..4) {
                0 => random.random_range(0..BUFFER_WORDS),
                _ => random.random_range(0..100),
            };
            for _ in 0..burst {
                let bits = random.random_range(0..64);
                let mut value = || random.random::<u64>() >> bits;
                let arguments = [value(), value(), value(), value()];
                let [a, b, ..] = arguments;
                recorded.push(match random.random_range(0..4) {
                    0 => {
                        writer.record(NONE, []);
                        (NONE.place(), [0; 4])
                    }
                    1 => {
                        writer.record(ONE, [a]);
                        (ONE.place(), [a, 0, 0, 0])
                    }
                    2 => {
                        writer.record(TWO, [a, b]);
                        (TWO.place(), [a, b, 0, 0])
                    }
                    _ => {
                        writer.record(FOUR, arguments);
                        (FOUR.place(), arguments)
                    }
                });
            }
        }
        drain.collect(ticks::now());
        match random.random_range(0..6) {
            // Goes on gathering.
            0 | 1 => {}
            2 => {
                let mut nowhere = Vec::new();
                drain.blocks(&mut nowhere);
                drain.lost();
                failed_writes += 1;
            }
            _ => write(&mut drain, &mut file),
        }
    }
    drop(writers);
    drain.collect(ticks::now());
    write(&mut drain, &mut file);
    assert!(drain.is_empty());
    let contents = Contents::parse(&file).expect("readable");
    assert_eq!(contents.problems, []);
    assert_eq!(contents.points.len(), TABLE.len());
    assert!(contents.records.is_sorted_by_key(|record| record.ticks));
    for (number, recorded) in recorded.iter().enumerate() {
        let number = number as u64;
        assert!(failed_writes > 0 || contents.source(number) == format!("writer {number}"));
        let mut rest = recorded.iter();
        let (mut lost, mut found) = (0, 0);
        for record in contents.records.iter().filter(|record| record.source == number) {
            match record.entry {
                Entry::Lost(count) => lost += count,
                // What is not the next one was lost.
                Entry::Passed { .. } => {
                    found += 1;
                    assert!(
                        rest.any(|other| Some(*other) == passed(record)),
                        "{record:?} was not recorded then"
                    );
                }
            }
        }
        assert_eq!(found + lost, recorded.len() as u64, "writer {number}");
    }
}

/// Threads record as fast as they can while another drains.
#[test]
fn threads_record_while_the_drain_reads() {
    const EACH: u64 = 200_000;
    let (recorder, mut drain) = Recorder::new(TABLE);
    let running = AtomicBool::new(true);
    let mut file = begin(&mut drain, ticks::now());
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|number| {
                let mut writer = recorder.writer(&number.to_string());
                scope.spawn(move || (1..=EACH).for_each(|value| writer.record(TWO, [value, !value])))
            })
            .collect();
        let running = &running;
        let (drain, file) = (&mut drain, &mut file);
        let drains = scope.spawn(move || {
            while running.load(Ordering::Acquire) {
                drain.collect(ticks::now());
                write(drain, file);
            }
        });
        threads.into_iter().for_each(|thread| thread.join().expect("it records"));
        running.store(false, Ordering::Release);
        drains.join().expect("it drains");
    });
    drain.collect(ticks::now());
    write(&mut drain, &mut file);
    let contents = Contents::parse(&file).expect("readable");
    assert_eq!(contents.problems, []);
    let mut counts: HashMap<u64, (u64, u64)> = HashMap::new();
    for record in &contents.records {
        let (last, count) = counts.entry(record.source).or_default();
        match record.entry {
            Entry::Lost(lost) => *count += lost,
            Entry::Passed { arguments: [value, inverted, ..], .. } => {
                assert!(value > *last && inverted == !value, "{value} {inverted} behind {last}");
                (*last, *count) = (value, *count + 1);
            }
        }
    }
    assert_eq!(counts.values().map(|(_, count)| *count).collect::<Vec<_>>(), [EACH, EACH]);
}

/// Bits are turned, bytes cut off, and pieces of garbage put in, at random: what is read was recorded, and nothing panics.
#[test]
fn damaged_files_are_read_as_far_as_they_can_be() {
    let mut random = seeded("damaged_files_are_read_as_far_as_they_can_be");
    let (recorder, mut drain) = Recorder::new(TABLE);
    let mut writer = recorder.writer("w");
    let mut file = begin(&mut drain, ticks::now());
    let head = file.len();
    for value in 0..500 {
        writer.record(TWO, [value, value * value]);
        if value % 10 == 9 {
            drain.collect(ticks::now());
            write(&mut drain, &mut file);
        }
    }
    let whole = Contents::parse(&file).expect("readable").records;
    assert_eq!(whole.len(), 500);
    for _ in 0..3_000 {
        let mut bytes = file.clone();
        let damage = random.random_range(0..3);
        match damage {
            0 => {
                let at = random.random_range(head..bytes.len());
                bytes[at] ^= 1 << random.random_range(0..8);
            }
            1 => bytes.truncate(random.random_range(head..file.len())),
            _ => {
                let at = random.random_range(head..bytes.len());
                let garbage: Vec<u8> = (0..random.random_range(1..50)).map(|_| random.random()).collect();
                bytes.splice(at..at, garbage);
            }
        }
        let contents = Contents::parse(&bytes).expect("the head is whole");
        let is_cut_between_blocks = bytes.len() < file.len() && contents.problems.is_empty();
        assert!(is_cut_between_blocks || !contents.problems.is_empty(), "the damage is told");
        assert!(contents.records.iter().all(|record| whole.contains(record)));
        // One block is lost at most, and what is behind it is found again.
        assert!(damage == 1 || contents.records.len() >= 490, "{} are left", contents.records.len());
        let mut join = Join::new(vec![("test.one".into(), "test.two".into())]);
        join.add(&contents, &mut |_, _, _| {});
    }
    // Heads that are damaged are refused, whatever they say.
    for at in 0..head {
        for bit in 0..8 {
            let mut bytes = file.clone();
            bytes[at] ^= 1 << bit;
            match Contents::parse(&bytes) {
                Ok(contents) => assert!(!contents.problems.is_empty(), "byte {at}"),
                Err(error) => assert!(!error.to_string().contains('\n')),
            }
        }
    }
    for length in 0..200 {
        let garbage: Vec<u8> = (0..length).map(|_| random.random()).collect();
        assert!(Contents::parse(&garbage).is_err());
    }
}

/// Frames on their way through the stages, as the server records them, with all that a test must know of them.
struct Flow {
    random: StdRng,
    now: u64,
    writers: [Writer; 4],
    /// Of each frame that was published: its slots and its session, where it is a gateway's.
    frames: Vec<(u64, Option<u64>)>,
    /// When each frame passed which point.
    passed: Vec<HashMap<&'static str, u64>>,
    slots: u64,
    taken: usize,
    taken_slots: u64,
    decoded: usize,
    applied: usize,
    reported: usize,
    sent: [usize; 3],
}

impl Flow {
    fn new(random: StdRng, recorder: &Recorder) -> Self {
        Self {
            random,
            now: 1_000,
            writers: ["gateway", "ticker", "journal", "logic"].map(|name| recorder.writer(name)),
            frames: Vec::new(),
            passed: Vec::new(),
            slots: 0,
            taken: 0,
            taken_slots: 0,
            decoded: 0,
            applied: 0,
            reported: 0,
            sent: [0; 3],
        }
    }

    fn publish(&mut self, session: Option<u64>) {
        let frames = if session.is_some() { self.random.random_range(1..6) } else { 1 };
        let is_long = self.random.random_range(0..4) == 0;
        let slots: Vec<u64> =
            (0..frames).map(|_| if is_long { self.random.random_range(1..4) } else { 1 }).collect();
        let claimed: u64 = slots.iter().sum();
        self.slots += claimed;
        let last = self.slots - 1;
        let name = match session {
            Some(session) => {
                self.writers[0].record_at(self.now, stages::PUBLISHED, [frames, session, claimed, last]);
                "gateway.published"
            }
            None => {
                self.writers[1].record_at(self.now, stages::TICKED, [frames, claimed, last]);
                "ticker.published"
            }
        };
        self.frames.extend(slots.iter().map(|slots| (*slots, session)));
        self.passed.extend(slots.iter().map(|_| HashMap::from([(name, self.now)])));
    }

    fn mark(&mut self, name: &'static str, from: usize, to: usize) {
        self.passed[from..to].iter_mut().for_each(|passed| assert!(passed.insert(name, self.now).is_none()));
    }

    /// How far a stage goes that can go to `end`.
    fn some(&mut self, from: usize, end: usize, all: bool) -> usize {
        if all { end } else { self.random.random_range(from..=end) }
    }

    /// Each stage but the publication, some way or all of it.
    fn step(&mut self, stage: usize, all: bool) {
        self.now += self.random.random_range(1..100);
        match stage {
            0 => {
                let to = self.some(self.taken, self.frames.len(), all);
                let slots: u64 = self.frames[self.taken..to].iter().map(|(slots, _)| slots).sum();
                if to > self.taken {
                    self.taken_slots += slots;
                    let frames = (to - self.taken) as u64;
                    let taken = [frames, to as u64, self.taken_slots - 1];
                    self.writers[2].record_at(self.now, stages::TAKEN, taken);
                    self.mark("journal.taken", self.taken, to);
                    self.now += self.random.random_range(1..100);
                    self.writers[2].record_at(self.now, stages::WRITTEN, [frames, to as u64, slots * 64]);
                    self.mark("journal.written", self.taken, to);
                }
                self.taken = to;
            }
            1 => {
                let to = self.some(self.decoded, self.taken, all);
                if to > self.decoded {
                    self.writers[3].record_at(
                        self.now,
                        stages::DECODED,
                        [(to - self.decoded) as u64, to as u64],
                    );
                    self.mark("unmarshal.decoded", self.decoded, to);
                }
                self.decoded = to;
            }
            2 => {
                let to = self.some(self.applied, self.decoded, all);
                if to > self.applied {
                    self.writers[3].record_at(
                        self.now,
                        stages::APPLIED,
                        [(to - self.applied) as u64, to as u64],
                    );
                    self.mark("logic.applied", self.applied, to);
                }
                self.applied = to;
            }
            3 => {
                let to = self.some(self.reported, self.applied, all);
                if to > self.reported {
                    let arguments = [(to - self.reported) as u64, to as u64];
                    self.writers[3].record_at(self.now, stages::REPORTED, arguments);
                    self.mark("reports.written", self.reported, to);
                }
                self.reported = to;
            }
            _ => {
                let session = self.random.random_range(0..3);
                (0..3).filter(|other| all || *other == session).for_each(|session| self.send(session));
            }
        }
    }

    fn send(&mut self, session: usize) {
        let (from, to) = (self.sent[session], self.reported);
        let own: Vec<usize> =
            (from..to).filter(|frame| self.frames[*frame].1 == Some(session as u64)).collect();
        if let (Some(first), Some(last)) = (own.first(), own.last()) {
            let arguments = [*first as u64 + 1, *last as u64 + 1, session as u64];
            self.writers[0].record_at(self.now, stages::SENT, arguments);
            for frame in own {
                self.passed[frame].insert("gateway.sent", self.now);
            }
        }
        self.sent[session] = to;
    }
}

/// Claims, batches and sends are cut at random, and the records into files: the times between each two points are those that the
/// frames had, and no frame is left out.
#[test]
fn times_between_points_are_those_of_the_frames() {
    let random = seeded("times_between_points_are_those_of_the_frames");
    let (recorder, mut drain) = Recorder::new(stages::TABLE);
    let mut flow = Flow::new(random, &recorder);
    // As at each start. The first batch has none before it that would say where its slots begin.
    flow.publish(None);
    flow.step(0, true);
    let pairs: Vec<(String, String)> =
        stages::TIMES.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
    let mut join = Join::new(pairs.clone());
    let mut told = vec![(0, 0); pairs.len()];
    for number in 0..20 {
        let mut file = begin(&mut drain, flow.now);
        for _ in 0..300 {
            flow.now += flow.random.random_range(1..100);
            let session = flow.random.random_range(0..4);
            if flow.frames.len() < flow.reported + 200 {
                flow.publish((session < 3).then_some(session));
            }
            let stage = flow.random.random_range(0..5);
            flow.step(stage, false);
            drain.collect(flow.now);
            if flow.random.random_range(0..10) == 0 {
                write(&mut drain, &mut file);
            }
        }
        // Frames that are on their way at the end of a file must be through by the end of the next.
        if number % 2 == 1 {
            (0..5).for_each(|stage| flow.step(stage, true));
        }
        drain.collect(flow.now);
        write(&mut drain, &mut file);
        let contents = Contents::parse(&file).expect("readable");
        join.add(&contents, &mut |pair, ticks, frames| {
            told[pair] = (told[pair].0 + frames, told[pair].1 + ticks * frames);
        });
    }
    join.finish(&mut |pair, ticks, frames| {
        told[pair] = (told[pair].0 + frames, told[pair].1 + ticks * frames);
    });
    for ((from, to), told) in pairs.iter().zip(&told) {
        let each = flow.passed.iter().filter_map(|passed| {
            let (from, to) = (passed.get(from.as_str())?, passed.get(to.as_str())?);
            Some(to - from)
        });
        let expected = each.fold((0, 0), |(frames, ticks), passed| (frames + 1, ticks + passed));
        assert!(expected.0 > 0 || from == "journal.written" || from == "replicate.committed", "{from} {to}");
        assert_eq!(*told, expected, "{from} {to}");
    }
    let applied = join.counted().find(|(name, _)| *name == "logic.applied").expect("it was passed").1;
    assert_eq!(applied.frames, flow.frames.len() as u64);
    assert_eq!(join.lost(), 0);
}
