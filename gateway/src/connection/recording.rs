//! What a connection records: the frames that it published and the reports that the kernel took. It must not cost anything
//! where nothing is recorded.

use protocol::{HEADER_LENGTH, REPORT_STRIDE};
use recorder::stages as points;
use ring::Claimed;

use super::Connection;

/// The sequences of the reports that wait for the socket.
#[derive(Debug, Default)]
pub(super) struct Unsent(Option<(u64, u64)>);

impl Unsent {
    /// Reports as read from the log, in their order, are on their way.
    pub(super) fn add(&mut self, strides: &[u8]) {
        let (strides, _) = strides.as_chunks::<REPORT_STRIDE>();
        if let (Some(first), Some(last)) = (strides.first(), strides.last()) {
            let first = self.0.map_or_else(|| sequence_of(first), |(first, _)| first);
            self.0 = Some((first, sequence_of(last)));
        }
    }
}

/// The sequence of a report: behind its number, at the start of each report's body.
fn sequence_of(stride: &[u8; REPORT_STRIDE]) -> u64 {
    let bytes = stride.get(HEADER_LENGTH + 8..HEADER_LENGTH + 16).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_le_bytes).unwrap_or_default()
}

impl Connection {
    /// Frames were published by an attempt that began then.
    pub(super) fn record_published(&self, began: u64, frames: usize, claimed: Claimed) {
        let arguments = [frames as u64, self.session.session().0.into(), claimed.slots, claimed.last];
        self.shared.recorder.borrow_mut().record_at(began, points::PUBLISHED, arguments);
    }

    /// The socket took bytes: where nothing waits any more, it has taken the reports.
    pub(super) fn record_sent(&mut self) {
        if self.out.pending().is_empty()
            && let Some((first, last)) = self.unsent.0.take()
        {
            let arguments = [first, last, self.session.session().0.into()];
            self.shared.recorder.borrow_mut().record(points::SENT, arguments);
        }
    }
}
