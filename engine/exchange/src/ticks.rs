//! Prices on the grid of an instrument whose tick size may depend on the price.

use protocol::Price;

use crate::instruments::Instrument;

impl Instrument {
    /// Tick size at a price.
    pub(crate) fn tick_at(&self, price: i128) -> i128 {
        let rows = self.special.as_ref().map_or(&[][..], |special| special.ticks.rows());
        let row = rows.iter().rev().find(|row| i128::from(row.from.0) <= price);
        row.map_or(self.definition.tick_size.0, |row| row.tick.0).max(1).into()
    }

    /// The lowest price of the row that a price is in; `None` below the first row.
    fn row_start(&self, price: i128) -> Option<i128> {
        let rows = self.special.as_ref().map_or(&[][..], |special| special.ticks.rows());
        rows.iter().rev().map(|row| i128::from(row.from.0)).find(|from| *from <= price)
    }

    /// The first price of a row above a price.
    fn next_row(&self, price: i128) -> Option<i128> {
        let rows = self.special.as_ref().map_or(&[][..], |special| special.ticks.rows());
        rows.iter().map(|row| i128::from(row.from.0)).find(|from| *from > price)
    }

    /// The highest price on its tick that is not above a price; `None` where it is below the instrument's lowest.
    pub(crate) fn round_down(&self, price: i128) -> Option<Price> {
        let mut price = price.min(self.definition.price_max.0.into());
        // Each turn but the last goes down by a row of the table.
        loop {
            let tick = self.tick_at(price);
            let rounded = price.div_euclid(tick) * tick;
            match self.row_start(price) {
                Some(start) if rounded < start => price = start - 1,
                _ => return self.within(rounded),
            }
        }
    }

    /// The lowest price on its tick that is not below a price; `None` where it is above the instrument's highest.
    pub(crate) fn round_up(&self, price: i128) -> Option<Price> {
        let mut price = price.max(self.definition.price_min.0.into());
        loop {
            let tick = self.tick_at(price);
            let rounded = (price + tick - 1).div_euclid(tick) * tick;
            match self.next_row(price) {
                Some(next) if rounded >= next && rounded != price => price = next,
                _ => return self.within(rounded),
            }
        }
    }

    fn within(&self, price: i128) -> Option<Price> {
        let price = Price(i64::try_from(price).ok()?);
        (price >= self.definition.price_min && price <= self.definition.price_max).then_some(price)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{InstrumentDefinition, Price, TickRow, TickTable};

    use crate::instruments::Instrument;
    use crate::tests::samples;

    #[test]
    fn rounding_agrees_with_trying_every_price() {
        let definition =
            InstrumentDefinition { price_min: Price(-60), price_max: Price(60), ..samples::instrument(1) };
        let row = |from, tick| TickRow { from: Price(from), tick: Price(tick) };
        let tables: [&[TickRow]; 4] =
            [&[], &[row(-20, 3), row(10, 5)], &[row(-50, 7), row(-49, 40), row(20, 1)], &[row(1, 25)]];
        for rows in tables {
            let mut instrument = Instrument::new(definition);
            instrument.special_mut().ticks = TickTable::new(rows).expect("few rows");
            let good = |price: &i64| i128::from(*price).rem_euclid(instrument.tick_at((*price).into())) == 0;
            for price in -70..=70 {
                let below = (-60..=price.min(60)).rev().find(good).map(Price);
                assert_eq!(instrument.round_down(price.into()), below, "{rows:?} {price} down");
                let above = (price.max(-60)..=60).find(good).map(Price);
                assert_eq!(instrument.round_up(price.into()), above, "{rows:?} {price} up");
            }
        }
    }
}
