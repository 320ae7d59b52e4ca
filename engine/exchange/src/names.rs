//! Text client order ids of the trading day: each may be used once by its session, and the current one of a live order
//! names it.

use ::book::{Index, KeyHash};
use protocol::{ClOrdId, RejectReason, StreamHash};

use crate::arena::Handle;

/// A text id that was used today.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    /// Place of the session.
    pub(crate) session: u32,
    /// The live order whose current text id it is.
    pub(crate) order: Handle,
    pub(crate) text: ClOrdId,
}

/// All text ids used today, in the order of their use.
#[derive(Debug)]
pub(crate) struct Names {
    used: Vec<Name>,
    index: Index,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self { used: Vec::new(), index: Index::default() }
    }

    /// How many were used today.
    pub(crate) fn len(&self) -> u32 {
        self.used.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Name> {
        self.used.iter()
    }

    pub(crate) fn get(&self, name: Handle) -> &Name {
        &self.used[name.raw() as usize - 1]
    }

    pub(crate) fn get_mut(&mut self, name: Handle) -> &mut Name {
        &mut self.used[name.raw() as usize - 1]
    }

    /// Uses an id up.
    ///
    /// # Errors
    /// The session used it before today, or as many are used as `capacity` allows.
    pub(crate) fn claim(
        &mut self,
        session: u32,
        text: &ClOrdId,
        capacity: u32,
    ) -> Result<Handle, RejectReason> {
        if self.find(session, text).is_some() {
            return Err(RejectReason::DuplicateClOrdId);
        }
        if self.len() >= capacity {
            return Err(RejectReason::IdsFull);
        }
        let name = Handle::new(self.len() + 1);
        self.used.push(Name { session, order: Handle::NONE, text: *text });
        self.index.insert(hash(session, text), name);
        Ok(name)
    }

    /// The id, where the session used it today.
    pub(crate) fn find(&self, session: u32, text: &ClOrdId) -> Option<Handle> {
        self.index.find(hash(session, text), |name| {
            let name = self.get(name);
            name.session == session && name.text == *text
        })
    }

    /// A new trading day: none was used.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

fn hash(session: u32, text: &ClOrdId) -> KeyHash {
    let mut hash = StreamHash::default();
    hash.word(session.into());
    hash.bytes(text.as_bytes());
    KeyHash(hash.value())
}
