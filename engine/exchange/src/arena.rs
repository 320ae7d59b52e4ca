//! Storage of live orders: one cache line an order in chunks that never move, found by a 32-bit handle, with a
//! last-in-first-out free list. It owns no order of things: queues, session lists and the index live on top of it.
//!
//! Handles are reused and differ between two engines with the same state, so they must never reach an event, a record or
//! a hash.

use protocol::{AccountId, ClientOrderId, OrderFlags, OrderId, Price, Side, TimeInForce};

/// Orders of a chunk. A chunk's memory is taken when its first order comes and is never moved or given back.
const CHUNK: usize = 1 << CHUNK_BITS;
const CHUNK_BITS: u32 = 13;

/// Place of a live order in the arena, or of a text id in its table. [`Handle::NONE`] ends a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Handle(u32);

impl Handle {
    /// No place.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn new(raw: u32) -> Self {
        Self(raw)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// A live order.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Order {
    /// Price at which it rests. Of a special order that has none at present: zero, and its extra says so.
    pub(crate) price: Price,
    /// What of it is open in its queue. Never zero while the order rests. Of an iceberg: the shown part; the reserve is in
    /// its extra.
    pub(crate) leaves: u64,
    /// Executed so far; with all that is open it is the order's total quantity and fits.
    pub(crate) cum: u64,
    pub(crate) order_id: OrderId,
    pub(crate) client_order_id: ClientOrderId,
    /// Place of the session in the session table.
    pub(crate) session: u32,
    pub(crate) account: AccountId,
    /// Place of the instrument in the instrument table.
    pub(crate) instrument: u32,
    /// Behind it in the queue of its level; of a free place: the next free one.
    pub(crate) next: Handle,
    /// Before it in the queue of its level.
    pub(crate) prev: Handle,
    pub(crate) side: Side,
    pub(crate) time_in_force: TimeInForce,
    /// Byte of the flags.
    pub(crate) flag_bits: u8,
    /// It has an [`Extra`](crate::extras::Extra): nothing about it may be assumed from this line alone.
    pub(crate) special: bool,
}

impl Order {
    pub(crate) fn flags(&self) -> OrderFlags {
        OrderFlags::from_byte(self.flag_bits).unwrap_or_default()
    }
}

const _: () = assert!(size_of::<Order>() == 64, "a live order is one cache line");

/// What is needed of an order only when it comes and goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    /// The session's next younger order.
    pub(crate) younger: Handle,
    /// The session's next older order.
    pub(crate) older: Handle,
    /// Its current text id.
    pub(crate) name: Handle,
    /// Place of its extra; only of special orders.
    pub(crate) extra: Handle,
}

#[derive(Debug)]
struct Chunk {
    orders: Vec<Order>,
    links: Vec<Links>,
}

/// All live orders.
#[derive(Debug)]
pub(crate) struct Arena {
    chunks: Vec<Chunk>,
    free: Handle,
    /// Places ever used.
    used: u32,
    live: u32,
}

impl Arena {
    pub(crate) fn new() -> Self {
        Self { chunks: Vec::new(), free: Handle::NONE, used: 0, live: 0 }
    }

    /// Live orders.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// Takes an order in. The caller keeps within the capacity, which is below the range of handles.
    pub(crate) fn allocate(&mut self, order: Order) -> Handle {
        let links =
            Links { younger: Handle::NONE, older: Handle::NONE, name: Handle::NONE, extra: Handle::NONE };
        self.live += 1;
        if self.free.is_some() {
            let handle = self.free;
            self.free = self.get(handle).next;
            *self.get_mut(handle) = order;
            *self.links_mut(handle) = links;
            return handle;
        }
        let handle = Handle(self.used);
        assert!(handle.is_some(), "the order capacity is below the range of handles");
        self.used += 1;
        if handle.0 as usize & (CHUNK - 1) == 0 {
            self.chunks.push(Chunk { orders: Vec::with_capacity(CHUNK), links: Vec::with_capacity(CHUNK) });
        }
        let chunk = &mut self.chunks[(handle.0 >> CHUNK_BITS) as usize];
        chunk.orders.push(order);
        chunk.links.push(links);
        handle
    }

    /// Gives an order's place back.
    pub(crate) fn release(&mut self, handle: Handle) {
        debug_assert!(self.links(handle).extra.is_none() || self.get(handle).special);
        let free = self.free;
        let order = self.get_mut(handle);
        debug_assert!(order.client_order_id.0 != 0, "an order is released once");
        order.client_order_id = ClientOrderId(0);
        order.next = free;
        self.free = handle;
        self.live -= 1;
    }

    #[inline]
    pub(crate) fn get(&self, handle: Handle) -> &Order {
        &self.chunks[(handle.0 >> CHUNK_BITS) as usize].orders[handle.0 as usize & (CHUNK - 1)]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> &mut Order {
        &mut self.chunks[(handle.0 >> CHUNK_BITS) as usize].orders[handle.0 as usize & (CHUNK - 1)]
    }

    #[inline]
    pub(crate) fn links(&self, handle: Handle) -> &Links {
        &self.chunks[(handle.0 >> CHUNK_BITS) as usize].links[handle.0 as usize & (CHUNK - 1)]
    }

    #[inline]
    pub(crate) fn links_mut(&mut self, handle: Handle) -> &mut Links {
        &mut self.chunks[(handle.0 >> CHUNK_BITS) as usize].links[handle.0 as usize & (CHUNK - 1)]
    }
}
