//! The write buffer: the batches of one write under construction, aligned, with room for a segment header before them.

use crate::format::{
    self, BATCH_HEADER_BYTES, BATCH_PAYLOAD_BYTES_MAX, BLOCK_BYTES, BatchHeader, Chain, SegmentHeader,
};

/// Made once; nothing is allocated while appending.
#[derive(Debug)]
pub(crate) struct WriteBuffer {
    bytes: Vec<u8>,
    /// Start of the first whole block in `bytes`.
    start: usize,
    /// Start of the block for marks, behind a segment header, a batch header and a full payload.
    mark: usize,
    /// Bytes of the batches that are complete, whole blocks.
    sealed_bytes: usize,
    /// Bytes gathered for the batch behind them.
    payload_bytes: usize,
    payload_bytes_max: usize,
}

impl WriteBuffer {
    /// A buffer for batches that fit into a segment of `segment_bytes`.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let room =
            usize::try_from(segment_bytes).unwrap_or(usize::MAX) - 2 * BLOCK_BYTES - BATCH_HEADER_BYTES;
        let payload_bytes_max = room.min(BATCH_PAYLOAD_BYTES_MAX);
        let mark = BLOCK_BYTES + format::batch_bytes(payload_bytes_max);
        // One block for the mark and one for the alignment.
        let bytes = vec![0; mark + 2 * BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self { bytes, start, mark: start + mark, sealed_bytes: 0, payload_bytes: 0, payload_bytes_max }
    }

    /// Bytes of payload that an empty buffer takes.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Whether a batch of `payload_bytes` fits behind those that are complete.
    pub(crate) fn fits(&self, payload_bytes: usize) -> bool {
        let end = self.batches() + self.sealed_bytes + format::batch_bytes(payload_bytes);
        payload_bytes <= self.payload_bytes_max && end <= self.mark
    }

    /// Copies bytes behind those that are gathered for the next batch; `false` if they don't fit.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        if !self.fits(self.payload_bytes + bytes.len()) {
            return false;
        }
        let at = self.payload_start() + self.payload_bytes;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.payload_bytes += bytes.len();
        true
    }

    /// What is gathered for the next batch.
    pub(crate) fn payload(&self) -> &[u8] {
        let at = self.payload_start();
        &self.bytes[at..at + self.payload_bytes]
    }

    /// Completes the batch that was gathered and gives the chain behind it; the next one is gathered behind it.
    pub(crate) fn seal(&mut self, header: &BatchHeader, seed: u32) -> Chain {
        let start = self.batches() + self.sealed_bytes;
        let end = start + format::batch_bytes(header.payload_bytes);
        let batch = &mut self.bytes[start..end];
        // An earlier, longer batch left its bytes here.
        batch[BATCH_HEADER_BYTES + header.payload_bytes..].fill(0);
        self.sealed_bytes = end - self.batches();
        self.payload_bytes = 0;
        format::encode_batch(&mut self.bytes[start..end], header, seed)
    }

    /// Bytes of the complete batches.
    pub(crate) fn sealed_bytes(&self) -> usize {
        self.sealed_bytes
    }

    /// The whole blocks to write. With `segment_header` the block before the batches is part of the write.
    pub(crate) fn sealed(&self, segment_header: bool) -> &[u8] {
        let from = if segment_header { self.start } else { self.batches() };
        &self.bytes[from..self.batches() + self.sealed_bytes]
    }

    /// Puts a segment header before the batches and gives its seed.
    pub(crate) fn segment_header(&mut self, header: &SegmentHeader) -> u32 {
        let block = &mut self.bytes[self.start..self.start + BLOCK_BYTES];
        header.encode(block.try_into().expect("a block of the buffer is BLOCK_BYTES long"))
    }

    /// Writes a mark into a block of its own, apart from the batches that are being gathered.
    pub(crate) fn encode_mark(&mut self, header: &BatchHeader, seed: u32) -> &[u8] {
        let block = &mut self.bytes[self.mark..self.mark + BLOCK_BYTES];
        format::encode_batch(block, header, seed);
        block
    }

    /// Forgets all batches and what was gathered.
    pub(crate) fn clear(&mut self) {
        self.sealed_bytes = 0;
        self.payload_bytes = 0;
    }

    fn batches(&self) -> usize {
        self.start + BLOCK_BYTES
    }

    fn payload_start(&self) -> usize {
        self.batches() + self.sealed_bytes + BATCH_HEADER_BYTES
    }
}
