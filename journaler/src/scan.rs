//! Reading one segment's bytes, batch by batch, with every check that a batch must pass. Never writes.
//!
//! Reads go through `pread` into one reused window and not through a map: bytes that another thread or process is
//! writing are copied once and checked in private memory, a bad sector is an error value instead of a SIGBUS, the fake
//! disk is read by the same code, and the crate stays free of `unsafe`.

use std::ops::Range;

use protocol::{Sequence, Term};

use crate::error::{Context, Corruption, Evidence, JournalError, Result};
use crate::format::{
    self, BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, BatchKind, Chain, SegmentHeader, SegmentHeaderRead,
};
use crate::frames;
use crate::storage::{Access, SharedStorage, StorageFile};
use crate::summary::LogEnd;

/// Bytes fetched by one read; longer batches take one longer read.
const WINDOW_BYTES: usize = 256 << 10;

/// Where the log stands between two batches: what the next batch must fit to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    /// Sequence of the next frame.
    pub(crate) next_sequence: Sequence,
    /// Index of the last entry.
    pub(crate) index: u64,
    /// Term of the last entry.
    pub(crate) term: Term,
    /// Chain over all entries so far.
    pub(crate) chain: Chain,
}

impl Position {
    /// Before the first frame of a fresh journal.
    pub(crate) fn start() -> Self {
        Self { next_sequence: Sequence(1), index: 0, term: Term(0), chain: [0; 32] }
    }

    /// Behind `end`. What stands before it is unknown, so the chain starts anew.
    pub(crate) fn behind(end: &LogEnd) -> Self {
        let next_sequence = Sequence(end.sequence.0 + 1);
        Self { next_sequence, index: end.index, term: end.term, chain: [0; 32] }
    }

    pub(crate) fn of_segment(header: &SegmentHeader) -> Self {
        Self {
            next_sequence: header.first_sequence,
            index: header.first_index.saturating_sub(1),
            term: header.term,
            chain: header.chain,
        }
    }

    /// The header of segment `number` if it starts here.
    pub(crate) fn segment_header(&self, cluster_id: u128, number: u64) -> SegmentHeader {
        SegmentHeader {
            cluster_id,
            number,
            first_sequence: self.next_sequence,
            first_index: self.index + 1,
            term: self.term,
            chain: self.chain,
        }
    }

    pub(crate) fn last_sequence(&self) -> Sequence {
        Sequence(self.next_sequence.0.saturating_sub(1))
    }

    /// What keeps a batch from standing here, if something does.
    fn objection(&self, header: &BatchHeader) -> Option<&'static str> {
        let index = self.index + u64::from(header.kind.is_entry());
        if header.first_sequence != self.next_sequence {
            Some("batch does not go on with the next sequence")
        } else if header.index != index {
            Some("batch does not go on with the next index")
        } else if header.term < self.term {
            Some("batch goes back to an older term")
        } else if header.chain != self.chain {
            Some("batch does not chain to the one before")
        } else if header.durable_sequence >= self.next_sequence {
            Some("batch calls durable what comes after it")
        } else {
            None
        }
    }

    pub(crate) fn advance(&mut self, header: &BatchHeader, chain: Chain) {
        self.next_sequence = Sequence(header.first_sequence.0 + header.count);
        self.index = header.index;
        self.term = header.term;
        self.chain = chain;
    }
}

/// What stands at an offset.
#[derive(Debug)]
pub(crate) enum Found {
    /// A batch that follows; [`Segment::payload`] has its payload and the position has moved behind it.
    Batch(BatchHeader),
    /// No batch that belongs here, and why not.
    Nothing(&'static str),
}

/// An open segment with its window.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Box<dyn StorageFile>,
    pub(crate) name: String,
    pub(crate) length: u64,
    window: Vec<u8>,
    window_bytes: usize,
    window_start: u64,
    payload: Range<usize>,
}

impl Segment {
    /// Opens a segment.
    pub(crate) fn open(storage: &SharedStorage, name: String, access: Access) -> Result<Self> {
        let file = storage.open(&name, access).context("open", &name)?;
        let length = file.length().context("measure", &name)?;
        Ok(Self {
            file,
            name,
            length,
            window: Vec::new(),
            window_bytes: WINDOW_BYTES,
            window_start: 0,
            payload: 0..0,
        })
    }

    /// Drops what was read, so that it is read again: somebody may have written since.
    pub(crate) fn forget(&mut self) {
        self.window.clear();
    }

    /// Reads at least `bytes` together from now on: what is fetched beyond what is asked for is only useful if it is asked
    /// for soon.
    pub(crate) fn set_window(&mut self, bytes: usize) {
        self.window_bytes = bytes.min(WINDOW_BYTES);
    }

    pub(crate) fn window_bytes(&self) -> usize {
        self.window_bytes
    }

    /// Up to `length` bytes at `offset`; fewer only at the file's end.
    pub(crate) fn bytes(&mut self, offset: u64, length: usize) -> Result<&[u8]> {
        let range = self.load(offset, length)?;
        Ok(self.window.get(range).unwrap_or_default())
    }

    fn load(&mut self, offset: u64, length: usize) -> Result<Range<usize>> {
        let length = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(length);
        let inside = offset.checked_sub(self.window_start).and_then(|start| usize::try_from(start).ok());
        if let Some(start) = inside.filter(|start| start.saturating_add(length) <= self.window.len()) {
            return Ok(start..start + length);
        }
        let room = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.window.resize(length.max(self.window_bytes).min(room), 0);
        self.window_start = offset;
        let read = self.file.read_at(&mut self.window, offset).context("read", &self.name)?;
        self.window.truncate(read);
        Ok(0..length.min(read))
    }

    /// Reads and classifies the segment's first block, and that only: a start looks at every segment's.
    pub(crate) fn header(&self) -> Result<SegmentHeaderRead> {
        let mut block = [0; BLOCK_BYTES];
        let read = self.file.read_at(&mut block, 0).context("read", &self.name)?;
        Ok(SegmentHeader::decode(block.get(..read).unwrap_or_default()))
    }

    /// Reads the batch at `offset` and moves `position` behind it if it belongs there.
    pub(crate) fn batch(&mut self, offset: u64, seed: u32, position: &mut Position) -> Result<Found> {
        let start = self.bytes(offset, BATCH_HEADER_BYTES)?;
        if format::is_zero(start) {
            return Ok(Found::Nothing("nothing is written here"));
        }
        let Some(length) = format::claimed_length(start) else {
            return Ok(Found::Nothing("no batch header"));
        };
        let range = self.load(offset, length)?;
        let bytes = self.window.get(range.clone()).unwrap_or_default();
        if bytes.len() < length {
            return Ok(Found::Nothing("batch is longer than its segment"));
        }
        let header = match format::decode_batch(bytes, seed) {
            Ok(header) => header,
            Err(reason) => return Ok(Found::Nothing(reason)),
        };
        if let Some(objection) = position.objection(&header) {
            return Ok(Found::Nothing(objection));
        }
        let payload = bytes.get(BATCH_HEADER_BYTES..).unwrap_or_default();
        if header.kind == BatchKind::Frames && frames::count(payload) != Ok(header.count) {
            return Ok(Found::Nothing("batch does not hold the frames that it counts"));
        }
        position.advance(&header, format::chain_after(bytes, &header));
        self.payload = range.start + BATCH_HEADER_BYTES..range.end;
        Ok(Found::Batch(header))
    }

    /// The error for what stands at `offset` where the frame `sequence`, which was journaled, should be.
    pub(crate) fn unreadable(&self, offset: u64, sequence: Sequence, reason: &'static str) -> JournalError {
        let evidence = Evidence::Known { sequence };
        Corruption { file: self.name.clone(), offset, sequence, reason, evidence }.into()
    }

    /// The payload of the batch read last.
    pub(crate) fn payload(&self) -> &[u8] {
        self.window.get(self.payload.clone()).unwrap_or_default()
    }

    /// A batch at `offset` that is whole by its own checksum, whether or not it follows anything.
    pub(crate) fn lone_batch(&mut self, offset: u64, seed: u32) -> Result<Option<BatchHeader>> {
        let Some(length) = format::claimed_length(self.bytes(offset, BATCH_HEADER_BYTES)?) else {
            return Ok(None);
        };
        let bytes = self.bytes(offset, length)?;
        Ok(if bytes.len() == length { format::decode_batch(bytes, seed).ok() } else { None })
    }
}

/// Where the batch after `header` at `offset` starts.
pub(crate) fn next_offset(offset: u64, header: &BatchHeader) -> u64 {
    offset + format::batch_bytes(header.payload_bytes) as u64
}
