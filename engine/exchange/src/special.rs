//! What an instrument has beyond a plain book, made when the first thing comes that needs it and kept for good; and the
//! choice between the plain path, which knows nothing of it, and the general one, which knows everything.

use protocol::{Allocation, Indicative, InstrumentDefinition, InstrumentRules, Price, Side, TickTable};

use crate::auction::Sums;
use crate::book::Levels;
use crate::exchange::Exchange;
use crate::instruments::Instrument;
use crate::schedule::Schedule;
use crate::settling::Settling;
use crate::waiting::Waiting;

/// The part of an instrument that plain orders never touch.
#[derive(Debug)]
pub(crate) struct Special {
    /// How it trades and settles.
    pub(crate) rules: InstrumentRules,
    /// What follows from definition, rules and currencies: [`Exchange::set_rules`] changes both.
    pub(crate) settling: Settling,
    /// Tick sizes by price.
    pub(crate) ticks: TickTable,
    /// What bands, collars and auctions are measured from: the last uncross price, or what an operator set since.
    pub(crate) reference: Option<Price>,
    /// What an operator set positions to be valued at; without it the last trade's price is.
    pub(crate) mark: Option<Price>,
    /// What is open at each price, while an auction is on.
    pub(crate) sums: Option<Box<Sums>>,
    /// Queues of hidden orders, bids and asks.
    pub(crate) hidden: [Levels; 2],
    /// Lists of its special orders.
    pub(crate) waiting: Waiting,
    /// Its changes of phase to come.
    pub(crate) schedule: Schedule,
    /// What was told last of the uncross of the auction that is on; `None`: that nothing would trade.
    pub(crate) told: Option<Indicative>,
}

impl Special {
    fn new(definition: &InstrumentDefinition) -> Self {
        Self {
            rules: InstrumentRules::default(),
            settling: Settling::none(definition),
            ticks: TickTable::default(),
            reference: None,
            mark: None,
            sums: None,
            hidden: Default::default(),
            waiting: Waiting::default(),
            schedule: Schedule::default(),
            told: None,
        }
    }
}

impl Instrument {
    /// How incoming quantity is shared out at one price.
    pub(crate) fn allocation(&self) -> Allocation {
        self.special.as_ref().map_or(Allocation::PriceTime, |special| special.rules.allocation)
    }

    /// Whether any order of it is live.
    pub(crate) fn has_orders(&self) -> bool {
        [Side::Buy, Side::Sell].into_iter().any(|side| self.book.side(side).best_key().is_some())
            || self.special.as_ref().is_some_and(|special| !special.waiting.live.is_empty())
    }

    /// Its special part, made where there was none.
    pub(crate) fn special_mut(&mut self) -> &mut Special {
        self.special.get_or_insert_with(|| Box::new(Special::new(&self.definition)))
    }
}

impl Exchange {
    /// The lists of an instrument's special orders.
    pub(crate) fn waiting_mut(&mut self, place: u32) -> &mut Waiting {
        &mut self.instruments.get_mut(place).special_mut().waiting
    }

    /// Whether an order of version 1 of the rules takes the plain path: its instrument has nothing special, and nothing but
    /// its own terms bounds what its session may do.
    #[inline(always)]
    pub(crate) fn is_plain(&self, session: u32, place: u32) -> bool {
        self.instruments.get(place).special.is_none()
            && !self.sessions.get(session).controlled
            && !self.venue_killed
    }
}
