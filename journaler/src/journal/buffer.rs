//! The write buffer: one batch under construction, aligned, with room for a segment header before it.

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
    payload_bytes: usize,
    payload_bytes_max: usize,
}

impl WriteBuffer {
    /// A buffer for batches that fit into a segment of `segment_bytes`.
    pub(crate) fn new(segment_bytes: u64) -> Self {
        let room =
            usize::try_from(segment_bytes).unwrap_or(usize::MAX) - 2 * BLOCK_BYTES - BATCH_HEADER_BYTES;
        let payload_bytes_max = room.min(BATCH_PAYLOAD_BYTES_MAX);
        let mark = BLOCK_BYTES + format::whole_blocks(BATCH_HEADER_BYTES + payload_bytes_max);
        // One block for the mark and one for the alignment.
        let bytes = vec![0; mark + 2 * BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
        Self { bytes, start, mark: start + mark, payload_bytes: 0, payload_bytes_max }
    }

    /// Bytes of slots that still fit.
    pub(crate) fn room(&self) -> usize {
        self.payload_bytes_max - self.payload_bytes
    }

    /// Bytes of slots that an empty buffer takes.
    pub(crate) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max
    }

    /// Copies slots behind those that are there; `false` if they don't fit.
    pub(crate) fn push(&mut self, slots: &[u8]) -> bool {
        if slots.len() > self.room() {
            return false;
        }
        let at = self.start + BLOCK_BYTES + BATCH_HEADER_BYTES + self.payload_bytes;
        self.bytes[at..at + slots.len()].copy_from_slice(slots);
        self.payload_bytes += slots.len();
        true
    }

    /// The slots gathered so far.
    pub(crate) fn payload(&self) -> &[u8] {
        let at = self.start + BLOCK_BYTES + BATCH_HEADER_BYTES;
        &self.bytes[at..at + self.payload_bytes]
    }

    /// Bytes that the gathered batch takes in a segment.
    pub(crate) fn batch_bytes(&self) -> usize {
        format::whole_blocks(BATCH_HEADER_BYTES + self.payload_bytes)
    }

    /// Puts a segment header before the batch and gives its seed.
    pub(crate) fn segment_header(&mut self, header: &SegmentHeader) -> u32 {
        let block = &mut self.bytes[self.start..self.start + BLOCK_BYTES];
        header.encode(block.try_into().expect("a block of the buffer is BLOCK_BYTES long"))
    }

    /// Writes a mark into a block of its own, apart from the batch that is being gathered.
    pub(crate) fn encode_mark(&mut self, header: &BatchHeader, seed: u32) -> (&[u8], Chain) {
        let block = &mut self.bytes[self.mark..self.mark + BLOCK_BYTES];
        let chain = format::encode_batch(block, header, seed);
        (block, chain)
    }

    /// Completes the batch and gives the whole blocks to write and the chain behind it. With `segment_header` the block
    /// before it is part of the write.
    pub(crate) fn encode(&mut self, header: &BatchHeader, seed: u32, segment_header: bool) -> (&[u8], Chain) {
        let start = self.start + BLOCK_BYTES;
        let end = start + format::whole_blocks(BATCH_HEADER_BYTES + header.payload_bytes);
        let batch = &mut self.bytes[start..end];
        // An earlier, longer batch left its bytes here.
        batch[BATCH_HEADER_BYTES + header.payload_bytes..].fill(0);
        let chain = format::encode_batch(batch, header, seed);
        let from = if segment_header { self.start } else { start };
        (&self.bytes[from..end], chain)
    }

    /// Forgets the gathered slots.
    pub(crate) fn clear(&mut self) {
        self.payload_bytes = 0;
    }
}
