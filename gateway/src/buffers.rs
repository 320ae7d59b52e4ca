//! The two buffers of a connection, both of fixed size: what came in and is not published yet, and what goes out and is
//! not taken yet. They must not grow past their constants whatever a client does.

use protocol::soupbin::{PACKET_LENGTH_MAX, Packet, write_packet};
use protocol::{DROP_COPY_LENGTH_MAX, HEADER_LENGTH, REPORT_STRIDE};

/// Bytes read at once before the login; a packet fits.
pub(crate) const LOGIN_BYTES: usize = 2 * 1024;
/// Bytes read at once: about 1,100 plain orders.
pub(crate) const IN_BYTES: usize = 64 * 1024;
/// Bytes that wait to be sent: about 600 executions.
pub(crate) const OUT_BYTES: usize = 64 * 1024;
/// Frames that wait to be published at most: as many of the shortest as the read buffer holds.
pub(crate) const FRAMES_MAX: usize = IN_BYTES / (HEADER_LENGTH + PACKET_HEADER);
/// Bytes that a connection takes at most, its task included.
pub(crate) const CONNECTION_BYTES: u64 =
    (IN_BYTES + OUT_BYTES + FRAMES_MAX * size_of::<FrameRange>() + TASK_BYTES) as u64;

/// Bytes before a packet's payload: length and type.
pub(crate) const PACKET_HEADER: usize = 3;
/// Bytes of a connection's task at most.
pub(crate) const TASK_BYTES: usize = 8 * 1024;
/// Bytes of the longest packet on the wire.
const PACKET_BYTES_MAX: usize = 2 + PACKET_LENGTH_MAX;
/// Bytes of the longest report on the wire.
pub(crate) const REPORT_BYTES_MAX: usize = PACKET_HEADER + REPORT_STRIDE;

/// Bytes of the longest drop copy on the wire.
const COPY_BYTES_MAX: usize = PACKET_HEADER + DROP_COPY_LENGTH_MAX;
/// Reports of its own that an observer always has room for beside drop copies.
const OWN_REPORTS_KEPT: usize = 64;

const _: () = assert!(LOGIN_BYTES >= PACKET_BYTES_MAX, "a whole packet fits before the login too");
const _: () = assert!(OUT_BYTES >= 8 * PACKET_BYTES_MAX);

/// Where a frame stands in the buffer.
#[derive(Clone, Copy, Debug)]
struct FrameRange {
    start: u32,
    length: u16,
}

/// Bytes from the client: first the frames that were checked and wait to be published, then what was not looked at.
#[derive(Debug)]
pub struct Inbound {
    bytes: Vec<u8>,
    /// Everything before it was looked at.
    parsed: usize,
    /// Everything before it came from the socket.
    end: usize,
    frames: Vec<FrameRange>,
    /// Frames of `frames` that are in the ring.
    published: usize,
}

impl Default for Inbound {
    fn default() -> Self {
        Self { bytes: vec![0; LOGIN_BYTES], parsed: 0, end: 0, frames: Vec::new(), published: 0 }
    }
}

impl Inbound {
    /// Takes the full size, for a session that is logged in.
    pub(crate) fn grow(&mut self) {
        self.bytes.resize(IN_BYTES, 0);
        self.frames.reserve_exact(FRAMES_MAX);
    }

    /// Where the next bytes from the socket belong; empty where there is no room.
    pub fn space(&mut self) -> &mut [u8] {
        if self.frames.is_empty() && self.parsed > 0 {
            self.bytes.copy_within(self.parsed..self.end, 0);
            self.end -= self.parsed;
            self.parsed = 0;
        }
        &mut self.bytes[self.end..]
    }

    /// Takes in the first `length` bytes of [`space`](Self::space).
    pub fn received(&mut self, length: usize) {
        assert!(length <= self.bytes.len() - self.end, "more bytes than there was space");
        self.end += length;
    }

    /// Bytes that were not looked at.
    pub(crate) fn unparsed(&self) -> &[u8] {
        &self.bytes[self.parsed..self.end]
    }

    /// The payload of the packet of `length` bytes that comes next.
    pub(crate) fn payload(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.parsed + PACKET_HEADER..self.parsed + length]
    }

    /// Goes past the next `length` bytes.
    pub(crate) fn skip(&mut self, length: usize) {
        self.parsed += length;
        assert!(self.parsed <= self.end, "more bytes than came in");
    }

    /// Goes past the packet of `length` bytes that comes next, and keeps its payload as a frame to be published.
    pub(crate) fn keep(&mut self, length: usize) {
        let start = self.parsed + PACKET_HEADER;
        // A buffer is 64 KiB and a packet at most 1 KiB, so neither cast loses anything.
        self.frames.push(FrameRange { start: start as u32, length: (length - PACKET_HEADER) as u16 });
        self.skip(length);
    }

    /// Frames that wait to be published, in order.
    pub fn frames(&self) -> impl Iterator<Item = &[u8]> {
        self.frames[self.published..].iter().map(|range| {
            let start = range.start as usize;
            &self.bytes[start..start + usize::from(range.length)]
        })
    }

    /// How many frames wait to be published.
    #[must_use]
    pub fn frames_waiting(&self) -> usize {
        self.frames.len() - self.published
    }

    /// The first `count` of [`frames`](Self::frames) are in the ring.
    pub fn published(&mut self, count: usize) {
        self.published += count;
        assert!(self.published <= self.frames.len(), "more frames than waited");
        if self.published == self.frames.len() {
            self.frames.clear();
            self.published = 0;
        }
    }

    /// Forgets the frames that wait: their connection is gone.
    pub(crate) fn abandon(&mut self) {
        self.published(self.frames_waiting());
    }
}

/// Bytes for the client.
#[derive(Debug, Default)]
pub struct Outbound {
    bytes: Vec<u8>,
    taken: usize,
}

impl Outbound {
    /// Bytes that the client has not taken.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// The client took the first `length` bytes of [`pending`](Self::pending).
    pub fn took(&mut self, length: usize) {
        self.taken += length;
        assert!(self.taken <= self.bytes.len(), "more bytes than were pending");
        if self.taken == self.bytes.len() {
            self.bytes.clear();
            self.taken = 0;
        }
    }

    /// Whether one more packet of any length fits.
    pub(crate) fn has_room(&self) -> bool {
        self.room() >= PACKET_BYTES_MAX
    }

    /// How many reports fit.
    pub(crate) fn reports_max(&self) -> usize {
        // A packet's worth is kept back, for the answers and heartbeats that must not wait for a client.
        self.room().saturating_sub(PACKET_BYTES_MAX) / REPORT_BYTES_MAX
    }

    /// How many drop copies fit, which leave room for the session's own reports.
    pub(crate) fn copies_max(&self) -> usize {
        self.room().saturating_sub(PACKET_BYTES_MAX + OWN_REPORTS_KEPT * REPORT_BYTES_MAX) / COPY_BYTES_MAX
    }

    /// Appends a packet. The caller has made sure that there [is room](Self::has_room).
    pub(crate) fn packet(&mut self, packet: &Packet<'_>) {
        debug_assert!(self.has_room());
        self.make_room();
        write_packet(packet, &mut self.bytes);
    }

    /// Appends a report as a sequenced packet, one of at most [`reports_max`](Self::reports_max).
    pub(crate) fn report(&mut self, frame: &[u8]) {
        let length = (1 + frame.len()) as u16;
        let [high, low] = length.to_be_bytes();
        self.bytes.extend_from_slice(&[high, low, b'S']);
        self.bytes.extend_from_slice(frame);
    }

    /// Takes the full size, for a session that is logged in.
    pub(crate) fn grow(&mut self) {
        self.bytes.reserve_exact(OUT_BYTES - self.bytes.len());
    }

    /// Forgets what the client has not taken.
    pub(crate) fn abandon(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }

    /// Moves what is pending to the front, so that the buffer's size bounds it.
    pub(crate) fn make_room(&mut self) {
        if self.taken > 0 {
            self.bytes.copy_within(self.taken.., 0);
            self.bytes.truncate(self.bytes.len() - self.taken);
            self.taken = 0;
        }
    }

    fn room(&self) -> usize {
        OUT_BYTES.saturating_sub(self.pending().len())
    }
}
