//! Orders that depend on each other: one-cancels-the-other groups, and children that wait for their parent. What a trade
//! or an end means for others is noted when it happens and done when the effect is over.

use std::collections::BTreeMap;

use protocol::{CancelReason, ClientOrderId, OrderId, RejectReason, RequestId, RestateReason};

use crate::arena::{Handle, Order};
use crate::exchange::Exchange;
use crate::extras::{Extra, Fate, Standing, Wait};
use crate::outbox::{EventSink, Outbox};

/// Most live orders of a group, and most children of an order.
pub(crate) const GROUP_MAX: usize = 16;

/// All groups and brackets.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// Live orders by session's place and group number, children that wait included.
    members: BTreeMap<(u32, u64), Vec<Handle>>,
    /// Children that wait, by session's place and client order id of the parent.
    children: BTreeMap<(u32, ClientOrderId), Vec<Handle>>,
    /// Groups of which an order traded or ended, in that order, with the first order that did. Empty between two steps.
    due: Vec<(u32, u64, OrderId)>,
}

fn take_out<K: Ord>(lists: &mut BTreeMap<K, Vec<Handle>>, key: &K, handle: Handle) {
    if let Some(list) = lists.get_mut(key) {
        list.retain(|other| *other != handle);
        if list.is_empty() {
            lists.remove(key);
        }
    }
}

impl Groups {
    pub(crate) fn join(&mut self, session: u32, number: u64, handle: Handle) {
        self.members.entry((session, number)).or_default().push(handle);
    }

    pub(crate) fn leave(&mut self, session: u32, number: u64, handle: Handle) {
        take_out(&mut self.members, &(session, number), handle);
    }

    pub(crate) fn adopt(&mut self, session: u32, parent: ClientOrderId, child: Handle) {
        self.children.entry((session, parent)).or_default().push(child);
    }

    /// Whether any order waits for its parent.
    pub(crate) fn has_children(&self) -> bool {
        !self.children.is_empty()
    }

    /// Parents of waiting children, by session's place.
    pub(crate) fn parents(&self) -> impl Iterator<Item = (u32, ClientOrderId)> {
        self.children.keys().copied()
    }

    pub(crate) fn abandon(&mut self, session: u32, parent: ClientOrderId, child: Handle) {
        take_out(&mut self.children, &(session, parent), child);
    }
}

impl Exchange {
    /// Checks the parent and the group that a new order names.
    pub(crate) fn check_groups(
        &self,
        session: u32,
        place: u32,
        parent: Option<ClientOrderId>,
        oco: Option<u64>,
    ) -> Result<Option<Handle>, RejectReason> {
        let full = |list: Option<&Vec<Handle>>| list.is_some_and(|list| list.len() >= GROUP_MAX);
        let parent = match parent {
            None => None,
            Some(id) => {
                let found = self.orders.find(session, &protocol::OrderKey::Id(id));
                let found = found.filter(|parent| self.orders.arena.get(*parent).instrument == place);
                let found = found.ok_or(RejectReason::UnknownParent)?;
                if full(self.groups.children.get(&(session, id))) {
                    return Err(RejectReason::GroupFull);
                }
                Some(found)
            }
        };
        let active = |handle: &&Handle| self.orders.extra(**handle).is_some_and(|extra| !extra.is_child());
        let members = oco.filter(|_| parent.is_none());
        let members = members.and_then(|number| self.groups.members.get(&(session, number)));
        if members.is_some_and(|members| members.iter().filter(active).count() >= GROUP_MAX) {
            return Err(RejectReason::GroupFull);
        }
        Ok(parent)
    }

    /// Makes an order that is to be a parent a special one, so that its end is seen.
    pub(crate) fn make_parent(&mut self, handle: Handle) {
        let order = *self.orders.arena.get(handle);
        if !order.special {
            let limit = Some(order.price);
            let extra = Extra::new(protocol::Terms::default(), protocol::OrderType::Limit, limit);
            self.orders.attach(handle, Extra { standing: Standing::Displayed, ..extra });
            self.list(handle);
        }
    }

    /// An order traded or ends: the others of its group are due, unless one of them did so before.
    pub(crate) fn note_in_group(&mut self, handle: Handle) {
        let Some(extra) = self.orders.extra(handle) else { return };
        let Some(number) = extra.terms.oco().filter(|_| !extra.is_child()) else { return };
        let order = self.orders.arena.get(handle);
        let due = &mut self.groups.due;
        if !due.iter().any(|(session, noted, _)| (*session, *noted) == (order.session, number)) {
            due.push((order.session, number, order.order_id));
        }
    }

    /// A parent is done: its children's turn comes.
    pub(crate) fn parent_ends(&mut self, parent: &Order, filled: bool) {
        let key = (parent.session, parent.client_order_id);
        let Some(children) = self.groups.children.remove(&key) else { return };
        self.touch(parent.instrument);
        for child in children {
            if let Some(extra) = self.orders.extra_mut(child) {
                extra.fate = Some(Fate { executed: parent.cum, filled });
            }
            let id = self.orders.arena.get(child).order_id.0;
            self.instruments.get_mut(parent.instrument).special_mut().waiting.ready.insert(id, child);
        }
    }

    /// Cancels what is due of all groups: all members but the one that traded or ended first. What is canceled so means
    /// nothing to its group.
    pub(crate) fn cancel_groups<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        let mut at = 0;
        while let Some(&(session, number, first)) = self.groups.due.get(at) {
            at += 1;
            let members = self.groups.members.get(&(session, number));
            let mut others: Vec<(OrderId, Handle)> = members
                .into_iter()
                .flatten()
                .map(|handle| (self.orders.arena.get(*handle).order_id, *handle))
                .collect();
            others.sort_unstable_by_key(|(id, _)| *id);
            for (id, handle) in others {
                if id != first && self.orders.extra(handle).is_some_and(|extra| !extra.is_child()) {
                    self.finish_canceled(handle, CancelReason::Group, RequestId(0), out);
                }
            }
        }
        self.groups.due.clear();
    }

    /// Lets the children whose parents are done come in, or cancels them where the parent executed nothing: those of them that
    /// are so at the beginning, by order id; others come in the next round.
    pub(crate) fn activate_children<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) -> bool {
        let Some(special) = self.instruments.get(place).special.as_ref() else { return false };
        if special.waiting.ready.is_empty() {
            return false;
        }
        let ready: Vec<(u64, Handle)> =
            special.waiting.ready.iter().map(|(&id, &child)| (id, child)).collect();
        let mut did = false;
        for (id, child) in ready {
            let special = self.instruments.get(place).special.as_ref();
            let waits = special.is_some_and(|special| special.waiting.ready.get(&id) == Some(&child));
            if waits && self.is_continuous(place) {
                if !self.may_cascade(place) {
                    break;
                }
                did = true;
                self.activate(child, out);
            }
        }
        did
    }

    fn activate<S: EventSink>(&mut self, child: Handle, out: &mut Outbox<'_, S>) {
        let fate = self.orders.extra(child).and_then(|extra| extra.fate);
        let Some(fate) = fate.filter(|fate| fate.executed > 0) else {
            self.finish_canceled(child, CancelReason::Group, RequestId(0), out);
            return;
        };
        self.withdraw(child, out);
        let order = *self.orders.arena.get(child);
        if !fate.filled && fate.executed < order.leaves {
            self.orders.arena.get_mut(child).leaves = fate.executed;
            self.retrack(child);
            let price = self.told_price(child);
            self.restate(child, (price, fate.executed), RestateReason::Resized, out);
        }
        if self.orders.extra(child).is_some_and(|extra| extra.stop_price.is_some()) {
            return self.wait(child, Wait::Stop);
        }
        self.enter(child, RequestId(0), out);
    }
}
