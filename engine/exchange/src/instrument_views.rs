//! What may be read of an instrument beyond its book, for comparisons and tools. Nothing here changes anything.

use protocol::{Indicative, InstrumentId, InstrumentRules, Phase, Price, TickTable, Timestamp};

use crate::exchange::Exchange;
use crate::schedule::Change;

/// An instrument as others may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstrumentView {
    /// Its phase.
    pub phase: Phase,
    /// A breach was found in its book: nothing trades here again.
    pub stopped: bool,
    /// Price of the last trade.
    pub last_price: Option<Price>,
    /// Reference price.
    pub reference_price: Option<Price>,
    /// Mark price that an operator set.
    pub mark_price: Option<Price>,
    /// Its rules.
    pub rules: InstrumentRules,
    /// Its tick table.
    pub ticks: TickTable,
    /// Changes of phase to come, by time.
    pub changes: Vec<ChangeView>,
    /// End of the volatility auction that a band brought about.
    pub volatility_end: Option<ChangeView>,
    /// What was told last of the uncross of the auction that is on; `None`: that nothing would trade.
    pub indicative: Option<Indicative>,
}

/// A change of phase to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeView {
    /// When.
    pub at: Timestamp,
    /// The phase.
    pub phase: Phase,
    /// The time scheduled has come, and `at` was drawn then.
    pub delayed: bool,
}

impl ChangeView {
    fn of(change: &Change) -> Self {
        Self { at: change.at, phase: change.phase, delayed: change.delayed }
    }
}

impl Exchange {
    /// An instrument; `None` where there is none of that number.
    #[must_use]
    pub fn instrument(&self, id: InstrumentId) -> Option<InstrumentView> {
        let instrument = self.instruments.get(self.instruments.place(id)?);
        let special = instrument.special.as_ref();
        let schedule = special.map(|special| &special.schedule);
        Some(InstrumentView {
            phase: instrument.phase,
            stopped: instrument.stopped,
            last_price: instrument.last_trade,
            reference_price: instrument.reference_price(),
            mark_price: special.and_then(|special| special.mark),
            rules: instrument.rules(),
            ticks: instrument.ticks(),
            changes: schedule.into_iter().flat_map(|it| it.changes.values().map(ChangeView::of)).collect(),
            volatility_end: schedule.and_then(|it| it.volatility_end.as_ref().map(ChangeView::of)),
            indicative: special.and_then(|special| special.told),
        })
    }

    /// Seed of what is drawn.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }
}
