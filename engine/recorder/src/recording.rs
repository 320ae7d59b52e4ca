//! The thread that writes what was recorded. Whatever goes wrong ends the recording for a while, never the process: it must
//! not touch a disk that has no room to spare, wait for one, or keep a writer waiting.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::buffer::BUFFER_WORDS;
use crate::clock::Reading;
use crate::drain::Drain;
use crate::files::Files;

/// How often the buffers are emptied: at a record each 2.5 us a writer's does not run full meanwhile.
const COLLECT_EVERY: Duration = Duration::from_millis(10);
/// How often what was taken is written: what a killed process loses.
const WRITE_EVERY_NS: u64 = 100_000_000;
/// How often the clocks are told.
const CLOCK_EVERY_NS: u64 = 1_000_000_000;
/// How long nothing is tried after the disk gave an error.
const PAUSE_NS: u64 = 10_000_000_000;
/// Bytes that are written at once without waiting for their time.
const PENDING_BYTES_MAX: usize = 1 << 20;
/// Ticks a second until there is something to tell them from: read by nobody once a file has two readings.
const TICKS_PER_SECOND_ASSUMED: u64 = 1_000_000_000;

/// Where a recording goes.
pub struct Options {
    /// The folder, which nobody else writes to.
    pub folder: PathBuf,
    /// Bytes that it may take.
    pub bytes_max: u64,
    /// Asked before each write: whether the disk has room to spare. While it has not, what is recorded is lost and counted.
    pub room: Box<dyn FnMut() -> bool + Send>,
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, bytes_max, .. } = self;
        formatter
            .debug_struct("Options")
            .field("folder", folder)
            .field("bytes_max", bytes_max)
            .finish_non_exhaustive()
    }
}

/// A recording that runs. Dropping it writes what is there and ends it; writers that are left then record for nobody.
#[derive(Debug)]
pub struct Recording {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recording {
    /// Starts the thread. It has the usual priority: it works for some microseconds at a time, and a lower one would keep the
    /// sockets of a killed process open until its turn comes. A folder that can't be used is told in the log and tried again.
    ///
    /// # Errors
    /// The thread can't be made.
    pub fn start(drain: Drain, options: Options) -> io::Result<Self> {
        let (stop, stopped) = mpsc::sync_channel(0);
        let mut tape = Tape::new(drain, options, Reading::now());
        let thread = thread::Builder::new().name("recorder".to_owned()).spawn(move || {
            tape.run(&stopped);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// Why nothing is written.
#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error("the disk has no room to spare")]
    NoRoom,
    #[error("{0}")]
    Error(#[from] io::Error),
}

/// A recording without its thread: each step is told the time.
struct Tape {
    drain: Drain,
    options: Options,
    files: Option<Files>,
    first: Reading,
    wrote_ns: u64,
    clock_ns: u64,
    /// Since when nothing is written, and until when nothing is tried.
    halted: Option<u64>,
    out: Vec<u8>,
}

impl Tape {
    fn new(drain: Drain, options: Options, first: Reading) -> Self {
        let now = first.monotonic_ns;
        Self {
            drain,
            options,
            files: None,
            first,
            wrote_ns: now,
            clock_ns: now,
            halted: None,
            out: Vec::new(),
        }
    }

    fn run(&mut self, stop: &Receiver<()>) {
        let mut wait = COLLECT_EVERY;
        loop {
            let is_last = stop.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
            let words = self.step(Reading::now(), is_last);
            if is_last {
                return;
            }
            // A writer in full flow is not waited for.
            wait = if words > BUFFER_WORDS / 4 { Duration::ZERO } else { COLLECT_EVERY };
        }
    }

    /// Empties the buffers, and writes when it is time. Gives the words of the buffer that had the most.
    fn step(&mut self, now: Reading, is_last: bool) -> usize {
        let words = self.drain.collect(now.ticks);
        let is_time = now.monotonic_ns >= self.wrote_ns.saturating_add(WRITE_EVERY_NS);
        if (is_last || is_time || self.drain.pending_bytes() > PENDING_BYTES_MAX) && !self.drain.is_empty() {
            self.wrote_ns = now.monotonic_ns;
            self.write(now, is_last);
        }
        words
    }

    fn write(&mut self, now: Reading, is_last: bool) {
        if self.halted.is_some_and(|until| now.monotonic_ns < until) {
            return self.drain.lost();
        }
        match self.try_write(now, is_last) {
            Ok(()) => {
                self.drain.written();
                if self.halted.take().is_some() {
                    tracing::info!("the flight recorder goes on");
                }
            }
            Err(halt) => {
                self.drain.lost();
                let pause = if matches!(halt, Halt::NoRoom) { 0 } else { PAUSE_NS };
                if self.halted.replace(now.monotonic_ns.saturating_add(pause)).is_none() {
                    let folder = self.options.folder.display();
                    tracing::warn!(%folder, "the flight recorder stops until this is over: {halt}");
                }
            }
        }
    }

    fn try_write(&mut self, now: Reading, is_last: bool) -> Result<(), Halt> {
        let Self { drain, options, files, first, clock_ns, out, .. } = self;
        if !(options.room)() {
            return Err(Halt::NoRoom);
        }
        let files = match files {
            Some(files) => files,
            None => files.insert(Files::open(&options.folder, options.bytes_max)?),
        };
        let ticks_per_second = first.ticks_per_second(&now).unwrap_or(TICKS_PER_SECOND_ASSUMED);
        out.clear();
        if files.is_due() {
            files.begin()?;
            drain.begin(out, first.wall_ns, &now, ticks_per_second);
            *clock_ns = now.monotonic_ns;
        } else if is_last || now.monotonic_ns >= clock_ns.saturating_add(CLOCK_EVERY_NS) {
            drain.clock(out, &now, ticks_per_second);
            *clock_ns = now.monotonic_ns;
        }
        drain.blocks(out);
        Ok(files.append(out)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::drain::Recorder;
    use crate::read::Contents;
    use crate::record::Entry;
    use crate::{FILE_BYTES, Writer, list};

    crate::points! {
        static TABLE;
        POINT = "test.point": "{a} {b}";
    }

    const MIB: u64 = 1 << 20;

    /// A recording without its thread, at a time of the test's own.
    struct Rig {
        tape: Tape,
        writer: Writer,
        has_room: Arc<AtomicBool>,
        now: Reading,
        folder: PathBuf,
    }

    impl Rig {
        fn new(folder: &Path, bytes_max: u64) -> Self {
            let (recorder, drain) = Recorder::new(TABLE);
            let has_room = Arc::new(AtomicBool::new(true));
            let asked = Arc::clone(&has_room);
            let room = Box::new(move || asked.load(Ordering::Relaxed));
            let options = Options { folder: folder.to_path_buf(), bytes_max, room };
            let now = Reading { ticks: 1_000, monotonic_ns: 5, wall_ns: 9 };
            let tape = Tape::new(drain, options, now);
            Self { tape, writer: recorder.writer("w"), has_room, now, folder: folder.to_path_buf() }
        }

        fn record(&mut self, count: u64) {
            for value in 0..count {
                self.now.ticks += 100;
                self.writer.record_at(self.now.ticks, POINT, [value, u64::MAX / (value + 1)]);
            }
        }

        /// Lets a tenth of a second pass.
        fn step(&mut self) {
            self.now.ticks += 200_000_000;
            self.now.monotonic_ns += 100_000_000;
            self.tape.step(self.now, false);
        }

        /// Records found and told to be lost.
        fn found(&self) -> (u64, u64) {
            let mut found = (0, 0);
            for path in list(&self.folder).expect("a folder") {
                let contents = Contents::read(&path).expect("readable");
                assert_eq!(contents.problems, []);
                for record in &contents.records {
                    match record.entry {
                        Entry::Passed { .. } => found.0 += 1,
                        Entry::Lost(count) => found.1 += count,
                    }
                }
            }
            found
        }
    }

    #[test]
    fn the_folder_stays_below_its_bound_and_keeps_the_newest() {
        let folder = tempfile::tempdir().expect("a folder");
        let bound = 5 * FILE_BYTES;
        let mut rig = Rig::new(&folder.path().join("recorder"), bound);
        for _ in 0..900 {
            rig.record(5_000);
            rig.step();
        }
        let files = list(&rig.folder).expect("a folder");
        let taken: u64 = files.iter().map(|file| fs::metadata(file).expect("there").len()).sum();
        assert!(taken <= bound && taken > bound - 3 * FILE_BYTES, "{} MiB", taken / MIB);
        assert!(!files[0].ends_with("0000000001.rec"), "the oldest is gone");
        let newest = Contents::read(&files[files.len() - 1]).expect("readable");
        let last = newest.records.last().expect("a record");
        assert_eq!(last.ticks, rig.now.ticks - 200_000_000);
        // Another start goes on behind, and the files of this one count.
        let mut rig = Rig::new(&rig.folder, bound);
        rig.record(1);
        rig.step();
        let next = list(&rig.folder).expect("a folder");
        assert_eq!(next[..next.len() - 1], files[files.len() - (next.len() - 1)..]);
    }

    #[test]
    fn without_room_nothing_is_written_and_what_is_lost_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rig = Rig::new(folder.path(), 64 * MIB);
        rig.record(10);
        rig.step();
        rig.has_room.store(false, Ordering::Relaxed);
        for _ in 0..5 {
            rig.record(10);
            rig.step();
            assert_eq!(rig.found(), (10, 0));
        }
        rig.has_room.store(true, Ordering::Relaxed);
        rig.record(10);
        rig.step();
        assert_eq!(rig.found(), (20, 50));
    }

    #[test]
    fn an_error_of_the_disk_ends_the_recording_for_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("recorder");
        // A file stands where the folder should be.
        fs::write(&place, "").expect("written");
        let mut rig = Rig::new(&place, 64 * MIB);
        rig.record(10);
        rig.step();
        fs::remove_file(&place).expect("removed");
        rig.record(10);
        rig.step();
        assert!(!place.exists(), "nothing is tried for a while");
        rig.now.monotonic_ns += PAUSE_NS;
        rig.record(10);
        rig.step();
        assert_eq!(rig.found(), (10, 20));
    }

    #[test]
    fn records_of_small_numbers_take_four_to_eight_bytes() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut rig = Rig::new(folder.path(), 64 * MIB);
        for value in 0..5_000 {
            rig.now.ticks += 50 + value % 3_000;
            rig.writer.record_at(rig.now.ticks, POINT, [1_000_000 + value, value % 100]);
        }
        rig.step();
        let path = &list(&rig.folder).expect("a folder")[0];
        let bytes = fs::metadata(path).expect("there").len() as f64 / 5_000.0;
        assert!((4.0..8.0).contains(&bytes), "{bytes} bytes a record");
    }

    #[test]
    fn a_recording_that_is_dropped_has_written_everything() {
        let folder = tempfile::tempdir().expect("a folder");
        let (recorder, drain) = Recorder::new(TABLE);
        let options =
            Options { folder: folder.path().to_path_buf(), bytes_max: 64 * MIB, room: Box::new(|| true) };
        let recording = Recording::start(drain, options).expect("a thread");
        let mut writer = recorder.writer("w");
        (0..100).for_each(|value| writer.record(POINT, [value, value]));
        drop(recording);
        let contents = Contents::read(&list(folder.path()).expect("a folder")[0]).expect("readable");
        assert_eq!(contents.records.len(), 100);
    }
}
