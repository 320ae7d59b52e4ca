//! How special orders come into the arena and how any order leaves an instrument that has a special part: out of its queue or
//! list, told to its owner, forgotten. What that means for its group and its children is noted here and done later.

use protocol::{CancelReason, Canceled, Event, ExpireReason, Expired, Price, Quantity, Reduced, RequestId};

use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::Exchange;
use crate::extras::{Extra, Standing, Wait};
use crate::outbox::{EventSink, Outbox};
use crate::waiting::at;

/// Why an order leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Canceled(CancelReason),
    Expired(ExpireReason),
}

impl Exchange {
    /// Takes in an order that is special. It is in no book yet.
    pub(crate) fn admit_special(&mut self, order: Order, extra: Extra, name: Option<Handle>) -> Handle {
        let expires = extra.terms.expire_time().is_some();
        let handle = self.orders.admit(&mut self.sessions, order, name);
        self.orders.attach(handle, extra);
        self.list(handle);
        if expires {
            self.schedule_expiry(handle);
        }
        if extra.tracked.is_some() {
            self.track(handle);
        }
        handle
    }

    /// Puts a special order into the lists of its instrument and of its group and parent.
    pub(crate) fn list(&mut self, handle: Handle) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        let waiting = &mut self.instruments.get_mut(order.instrument).special_mut().waiting;
        let id = order.order_id.0;
        extra.listed_at = waiting.live.len() as u32;
        waiting.live.push(handle);
        if extra.quote {
            waiting.add_quote(order.session, order.side, id, handle);
        }
        if extra.terms.is_empty() {
            return;
        }
        if extra.terms.peg().is_some() {
            waiting.pegs.insert(id, handle);
        }
        waiting.following += u32::from(extra.follows());
        if let Some(number) = extra.terms.oco() {
            self.groups.join(order.session, number, handle);
        }
    }

    /// Takes a special order out of those lists again.
    fn unlist(&mut self, handle: Handle) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle) else { return };
        let (listed_at, quote) = (extra.listed_at, extra.quote);
        let (peg, oco, follows) = (extra.terms.peg(), extra.terms.oco(), extra.follows());
        let waiting = &mut self.instruments.get_mut(order.instrument).special_mut().waiting;
        let id = order.order_id.0;
        waiting.live.swap_remove(listed_at as usize);
        if let Some(moved) = waiting.live.get(listed_at as usize)
            && let Some(moved) = self.orders.extra_mut(*moved)
        {
            moved.listed_at = listed_at;
        }
        if peg.is_some() {
            waiting.pegs.remove(&id);
        }
        waiting.following -= u32::from(follows);
        if quote {
            waiting.remove_quote(order.session, order.side, id);
        }
        if let Some(number) = oco {
            self.groups.leave(order.session, number, handle);
        }
    }

    /// Lets a special order that is in no book wait.
    pub(crate) fn wait(&mut self, handle: Handle, wait: Wait) {
        self.orders.arena.get_mut(handle).price = Price(0);
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        extra.standing = Standing::Waiting(wait);
        let (stop_price, trails) = (extra.stop_price, extra.terms.trail().is_some());
        let (parent, fate) = (extra.terms.parent(), extra.fate);
        let waiting = &mut self.instruments.get_mut(order.instrument).special_mut().waiting;
        let id = order.order_id.0;
        match wait {
            Wait::Stop => {
                if let Some(price) = stop_price {
                    waiting.add_stop(order.side, price, id, handle);
                }
                if trails {
                    waiting.trails.insert(id, handle);
                    waiting.trailed_at = [None; 2];
                }
            }
            Wait::Close => {
                waiting.at_close.insert(id, handle);
            }
            Wait::Parent if fate.is_some() => {
                waiting.ready.insert(id, handle);
            }
            Wait::Parent => {
                if let Some(parent) = parent {
                    self.groups.adopt(order.session, parent, handle);
                }
            }
            Wait::Peg => waiting.looked_at = None,
        }
        self.retrack(handle);
    }

    /// Takes an order out of its queue or list; gives what of it was shown there, and at which price.
    pub(crate) fn unlink(&mut self, handle: Handle) -> Option<(Price, u64)> {
        let order = *self.orders.arena.get(handle);
        self.touch(order.instrument);
        let standing = self.orders.extra(handle).map_or(Standing::Displayed, |extra| extra.standing);
        if matches!(standing, Standing::Displayed | Standing::Hidden) {
            self.sum_out(handle, self.orders.open_quantity(handle));
        }
        let instrument = self.instruments.get_mut(order.instrument);
        let orders = &mut self.orders.arena;
        let shown = match standing {
            Standing::Displayed => {
                self.levels -= u32::from(instrument.book.unlink(orders, handle));
                // The shown part of an iceberg that was used up has left the depth already.
                (order.leaves > 0).then_some((order.price, order.leaves))
            }
            Standing::Hidden => {
                let ladder = &mut instrument.special_mut().hidden[at(order.side)];
                self.levels -= u32::from(book::unlink(ladder, orders, handle));
                None
            }
            Standing::Entering => None,
            Standing::Waiting(wait) => {
                self.stop_waiting(handle, wait);
                None
            }
        };
        if let Some(extra) = self.orders.extra_mut(handle) {
            extra.standing = Standing::Entering;
        }
        shown
    }

    fn stop_waiting(&mut self, handle: Handle, wait: Wait) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle) else { return };
        let (stop_price, parent) = (extra.stop_price, extra.terms.parent());
        let waiting = &mut self.instruments.get_mut(order.instrument).special_mut().waiting;
        let id = order.order_id.0;
        match wait {
            Wait::Stop => {
                if let Some(price) = stop_price {
                    waiting.remove_stop(order.side, price, id);
                }
                waiting.trails.remove(&id);
            }
            Wait::Close => {
                waiting.at_close.remove(&id);
            }
            Wait::Parent => {
                waiting.ready.remove(&id);
                if let Some(parent) = parent {
                    self.groups.abandon(order.session, parent, handle);
                }
            }
            Wait::Peg => {}
        }
    }

    /// Takes an order out of its queue or list, and says so where the depth loses it. It is live and in no book then, with
    /// all its open quantity in one.
    pub(crate) fn withdraw<S: EventSink>(&mut self, handle: Handle, out: &mut Outbox<'_, S>) {
        if let Some((price, quantity)) = self.unlink(handle) {
            self.emit_reduced(handle, price, quantity, true, out);
        }
        let reserve = self.orders.extra_mut(handle).map_or(0, |extra| std::mem::take(&mut extra.reserve));
        self.orders.arena.get_mut(handle).leaves += reserve;
    }

    pub(crate) fn emit_reduced<S: EventSink>(
        &self,
        handle: Handle,
        price: Price,
        quantity: u64,
        gone: bool,
        out: &mut Outbox<'_, S>,
    ) {
        let order = self.orders.arena.get(handle);
        out.emit(Event::Reduced(Reduced {
            order_id: order.order_id,
            price,
            quantity: Quantity(quantity),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            side: order.side,
            gone,
        }));
    }

    /// Cancels a live order wherever it is.
    #[inline(never)]
    pub(crate) fn finish_canceled<S: EventSink>(
        &mut self,
        handle: Handle,
        reason: CancelReason,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        if !self.cancel_quietly(handle, reason, request_id, out) {
            self.finish(handle, End::Canceled(reason), request_id, out);
        }
    }

    /// Lets a live order expire wherever it is.
    #[inline(never)]
    pub(crate) fn finish_expired<S: EventSink>(
        &mut self,
        handle: Handle,
        reason: ExpireReason,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        self.finish(handle, End::Expired(reason), request_id, out);
    }

    fn finish<S: EventSink>(
        &mut self,
        handle: Handle,
        end: End,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        let is_iceberg = self.orders.extra(handle).is_some_and(|extra| extra.terms.display().is_some());
        // A child that waits is no member of its group yet.
        let is_member = !self.orders.extra(handle).is_some_and(Extra::is_child);
        let left = Quantity(self.orders.open_quantity(handle));
        let mut shown = self.unlink(handle);
        if is_iceberg && let Some((price, quantity)) = shown.take() {
            self.emit_reduced(handle, price, quantity, true, out);
        }
        let order = *self.orders.arena.get(handle);
        let resting_price = shown.map(|(price, _)| price);
        let to = self.sessions.report(order.session);
        let instrument = self.instruments.get(order.instrument).definition.instrument;
        let (order_id, client_order_id) = (order.order_id, order.client_order_id);
        let (cum_quantity, account, side) = (Quantity(order.cum), order.account, order.side);
        out.emit(match end {
            End::Canceled(reason) => Event::Canceled(Canceled {
                to,
                request_id,
                order_id,
                client_order_id,
                resting_price,
                canceled_quantity: left,
                cum_quantity,
                instrument,
                account,
                side,
                reason,
            }),
            End::Expired(reason) => Event::Expired(Expired {
                to,
                request_id,
                order_id,
                client_order_id,
                resting_price,
                expired_quantity: left,
                cum_quantity,
                instrument,
                account,
                side,
                reason,
            }),
        });
        if is_member {
            self.note_in_group(handle);
        }
        self.retire(handle, false);
    }

    /// Forgets an order that is out of its book, and notes what follows for its children.
    pub(crate) fn retire(&mut self, handle: Handle, filled: bool) {
        let order = *self.orders.arena.get(handle);
        if order.special {
            if self.orders.extra(handle).is_some_and(|extra| extra.terms.expire_time().is_some()) {
                self.forget_expiry(handle);
            }
            if self.orders.extra(handle).is_some_and(|extra| extra.tracked.is_some()) {
                self.untrack(handle);
            }
            self.parent_ends(&order, filled);
            self.forget_special(handle);
        } else {
            self.orders.retire(&mut self.sessions, handle);
        }
    }

    /// Forgets a special order that is out of its book, and that nothing follows any more.
    pub(crate) fn forget_special(&mut self, handle: Handle) {
        self.unlist(handle);
        let place = self.orders.arena.links(handle).extra;
        self.orders.extras.remove(place);
        self.orders.retire(&mut self.sessions, handle);
    }
}
