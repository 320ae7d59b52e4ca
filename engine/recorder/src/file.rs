//! The format of the files. It must not touch a file.
//!
//! A file is a row of blocks, each with 16 bytes before its payload (numbers are little endian):
//!
//! | at | length | what |
//! |---|---|---|
//! | 0 | 4 | `RPFR` |
//! | 4 | 1 | kind |
//! | 5 | 3 | zeros |
//! | 8 | 4 | length of the payload in bytes |
//! | 12 | 4 | CRC32C of bytes 4 to 11 and the payload |
//!
//! | kind | payload |
//! |---|---|
//! | 1 head, the first block of each file | version (u32), run (u64: nanoseconds since 1970 at the recorder's start), points (varint); of each its name and its text |
//! | 2 source, before its first records | number (varint), name |
//! | 3 clock, behind the head and once a second | ticks, monotonic nanoseconds, wall nanoseconds, ticks a second (u64 each) |
//! | 4 records | source (varint), ticks at the start (varint), records lost behind these (varint), then records |
//!
//! A record is its point (varint), the ticks since the one before (varint), and of each argument the difference (zigzag, varint)
//! from the same argument of the block's record of that point before it, or from 0. A text is its length (varint) and UTF-8. A block
//! can be read without those before it, but for head and sources; a varint has seven bits a byte, the lowest first.

use crate::clock::Reading;
use crate::point::{ARGUMENTS_MAX, Format};
use crate::varint;

/// Version of the format.
pub const FORMAT_VERSION: u32 = 1;
/// Longest file that is read: far more than is ever written.
pub const FILE_BYTES_MAX: u64 = 256 << 20;

pub(crate) const MAGIC: [u8; 4] = *b"RPFR";
pub(crate) const BLOCK_HEADER: usize = 16;

/// Kinds of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Head = 1,
    Source = 2,
    Clock = 3,
    Records = 4,
}

impl Kind {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        [Self::Head, Self::Source, Self::Clock, Self::Records].into_iter().find(|kind| *kind as u8 == byte)
    }
}

/// Appends a block whose payload `fill` appends.
pub(crate) fn push_block(out: &mut Vec<u8>, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; BLOCK_HEADER]);
    fill(out);
    let (header, payload) = out[start..].split_at_mut(BLOCK_HEADER);
    header[..4].copy_from_slice(&MAGIC);
    header[4] = kind as u8;
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[4..12]), payload);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// The first whole block of `bytes`, and how long it is.
pub(crate) fn split_block(bytes: &[u8]) -> Option<(Kind, &[u8], usize)> {
    let (header, rest) = bytes.split_first_chunk::<BLOCK_HEADER>()?;
    let [m0, m1, m2, m3, kind, 0, 0, 0, l0, l1, l2, l3, c0, c1, c2, c3] = *header else { return None };
    let payload = rest.get(..u32::from_le_bytes([l0, l1, l2, l3]) as usize)?;
    let kind = Kind::of(kind).filter(|_| [m0, m1, m2, m3] == MAGIC)?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[4..12]), payload);
    (crc == u32::from_le_bytes([c0, c1, c2, c3])).then_some((kind, payload, BLOCK_HEADER + payload.len()))
}

pub(crate) fn push_head(out: &mut Vec<u8>, run: u64, table: &[Format]) {
    push_block(out, Kind::Head, |out| {
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&run.to_le_bytes());
        varint::push(out, table.len() as u64);
        for format in table {
            push_text(out, format.name);
            push_text(out, format.text);
        }
    });
}

pub(crate) fn push_source(out: &mut Vec<u8>, number: u64, name: &str) {
    push_block(out, Kind::Source, |out| {
        varint::push(out, number);
        push_text(out, name);
    });
}

pub(crate) fn push_clock(out: &mut Vec<u8>, reading: &Reading, ticks_per_second: u64) {
    push_block(out, Kind::Clock, |out| {
        for number in [reading.ticks, reading.monotonic_ns, reading.wall_ns, ticks_per_second] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    });
}

fn push_text(out: &mut Vec<u8>, text: &str) {
    varint::push(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

pub(crate) fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(varint::take(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// What each record of a block is told from: the one before it, and the last of each point.
#[derive(Debug, Default)]
pub(crate) struct Before {
    pub(crate) ticks: u64,
    arguments: Vec<[u64; ARGUMENTS_MAX]>,
}

impl Before {
    /// The beginning of a block.
    pub(crate) fn reset(&mut self, ticks: u64) {
        self.ticks = ticks;
        self.arguments.fill([0; ARGUMENTS_MAX]);
    }

    /// `point` is below [`crate::point::POINTS_MAX`].
    #[inline]
    fn of(&mut self, point: usize) -> &mut [u64; ARGUMENTS_MAX] {
        if point >= self.arguments.len() {
            self.arguments.resize(point + 1, [0; ARGUMENTS_MAX]);
        }
        &mut self.arguments[point]
    }

    /// Appends a record. A counter that went back, as it may between CPUs, counts as one that stood.
    #[inline]
    pub(crate) fn push(&mut self, out: &mut Vec<u8>, point: u16, ticks: u64, arguments: &[u64]) {
        varint::push(out, u64::from(point));
        varint::push(out, ticks.saturating_sub(self.ticks));
        self.ticks = self.ticks.max(ticks);
        for (before, now) in self.of(usize::from(point)).iter_mut().zip(arguments) {
            varint::push(out, varint::zigzag(*before, *now));
            *before = *now;
        }
    }

    /// Takes a record from the front: its point, ticks and arguments, of which `counts` tells how many each point has. `None` where
    /// there is none.
    pub(crate) fn take(
        &mut self,
        bytes: &mut &[u8],
        counts: impl Fn(usize) -> Option<usize>,
    ) -> Option<(usize, u64, [u64; ARGUMENTS_MAX])> {
        let point = usize::try_from(varint::take(bytes)?).ok()?;
        let count = counts(point)?;
        self.ticks = self.ticks.checked_add(varint::take(bytes)?)?;
        let ticks = self.ticks;
        let before = self.of(point);
        for argument in before.iter_mut().take(count) {
            *argument = varint::unzigzag(*argument, varint::take(bytes)?);
        }
        Some((point, ticks, *before))
    }
}
