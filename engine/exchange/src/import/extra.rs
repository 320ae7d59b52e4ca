//! Import of special orders: what they have beyond their lines, and the queues and lists in which they stand.

use protocol::{
    ClientOrderId, OrderKey, OrderType, Peg, PegReference, Price, Quantity, SelfTrade, SelfTradeAction,
    Terms, Timestamp,
};

use super::{ImportError, accounts};
use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::Exchange;
use crate::extras::{Extra, Fate, Standing, Wait};
use crate::record::ExtraRecord;
use crate::tracking::Tracked;
use crate::waiting::at;

/// The extra of a record, with the account's place, if there is such an account.
pub(super) fn extra_of(record: &ExtraRecord, account: Option<u32>) -> Result<Extra, ImportError> {
    let field = ImportError::Field;
    let standing = match record.standing {
        1 => Standing::Displayed,
        2 => Standing::Hidden,
        3 => Standing::Waiting(Wait::Stop),
        4 => Standing::Waiting(Wait::Close),
        5 => Standing::Waiting(Wait::Parent),
        6 => Standing::Waiting(Wait::Peg),
        _ => return Err(field("standing")),
    };
    let peg = match record.peg_reference {
        None => None,
        Some(byte) => Some(Peg {
            reference: PegReference::from_byte(byte).ok_or(field("peg"))?,
            offset: record.peg_offset,
        }),
    };
    let self_trade = match record.self_trade_action {
        None => None,
        Some(byte) => Some(SelfTrade {
            group: record.self_trade_group,
            action: SelfTradeAction::from_byte(byte).ok_or(field("self-trade action"))?,
        }),
    };
    let tracked = match &record.tracked {
        None => None,
        Some(rates) => {
            let account = account.ok_or(ImportError::Unknown("account"))?;
            Some(Tracked { fees: accounts::rates(rates)?, ..Tracked::new(account) })
        }
    };
    let terms = Terms::default()
        .with_stop_price(record.stop_price.map(Price))
        .with_trail(record.trail)
        .with_display(record.display.map(Quantity))
        .with_display_high(record.display_high.map(Quantity))
        .with_expire_time(record.expire_time.map(Timestamp))
        .with_minimum(record.minimum.map(Quantity))
        .with_peg(peg)
        .with_self_trade(self_trade)
        .with_oco(record.oco)
        .with_parent(record.parent.map(ClientOrderId));
    let extra = Extra {
        terms,
        order_type: OrderType::from_byte(record.order_type).ok_or(field("order type"))?,
        standing,
        limit: record.limit.map(Price),
        reserve: record.reserve,
        refills: record.refills,
        stop_price: record.stop_now.map(Price),
        minimum: record.minimum_now.map(Quantity),
        listed_at: 0,
        quote: record.quote,
        fate: record.parent_executed.map(|executed| Fate { executed, filled: record.parent_filled }),
        tracked,
    };
    let has_what_it_waits_for = match standing {
        Standing::Waiting(Wait::Stop) => extra.stop_price.is_some(),
        Standing::Waiting(Wait::Parent) => terms.parent().is_some(),
        Standing::Waiting(Wait::Peg) => peg.is_some(),
        _ => extra.stop_price.is_none(),
    };
    let is_behind = extra.reserve == 0 || standing == Standing::Displayed && terms.display().is_some();
    if has_what_it_waits_for && is_behind { Ok(extra) } else { Err(field("standing")) }
}

impl Exchange {
    /// Takes in a special order where it stood.
    pub(super) fn import_order(&mut self, order: Order, extra: Extra) -> Handle {
        let handle = self.orders.admit_unlisted(order);
        self.orders.attach(handle, extra);
        self.list(handle);
        if extra.terms.expire_time().is_some() {
            self.schedule_expiry(handle);
        }
        let instrument = self.instruments.get_mut(order.instrument);
        let orders = &mut self.orders.arena;
        match extra.standing {
            Standing::Displayed => self.levels += u32::from(instrument.book.append(orders, handle)),
            Standing::Hidden => {
                let ladder = &mut instrument.special_mut().hidden[at(order.side)];
                self.levels += u32::from(book::append(ladder, orders, handle));
            }
            Standing::Waiting(wait) => self.wait(handle, wait),
            Standing::Entering => {}
        }
        if extra.tracked.is_some() {
            self.count(handle);
        }
        handle
    }

    /// Children that wait have a parent, or know what became of it.
    pub(super) fn check_parents(&self) -> Result<(), ImportError> {
        for (session, parent) in self.groups.parents() {
            if self.orders.find(session, &OrderKey::Id(parent)).is_none() {
                return Err(ImportError::Unknown("parent"));
            }
        }
        Ok(())
    }
}
