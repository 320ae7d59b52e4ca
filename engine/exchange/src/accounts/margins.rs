//! What the margin positions of an account add up to in each currency, kept so that an order need not visit them all.
//!
//! A position's part follows from the position, the instrument's rules and its mark price. Whatever changes the position
//! counts it anew at once. Mark prices change with every trade, for everybody who has a position there; so an account only
//! catches up with the changes since it was last looked at, or visits all of its positions where that is less.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound::{Excluded, Unbounded};
use std::ops::Range;

use protocol::{Currency, InstrumentId};

/// Changes that are remembered of a currency.
const CHANGES_MAX: usize = 1024;

/// An account's margin in a currency, or the part that one position has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Margin {
    /// Positions at their mark prices less their costs.
    pub(crate) unrealised: i128,
    pub(crate) required: i128,
    pub(crate) maintenance: i128,
}

impl Margin {
    pub(crate) fn add(&mut self, part: Self) {
        self.unrealised = self.unrealised.saturating_add(part.unrealised);
        self.required = self.required.saturating_add(part.required);
        self.maintenance = self.maintenance.saturating_add(part.maintenance);
    }

    fn take(&mut self, part: Self) {
        self.unrealised = self.unrealised.saturating_sub(part.unrealised);
        self.required = self.required.saturating_sub(part.required);
        self.maintenance = self.maintenance.saturating_sub(part.maintenance);
    }
}

/// Mark prices of a currency's margin instruments, as they change.
#[derive(Debug, Default)]
struct Changes {
    /// Places of the last instruments whose mark changed, oldest first.
    places: VecDeque<u32>,
    /// How many changes there were.
    count: u64,
    /// Nobody caught up with the last one.
    unread: bool,
}

impl Changes {
    /// How many of the changes are not remembered any more.
    fn forgotten(&self) -> u64 {
        self.count - self.places.len() as u64
    }
}

/// Changes of mark prices by currency. They follow from what happens and are no state of their own.
#[derive(Debug, Default)]
pub(crate) struct Marks(BTreeMap<Currency, Changes>);

impl Marks {
    /// The mark price of an instrument is, or may be, another one.
    pub(crate) fn note(&mut self, currency: Currency, place: u32) {
        let changes = self.0.entry(currency).or_default();
        if changes.unread && changes.places.back() == Some(&place) {
            return;
        }
        if changes.places.len() >= CHANGES_MAX {
            changes.places.pop_front();
        }
        changes.places.push_back(place);
        changes.count += 1;
        changes.unread = true;
    }

    /// Whatever was kept of the currency is of no use any more.
    pub(crate) fn forget(&mut self, currency: Currency) {
        let changes = self.0.entry(currency).or_default();
        changes.places.clear();
        changes.count += 1;
    }

    /// The instrument of a change, where it is remembered.
    pub(crate) fn place(&self, currency: Currency, number: u64) -> Option<u32> {
        let changes = self.0.get(&currency)?;
        let at = number.checked_sub(changes.forgotten())?;
        changes.places.get(usize::try_from(at).ok()?).copied()
    }

    fn count(&self, currency: Currency) -> u64 {
        self.0.get(&currency).map_or(0, |changes| changes.count)
    }

    /// The count, for somebody who has seen all of them.
    fn read(&mut self, currency: Currency) -> u64 {
        self.0.get_mut(&currency).map_or(0, |changes| {
            changes.unread = false;
            changes.count
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Sum {
    margin: Margin,
    /// Changes of marks that are in it.
    seen: u64,
}

/// What an account's margin positions come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Margins {
    parts: BTreeMap<InstrumentId, Margin>,
    sums: BTreeMap<Currency, Sum>,
}

impl Margins {
    /// Gives an instrument's position another part.
    pub(crate) fn put(
        &mut self,
        instrument: InstrumentId,
        currency: Currency,
        part: Margin,
        marks: &mut Marks,
    ) {
        let before = self.parts.insert(instrument, part).unwrap_or_default();
        let fresh = || Sum { margin: Margin::default(), seen: marks.read(currency) };
        let margin = &mut self.sums.entry(currency).or_insert_with(fresh).margin;
        margin.take(before);
        margin.add(part);
    }

    /// The sum of a currency; `None`: marks have changed since, and it is not known.
    #[inline]
    pub(crate) fn sum(&self, currency: Currency, marks: &Marks) -> Option<Margin> {
        let Some(sum) = self.sums.get(&currency) else { return Some(Margin::default()) };
        (sum.seen == marks.count(currency)).then_some(sum.margin)
    }

    /// What must be counted anew to know the sum of a currency.
    #[inline]
    pub(crate) fn missed(&self, currency: Currency, marks: &Marks) -> Missed {
        let Some(sum) = self.sums.get(&currency) else { return Missed::Nothing };
        let Some(changes) = marks.0.get(&currency) else { return Missed::Nothing };
        match changes.count - sum.seen {
            0 => Missed::Nothing,
            missed if sum.seen >= changes.forgotten() && missed <= self.parts.len() as u64 => {
                Missed::Changes(sum.seen..changes.count)
            }
            _ => Missed::All,
        }
    }

    /// The sum of a currency has all changes until now in it.
    pub(crate) fn catch_up(&mut self, currency: Currency, marks: &mut Marks) {
        if let Some(sum) = self.sums.get_mut(&currency) {
            sum.seen = marks.read(currency);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sums.is_empty()
    }

    pub(crate) fn has(&self, instrument: InstrumentId) -> bool {
        self.parts.contains_key(&instrument)
    }

    /// The first instrument with a part behind another one.
    pub(crate) fn next(&self, behind: InstrumentId) -> Option<InstrumentId> {
        self.parts.range((Excluded(behind), Unbounded)).next().map(|(id, _)| *id)
    }
}

/// What an account has not caught up with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Missed {
    Nothing,
    /// These changes, by number.
    Changes(Range<u64>),
    /// So many that all of its positions are fewer, or are remembered no more.
    All,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd() -> Currency {
        Currency::new("USD").expect("a valid code")
    }

    fn part(required: i128) -> Margin {
        Margin { required, ..Margin::default() }
    }

    /// An account with margin positions in the instruments of places 0 to 4.
    fn account(marks: &mut Marks) -> Margins {
        let mut margins = Margins::default();
        for place in 0..5 {
            margins.put(InstrumentId(place + 1), usd(), part(10), marks);
        }
        margins
    }

    #[test]
    fn a_part_takes_the_place_of_the_one_before() {
        let mut marks = Marks::default();
        let mut margins = account(&mut marks);
        margins.put(InstrumentId(2), usd(), part(3), &mut marks);
        assert_eq!(margins.sum(usd(), &marks), Some(part(43)));
        let other = Currency::new("EUR").expect("a valid code");
        assert_eq!(margins.sum(other, &marks), Some(Margin::default()));
        assert_eq!(margins.next(InstrumentId(0)), Some(InstrumentId(1)));
        assert_eq!(margins.next(InstrumentId(5)), None);
    }

    #[test]
    fn changes_of_marks_are_caught_up_with_where_they_are_few() {
        let mut marks = Marks::default();
        let mut margins = account(&mut marks);
        marks.note(usd(), 3);
        marks.note(usd(), 3);
        marks.note(usd(), 1);
        assert_eq!(margins.sum(usd(), &marks), None);
        assert_eq!(margins.missed(usd(), &marks), Missed::Changes(0..2), "the same one counts once");
        assert_eq!([0, 1].map(|number| marks.place(usd(), number)), [Some(3), Some(1)]);
        margins.catch_up(usd(), &mut marks);
        assert_eq!(margins.missed(usd(), &marks), Missed::Nothing);
        marks.note(usd(), 1);
        assert_eq!(margins.missed(usd(), &marks), Missed::Changes(2..3), "it was read in between");
        for place in 0..5 {
            marks.note(usd(), place);
        }
        assert_eq!(margins.missed(usd(), &marks), Missed::All, "more than there are positions");
        margins.catch_up(usd(), &mut marks);
        marks.forget(usd());
        assert_eq!(margins.missed(usd(), &marks), Missed::All);
    }

    #[test]
    fn an_account_that_comes_later_misses_nothing_that_was_before_and_all_that_is_behind() {
        let mut marks = Marks::default();
        account(&mut marks);
        marks.note(usd(), 2);
        let later = account(&mut marks);
        assert_eq!(later.missed(usd(), &marks), Missed::Nothing);
        marks.note(usd(), 2);
        assert_eq!(later.missed(usd(), &marks), Missed::Changes(1..2));
    }

    #[test]
    fn changes_that_are_remembered_no_more_are_not_asked_for() {
        let mut marks = Marks::default();
        let mut margins = Margins::default();
        let positions = 2 * CHANGES_MAX as u32;
        for place in 0..positions {
            margins.put(InstrumentId(place + 1), usd(), part(1), &mut marks);
        }
        for place in 0..CHANGES_MAX as u32 {
            marks.note(usd(), place);
        }
        assert_eq!(margins.missed(usd(), &marks), Missed::Changes(0..CHANGES_MAX as u64));
        marks.note(usd(), 0);
        assert_eq!(margins.missed(usd(), &marks), Missed::All);
        assert_eq!(marks.place(usd(), 0), None);
    }
}
