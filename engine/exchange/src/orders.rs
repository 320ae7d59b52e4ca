//! Live orders of all books: where they are stored and how their owners name them. Books and session lists thread
//! themselves through the arena in it.

use ::book::{Index, KeyHash};
use protocol::OrderKey;

use crate::arena::{Arena, Handle, Order};
use crate::extras::{Extra, Extras};
use crate::names::Names;
use crate::sessions::Sessions;

/// Hash of an order's key.
#[inline]
fn hash(session: u32, client_order_id: u64) -> KeyHash {
    let spread = u64::from(session).wrapping_mul(0xff51_afd7_ed55_8ccd);
    KeyHash::of_id(client_order_id ^ spread.rotate_left(29))
}

/// Storage, index and text ids of live orders.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) arena: Arena,
    pub(crate) names: Names,
    pub(crate) extras: Extras,
    index: Index,
}

impl Orders {
    pub(crate) fn new() -> Self {
        Self::with_room(0)
    }

    /// Empty, with room for `orders`.
    pub(crate) fn with_room(orders: usize) -> Self {
        Self {
            arena: Arena::with_room(orders),
            names: Names::new(),
            extras: Extras::default(),
            index: Index::with_room(orders),
        }
    }

    /// A session's order by the name that the session gives it.
    #[inline]
    pub(crate) fn find(&self, session: u32, key: &OrderKey) -> Option<Handle> {
        match key {
            OrderKey::Id(id) => self.index.find(hash(session, id.0), |handle| {
                let order = self.arena.get(handle);
                order.client_order_id == *id && order.session == session
            }),
            OrderKey::Text(text) => {
                let name = self.names.find(session, text)?;
                Some(self.names.get(name).order).filter(|order| order.is_some())
            }
        }
    }

    /// Takes in an order that will rest.
    #[inline(always)]
    pub(crate) fn admit(&mut self, sessions: &mut Sessions, order: Order, name: Option<Handle>) -> Handle {
        let session = order.session;
        let handle = self.admit_unlisted(order);
        sessions.adopt(&mut self.arena, session, handle);
        if let Some(name) = name {
            self.rename(handle, name);
        }
        handle
    }

    /// Takes in an order without putting it into its session's list.
    #[inline(always)]
    pub(crate) fn admit_unlisted(&mut self, order: Order) -> Handle {
        let hash = hash(order.session, order.client_order_id.0);
        let handle = self.arena.allocate(order);
        self.index.insert(hash, handle);
        handle
    }

    /// Gives an order its new current text id.
    pub(crate) fn rename(&mut self, handle: Handle, name: Handle) {
        self.forget_name(handle);
        self.arena.links_mut(handle).name = name;
        self.names.get_mut(name).order = handle;
    }

    /// The order has no text id any more.
    pub(crate) fn forget_name(&mut self, handle: Handle) {
        let links = self.arena.links_mut(handle);
        let name = std::mem::replace(&mut links.name, Handle::NONE);
        if name.is_some() {
            self.names.get_mut(name).order = Handle::NONE;
        }
    }

    /// Forgets an order that is out of its book.
    #[inline]
    pub(crate) fn retire(&mut self, sessions: &mut Sessions, handle: Handle) {
        let order = self.arena.get(handle);
        self.index.remove(hash(order.session, order.client_order_id.0), handle);
        sessions.disown(&mut self.arena, handle);
        self.forget_name(handle);
        self.arena.release(handle);
    }

    /// What a special order has beyond its line; `None` of a plain one.
    #[inline]
    pub(crate) fn extra(&self, handle: Handle) -> Option<&Extra> {
        self.arena.get(handle).special.then(|| self.extras.get(self.arena.links(handle).extra))?
    }

    #[inline]
    pub(crate) fn extra_mut(&mut self, handle: Handle) -> Option<&mut Extra> {
        if !self.arena.get(handle).special {
            return None;
        }
        self.extras.get_mut(self.arena.links(handle).extra)
    }

    /// Gives an order its extra: it is a special one from here on.
    pub(crate) fn attach(&mut self, handle: Handle, extra: Extra) {
        self.arena.links_mut(handle).extra = self.extras.insert(extra);
        self.arena.get_mut(handle).special = true;
    }

    /// All that is open of an order, shown or not.
    pub(crate) fn open_quantity(&self, handle: Handle) -> u64 {
        self.arena.get(handle).leaves + self.extra(handle).map_or(0, |extra| extra.reserve)
    }

    /// Reads what finding and unlinking the order will need, ahead of time.
    #[inline]
    pub(crate) fn touch(&self, session: u32, client_order_id: u64) -> Handle {
        self.index.touch(hash(session, client_order_id))
    }
}
