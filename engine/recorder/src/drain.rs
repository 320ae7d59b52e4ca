//! From the buffers to blocks. It must not touch a file or read a clock: whoever has it says when it is.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::buffer::{Buffer, BufferReader, Writer};
use crate::clock::Reading;
use crate::file::{self, Before, Kind};
use crate::point::{Format, POINTS_MAX};
use crate::varint;

/// Makes writers. Clones are the same; one that is off makes writers that do nothing.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Shared>>);

struct Shared {
    table: &'static [Format],
    /// Writers that the drain has not heard of.
    new: Mutex<Vec<(String, Arc<Buffer>)>>,
}

impl Recorder {
    /// A recorder of the points of `table`, and the end that takes what its writers record. There is one for each recorder:
    /// without somebody who drains it, buffers run full and all that comes is counted as lost.
    ///
    /// # Panics
    /// When the table has more than 4,096 points.
    #[must_use]
    pub fn new(table: &'static [Format]) -> (Self, Drain) {
        assert!(table.len() <= POINTS_MAX, "a table of {} points", table.len());
        let shared = Arc::new(Shared { table, new: Mutex::default() });
        (Self(Some(Arc::clone(&shared))), Drain { shared, sources: Vec::new(), next: 0 })
    }

    /// One that records nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// A writer for one thread or stage, of this name, with a buffer of 128 KiB. Records only points of the recorder's table.
    #[must_use]
    pub fn writer(&self, name: &str) -> Writer {
        let Some(shared) = &self.0 else { return Writer::off() };
        let buffer = Arc::new(Buffer::new());
        let mut new = shared.new.lock().unwrap_or_else(PoisonError::into_inner);
        new.push((name.to_owned(), Arc::clone(&buffer)));
        Writer::new(buffer)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Recorder").field("is_on", &self.0.is_some()).finish()
    }
}

/// Empties the buffers of a recorder into blocks.
pub struct Drain {
    shared: Arc<Shared>,
    sources: Vec<Source>,
    /// Number of the next source.
    next: u64,
}

/// A writer's buffer, and what was taken from it and is in no block yet.
struct Source {
    number: u64,
    name: String,
    reader: BufferReader,
    before: Before,
    records: u64,
    bytes: Vec<u8>,
    started: u64,
    lost: u64,
    /// Whether the file tells its name.
    told: bool,
    /// It is closed, and everything was taken from it.
    done: bool,
}

impl Source {
    fn is_empty(&self) -> bool {
        self.records == 0 && self.lost == 0
    }

    fn collect(&mut self, now: u64, points: usize) -> usize {
        let Self { reader, before, records, bytes, started, lost, done, .. } = self;
        // Asked before the look: what was recorded before the end is seen.
        *done = reader.is_closed();
        let (words, more) = reader.drain(now, |raw| {
            if usize::from(raw.point) >= points {
                *lost += 1;
                return;
            }
            if *records == 0 {
                *started = raw.ticks;
                before.reset(raw.ticks);
            }
            *records += 1;
            before.push(bytes, raw.point, raw.ticks, &raw.arguments[..raw.count]);
        });
        if self.records == 0 {
            self.started = now;
        }
        self.lost += more;
        words
    }

    fn push_block(&self, out: &mut Vec<u8>) {
        file::push_block(out, Kind::Records, |out| {
            varint::push(out, self.number);
            varint::push(out, self.started);
            varint::push(out, self.lost);
            out.extend_from_slice(&self.bytes);
        });
    }
}

impl Drain {
    /// Takes what is in the buffers, which then have room again. Gives the words of the buffer that had the most.
    pub fn collect(&mut self, now_ticks: u64) -> usize {
        let new = std::mem::take(&mut *self.shared.new.lock().unwrap_or_else(PoisonError::into_inner));
        for (name, buffer) in new {
            self.sources.push(Source {
                number: self.next,
                name,
                reader: BufferReader::new(buffer),
                before: Before::default(),
                records: 0,
                bytes: Vec::new(),
                started: 0,
                lost: 0,
                told: false,
                done: false,
            });
            self.next += 1;
        }
        let points = self.shared.table.len();
        self.sources.iter_mut().map(|source| source.collect(now_ticks, points)).max().unwrap_or_default()
    }

    /// Bytes that were taken and are in no block yet.
    #[must_use]
    pub fn pending_bytes(&self) -> usize {
        self.sources.iter().map(|source| source.bytes.len()).sum()
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.iter().all(Source::is_empty)
    }

    /// Begins a file: appends its head and a reading of the clocks. `run` tells the files of one start from those of others.
    pub fn begin(&mut self, out: &mut Vec<u8>, run: u64, reading: &Reading, ticks_per_second: u64) {
        file::push_head(out, run, self.shared.table);
        file::push_clock(out, reading, ticks_per_second);
        self.sources.iter_mut().for_each(|source| source.told = false);
    }

    /// Appends a reading of the clocks.
    pub fn clock(&self, out: &mut Vec<u8>, reading: &Reading, ticks_per_second: u64) {
        file::push_clock(out, reading, ticks_per_second);
    }

    /// Appends what was taken as blocks. What becomes of them is to be told with [`written`](Self::written) or
    /// [`lost`](Self::lost).
    pub fn blocks(&mut self, out: &mut Vec<u8>) {
        for source in &mut self.sources {
            if source.is_empty() {
                continue;
            }
            if !std::mem::replace(&mut source.told, true) {
                file::push_source(out, source.number, &source.name);
            }
            source.push_block(out);
        }
    }

    /// What was taken is in the file.
    pub fn written(&mut self) {
        for source in &mut self.sources {
            (source.records, source.lost) = (0, 0);
            source.bytes.clear();
        }
        self.sources.retain(|source| !source.done);
    }

    /// What was taken could not be written: the next block tells how much that was.
    pub fn lost(&mut self) {
        for source in &mut self.sources {
            source.lost += std::mem::take(&mut source.records);
            source.bytes.clear();
        }
    }
}

impl fmt::Debug for Drain {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sources: Vec<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        formatter.debug_struct("Drain").field("sources", &sources).finish_non_exhaustive()
    }
}
