//! Storage of live orders: one cache line an order, and beside it what is needed only when an order comes and goes. It owns
//! no order of things: queues, session lists and the index live on top of it.
//!
//! Handles are reused and differ between two engines with the same state, so they must never reach an event, a record or
//! a hash.

pub(crate) use ::book::Handle;
use ::book::Node;
use protocol::{AccountId, ClientOrderId, OrderFlags, OrderId, Price, Side, TimeInForce};

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

impl Default for Order {
    /// Nobody's.
    fn default() -> Self {
        Self {
            price: Price(0),
            leaves: 0,
            cum: 0,
            order_id: OrderId(0),
            client_order_id: ClientOrderId(0),
            session: 0,
            account: AccountId(0),
            instrument: 0,
            next: Handle::NONE,
            prev: Handle::NONE,
            side: Side::Buy,
            time_in_force: TimeInForce::Day,
            flag_bits: 0,
            special: false,
        }
    }
}

impl Node for Order {
    #[inline(always)]
    fn next(&self) -> Handle {
        self.next
    }

    #[inline(always)]
    fn prev(&self) -> Handle {
        self.prev
    }

    #[inline(always)]
    fn set_next(&mut self, next: Handle) {
        self.next = next;
    }

    #[inline(always)]
    fn set_prev(&mut self, prev: Handle) {
        self.prev = prev;
    }
}

/// What is needed of an order only when it comes and goes.
#[derive(Clone, Copy, Debug, Default)]
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

/// All live orders.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The orders by themselves, in whose queues the books thread them.
    pub(crate) orders: ::book::Arena<Order>,
    /// Of each place of `orders`.
    links: Vec<Links>,
}

impl Arena {
    /// An empty arena that takes so many orders without moving them.
    pub(crate) fn with_room(orders: usize) -> Self {
        let mut links = Vec::with_capacity(orders.saturating_add(1));
        links.push(Links::default());
        Self { orders: ::book::Arena::with_room(orders), links }
    }

    /// Live orders.
    pub(crate) fn live(&self) -> u32 {
        self.orders.live()
    }

    /// Takes an order in. The caller keeps within the capacity, which is below the range of handles.
    #[inline]
    pub(crate) fn allocate(&mut self, order: Order) -> Handle {
        let handle = self.orders.allocate();
        *self.orders.get_mut(handle) = order;
        match self.links.get_mut(handle.raw() as usize) {
            Some(links) => *links = Links::default(),
            None => self.links.push(Links::default()),
        }
        handle
    }

    /// Gives an order's place back.
    pub(crate) fn release(&mut self, handle: Handle) {
        debug_assert!(self.links(handle).extra.is_none() || self.get(handle).special);
        let order = self.get_mut(handle);
        debug_assert!(order.client_order_id.0 != 0, "an order is released once");
        order.client_order_id = ClientOrderId(0);
        self.orders.release(handle);
    }

    #[inline(always)]
    pub(crate) fn get(&self, handle: Handle) -> &Order {
        self.orders.get(handle)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, handle: Handle) -> &mut Order {
        self.orders.get_mut(handle)
    }

    #[inline]
    pub(crate) fn links(&self, handle: Handle) -> &Links {
        &self.links[handle.raw() as usize]
    }

    #[inline]
    pub(crate) fn links_mut(&mut self, handle: Handle) -> &mut Links {
        &mut self.links[handle.raw() as usize]
    }
}
