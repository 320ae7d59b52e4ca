//! Conservation, counted from the reports alone: what was ordered was executed, taken back, or still rests; what one side
//! bought the other sold; and no session's report numbers have a gap.

use std::collections::BTreeMap;

use protocol::{Event, OrderId, Quantity, RestateReason, SessionId, Side};

use exchange::OrderView;

#[derive(Clone, Copy, Debug)]
struct Line {
    total: u64,
    executed: u64,
}

/// The account of all live orders.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    live: BTreeMap<OrderId, Line>,
    numbers: BTreeMap<SessionId, u64>,
    bought: u128,
    sold: u128,
    traded: u128,
}

impl Ledger {
    /// Takes in the events of one command.
    ///
    /// # Errors
    /// The first thing that does not add up.
    pub fn take<'a>(&mut self, events: impl Iterator<Item = &'a Event>) -> Result<(), String> {
        for event in events {
            self.check_number(event)?;
            self.enter(event).map_err(|what| format!("{what}: {event:?}"))?;
        }
        if self.bought != self.sold || self.bought != self.traded {
            return Err(format!("bought {}, sold {}, traded {}", self.bought, self.sold, self.traded));
        }
        Ok(())
    }

    /// Compares what the reports amount to with what rests.
    ///
    /// # Errors
    /// The first order that differs.
    pub fn check<'a>(&self, resting: impl Iterator<Item = &'a OrderView>) -> Result<(), String> {
        let mut count = 0;
        for order in resting {
            count += 1;
            let line = self.live.get(&order.order_id).ok_or("an order rests that was never accepted")?;
            if (line.executed, line.total - line.executed) != (order.cum_quantity.0, order.leaves_quantity.0)
            {
                return Err(format!("{order:?} rests, but its reports amount to {line:?}"));
            }
        }
        if count != self.live.len() {
            return Err(format!("{count} orders rest, by their reports {} are live", self.live.len()));
        }
        Ok(())
    }

    fn check_number(&mut self, event: &Event) -> Result<(), String> {
        if let Event::DayStarted(_) = event {
            self.numbers.clear();
        }
        if let Some(to) = event.recipient() {
            let last = self.numbers.entry(to.session).or_default();
            *last += 1;
            if to.number.0 != *last {
                return Err(format!("report number {} where {last} is due: {event:?}", to.number));
            }
        }
        Ok(())
    }

    fn enter(&mut self, event: &Event) -> Result<(), &'static str> {
        match event {
            Event::Accepted(e) => {
                let line = Line { total: e.quantity.0, executed: 0 };
                match self.live.insert(e.order_id, line) {
                    None => Ok(()),
                    Some(_) => Err("an order id comes twice"),
                }
            }
            Event::Executed(e) => {
                *(if e.side == Side::Buy { &mut self.bought } else { &mut self.sold }) +=
                    u128::from(e.last_quantity.0);
                let line = self.live.get_mut(&e.order_id).ok_or("the order is not live")?;
                line.executed += e.last_quantity.0;
                if e.cum_quantity.0 != line.executed
                    || e.cum_quantity.0.checked_add(e.leaves_quantity.0) != Some(line.total)
                {
                    return Err("executed and left are not what was ordered");
                }
                if e.leaves_quantity.0 == 0 {
                    self.live.remove(&e.order_id);
                }
                Ok(())
            }
            Event::Trade(e) => {
                self.traded += u128::from(e.quantity.0);
                Ok(())
            }
            Event::Canceled(e) => self.leave(e.order_id, e.canceled_quantity, e.cum_quantity),
            Event::Expired(e) => self.leave(e.order_id, e.expired_quantity, e.cum_quantity),
            Event::Replaced(e) => {
                let line = self.live.get_mut(&e.order_id).ok_or("the order is not live")?;
                line.total = e.quantity.0;
                if e.cum_quantity.0 == line.executed && line.total > line.executed {
                    Ok(())
                } else {
                    Err("the replaced order's quantities are wrong")
                }
            }
            Event::Restated(e) => {
                let line = self.live.get_mut(&e.order_id).ok_or("the order is not live")?;
                let shrinks = matches!(e.reason, RestateReason::Decremented | RestateReason::Resized);
                let total = e.leaves_quantity.0 + e.cum_quantity.0;
                if e.cum_quantity.0 != line.executed
                    || e.leaves_quantity.0 == 0
                    || (total < line.total) != shrinks
                    || total > line.total
                {
                    return Err("the restated order's quantities are wrong");
                }
                line.total = total;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn leave(&mut self, order: OrderId, left: Quantity, cum: Quantity) -> Result<(), &'static str> {
        let line = self.live.remove(&order).ok_or("the order is not live")?;
        if line.executed == cum.0 && line.total - line.executed == left.0 {
            Ok(())
        } else {
            Err("what left is not what was left")
        }
    }
}
