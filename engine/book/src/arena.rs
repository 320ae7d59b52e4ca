//! Storage of what rests in books: one vector of nodes, found by 32-bit handles, with a last-in-first-out free list. It owns
//! no order of things: queues and the index live on top of it.
//!
//! Handles are reused and differ between two engines with the same state, so they must never reach an event, a record or
//! a hash.

/// Place of a node in its arena. [`Handle::NONE`] ends a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Handle(u32);

impl Handle {
    /// No node. Its place exists in every arena and holds nobody's node, so that the neighbours of a node can be written
    /// without asking first whether there are any.
    pub const NONE: Self = Self(0);

    /// The handle with that number.
    #[must_use]
    pub fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// Its number.
    #[must_use]
    pub fn raw(self) -> u32 {
        self.0
    }

    /// Whether it is [`Handle::NONE`].
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Whether it names a node.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }
}

/// What can rest in a queue. It knows its neighbours.
pub trait Node: Copy + Default {
    /// Behind it; of a free place: the next free one.
    fn next(&self) -> Handle;
    /// Before it.
    fn prev(&self) -> Handle;
    /// Puts another one behind it.
    fn set_next(&mut self, next: Handle);
    /// Puts another one before it.
    fn set_prev(&mut self, prev: Handle);
}

/// All nodes of one or more books.
#[derive(Debug)]
pub struct Arena<N> {
    /// Every place that was ever used, and first that of [`Handle::NONE`].
    nodes: Vec<N>,
    free: Handle,
    live: u32,
}

impl<N: Node> Default for Arena<N> {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl<N: Node> Arena<N> {
    /// An empty arena that takes so many nodes without moving them.
    #[must_use]
    pub fn with_room(nodes: usize) -> Self {
        let mut all = Vec::with_capacity(nodes.saturating_add(1));
        all.push(N::default());
        Self { nodes: all, free: Handle::NONE, live: 0 }
    }

    /// Nodes that are in use.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.live
    }

    /// A place for a node, which has whatever was there before: it is written field by field, since a node that is put
    /// together elsewhere and copied is read at another width than it was written, which stalls. The caller keeps within
    /// a capacity below the range of handles.
    #[inline]
    pub fn allocate(&mut self) -> Handle {
        self.live += 1;
        let handle = self.free;
        if handle.is_none() {
            return self.extend();
        }
        self.free = self.get(handle).next();
        handle
    }

    /// A place behind all that were ever used.
    #[inline(never)]
    fn extend(&mut self) -> Handle {
        let place = u32::try_from(self.nodes.len()).expect("the capacity is below the range of handles");
        self.nodes.push(N::default());
        Handle(place)
    }

    /// Gives a node's place back.
    #[inline]
    pub fn release(&mut self, handle: Handle) {
        debug_assert!(handle.is_some(), "only a node is released");
        let free = self.free;
        self.get_mut(handle).set_next(free);
        self.free = handle;
        self.live -= 1;
    }

    /// A node.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, handle: Handle) -> &N {
        &self.nodes[handle.0 as usize]
    }

    /// A node, to write.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle) -> &mut N {
        &mut self.nodes[handle.0 as usize]
    }
}
