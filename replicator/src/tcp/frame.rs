//! The bytes of a message on a connection: a head with a checksum, then what is carried. Pure: bytes in, envelopes out.
//!
//! Each side says hello first, so that a wrong port is told from a broken message:
//!
//! | offset | bytes | hello |
//! |---|---|---|
//! | 0 | 7 | `RINGPIT` |
//! | 7 | 1 | version of this framing |
//!
//! | offset | bytes | message; numbers are little-endian |
//! |---|---|---|
//! | 0 | 4 | CRC32C of everything behind it |
//! | 4 | 4 | length of the control message, c |
//! | 8 | 4 | number of payloads, n |
//! | 12 | 4 n | length of each payload |
//! | 12 + 4 n | c | control message |
//! | 12 + 4 n + c | | payloads, one behind the other |

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::transport::Envelope;

/// What each side says first.
pub(super) const HELLO: [u8; 8] = *b"RINGPIT\x01";
const NAME_LENGTH: usize = 7;
const CHECKSUM_LENGTH: usize = 4;
const HEAD_LENGTH: usize = 12;

/// Longest control message.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;
/// Most bytes of payloads in a message.
pub const PAYLOADS_BYTES_MAX: usize = 64 << 20;
/// Most payloads in a message.
pub const PAYLOADS_MAX: usize = 4096;
/// Most bytes that are made room for before they came, whatever a head promises.
const ROOM_MAX: usize = 1 << 20;

/// Why bytes are no message, or a message can't be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("it is no member of a Ringpit cluster, or talks TLS where clear text is configured")]
    NoMember,
    #[error("it speaks version {0} of the members' framing, this member version {version}", version = HELLO[NAME_LENGTH])]
    Version(u8),
    #[error("a control message of {0} bytes is above the bound of {CONTROL_BYTES_MAX}")]
    Control(usize),
    #[error("{0} payloads are above the bound of {PAYLOADS_MAX}")]
    Count(usize),
    #[error("{0} bytes of payloads are above the bound of {PAYLOADS_BYTES_MAX}")]
    Payloads(usize),
    #[error("a message's checksum is {found:08x}, its bytes make {computed:08x}")]
    Checksum { found: u32, computed: u32 },
}

/// Checks the first bytes of a connection.
pub(super) fn check_hello(bytes: &[u8; HELLO.len()]) -> Result<(), FrameError> {
    match (bytes.starts_with(&HELLO[..NAME_LENGTH]), bytes[NAME_LENGTH]) {
        (false, _) => Err(FrameError::NoMember),
        (true, version) if version != HELLO[NAME_LENGTH] => Err(FrameError::Version(version)),
        _ => Ok(()),
    }
}

/// A message on its way out: the head, and the envelope's own bytes behind it.
pub(super) struct Outgoing {
    pieces: VecDeque<Bytes>,
}

/// A message's bytes. Nothing of the envelope is copied.
///
/// # Errors
/// It is above a bound.
pub(super) fn encode(envelope: Envelope) -> Result<Outgoing, FrameError> {
    let (control, count, payloads) =
        (envelope.control.len(), envelope.payloads.len(), envelope.payload_bytes());
    check_bounds(control, count)?;
    check_payloads(payloads)?;
    let mut head = BytesMut::with_capacity(HEAD_LENGTH + 4 * count);
    head.put_u32_le(0);
    // Lengths within the bounds fit.
    head.put_u32_le(control as u32);
    head.put_u32_le(count as u32);
    for payload in &envelope.payloads {
        head.put_u32_le(payload.len() as u32);
    }
    let mut crc = crc32c::crc32c(&head[CHECKSUM_LENGTH..]);
    crc = crc32c::crc32c_append(crc, &envelope.control);
    for payload in &envelope.payloads {
        crc = crc32c::crc32c_append(crc, payload);
    }
    head[..CHECKSUM_LENGTH].copy_from_slice(&crc.to_le_bytes());
    let pieces = [head.freeze(), envelope.control].into_iter().chain(envelope.payloads);
    Ok(Outgoing { pieces: pieces.filter(|piece| !piece.is_empty()).collect() })
}

impl Buf for Outgoing {
    fn remaining(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let filled = slices.iter_mut().zip(&self.pieces).map(|(slice, piece)| *slice = IoSlice::new(piece));
        filled.count()
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(front) = self.pieces.front_mut() {
            let taken = count.min(front.len());
            front.advance(taken);
            count -= taken;
            if !front.is_empty() {
                return;
            }
            self.pieces.pop_front();
        }
        assert_eq!(count, 0, "no more is sent than there is");
    }
}

/// Takes the first message out of `buffer`; `None` while it is not whole, after making room for more of it.
///
/// # Errors
/// The bytes are no message; nothing that follows can be one.
pub(super) fn decode(buffer: &mut BytesMut) -> Result<Option<Envelope>, FrameError> {
    let Some((control, lengths)) = head(buffer)? else {
        buffer.reserve(HEAD_LENGTH.max(4 * 1024));
        return Ok(None);
    };
    let head_length = HEAD_LENGTH + 4 * lengths.len();
    let total = head_length + control + lengths.iter().sum::<usize>();
    if buffer.len() < total {
        buffer.reserve((total - buffer.len()).min(ROOM_MAX));
        return Ok(None);
    }
    let mut message = buffer.split_to(total).freeze();
    let found = message.get_u32_le();
    let computed = crc32c::crc32c(&message);
    if found != computed {
        return Err(FrameError::Checksum { found, computed });
    }
    message.advance(head_length - CHECKSUM_LENGTH);
    let control = message.split_to(control);
    let payloads = lengths.iter().map(|length| message.split_to(*length)).collect();
    Ok(Some(Envelope { control, payloads }))
}

/// The lengths that a message's head tells, checked against the bounds; `None` while it is not whole.
fn head(bytes: &[u8]) -> Result<Option<(usize, Vec<usize>)>, FrameError> {
    let Some(mut rest) =
        bytes.get(CHECKSUM_LENGTH..).filter(|rest| rest.len() >= HEAD_LENGTH - CHECKSUM_LENGTH)
    else {
        return Ok(None);
    };
    let (control, count) = (rest.get_u32_le() as usize, rest.get_u32_le() as usize);
    check_bounds(control, count)?;
    if rest.len() < 4 * count {
        return Ok(None);
    }
    let lengths: Vec<usize> = (0..count).map(|_| rest.get_u32_le() as usize).collect();
    check_payloads(lengths.iter().fold(0, |sum, length| length.saturating_add(sum)))?;
    Ok(Some((control, lengths)))
}

fn check_bounds(control: usize, count: usize) -> Result<(), FrameError> {
    if control > CONTROL_BYTES_MAX {
        Err(FrameError::Control(control))
    } else if count > PAYLOADS_MAX {
        Err(FrameError::Count(count))
    } else {
        Ok(())
    }
}

fn check_payloads(bytes: usize) -> Result<(), FrameError> {
    if bytes > PAYLOADS_BYTES_MAX { Err(FrameError::Payloads(bytes)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(control: usize, payloads: &[usize]) -> Envelope {
        let bytes = |length: usize| Bytes::from((0..length).map(|at| (at * 7) as u8).collect::<Vec<u8>>());
        Envelope { control: bytes(control), payloads: payloads.iter().map(|length| bytes(*length)).collect() }
    }

    fn bytes(envelope: &Envelope) -> Vec<u8> {
        let mut outgoing = encode(envelope.clone()).expect("within the bounds");
        outgoing.copy_to_bytes(outgoing.remaining()).to_vec()
    }

    #[test]
    fn whatever_is_sent_arrives_however_it_is_cut() {
        let sent = [
            envelope(0, &[]),
            envelope(5, &[]),
            envelope(0, &[0, 3, 0]),
            envelope(300, &[64, 1, 4096]),
            envelope(1, &vec![1; PAYLOADS_MAX]),
        ];
        let stream: Vec<u8> = sent.iter().flat_map(bytes).collect();
        for piece in [1, 7, 4096, stream.len()] {
            let (mut buffer, mut arrived) = (BytesMut::new(), Vec::new());
            for bytes in stream.chunks(piece) {
                buffer.extend_from_slice(bytes);
                while let Some(envelope) = decode(&mut buffer).expect("a message") {
                    arrived.push(envelope);
                }
            }
            assert_eq!(arrived, sent, "in pieces of {piece}");
            assert!(buffer.is_empty());
        }
    }

    #[test]
    fn outgoing_bytes_are_given_in_slices_and_taken_in_any_number() {
        let whole = bytes(&envelope(3, &[5, 0, 2]));
        let mut outgoing = encode(envelope(3, &[5, 0, 2])).expect("within the bounds");
        let mut slices = [IoSlice::new(&[]); 8];
        assert_eq!(
            outgoing.chunks_vectored(&mut slices),
            4,
            "the head, the control message and two payloads"
        );
        let given: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        assert_eq!(given, whole);
        for at in 0..whole.len() {
            assert_eq!((outgoing.remaining(), outgoing.chunk().first()), (whole.len() - at, whole.get(at)));
            outgoing.advance(1);
        }
        assert!(!outgoing.has_remaining());
    }

    /// Every flipped bit of a message is found: it is refused, or it is not whole yet and never becomes the message.
    #[test]
    fn flipped_bits_are_found() {
        let whole = bytes(&envelope(9, &[4, 20]));
        for bit in 0..8 * whole.len() {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let decoded = decode(&mut BytesMut::from(&flipped[..]));
            assert!(!matches!(decoded, Ok(Some(_))), "bit {bit}: {decoded:?}");
        }
    }

    #[test]
    fn bounds_hold_on_both_sides_and_make_no_room_for_promises() {
        let check = |control: usize, payloads: &[usize], error: FrameError| {
            assert_eq!(encode(envelope(control, payloads)).err(), Some(error));
            let mut head = BytesMut::new();
            head.put_u32_le(0);
            head.put_u32_le(control as u32);
            head.put_u32_le(payloads.len() as u32);
            payloads.iter().for_each(|length| head.put_u32_le(*length as u32));
            assert_eq!(decode(&mut head), Err(error));
        };
        check(CONTROL_BYTES_MAX + 1, &[], FrameError::Control(CONTROL_BYTES_MAX + 1));
        check(0, &vec![0; PAYLOADS_MAX + 1], FrameError::Count(PAYLOADS_MAX + 1));
        let most = PAYLOADS_BYTES_MAX;
        check(0, &[most, 1], FrameError::Payloads(most + 1));
        let mut promise = BytesMut::new();
        promise.put_slice(&[0; 8]);
        promise.put_u32_le(1);
        promise.put_u32_le(most as u32);
        assert_eq!(decode(&mut promise), Ok(None));
        assert!(promise.capacity() <= 2 * ROOM_MAX, "room for {}", promise.capacity());
    }

    #[test]
    fn other_protocols_and_versions_are_told_apart() {
        assert_eq!(check_hello(&HELLO), Ok(()));
        assert_eq!(check_hello(b"RINGPIT\x09"), Err(FrameError::Version(9)));
        assert_eq!(check_hello(b"GET / HT"), Err(FrameError::NoMember));
    }
}
