//! `calendar`: a calendar in local time becomes the scheduled phases of the coming days. The venue knows instants only, so
//! zones and daylight saving are dealt with here. Each instrument's schedule is cleared first, so the same calendar can be
//! given again at any time, with the days that were added since.
//!
//! ```toml
//! time_zone = "America/New_York"       # of the IANA database, which is part of the program
//! weekdays = ["monday", "tuesday"]     # Monday to Friday without it
//! holidays = ["2026-12-25"]            # nothing is scheduled then
//!
//! [groups]
//! stocks = ["ACME", "INITECH"]
//!
//! [[hours]]
//! instruments = ["@stocks", "OIL"]     # symbols, and groups behind an @
//! phases = [
//!   { at = "09:00", phase = "opening-auction" },
//!   { at = "09:30", phase = "continuous" },
//!   { at = "16:00", phase = "closed" },
//! ]
//!
//! [[hours]]                            # in the place of the others on these days, for its instruments
//! dates = ["2026-11-27"]
//! instruments = ["@stocks"]
//! phases = [{ at = "09:30", phase = "continuous" }, { at = "13:00:00", phase = "closed" }]
//! ```
//!
//! A time that a day skips when the clocks go forward is as much later; one that it has twice is the first.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp as Moment, ToSpan};
use protocol::{Phase, Timestamp};
use serde::Deserialize;

use super::words;
use crate::error::CommandError;

/// Phases that a calendar may give an instrument: one less than it may have scheduled, since the end of an auction that is
/// delayed keeps its place.
const SCHEDULED_MAX: usize = 63;
/// Most days that are expanded: what no calendar is right about any more.
const DAYS_MAX: u32 = 366;
/// A change that is due within this time is waited for: the old schedule is cleared before the new one is sent, and a time
/// that passes in between would be lost.
const NEAR: SignedDuration = SignedDuration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(super) struct CalendarArgs {
    /// The calendar, TOML
    file: PathBuf,
    /// How many days from today on, in the calendar's zone
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(DAYS_MAX)))]
    days: u32,
    /// Print what would be scheduled, and schedule nothing
    #[arg(long)]
    pub(super) show: bool,
}

/// What an instrument is to have scheduled, by symbol and then by time.
pub(super) type Expanded = BTreeMap<String, BTreeMap<Timestamp, Phase>>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Calendar {
    time_zone: String,
    weekdays: Option<Vec<String>>,
    #[serde(default)]
    holidays: Vec<String>,
    #[serde(default)]
    groups: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    hours: Vec<Hours>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Hours {
    instruments: Vec<String>,
    #[serde(default)]
    dates: Vec<String>,
    phases: Vec<Change>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    at: String,
    phase: String,
}

/// One entry of hours, checked.
struct Checked {
    symbols: Vec<String>,
    dates: Vec<Date>,
    changes: Vec<(Time, Phase)>,
}

impl CalendarArgs {
    /// What is to be scheduled from now on.
    pub(super) fn expand(&self) -> Result<Expanded, CommandError> {
        let text = read(&self.file)?;
        loop {
            let now = Moment::now();
            let expanded = expand(&text, self.days, now)
                .map_err(|problem| CommandError::usage(format!("{}: {problem}", self.file.display())))?;
            match until_clear(&expanded, now).filter(|_| !self.show) {
                Some(wait) => std::thread::sleep(wait),
                None => return Ok(expanded),
            }
        }
    }
}

/// How long to wait until no change is near.
fn until_clear(expanded: &Expanded, now: Moment) -> Option<Duration> {
    let first = expanded.values().filter_map(|phases| phases.keys().next()).min()?;
    let due = Moment::from_nanosecond(first.0.into()).ok()?.duration_since(now);
    // A little longer, so that the venue's clock has passed it too.
    (due < NEAR).then(|| (due + SignedDuration::from_secs(1)).unsigned_abs())
}

fn read(path: &Path) -> Result<String, CommandError> {
    std::fs::read_to_string(path)
        .map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))
}

fn expand(text: &str, days: u32, now: Moment) -> Result<Expanded, String> {
    let calendar: Calendar = toml::from_str(text).map_err(|error| {
        let (line, problem) = crate::config::toml_problem(text, &error);
        format!("line {line}: {problem}")
    })?;
    let zone = TimeZone::get(&calendar.time_zone)
        .map_err(|_| format!("`{}` is no time zone of the IANA database", calendar.time_zone))?;
    let weekdays = calendar.weekdays()?;
    let holidays = calendar.holidays.iter().map(|text| date(text)).collect::<Result<Vec<_>, _>>()?;
    let hours = calendar.hours.iter().map(|hours| calendar.check(hours)).collect::<Result<Vec<_>, _>>()?;
    let mut expanded = Expanded::new();
    let known = hours.iter().flat_map(|hours| &hours.symbols);
    for symbol in known {
        expanded.entry(symbol.clone()).or_default();
    }
    let mut day = now.to_zoned(zone.clone()).date();
    for _ in 0..days {
        if !holidays.contains(&day) {
            for (symbol, phases) in &mut expanded {
                add_day(&hours, symbol, day, weekdays.contains(&day.weekday()), &zone, now, phases)?;
            }
        }
        day = day.checked_add(1.day()).map_err(|error| error.to_string())?;
    }
    match expanded.iter().find(|(_, phases)| phases.len() > SCHEDULED_MAX) {
        Some((symbol, phases)) => Err(format!(
            "{symbol}: {} phases, and a calendar can give an instrument {SCHEDULED_MAX}: take fewer --days",
            phases.len()
        )),
        None => Ok(expanded),
    }
}

/// Adds what an instrument has on a day: by an entry with that date, else by those without dates.
fn add_day(
    hours: &[Checked],
    symbol: &String,
    day: Date,
    is_weekday: bool,
    zone: &TimeZone,
    now: Moment,
    phases: &mut BTreeMap<Timestamp, Phase>,
) -> Result<(), String> {
    let own = || hours.iter().filter(|hours| hours.symbols.contains(symbol));
    let is_special = own().any(|hours| hours.dates.contains(&day));
    if !is_special && !is_weekday {
        return Ok(());
    }
    let applies = |hours: &&Checked| match is_special {
        true => hours.dates.contains(&day),
        false => hours.dates.is_empty(),
    };
    for (time, phase) in own().filter(applies).flat_map(|hours| &hours.changes) {
        let at = day.to_datetime(*time).to_zoned(zone.clone()).map_err(|error| error.to_string())?;
        if at.timestamp() <= now {
            continue;
        }
        let at = u64::try_from(at.timestamp().as_nanosecond()).map_err(|error| error.to_string())?;
        if phases.insert(Timestamp(at), *phase).is_some_and(|other| other != *phase) {
            return Err(format!("{symbol}: two phases at {time} of {day}"));
        }
    }
    Ok(())
}

impl Calendar {
    fn weekdays(&self) -> Result<Vec<Weekday>, String> {
        use Weekday::{Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};
        let names = [
            ("monday", Monday),
            ("tuesday", Tuesday),
            ("wednesday", Wednesday),
            ("thursday", Thursday),
            ("friday", Friday),
            ("saturday", Saturday),
            ("sunday", Sunday),
        ];
        let Some(wanted) = &self.weekdays else {
            return Ok(vec![Monday, Tuesday, Wednesday, Thursday, Friday]);
        };
        let find = |text: &String| {
            let found = names.iter().find(|(name, _)| *name == text.to_lowercase());
            found.map(|(_, day)| *day).ok_or_else(|| format!("`{text}` is no day of the week"))
        };
        wanted.iter().map(find).collect()
    }

    fn check(&self, hours: &Hours) -> Result<Checked, String> {
        let mut symbols = Vec::new();
        for name in &hours.instruments {
            match name.strip_prefix('@') {
                Some(group) => symbols.extend(
                    self.groups.get(group).ok_or_else(|| format!("there is no group {group}"))?.clone(),
                ),
                None => symbols.push(name.clone()),
            }
        }
        let change = |change: &Change| {
            let time: Time =
                change.at.parse().map_err(|_| format!("`{}` is no time of day like 09:30", change.at))?;
            let phase = words::phase(&change.phase)
                .map_err(|names| format!("`{}` is no phase: {names}", change.phase))?;
            Ok((time, phase))
        };
        Ok(Checked {
            symbols,
            dates: hours.dates.iter().map(|text| date(text)).collect::<Result<_, _>>()?,
            changes: hours.phases.iter().map(change).collect::<Result<_, String>>()?,
        })
    }
}

fn date(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("`{text}` is no date like 2026-12-25"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCKS: &str = r#"
        time_zone = "America/New_York"
        holidays = ["2026-03-10"]
        [groups]
        stocks = ["ACME", "INITECH"]
        [[hours]]
        instruments = ["@stocks", "OIL"]
        phases = [{ at = "09:30", phase = "continuous" }, { at = "16:00", phase = "closed" }]
        [[hours]]
        dates = ["2026-03-11"]
        instruments = ["@stocks"]
        phases = [{ at = "13:00:00", phase = "closed" }]
    "#;

    fn lines(text: &str, symbol: &str, days: u32, now: &str) -> Result<Vec<String>, String> {
        let expanded = expand(text, days, now.parse().expect("a moment"))?;
        let phases = expanded.get(symbol).ok_or("no such symbol")?;
        let line = |(at, phase): (&Timestamp, &Phase)| format!("{} {phase}", &crate::text::time(*at)[..19]);
        Ok(phases.iter().map(line).collect())
    }

    #[test]
    fn a_change_that_is_near_is_waited_for() {
        let wait = |now: &str| {
            let now = now.parse().expect("a moment");
            until_clear(&expand(STOCKS, 1, now).expect("good"), now)
        };
        assert_eq!(wait("2026-03-06T20:59:58Z"), Some(Duration::from_secs(3)));
        assert_eq!(wait("2026-03-06T20:59:57Z"), None);
        assert_eq!(wait("2026-03-06T21:00:00Z"), None, "it has passed");
    }

    #[test]
    fn local_times_follow_the_clocks() {
        // The clocks of New York go forward on Sunday 2026-03-08; the 10th is a holiday and the 11th a short day.
        let acme = lines(STOCKS, "ACME", 6, "2026-03-06T15:00:00Z").expect("good");
        let expected = [
            "2026-03-06T21:00:00 closed",
            "2026-03-09T13:30:00 continuous",
            "2026-03-09T20:00:00 closed",
            "2026-03-11T17:00:00 closed",
        ];
        assert_eq!(acme, expected);
        let oil = lines(STOCKS, "OIL", 6, "2026-03-06T15:00:00Z").expect("good");
        assert_eq!(oil[3..], ["2026-03-11T13:30:00 continuous", "2026-03-11T20:00:00 closed"]);
    }

    #[test]
    fn a_time_that_a_day_skips_is_later_and_one_that_it_has_twice_is_the_first() {
        let text = r#"
            time_zone = "Europe/Berlin"
            weekdays = ["Sunday"]
            [[hours]]
            instruments = ["ACME"]
            phases = [{ at = "02:30", phase = "pre-open" }]
        "#;
        let spring = lines(text, "ACME", 1, "2026-03-29T00:00:00Z").expect("good");
        assert_eq!(spring, ["2026-03-29T01:30:00 pre_open"], "03:30 of summer");
        let autumn = lines(text, "ACME", 1, "2026-10-24T23:00:00Z").expect("good");
        assert_eq!(autumn, ["2026-10-25T00:30:00 pre_open"], "02:30 of summer");
    }

    #[test]
    fn what_can_not_be_is_named() {
        let check = |change: &dyn Fn(&str) -> String, part: &str| {
            let problem = lines(&change(STOCKS), "ACME", 30, "2026-03-06T15:00:00Z").expect_err(part);
            assert!(problem.contains(part), "{problem}");
        };
        check(&|text| text.replace("New_York", "Gotham"), "no time zone");
        check(&|text| text.replace("@stocks\", \"OIL", "@bonds"), "no group bonds");
        check(&|text| text.replace("continuous", "delisted"), "no phase");
        check(&|text| text.replace("09:30", "9:30pm"), "no time of day");
        check(&|text| text.replace("2026-03-10", "10.3.2026"), "no date");
        check(&|text| text.replace("16:00", "09:30"), "two phases");
        check(&|text| text.replace("holidays", "weekdays = [\"someday\"]\nholidays"), "no day of the week");
        let many =
            expand(STOCKS, 60, "2026-03-06T15:00:00Z".parse().expect("a moment")).expect_err("too many");
        assert!(many.contains("fewer --days"), "{many}");
    }
}
