//! The 64-bit stream hash behind the running hash, the state hash and the comparisons of two runs. Fast and well mixed;
//! it finds accidents, not attackers.

use crate::{ClientOrderId, Event, InstrumentId, Price, Quantity, SessionId, Side};

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const OFFSET: u64 = 0xd1b5_4a32_d192_ed03;

/// Hash of a sequence of words, order included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHash(u64);

impl Default for StreamHash {
    fn default() -> Self {
        Self(OFFSET)
    }
}

impl StreamHash {
    /// Goes on from a value that [`value`](Self::value) gave.
    #[must_use]
    pub fn resume(value: u64) -> Self {
        Self(value)
    }

    /// The hash so far.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0
    }

    /// Takes in one word.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.pair(word, 0);
    }

    /// Takes in two words for the price of one.
    #[inline]
    pub fn pair(&mut self, first: u64, second: u64) {
        let product = u128::from(self.0 ^ first ^ MULTIPLIER) * u128::from(second.wrapping_add(OFFSET) | 1);
        self.0 = (product as u64) ^ ((product >> 64) as u64).rotate_left(23) ^ second.rotate_left(41);
    }

    /// Takes in bytes, and how many they were.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }
}

/// Hash of what rests where, so that two runs with the same matches agree: no ids of the venue's own and no times. Orders go
/// in by instrument, bids before asks, best price first, oldest in the queue first.
#[derive(Clone, Copy, Debug, Default)]
pub struct BookHash(StreamHash);

impl BookHash {
    /// Takes in one resting order.
    #[inline]
    pub fn order(
        &mut self,
        instrument: InstrumentId,
        side: Side,
        price: Price,
        leaves_quantity: Quantity,
        session: SessionId,
        client_order_id: ClientOrderId,
    ) {
        self.0.pair(instrument.0.into(), side.to_byte().into());
        self.0.pair(price.0 as u64, leaves_quantity.0);
        self.0.pair(session.0.into(), client_order_id.0);
    }

    /// The hash over all orders taken in.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.value()
    }
}

/// Hash of what became of requests: every report of each session, in order, without times, report numbers, sequences and
/// the venue's own order and trade ids. How sessions interleave does not matter, so two runs with the same input per
/// session and the same matches agree. The server's own session is left out: what it publishes at a start is configuration.
#[derive(Clone, Debug, Default)]
pub struct OutcomeHash {
    sessions: std::collections::BTreeMap<SessionId, StreamHash>,
}

impl OutcomeHash {
    /// Takes in an event, where it is a report.
    pub fn event(&mut self, event: &Event) {
        if let Some(to) = event.recipient().filter(|to| to.session != SessionId::SYSTEM) {
            fold_outcome(self.sessions.entry(to.session).or_default(), event);
        }
    }

    /// The hash over all sessions seen.
    #[must_use]
    pub fn value(&self) -> u64 {
        let mut hash = StreamHash::default();
        for (session, stream) in &self.sessions {
            hash.pair(session.0.into(), stream.value());
        }
        hash.value()
    }
}

fn fold_outcome(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::Accepted(e) => {
            hash.pair(1, e.request_id.0);
            hash.pair(e.price.map_or(u64::MAX, |price| price.0 as u64), e.quantity.0);
            hash.pair(e.instrument.0.into(), e.account.0.into());
            hash.word(u64::from_le_bytes([
                e.side.to_byte(),
                e.order_type.to_byte(),
                e.time_in_force.to_byte(),
                e.flags.to_byte(),
                u8::from(e.price.is_some()),
                0,
                0,
                0,
            ]));
        }
        Event::Rejected(e) => {
            hash.pair(2, e.request_id.0);
            hash.pair(e.client_order_id.map_or(0, |id| id.0), e.reason.to_byte().into());
        }
        Event::Executed(e) => {
            hash.pair(3, e.request_id.0);
            hash.pair(e.client_order_id.0, e.last_price.0 as u64);
            hash.pair(e.last_quantity.0, e.leaves_quantity.0);
            hash.pair(e.cum_quantity.0, e.liquidity.to_byte().into());
        }
        Event::Canceled(e) => {
            hash.pair(4, e.request_id.0);
            hash.pair(e.client_order_id.0, e.canceled_quantity.0);
            hash.pair(e.cum_quantity.0, e.reason.to_byte().into());
        }
        Event::Replaced(e) => {
            hash.pair(5, e.request_id.0);
            hash.pair(e.client_order_id.0, e.price.map_or(u64::MAX, |price| price.0 as u64));
            hash.pair(e.quantity.0, e.cum_quantity.0);
            hash.word(e.kept_place.into());
        }
        Event::Restated(e) => {
            hash.pair(6, e.client_order_id.0);
            hash.pair(e.leaves_quantity.0, e.cum_quantity.0);
        }
        Event::Expired(e) => {
            hash.pair(7, e.request_id.0);
            hash.pair(e.client_order_id.0, e.expired_quantity.0);
            hash.pair(e.cum_quantity.0, e.reason.to_byte().into());
        }
        Event::OrderStatus(e) => {
            hash.pair(8, e.request_id.0);
            hash.pair(e.client_order_id.0, e.leaves_quantity.0);
            hash.pair(e.cum_quantity.0, e.status.to_byte().into());
        }
        Event::MassCanceled(e) => hash.pair(9, e.request_id.0 ^ e.orders.rotate_left(32)),
        Event::AdminDone(e) => hash.pair(10, e.request_id.0),
        Event::Triggered(e) => hash.pair(11, e.client_order_id.0),
        Event::MassQuoted(e) => {
            hash.pair(12, e.request_id.0);
            hash.pair(e.bids.into(), e.asks.into());
        }
        Event::TradeRevised(e) => {
            hash.pair(13, e.client_order_id.0);
            hash.pair(e.quantity.0, e.new_price.map_or(u64::MAX, |price| price.0 as u64));
        }
        _ => {}
    }
}
