//! The depth stage: price levels, phase and indicative price of each instrument, for queries. It must not wait for a reader, or show one the book
//! in the middle of a command.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use exchange::Exchange;
use protocol::{
    DepthLevel, DepthSnapshot, Event, Indicative, InstrumentId, Liquidity, MarketState, Output, Phase, Price,
    Quantity, Sequence, Side,
};
use ring::{OutputPoller, Polled, Stage, WakeSet, Work};

use super::levels::{Level, Levels};
use super::{STEP_EVENTS_MAX, whole_up_to};
use crate::control::{Control, Course};
use crate::ids::IdHasher;
use crate::marks::Shared;

#[derive(Debug)]
struct Book {
    bids: Levels,
    asks: Levels,
    state: MarketState,
}

impl Default for Book {
    /// That of an instrument which was just defined.
    fn default() -> Self {
        let state = MarketState { phase: Phase::Continuous, indicative: None };
        Self { bids: Levels::new(Side::Buy), asks: Levels::new(Side::Sell), state }
    }
}

/// One event's effect on how an instrument trades. These are rare, and so not among the levels' deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Phase(InstrumentId, Phase),
    Indicative(Indicative),
}

/// All instruments, as of a whole command.
#[derive(Debug, Default)]
struct Books {
    by_instrument: HashMap<InstrumentId, Book, IdHasher>,
    sequence: Sequence,
}

/// One event's effect on a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// An order with this quantity comes to rest.
    Enter,
    /// This quantity goes, the order stays.
    Shrink,
    /// This quantity goes, and the order with it.
    Leave,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delta {
    instrument: InstrumentId,
    price: Price,
    quantity: Quantity,
    side: Side,
    change: Change,
}

impl Delta {
    /// What an event does to the book; `None` where it does nothing to it.
    fn of(event: &Event) -> Option<Self> {
        Some(match event {
            Event::Added(e) => Self {
                instrument: e.instrument,
                price: e.price,
                quantity: e.quantity,
                side: e.side,
                change: Change::Enter,
            },
            Event::Executed(e) if e.liquidity == Liquidity::Maker => Self {
                instrument: e.instrument,
                price: e.last_price,
                quantity: e.last_quantity,
                side: e.side,
                change: if e.leaves_quantity.0 == 0 { Change::Leave } else { Change::Shrink },
            },
            Event::Canceled(e) => Self {
                instrument: e.instrument,
                price: e.resting_price?,
                quantity: e.canceled_quantity,
                side: e.side,
                change: Change::Leave,
            },
            Event::Expired(e) => Self {
                instrument: e.instrument,
                price: e.resting_price?,
                quantity: e.expired_quantity,
                side: e.side,
                change: Change::Leave,
            },
            Event::Reduced(e) => Self {
                instrument: e.instrument,
                price: e.price,
                quantity: e.quantity,
                side: e.side,
                change: if e.gone { Change::Leave } else { Change::Shrink },
            },
            _ => return None,
        })
    }
}

impl Books {
    /// The levels of a recovered exchange.
    fn of(exchange: &Exchange) -> Self {
        let mut books = Self { sequence: exchange.sequence(), ..Self::default() };
        for (definition, _) in exchange.instruments() {
            let id = definition.instrument;
            let Some(depth) = exchange.depth(id, usize::MAX) else { continue };
            let mut book = Book::default();
            book.state = depth.state.unwrap_or(book.state);
            for (levels, side) in [(&mut book.bids, &depth.bids), (&mut book.asks, &depth.asks)] {
                for at in side {
                    *levels.entry(at.price) = Level { quantity: at.quantity.0.into(), orders: at.orders };
                }
            }
            books.by_instrument.insert(id, book);
        }
        books
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            // Nothing is known of what an uncross would do in the new phase until it is told.
            Turn::Phase(id, phase) => {
                self.by_instrument.entry(id).or_default().state = MarketState { phase, indicative: None };
            }
            Turn::Indicative(told) => {
                let book = self.by_instrument.entry(told.instrument).or_default();
                book.state.indicative = told.price.is_some().then_some(told);
            }
        }
    }

    #[inline]
    fn apply(&mut self, delta: &Delta) {
        let book = self.by_instrument.entry(delta.instrument).or_default();
        let levels = match delta.side {
            Side::Buy => &mut book.bids,
            Side::Sell => &mut book.asks,
        };
        let quantity = u128::from(delta.quantity.0);
        if delta.change == Change::Enter {
            let level = levels.entry(delta.price);
            level.quantity += quantity;
            level.orders += 1;
            return;
        }
        let Some(level) = levels.get_mut(delta.price) else {
            unreachable!("{delta:?} is at a level without orders");
        };
        assert!(level.quantity >= quantity && level.orders > 0, "{delta:?} takes more than {level:?} has");
        level.quantity -= quantity;
        if delta.change == Change::Leave {
            level.orders -= 1;
            if level.orders == 0 {
                assert_eq!(level.quantity, 0, "quantity without orders after {delta:?}");
                levels.remove(delta.price);
            }
        }
    }

    fn snapshot(&self, instrument: InstrumentId, levels: usize) -> Option<DepthSnapshot> {
        let book = self.by_instrument.get(&instrument)?;
        let level = |(price, level): (Price, &Level)| DepthLevel {
            price,
            quantity: Quantity(u64::try_from(level.quantity).unwrap_or(u64::MAX)),
            orders: level.orders,
        };
        Some(DepthSnapshot {
            instrument,
            sequence: self.sequence,
            bids: book.bids.best_first().take(levels).map(level).collect(),
            asks: book.asks.best_first().take(levels).map(level).collect(),
            state: Some(book.state),
        })
    }
}

#[derive(Debug)]
struct View {
    books: Mutex<Books>,
    // The stage's thread: it steps back where a query holds the books, and must hear when it no longer does.
    stage: WakeSet,
}

/// The depth of every instrument, for queries from any thread.
#[derive(Clone, Debug)]
pub struct DepthView(Arc<View>);

impl DepthView {
    /// A view of what a recovered exchange holds; `stage` wakes the thread of the stage that keeps it up.
    pub(crate) fn of(exchange: &Exchange, stage: WakeSet) -> Self {
        Self(Arc::new(View { books: Mutex::new(Books::of(exchange)), stage }))
    }

    /// The best `levels` levels of both sides, as of the sequence that the answer names; `None` where there is no such
    /// instrument. May wait for the stage to finish a step (tens of microseconds); the stage never waits for it.
    #[must_use]
    pub fn snapshot(&self, instrument: InstrumentId, levels: usize) -> Option<DepthSnapshot> {
        let answer = self.0.books.lock().unwrap_or_else(PoisonError::into_inner).snapshot(instrument, levels);
        self.0.stage.wake();
        answer
    }

    /// The last frame whose effects every answer includes.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        let sequence = self.0.books.lock().unwrap_or_else(PoisonError::into_inner).sequence;
        self.0.stage.wake();
        sequence
    }

    /// The books, where no query has them just now.
    fn try_lock(&self) -> Option<MutexGuard<'_, Books>> {
        match self.0.books.try_lock() {
            Ok(books) => Some(books),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Keeps a [`DepthView`] up to date, a whole command at a time.
pub(crate) struct Depth {
    poller: OutputPoller<Output>,
    view: DepthView,
    /// What the command of `open` has done to the books so far; at most what one command emits.
    deltas: Vec<Delta>,
    /// What happened to phases since the books were brought up to date; at most what the commands of one poll emit.
    turns: Vec<Turn>,
    /// The last command seen, whose events may not all have been seen.
    open: Sequence,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Depth {
    pub(crate) fn new(
        poller: OutputPoller<Output>,
        view: DepthView,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let open = view.sequence();
        Self { poller, view, deltas: Vec::new(), turns: Vec::new(), open, shared, control }
    }
}

/// Brings a command's changes into the books.
fn close(books: &mut Books, deltas: &mut Vec<Delta>, turns: &mut Vec<Turn>, sequence: Sequence) {
    // A `drain` costs dozens of instructions where there is nothing, which is nearly always.
    deltas.iter().for_each(|delta| books.apply(delta));
    deltas.clear();
    turns.iter().for_each(|turn| books.turn(*turn));
    turns.clear();
    // Commands without events may have brought it further than the last one with events.
    books.sequence = books.sequence.max(sequence);
}

impl Stage for Depth {
    fn name(&self) -> &'static str {
        "depth"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        let Self { poller, view, deltas, turns, open, shared, .. } = self;
        let Some(mut books) = view.try_lock() else { return Work::Idle };
        // Read before the poll: all events up to here are in the ring by now.
        let published = shared.marks.published_sequence();
        let polled = poller.poll_slices(STEP_EVENTS_MAX, |slices| {
            let Some(last) = slices.iter().rev().find_map(|slice| slice.last()) else { return };
            for output in slices.into_iter().flatten() {
                if output.sequence != *open {
                    close(&mut books, deltas, turns, *open);
                    *open = output.sequence;
                }
                match &output.event {
                    Event::InstrumentDefined(definition) => {
                        books.by_instrument.entry(definition.instrument).or_default();
                    }
                    Event::PhaseChanged(id, phase) => turns.push(Turn::Phase(*id, *phase)),
                    Event::Indicative(told) => turns.push(Turn::Indicative(*told)),
                    _ => {}
                }
                let delta = Delta::of(&output.event);
                if output.sequence == last.sequence {
                    // There may be more to come of this command, which has to be seen with it.
                    deltas.extend(delta);
                } else {
                    deltas.iter().chain(&delta).for_each(|delta| books.apply(delta));
                    deltas.clear();
                }
            }
        });
        let whole = whole_up_to(polled, *open, published);
        if whole >= *open && (!deltas.is_empty() || !turns.is_empty() || whole > books.sequence) {
            close(&mut books, deltas, turns, whole);
        }
        match polled {
            Polled::Work(events) => Work::Done(events),
            Polled::Idle => Work::Idle,
            Polled::Shutdown => Work::Finished,
        }
    }
}
