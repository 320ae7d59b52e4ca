//! Building frames: in a buffer of their own, and in the place where they are to stand.

use zerocopy::{Immutable, IntoBytes};

use super::{FORMAT_VERSION, FrameHeader, FrameKind, HEADER_LENGTH, TlvType};
use crate::{ConnectionId, InstrumentId, REPORT_STRIDE, RequestId, SessionId, Timestamp};

/// Bytes that every command's frame fits in, with all its optional fields: writers of commands are moved about, so they
/// are kept small.
pub const COMMAND_LENGTH_MAX: usize = 256;

/// Builds a frame of at most `N` bytes in a fixed buffer.
#[derive(Clone)]
pub struct FrameWriter<const N: usize = COMMAND_LENGTH_MAX> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> FrameWriter<N> {
    /// Starts a frame: a header, and the length set as the body grows.
    #[must_use]
    #[inline]
    pub fn new(kind: FrameKind, session: SessionId, request_id: RequestId, timestamp: Timestamp) -> Self {
        let mut writer = Self { bytes: [0; N], length: 0 };
        let header = FrameHeader {
            length: (HEADER_LENGTH as u16).into(),
            kind: kind as u8,
            version: FORMAT_VERSION,
            session: session.0.into(),
            request_id: request_id.0.into(),
            timestamp_ns: timestamp.0.into(),
            connection: 0.into(),
            instrument: 0.into(),
        };
        writer.push(header.as_bytes());
        writer
    }

    /// Sets the header's instrument.
    #[must_use]
    #[inline]
    pub fn instrument(mut self, instrument: InstrumentId) -> Self {
        self.bytes[28..32].copy_from_slice(&instrument.0.to_le_bytes());
        self
    }

    /// Sets the header's connection.
    #[must_use]
    #[inline]
    pub fn connection(mut self, connection: ConnectionId) -> Self {
        self.bytes[24..28].copy_from_slice(&connection.0.to_le_bytes());
        self
    }

    /// Appends a fixed body.
    #[inline]
    pub(crate) fn body(mut self, body: &(impl IntoBytes + Immutable)) -> Self {
        self.push(body.as_bytes());
        self
    }

    /// Appends bytes as they are.
    pub(crate) fn append(mut self, bytes: &[u8]) -> Self {
        self.push(bytes);
        self
    }

    /// Appends an optional field where there is a value.
    #[inline]
    pub(crate) fn option(mut self, tlv: TlvType, value: Option<&[u8]>) -> Self {
        if let Some(value) = value {
            self.push(&[tlv as u8, value.len() as u8]);
            self.push(value);
        }
        self
    }

    /// The frame, without slot padding.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        assert!(end <= N, "a frame built here never exceeds the maximum: its parts are bounded");
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
        self.bytes[..2].copy_from_slice(&(end as u16).to_le_bytes());
    }
}

/// A frame built in the place where it is to stand, of at most [`REPORT_STRIDE`] bytes: what is written once need not be
/// copied. All of the place is written: what the frame leaves over, with zeros.
pub(crate) struct FrameInPlace<'a> {
    bytes: &'a mut [u8; REPORT_STRIDE],
    length: usize,
}

impl<'a> FrameInPlace<'a> {
    /// Starts the frame with its header; the length in it is set by [`finish`](Self::finish).
    #[inline]
    pub(crate) fn new(bytes: &'a mut [u8; REPORT_STRIDE], header: &FrameHeader) -> Self {
        let mut frame = Self { bytes, length: 0 };
        frame.push(header.as_bytes());
        frame
    }

    /// Appends a fixed body.
    #[inline]
    pub(crate) fn body(mut self, body: &(impl IntoBytes + Immutable)) -> Self {
        self.push(body.as_bytes());
        self
    }

    /// Appends an optional field where there is a value.
    #[inline]
    pub(crate) fn option(mut self, tlv: TlvType, value: Option<&[u8]>) -> Self {
        if let Some(value) = value {
            self.push(&[tlv as u8, value.len() as u8]);
            self.push(value);
        }
        self
    }

    /// Sets the frame's length and zeroes what is left of the place.
    #[inline]
    pub(crate) fn finish(self) {
        self.bytes[self.length..].fill(0);
        self.bytes[..2].copy_from_slice(&(self.length as u16).to_le_bytes());
    }

    #[inline]
    fn push(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        self.bytes[self.length..end].copy_from_slice(bytes);
        self.length = end;
    }
}
