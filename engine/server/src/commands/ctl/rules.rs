//! `set-rules` and `set-ticks`: how an instrument trades and settles. A request has all the rules, so what isn't given is
//! as it is for an instrument that was given none.

use std::path::{Path, PathBuf};

use protocol::{
    Allocation, BandAction, Body, Currency, InstrumentDefinition, InstrumentRules, Price, Quantity,
    Settlement, StopTrigger, TickRow, TickTable,
};
use serde::Deserialize;

use super::words::{distance, named, wrong};
use crate::decimal;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(super) struct RulesArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
    /// TOML file with the rules by the names of the options, with underscores; options take precedence over it
    #[arg(long)]
    file: Option<PathBuf>,
    /// Print what would be set, and set nothing
    #[arg(long)]
    pub(super) show: bool,
    #[command(flatten)]
    rules: RulesText,
}

/// The rules as written: decimals of the instrument's prices and quantities as text.
#[derive(Clone, Debug, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RulesText {
    /// price-time, pro-rata, or pro-rata-top
    #[arg(long)]
    allocation: Option<String>,
    /// Smallest pro-rata share
    #[arg(long, value_name = "QUANTITY")]
    allocation_minimum: Option<String>,
    /// What moves stops: last-trade or best-quote
    #[arg(long)]
    stop_trigger: Option<String>,
    /// Smallest quantity of an order
    #[arg(long, value_name = "QUANTITY")]
    quantity_min: Option<String>,
    /// Smallest quantity times price of an order
    #[arg(long, value_name = "NOTIONAL")]
    notional_min: Option<String>,
    /// Largest quantity times price of an order
    #[arg(long, value_name = "NOTIONAL")]
    notional_max: Option<String>,
    /// How far a protected market order trades from the best price
    #[arg(long, value_name = "DISTANCE")]
    protection: Option<String>,
    /// How far a trade may be from the reference price
    #[arg(long, value_name = "DISTANCE")]
    static_band: Option<String>,
    /// How far a trade may be from the last one
    #[arg(long, value_name = "DISTANCE")]
    dynamic_band: Option<String>,
    /// At a band: reject or auction
    #[arg(long)]
    band_action: Option<String>,
    /// How long a volatility auction lasts, in milliseconds
    #[arg(long)]
    volatility_ms: Option<u32>,
    /// Longest random time added to the end of an auction, in milliseconds
    #[arg(long)]
    random_end_ms: Option<u32>,
    /// none, cash or margin
    #[arg(long)]
    settlement: Option<String>,
    /// Currency that is traded
    #[arg(long)]
    base: Option<String>,
    /// Currency that prices are in
    #[arg(long)]
    quote: Option<String>,
    /// Margin of an open lot, in the smallest unit of the quote currency
    #[arg(long)]
    initial_margin: Option<u64>,
    /// Equity below so much a lot is a margin call, in the same unit
    #[arg(long)]
    maintenance_margin: Option<u64>,
}

impl RulesArgs {
    /// The rules as written, from the file and the options.
    pub(super) fn read(&self) -> Result<RulesWanted, CommandError> {
        let file = self.file.as_deref().map(load).transpose()?.unwrap_or_default();
        Ok(RulesWanted(self.rules.clone().over(file)))
    }

    /// Options for which nothing was given, neither on the command line nor in the file: what they name is set, too.
    pub(super) fn not_given(&self) -> Result<Vec<&'static str>, CommandError> {
        let text = self.read()?.0;
        let given = [
            ("allocation", text.allocation.is_some()),
            ("allocation-minimum", text.allocation_minimum.is_some()),
            ("stop-trigger", text.stop_trigger.is_some()),
            ("quantity-min", text.quantity_min.is_some()),
            ("notional-min", text.notional_min.is_some()),
            ("notional-max", text.notional_max.is_some()),
            ("protection", text.protection.is_some()),
            ("static-band", text.static_band.is_some()),
            ("dynamic-band", text.dynamic_band.is_some()),
            ("band-action", text.band_action.is_some()),
            ("volatility-ms", text.volatility_ms.is_some()),
            ("random-end-ms", text.random_end_ms.is_some()),
            ("settlement", text.settlement.is_some()),
            ("base", text.base.is_some()),
            ("quote", text.quote.is_some()),
            ("initial-margin", text.initial_margin.is_some()),
            ("maintenance-margin", text.maintenance_margin.is_some()),
        ];
        Ok(given.into_iter().filter(|(_, is_given)| !is_given).map(|(name, _)| name).collect())
    }
}

/// Rules that wait for the scales of their instrument.
#[derive(Debug)]
pub(super) struct RulesWanted(RulesText);

fn load(path: &Path) -> Result<RulesText, CommandError> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| CommandError::failed(format!("{name}: {error}")))?;
    toml::from_str(&text).map_err(|error| {
        let (line, problem) = crate::config::toml_problem(&text, &error);
        CommandError::usage(format!("{name}: line {line}: {problem}"))
    })
}

impl RulesText {
    /// These, and where they say nothing those of `base`.
    fn over(self, base: Self) -> Self {
        Self {
            allocation: self.allocation.or(base.allocation),
            allocation_minimum: self.allocation_minimum.or(base.allocation_minimum),
            stop_trigger: self.stop_trigger.or(base.stop_trigger),
            quantity_min: self.quantity_min.or(base.quantity_min),
            notional_min: self.notional_min.or(base.notional_min),
            notional_max: self.notional_max.or(base.notional_max),
            protection: self.protection.or(base.protection),
            static_band: self.static_band.or(base.static_band),
            dynamic_band: self.dynamic_band.or(base.dynamic_band),
            band_action: self.band_action.or(base.band_action),
            volatility_ms: self.volatility_ms.or(base.volatility_ms),
            random_end_ms: self.random_end_ms.or(base.random_end_ms),
            settlement: self.settlement.or(base.settlement),
            base: self.base.or(base.base),
            quote: self.quote.or(base.quote),
            initial_margin: self.initial_margin.or(base.initial_margin),
            maintenance_margin: self.maintenance_margin.or(base.maintenance_margin),
        }
    }
}

impl RulesWanted {
    /// The request in the units of the instrument.
    pub(super) fn body(&self, of: &InstrumentDefinition) -> Result<Body, CommandError> {
        let (text, none) = (&self.0, InstrumentRules::default());
        let notional_scale = of.price_scale + of.quantity_scale;
        let lots =
            |name, text: &Option<String>| distance(name, text.as_deref(), of.quantity_scale).map(Quantity);
        let money = |name, text: &Option<String>| distance(name, text.as_deref(), notional_scale);
        let away = |name, text: &Option<String>| distance(name, text.as_deref(), of.price_scale);
        let rules = InstrumentRules {
            allocation: named(
                "allocation",
                text.allocation.as_deref(),
                none.allocation,
                Allocation::from_name,
            )?,
            allocation_minimum: lots("allocation_minimum", &text.allocation_minimum)?,
            stop_trigger: named(
                "stop_trigger",
                text.stop_trigger.as_deref(),
                none.stop_trigger,
                StopTrigger::from_name,
            )?,
            quantity_min: lots("quantity_min", &text.quantity_min)?,
            notional_min: money("notional_min", &text.notional_min)?,
            notional_max: money("notional_max", &text.notional_max)?,
            protection: away("protection", &text.protection)?,
            static_band: away("static_band", &text.static_band)?,
            dynamic_band: away("dynamic_band", &text.dynamic_band)?,
            band_action: named(
                "band_action",
                text.band_action.as_deref(),
                none.band_action,
                BandAction::from_name,
            )?,
            volatility_ms: text.volatility_ms.unwrap_or(none.volatility_ms),
            random_end_ms: text.random_end_ms.unwrap_or(none.random_end_ms),
            settlement: named(
                "settlement",
                text.settlement.as_deref(),
                none.settlement,
                Settlement::from_name,
            )?,
            base: text.base.as_deref().map(currency).transpose()?,
            quote: text.quote.as_deref().map(currency).transpose()?,
            initial_margin: text.initial_margin.unwrap_or(none.initial_margin),
            maintenance_margin: text.maintenance_margin.unwrap_or(none.maintenance_margin),
        };
        Ok(Body::PutRules(of.instrument, rules))
    }
}

/// A currency's code.
pub(super) fn currency(code: &str) -> Result<Currency, CommandError> {
    Currency::new(code).ok_or_else(|| {
        CommandError::usage(format!("`{code}` is no currency: 1 to 8 printable characters without spaces"))
    })
}

#[derive(Debug, clap::Args)]
pub(super) struct TicksArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
    /// Rows: the price from which the tick holds, a colon, and the tick; rising, 8 at most; behind -- where the first is
    /// negative. None: one tick size everywhere
    #[arg(value_name = "FROM:TICK")]
    rows: Vec<String>,
}

impl TicksArgs {
    pub(super) fn body(&self, of: &InstrumentDefinition) -> Result<Body, CommandError> {
        let price =
            |text: &str| decimal::parse(text, of.price_scale).map(Price).map_err(|e| wrong("row", &e));
        let mut rows = Vec::new();
        for row in &self.rows {
            let (from, tick) = row
                .split_once(':')
                .ok_or_else(|| CommandError::usage(format!("`{row}` is no row: FROM:TICK")))?;
            rows.push(TickRow { from: price(from)?, tick: price(tick)? });
        }
        let table = TickTable::new(&rows)
            .ok_or_else(|| CommandError::usage("a tick table has at most 8 rows".to_owned()))?;
        Ok(Body::PutTickTable(of.instrument, table))
    }
}

#[cfg(test)]
mod tests {
    use protocol::{InstrumentId, Symbol};

    use super::*;

    fn definition() -> InstrumentDefinition {
        InstrumentDefinition {
            instrument: InstrumentId(4),
            symbol: Symbol::new("OIL").expect("a symbol"),
            price_scale: 2,
            quantity_scale: 1,
            tick_size: Price(5),
            lot_size: Quantity(10),
            price_min: Price(-1000),
            price_max: Price(1_000_000),
            quantity_max: Quantity(100_000),
        }
    }

    fn rules(text: &str) -> Result<InstrumentRules, CommandError> {
        let text: RulesText = toml::from_str(text).map_err(|e| CommandError::usage(e.to_string()))?;
        match RulesWanted(text).body(&definition())? {
            Body::PutRules(InstrumentId(4), rules) => Ok(rules),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rules_are_in_the_units_of_the_instrument() {
        assert_eq!(rules("").expect("all by default"), InstrumentRules::default());
        let made = rules(
            "allocation = \"pro-rata\"\nallocation_minimum = \"2\"\nnotional_max = \"10\"\nprotection = \"0.5\"\n\
             band_action = \"auction\"\nvolatility_ms = 500\nsettlement = \"cash\"\nbase = \"OIL\"\nquote = \"USD\"",
        )
        .expect("good");
        assert_eq!((made.allocation, made.allocation_minimum), (Allocation::ProRata, Quantity(20)));
        assert_eq!((made.notional_max, made.protection), (10_000, 50));
        assert_eq!((made.settlement, made.quote), (Settlement::Cash, Currency::new("USD")));
        for bad in ["allocation = \"fair\"", "protection = \"-1\"", "colour = 1", "base = \"a b\""] {
            assert!(rules(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn options_take_precedence_over_the_file() {
        let text = |text: &str| -> RulesText { toml::from_str(text).expect("rules") };
        let both = text("quote = \"EUR\"").over(text("quote = \"USD\"\nbase = \"OIL\""));
        assert_eq!((both.quote.as_deref(), both.base.as_deref()), (Some("EUR"), Some("OIL")));
    }

    #[test]
    fn a_tick_table_has_rows_of_prices() {
        let args = |rows: &[&str]| TicksArgs {
            symbol: "OIL".to_owned(),
            rows: rows.iter().map(|row| (*row).to_owned()).collect(),
        };
        let row = |from, tick| TickRow { from: Price(from), tick: Price(tick) };
        let table = TickTable::new(&[row(-100, 5), row(1000, 10)]).expect("few rows");
        let made = args(&["-1:0.05", "10:0.1"]).body(&definition()).expect("good");
        assert_eq!(made, Body::PutTickTable(InstrumentId(4), table));
        assert!(args(&["10"]).body(&definition()).is_err());
        assert!(args(&["1:1"; 9]).body(&definition()).is_err());
    }
}
