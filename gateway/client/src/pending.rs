//! The requests that have no outcome yet, with the packets to send them again: a bounded window over the session's ids.

use std::collections::VecDeque;

use protocol::{FrameKind, RequestId};

/// One request of the window.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bytes of its packet.
    length: u16,
    kind: FrameKind,
    /// It has its outcome, but an older one does not yet.
    settled: bool,
    /// How often it was sent.
    sent: u32,
    /// How often that came to nothing, since a dead connection had sent it. A late report of that may come when it has been
    /// sent again already, also in a later term of a member that led before, so only as many as it was sent say that
    /// nothing happened.
    not_logged_in: u32,
}

/// Requests by id. Ids have no gaps in here, so the place of one is its distance from the oldest; ids that are left out are
/// entries without a packet that have their outcome.
#[derive(Debug)]
pub(crate) struct Pending {
    window: usize,
    /// Id of the first entry; of the next request where there is none.
    oldest: u64,
    entries: VecDeque<Entry>,
    /// The entries' packets, one behind the other.
    packets: VecDeque<u8>,
    unsettled: usize,
}

impl Pending {
    pub(crate) fn new(window: usize) -> Self {
        Self {
            window,
            oldest: 1,
            entries: VecDeque::with_capacity(window),
            packets: VecDeque::with_capacity(window.saturating_mul(64)),
            unsettled: 0,
        }
    }

    /// Sets the id of the first request ever.
    pub(crate) fn start_at(&mut self, id: RequestId) {
        debug_assert!(self.entries.is_empty());
        self.oldest = id.0;
    }

    /// Id that the next request gets.
    pub(crate) fn next_id(&self) -> RequestId {
        RequestId(self.oldest + self.entries.len() as u64)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.window
    }

    /// How many requests have no outcome.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled
    }

    /// Takes in the request of [`next_id`](Self::next_id) with its packet.
    pub(crate) fn push(&mut self, kind: FrameKind, packet: &[u8], is_sent: bool) {
        debug_assert!(!self.is_full(), "submit checks the window first");
        self.entries.push_back(Entry {
            length: packet.len() as u16,
            kind,
            settled: false,
            sent: is_sent.into(),
            not_logged_in: 0,
        });
        self.packets.extend(packet);
        self.unsettled += 1;
    }

    /// Leaves out the next `count` ids: the request before uses them for what it carries.
    pub(crate) fn leave_out(&mut self, count: usize) {
        for _ in 0..count {
            self.entries.push_back(Entry {
                length: 0,
                kind: FrameKind::MassQuote,
                settled: true,
                sent: 0,
                not_logged_in: 0,
            });
        }
    }

    /// Kind of a request that has no outcome yet.
    pub(crate) fn kind(&self, id: RequestId) -> Option<FrameKind> {
        let entry = self.entries.get(self.place(id)?)?;
        (!entry.settled).then_some(entry.kind)
    }

    /// Counts that a dead connection sent the request: it must be sent again.
    pub(crate) fn mark_not_logged_in(&mut self, id: RequestId) {
        if let Some(entry) = self.place(id).and_then(|place| self.entries.get_mut(place)) {
            entry.not_logged_in = entry.not_logged_in.saturating_add(1);
        }
    }

    /// Notes that the request has its outcome; false where it had one already, or is none of ours.
    pub(crate) fn settle(&mut self, id: RequestId) -> bool {
        let Some(entry) = self.place(id).and_then(|place| self.entries.get_mut(place)) else { return false };
        if std::mem::replace(&mut entry.settled, true) {
            return false;
        }
        self.unsettled -= 1;
        while let Some(entry) = self.entries.front().filter(|entry| entry.settled) {
            self.packets.drain(..usize::from(entry.length));
            self.entries.pop_front();
            self.oldest += 1;
        }
        true
    }

    /// Appends the packets of all requests above `highest` that have no outcome; how many they are.
    pub(crate) fn resend_above(&mut self, highest: RequestId, out: &mut Vec<u8>) -> usize {
        let packets = self.packets.make_contiguous();
        let mut rest = &packets[..];
        let mut resent = 0;
        for (id, entry) in (self.oldest..).zip(&mut self.entries) {
            let (packet, behind) = rest.split_at(usize::from(entry.length));
            rest = behind;
            if !entry.settled && id > highest.0 {
                entry.sent = entry.sent.saturating_add(1);
                out.extend_from_slice(packet);
                resent += 1;
            }
        }
        resent
    }

    /// The oldest request up to `highest` that has no outcome, and whether it is known to have done nothing.
    pub(crate) fn oldest_unsettled(&self, highest: RequestId) -> Option<(RequestId, bool)> {
        (self.oldest..=highest.0)
            .zip(&self.entries)
            .find(|(_, entry)| !entry.settled)
            .map(|(id, entry)| (RequestId(id), entry.not_logged_in >= entry.sent))
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.oldest)?).ok()
    }
}
