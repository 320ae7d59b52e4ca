//! Instrument definitions from a file, CSV or TOML by the file's name, with prices and quantities as decimals. Whether
//! the venue takes a definition is the business logic's to decide; only what can't be a definition is refused here.
//!
//! CSV has a header line; TOML has `[[instrument]]` tables. Both have these columns or keys:
//!
//! | name | meaning |
//! |---|---|
//! | instrument | the number, 1 and up, unique |
//! | symbol | 1 to 16 printable characters, unique |
//! | price_scale, quantity_scale | decimals of a price and of a quantity, 0 to 12 |
//! | tick_size, lot_size | what every price and every quantity is a multiple of |
//! | price_min, price_max | limits of an order's price |
//! | quantity_max | limit of an order's quantity |

use std::collections::HashMap;
use std::path::Path;

use protocol::{InstrumentDefinition, InstrumentId, Price, Quantity, Symbol};
use serde::Deserialize;

use crate::decimal::{self, DecimalError, SCALE_MAX};

/// Most instruments that a file may have: a bound against a mistaken file, well above any venue's list.
pub const INSTRUMENTS_MAX: usize = 1_000_000;

/// The demonstration instruments, used when the configuration names no file.
const DEMONSTRATION: &str = include_str!("../../../deploy/instruments.csv");

/// Why a file is not a list of instruments.
#[derive(Debug, thiserror::Error)]
pub enum InstrumentsError {
    /// It can't be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// One of its entries is wrong, or the file as a whole.
    #[error("{file}: {place}: {problem}")]
    Entry {
        /// The file.
        file: String,
        /// Line or entry.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// The name ends in neither `.csv` nor `.toml`.
    #[error("{file}: a file of instruments ends in .csv or .toml")]
    Kind {
        /// The file.
        file: String,
    },
}

/// One entry as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    instrument: u32,
    symbol: String,
    price_scale: u8,
    quantity_scale: u8,
    tick_size: String,
    lot_size: String,
    price_min: String,
    price_max: String,
    quantity_max: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlFile {
    #[serde(default)]
    instrument: Vec<Entry>,
}

/// Reads a file of instruments, in the file's order.
///
/// # Errors
/// [`InstrumentsError`] names the file, the place in it and what is wrong.
pub fn load(path: &Path) -> Result<Vec<InstrumentDefinition>, InstrumentsError> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| InstrumentsError::Read { file: file.clone(), error })?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => from_csv(&file, &text),
        Some("toml") => from_toml(&file, &text),
        _ => Err(InstrumentsError::Kind { file }),
    }
}

/// The instruments of a venue that was given none: enough to try everything out.
///
/// # Errors
/// None with the embedded list; a test holds it.
pub fn demonstration() -> Result<Vec<InstrumentDefinition>, InstrumentsError> {
    from_csv("the embedded instruments", DEMONSTRATION)
}

fn from_csv(file: &str, text: &str) -> Result<Vec<InstrumentDefinition>, InstrumentsError> {
    let wrong =
        |place: String, problem: String| InstrumentsError::Entry { file: file.to_owned(), place, problem };
    let mut reader =
        csv::ReaderBuilder::new().comment(Some(b'#')).trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| wrong("line 1".to_owned(), error.to_string()))?.clone();
    let mut list = List::default();
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        let place = || format!("line {line}");
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(list.definitions),
            Ok(true) => {}
            Err(error) => return Err(wrong(place(), csv_problem(&error))),
        }
        let line = record.position().map_or(line, csv::Position::line);
        let place = || format!("line {line}");
        let entry: Entry =
            record.deserialize(Some(&header)).map_err(|error| wrong(place(), csv_problem(&error)))?;
        list.add(&entry).map_err(|problem| wrong(place(), problem))?;
    }
}

/// What is wrong in a CSV line, without the position, which is told anyway.
fn csv_problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} columns where the header has {expected_len}")
        }
        _ => error.to_string(),
    }
}

fn from_toml(file: &str, text: &str) -> Result<Vec<InstrumentDefinition>, InstrumentsError> {
    let wrong =
        |place: String, problem: String| InstrumentsError::Entry { file: file.to_owned(), place, problem };
    let parsed: TomlFile = toml::from_str(text).map_err(|error| {
        let (line, problem) = crate::config::toml_problem(text, &error);
        wrong(format!("line {line}"), problem)
    })?;
    let mut list = List::default();
    for (at, entry) in parsed.instrument.iter().enumerate() {
        list.add(entry).map_err(|problem| wrong(format!("entry {}", at + 1), problem))?;
    }
    Ok(list.definitions)
}

/// The entries so far, and what must be unique among them.
#[derive(Default)]
struct List {
    definitions: Vec<InstrumentDefinition>,
    numbers: HashMap<u32, ()>,
    symbols: HashMap<Symbol, u32>,
}

impl List {
    fn add(&mut self, entry: &Entry) -> Result<(), String> {
        if self.definitions.len() == INSTRUMENTS_MAX {
            return Err(format!("more than {INSTRUMENTS_MAX} instruments"));
        }
        let definition = entry.check()?;
        if self.numbers.insert(entry.instrument, ()).is_some() {
            return Err(format!("instrument {} is there twice", entry.instrument));
        }
        if let Some(other) = self.symbols.insert(definition.symbol, entry.instrument) {
            return Err(format!("symbol {} is instrument {other}'s already", entry.symbol));
        }
        self.definitions.push(definition);
        Ok(())
    }
}

impl Entry {
    fn check(&self) -> Result<InstrumentDefinition, String> {
        if self.instrument == 0 {
            return Err("instrument: numbers begin with 1".to_owned());
        }
        let symbol = Symbol::new(&self.symbol).ok_or_else(|| {
            format!("symbol: `{}` is not 1 to 16 printable characters without spaces", self.symbol)
        })?;
        for (name, scale) in [("price_scale", self.price_scale), ("quantity_scale", self.quantity_scale)] {
            if scale > SCALE_MAX {
                return Err(format!("{name}: {scale} is above {SCALE_MAX}"));
            }
        }
        let price = |name: &str, text: &str| {
            decimal::parse(text, self.price_scale).map(Price).map_err(|error| named(name, &error))
        };
        let quantity = |name: &str, text: &str| {
            decimal::parse_unsigned(text, self.quantity_scale)
                .map(Quantity)
                .map_err(|error| named(name, &error))
        };
        let definition = InstrumentDefinition {
            instrument: InstrumentId(self.instrument),
            symbol,
            price_scale: self.price_scale,
            quantity_scale: self.quantity_scale,
            tick_size: price("tick_size", &self.tick_size)?,
            lot_size: quantity("lot_size", &self.lot_size)?,
            price_min: price("price_min", &self.price_min)?,
            price_max: price("price_max", &self.price_max)?,
            quantity_max: quantity("quantity_max", &self.quantity_max)?,
        };
        if definition.tick_size.0 <= 0 {
            return Err("tick_size: must be above zero".to_owned());
        }
        if definition.lot_size.0 == 0 {
            return Err("lot_size: must be above zero".to_owned());
        }
        if definition.price_min > definition.price_max {
            return Err("price_min: is above price_max".to_owned());
        }
        if definition.quantity_max < definition.lot_size {
            return Err("quantity_max: is below lot_size".to_owned());
        }
        Ok(definition)
    }
}

fn named(name: &str, error: &DecimalError) -> String {
    format!("{name}: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        "instrument,symbol,price_scale,quantity_scale,tick_size,lot_size,price_min,price_max,quantity_max";

    #[test]
    fn embedded_list_has_the_bitcoin_pair_of_the_sample_data() {
        let list = demonstration().expect("the embedded list is valid");
        assert!(list.len() >= 4);
        let btc = list.iter().find(|entry| entry.symbol.as_str() == "BTCUSD").expect("BTCUSD");
        assert_eq!((btc.price_scale, btc.quantity_scale), (2, 8));
        assert_eq!((btc.tick_size, btc.lot_size), (Price(1), Quantity(1)));
    }

    #[test]
    fn both_forms_say_the_same() {
        let csv = format!("{HEADER}\n# a comment\n7, OIL, 2, 0, 0.05, 10, -500, 500.00, 1000\n");
        let toml = r#"
            [[instrument]]
            instrument = 7
            symbol = "OIL"
            price_scale = 2
            quantity_scale = 0
            tick_size = "0.05"
            lot_size = "10"
            price_min = "-500"
            price_max = "500"
            quantity_max = "1000"
        "#;
        let list = from_csv("a.csv", &csv).expect("csv");
        assert_eq!(list, from_toml("a.toml", toml).expect("toml"));
        assert_eq!(list[0].tick_size, Price(5));
        assert_eq!(list[0].price_min, Price(-50_000));
    }

    #[track_caller]
    fn check(lines: &str, expected: &str) {
        let error = from_csv("x.csv", &format!("{HEADER}\n{lines}")).expect_err("must be refused");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn wrong_entries_are_named_with_their_place() {
        check("0,A,0,0,1,1,0,9,9", "x.csv: line 2: instrument: numbers begin with 1");
        check("1,A,0,0,1,1,0,9,9\n1,B,0,0,1,1,0,9,9", "x.csv: line 3: instrument 1 is there twice");
        check("1,A,0,0,1,1,0,9,9\n2,A,0,0,1,1,0,9,9", "x.csv: line 3: symbol A is instrument 1's already");
        check("1,A,13,0,1,1,0,9,9", "x.csv: line 2: price_scale: 13 is above 12");
        check("1,A,0,0,0.5,1,0,9,9", "x.csv: line 2: tick_size: `0.5` has more than 0 decimals");
        check("1,A,0,0,0,1,0,9,9", "x.csv: line 2: tick_size: must be above zero");
        check("1,A,0,0,1,0,0,9,9", "x.csv: line 2: lot_size: must be above zero");
        check("1,A,0,0,1,1,9,0,9", "x.csv: line 2: price_min: is above price_max");
        check("1,A,0,0,1,5,0,9,4", "x.csv: line 2: quantity_max: is below lot_size");
        check("1,A,0,0", "x.csv: line 2: 4 columns where the header has 9");
        check(
            "1,A B,0,0,1,1,0,9,9",
            "x.csv: line 2: symbol: `A B` is not 1 to 16 printable characters without spaces",
        );
        let error = from_toml("x.toml", "[[instrument]]\nname = 1\n").expect_err("unknown key");
        assert!(error.to_string().starts_with("x.toml: line 2: unknown field `name`"), "{error}");
    }

    #[test]
    fn a_hundred_thousand_load() {
        let mut text = format!("{HEADER}\n");
        for number in 1..=100_000 {
            text.push_str(&format!("{number},I{number},4,0,0.0001,1,0.0001,99999,1000000\n"));
        }
        assert_eq!(from_csv("many.csv", &text).expect("loads").len(), 100_000);
    }
}
