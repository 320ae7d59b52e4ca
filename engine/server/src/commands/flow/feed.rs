//! Rows of an order-by-order feed: from a CSV file, or made up from a seed.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use protocol::{InstrumentDefinition, Price, Quantity, Side};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::decimal;

/// Most rows of a file: a bound against a mistaken one.
const ROWS_MAX: usize = 100_000_000;

/// What a row says of its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Created,
    Changed,
    Deleted,
}

/// One row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The feed's id of the order.
    pub(super) id: u64,
    /// The feed's time, in milliseconds.
    pub(super) time_ms: u64,
    pub(super) price: Price,
    /// What is left of the order after the row; at a deletion what was left before it.
    pub(super) volume: Quantity,
    pub(super) action: Action,
    pub(super) side: Side,
}

/// A trade of the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FeedTrade {
    pub(super) buy_id: u64,
    pub(super) sell_id: u64,
    pub(super) price: Price,
    pub(super) quantity: Quantity,
}

/// Why a file is no feed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FeedError {
    #[error("{0}: {1}")]
    Read(String, std::io::Error),
    #[error("{0}: {1}")]
    Csv(String, csv::Error),
    #[error("{file}: line {line}: {problem}")]
    Row { file: String, line: u64, problem: String },
    #[error("{0}: there is no column `{1}`")]
    Column(String, &'static str),
}

/// A CSV file with named columns.
struct Table {
    file: String,
    reader: csv::Reader<Box<dyn Read>>,
    columns: Vec<usize>,
}

impl Table {
    fn open(path: &Path, names: &[&'static str]) -> Result<Self, FeedError> {
        let file = path.display().to_string();
        let raw = File::open(path).map_err(|error| FeedError::Read(file.clone(), error))?;
        let zipped = path.extension().is_some_and(|extension| extension == "gz");
        let bytes: Box<dyn Read> = if zipped { Box::new(MultiGzDecoder::new(raw)) } else { Box::new(raw) };
        let mut reader = csv::Reader::from_reader(bytes);
        let header = reader.headers().map_err(|error| FeedError::Csv(file.clone(), error))?.clone();
        let place = |name: &&'static str| {
            let found = header.iter().position(|column| column == *name);
            found.ok_or_else(|| FeedError::Column(file.clone(), name))
        };
        let columns = names.iter().map(place).collect::<Result<_, _>>()?;
        Ok(Self { file, reader, columns })
    }

    /// Reads up to `limit` rows with `read`, which is given the columns in the order of their names.
    fn rows<T>(
        mut self,
        limit: usize,
        read: impl Fn(&[&str]) -> Result<T, String>,
    ) -> Result<Vec<T>, FeedError> {
        let mut rows = Vec::new();
        let mut record = csv::StringRecord::new();
        while rows.len() < limit.min(ROWS_MAX) {
            let more = self.reader.read_record(&mut record);
            if !more.map_err(|error| FeedError::Csv(self.file.clone(), error))? {
                break;
            }
            let fields: Vec<&str> =
                self.columns.iter().map(|column| record.get(*column).unwrap_or_default().trim()).collect();
            let line = record.position().map_or(0, csv::Position::line);
            let row = read(&fields);
            rows.push(row.map_err(|problem| FeedError::Row { file: self.file.clone(), line, problem })?);
        }
        Ok(rows)
    }
}

/// Reads a feed, at most `limit` rows of it.
pub(super) fn rows(
    path: &Path,
    definition: &InstrumentDefinition,
    limit: Option<usize>,
) -> Result<Vec<Row>, FeedError> {
    let names = ["id", "exchange_timestamp", "price", "volume", "action", "direction"];
    Table::open(path, &names)?.rows(limit.unwrap_or(ROWS_MAX), |fields| match fields {
        [id, time, row_price, volume, action, direction] => Ok(Row {
            id: whole("id", id)?,
            time_ms: whole("exchange_timestamp", time)?,
            price: price("price", row_price, definition)?,
            volume: quantity("volume", volume, definition)?,
            action: match *action {
                "created" => Action::Created,
                "changed" => Action::Changed,
                "deleted" => Action::Deleted,
                other => return Err(format!("action: `{other}` is none of created, changed, deleted")),
            },
            side: match *direction {
                "bid" => Side::Buy,
                "ask" => Side::Sell,
                other => return Err(format!("direction: `{other}` is neither bid nor ask")),
            },
        }),
        _ => Err("columns are missing".to_owned()),
    })
}

/// Reads the feed's trades.
pub(super) fn trades(path: &Path, definition: &InstrumentDefinition) -> Result<Vec<FeedTrade>, FeedError> {
    let names = ["buy_order_id", "sell_order_id", "price", "amount"];
    Table::open(path, &names)?.rows(ROWS_MAX, |fields| match fields {
        [buy, sell, at, amount] => Ok(FeedTrade {
            buy_id: whole("buy_order_id", buy)?,
            sell_id: whole("sell_order_id", sell)?,
            price: price("price", at, definition)?,
            quantity: quantity("amount", amount, definition)?,
        }),
        _ => Err("columns are missing".to_owned()),
    })
}

fn whole(name: &str, text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{name}: `{text}` is not a whole number"))
}

/// Most digits by which an exponent may move the point.
const EXPONENT_MAX: i32 = 30;

/// Writes out a number with an exponent, as programs that think in floating point leave them: `7.18e-06` is
/// `0.00000718`. Other text stays as it is.
fn written_out(text: &str) -> Cow<'_, str> {
    let parts = text.split_once(['e', 'E']).and_then(|(mantissa, exponent)| {
        let exponent: i32 = exponent.parse().ok()?;
        (-EXPONENT_MAX..=EXPONENT_MAX).contains(&exponent).then_some((mantissa, exponent))
    });
    let Some((mantissa, exponent)) = parts else { return Cow::Borrowed(text) };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return Cow::Borrowed(text);
    }
    let zeros = "0".repeat(EXPONENT_MAX as usize);
    let digits = format!("{zeros}{whole}{fraction}{zeros}");
    let point = (zeros.len() + whole.len()) as i32 + exponent;
    // The zeros on both sides are as many as the point may move.
    match digits.split_at_checked(point as usize) {
        Some((whole, fraction)) => Cow::Owned(format!("{sign}{whole}.{fraction}")),
        None => Cow::Borrowed(text),
    }
}

fn price(name: &str, text: &str, definition: &InstrumentDefinition) -> Result<Price, String> {
    decimal::parse(&written_out(text), definition.price_scale)
        .map(Price)
        .map_err(|error| format!("{name}: {error}"))
}

fn quantity(name: &str, text: &str, definition: &InstrumentDefinition) -> Result<Quantity, String> {
    let quantity = decimal::parse_unsigned(&written_out(text), definition.quantity_scale);
    quantity.map(Quantity).map_err(|error| format!("{name}: {error}"))
}

/// Orders that a made-up feed has live at most.
const LIVE_MAX: usize = 5_000;
/// Ticks around its middle in which a made-up feed places orders.
const TICKS: i64 = 40;

/// Makes up a feed of `count` rows. The same seed, count and instrument give the same rows. The middle wanders; one order
/// in ten crosses it; changes move prices and quantities up, or report executions that the venue may not have seen.
pub(super) fn generate(seed: u64, count: usize, definition: &InstrumentDefinition) -> Vec<Row> {
    let mut rng = StdRng::seed_from_u64(seed);
    let (tick, lot) = (definition.tick_size.0, definition.lot_size.0);
    let unit = 10i64.saturating_pow(definition.price_scale.into()).saturating_mul(1_000);
    let bounds = (definition.price_min.0.div_euclid(tick) + 1, definition.price_max.0.div_euclid(tick) - 1);
    let mut middle = unit.div_euclid(tick).clamp(bounds.0 + TICKS, (bounds.1 - TICKS).max(bounds.0 + TICKS));
    let mut live: Vec<Row> = Vec::new();
    let mut rows = Vec::with_capacity(count);
    for at in 0..count as u64 {
        middle = (middle + rng.random_range(-1..=1)).clamp(bounds.0, bounds.1);
        let kind = rng.random_range(0..100);
        let full = live.len() >= LIVE_MAX;
        let mut row = match live.len() {
            0 => None,
            some if full || kind >= 50 => Some(live.swap_remove(rng.random_range(0..some))),
            _ => None,
        }
        .unwrap_or_else(|| {
            let side = if rng.random() { Side::Buy } else { Side::Sell };
            let away = rng.random_range(1..=TICKS) * if rng.random_range(0..10) == 0 { -1 } else { 1 };
            let ticks = if side == Side::Buy { middle - away } else { middle + away };
            Row {
                id: at + 1,
                time_ms: at,
                price: Price(ticks.clamp(bounds.0, bounds.1).saturating_mul(tick)),
                volume: Quantity(rng.random_range(1..=100) * lot),
                action: Action::Created,
                side,
            }
        });
        if row.id != at + 1 {
            row.time_ms = at;
            row.action = if full || kind >= 60 { Action::Deleted } else { Action::Changed };
        }
        if row.action == Action::Changed {
            match rng.random_range(0..3) {
                0 => row.volume = Quantity(row.volume.0 + rng.random_range(1..=10) * lot),
                1 => {
                    row.price = Price(
                        (row.price.0 + rng.random_range(-3..=3) * tick)
                            .clamp(bounds.0 * tick, bounds.1 * tick),
                    )
                }
                _ => row.volume = Quantity((row.volume.0 / 2 / lot * lot).max(lot)),
            }
        }
        if row.action != Action::Deleted {
            live.push(row);
        }
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition() -> InstrumentDefinition {
        let list = crate::instruments::demonstration().expect("the embedded list");
        *list.iter().find(|entry| entry.symbol.as_str() == "BTCUSD").expect("BTCUSD")
    }

    #[test]
    fn numbers_with_exponents_are_exact() {
        let definition = definition();
        for (text, units) in [
            ("7.18e-06", 718),
            ("1E-8", 1),
            ("1.5e2", 15_000_000_000),
            ("2e0", 200_000_000),
            ("0.5", 50_000_000),
        ] {
            assert_eq!(quantity("volume", text, &definition), Ok(Quantity(units)), "{text}");
        }
        for text in ["1e-9", "e5", "1e", "1e99", "1e-4000000000", "1.2.3e4", "-1e2", "1e+-2"] {
            assert!(quantity("volume", text, &definition).is_err(), "{text}");
        }
    }

    #[test]
    fn a_file_is_read_by_its_column_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("feed.csv");
        let text = "action,id,timestamp,exchange_timestamp,price,volume,direction\n\
                    created,7,1,2,100.5,0.25,bid\ndeleted,7,1,3,100.5,0.25,bid\n";
        std::fs::write(&path, text).expect("written");
        let created = Row {
            id: 7,
            time_ms: 2,
            price: Price(10_050),
            volume: Quantity(25_000_000),
            action: Action::Created,
            side: Side::Buy,
        };
        let deleted = Row { time_ms: 3, action: Action::Deleted, ..created };
        assert_eq!(rows(&path, &definition(), None).expect("a feed"), [created, deleted]);
        assert_eq!(rows(&path, &definition(), Some(1)).expect("a feed"), [created]);
        std::fs::write(&path, text.replace("deleted", "removed")).expect("written");
        let error = rows(&path, &definition(), None).expect_err("an unknown action").to_string();
        assert!(error.contains("line 3: action: `removed`"), "{error}");
        std::fs::write(&path, text.replace("volume", "amount")).expect("written");
        let error = rows(&path, &definition(), None).expect_err("a column is missing").to_string();
        assert!(error.ends_with("there is no column `volume`"), "{error}");
    }

    #[test]
    fn a_made_up_feed_depends_on_its_seed_alone() {
        let feed = generate(7, 20_000, &definition());
        assert_eq!(feed, generate(7, 20_000, &definition()));
        assert_ne!(feed, generate(8, 20_000, &definition()));
        for action in [Action::Created, Action::Changed, Action::Deleted] {
            assert!(feed.iter().filter(|row| row.action == action).count() > 1_000, "{action:?}");
        }
        let within = |row: &Row| row.volume > Quantity(0) && row.price > Price(0);
        assert!(feed.iter().all(within));
    }
}
