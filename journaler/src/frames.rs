//! Walking the frames in a run of slots. All that the journaler knows of a frame is its length field.

use protocol::{FRAME_LENGTH_MAX, HEADER_LENGTH, SLOT_LENGTH, Sequence};

/// Bytes that the longest frame takes in slots.
pub(crate) const PADDED_LENGTH_MAX: usize = FRAME_LENGTH_MAX.next_multiple_of(SLOT_LENGTH);

/// Bytes that a frame takes in slots, from its first bytes; `None` if the length is out of range.
pub(crate) fn padded_length(frame: &[u8]) -> Option<usize> {
    Some(padded(length(frame)?))
}

/// Bytes that a frame of `length` takes in slots.
#[inline]
pub(crate) fn padded(length: usize) -> usize {
    length.next_multiple_of(SLOT_LENGTH)
}

/// Length of a frame from its first bytes; `None` if it is out of range.
#[inline]
pub(crate) fn length(frame: &[u8]) -> Option<usize> {
    let length = usize::from(u16::from_le_bytes(*frame.first_chunk::<2>()?));
    (HEADER_LENGTH..=FRAME_LENGTH_MAX).contains(&length).then_some(length)
}

/// Number of frames in `slots`, or what is wrong with them.
pub fn count(slots: &[u8]) -> Result<u64, &'static str> {
    let mut count = 0;
    let mut rest = slots;
    while !rest.is_empty() {
        let padded = padded_length(rest).ok_or("frame length out of range")?;
        rest = rest.get(padded..).ok_or("last frame is cut")?;
        count += 1;
    }
    Ok(count)
}

/// The frames of a batch with their sequences, without the padding.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    slots: &'a [u8],
    next: Sequence,
}

impl<'a> Frames<'a> {
    /// `slots` must have passed [`count`]: what comes behind a bad length is not given.
    pub(crate) fn new(slots: &'a [u8], first: Sequence) -> Self {
        Self { slots, next: first }
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (Sequence, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let length = length(self.slots)?;
        let (frame, rest) = self.slots.split_at_checked(padded(length))?;
        self.slots = rest;
        let sequence = self.next;
        self.next = Sequence(sequence.0 + 1);
        Some((sequence, frame.get(..length)?))
    }
}
