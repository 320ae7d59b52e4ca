//! Instruments: definition, phase and book of each, found by number or symbol.

use std::collections::BTreeMap;

use protocol::{InstrumentDefinition, InstrumentId, Phase, Price, Quantity, RejectReason, Symbol};

use crate::book::Book;
use crate::directory::Directory;
use crate::special::Special;

/// Most decimals of a price or quantity.
const SCALE_MAX: u8 = 12;

/// An instrument.
#[derive(Debug)]
pub(crate) struct Instrument {
    pub(crate) definition: InstrumentDefinition,
    pub(crate) phase: Phase,
    /// A breach was found in its book: nothing trades here again.
    pub(crate) stopped: bool,
    pub(crate) book: Book,
    /// Price of the last trade of all days.
    pub(crate) last_trade: Option<Price>,
    /// What it has beyond a plain book; once made it is never taken away.
    pub(crate) special: Option<Box<Special>>,
}

const _: () = assert!(size_of::<Instrument>() <= 384, "an empty instrument is cheap");

impl Instrument {
    pub(crate) fn new(definition: InstrumentDefinition) -> Self {
        Self {
            definition,
            phase: Phase::Continuous,
            stopped: false,
            book: Book::default(),
            last_trade: None,
            special: None,
        }
    }

    /// Checks a total quantity against the grid, and the instrument's minimum where it has one.
    pub(crate) fn check_quantity(&self, quantity: Quantity) -> Result<(), RejectReason> {
        self.check_plain_quantity(quantity)?;
        if quantity < self.rules().quantity_min { Err(RejectReason::QuantityBelowMinimum) } else { Ok(()) }
    }

    /// Checks a price against the limits, and against the tick that holds at it.
    pub(crate) fn check_price(&self, price: Price) -> Result<(), RejectReason> {
        self.check_plain_price(price)?;
        let tick = self.tick_at(price.0.into());
        if i128::from(price.0) % tick == 0 { Ok(()) } else { Err(RejectReason::PriceNotOnTick) }
    }

    /// Checks a total quantity against the grid of an instrument that has nothing special.
    #[inline(always)]
    pub(crate) fn check_plain_quantity(&self, quantity: Quantity) -> Result<(), RejectReason> {
        let lot = self.definition.lot_size.0;
        if quantity.0 == 0 {
            Err(RejectReason::QuantityZero)
        } else if quantity > self.definition.quantity_max {
            Err(RejectReason::QuantityAboveMaximum)
        } else if lot != 1 && !quantity.0.is_multiple_of(lot) {
            Err(RejectReason::QuantityNotOnLot)
        } else {
            Ok(())
        }
    }

    /// Checks a price against the limits and the grid of an instrument that has nothing special.
    #[inline(always)]
    pub(crate) fn check_plain_price(&self, price: Price) -> Result<(), RejectReason> {
        let tick = self.definition.tick_size.0;
        if price < self.definition.price_min || price > self.definition.price_max {
            Err(RejectReason::PriceOutsideLimits)
        } else if tick != 1 && price.0 % tick != 0 {
            Err(RejectReason::PriceNotOnTick)
        } else {
            Ok(())
        }
    }
}

/// Whether a definition can work.
pub(crate) fn is_valid(definition: &InstrumentDefinition) -> bool {
    definition.instrument.0 != 0
        && definition.price_scale <= SCALE_MAX
        && definition.quantity_scale <= SCALE_MAX
        && definition.tick_size.0 > 0
        && definition.lot_size.0 > 0
        && definition.price_min <= definition.price_max
        && definition.quantity_max >= definition.lot_size
}

/// All instruments.
#[derive(Debug, Default)]
pub(crate) struct Instruments {
    table: Vec<Instrument>,
    places: Directory,
    symbols: BTreeMap<Symbol, u32>,
}

impl Instruments {
    #[inline(always)]
    pub(crate) fn place(&self, id: InstrumentId) -> Option<u32> {
        self.places.get(id.0)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Instrument {
        &self.table[place as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Instrument {
        &mut self.table[place as usize]
    }

    pub(crate) fn by_symbol(&self, symbol: &Symbol) -> Option<u32> {
        self.symbols.get(symbol).copied()
    }

    pub(crate) fn len(&self) -> u32 {
        self.table.len() as u32
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Instrument> {
        self.places.places().map(|place| self.get(place))
    }

    /// Adds an instrument whose number and symbol are new.
    pub(crate) fn add(&mut self, instrument: Instrument) -> u32 {
        let place = self.len();
        self.places.insert(instrument.definition.instrument.0, place);
        self.symbols.insert(instrument.definition.symbol, place);
        self.table.push(instrument);
        place
    }
}
