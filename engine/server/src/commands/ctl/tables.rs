//! What the venue answers to questions, as tables and as JSON.

use std::collections::BTreeMap;

use client::{Client, InstrumentKey};
use protocol::{Event, InstrumentDefinition, InstrumentId, Report};
use serde_json::Value;

use super::ANSWER_PATIENCE;
use super::calendar::Expanded;
use crate::commands::connect;
use crate::commands::trade::show;
use crate::decimal;
use crate::error::CommandError;
use crate::{say, text};

/// Prints what is to be scheduled.
pub(super) fn schedule(phases: &Expanded) {
    for (symbol, phases) in phases {
        phases.iter().for_each(|(at, phase)| say!("{symbol:<16} {} {phase}", text::time(*at)));
    }
}

/// Prints balances, positions and states of instruments; gives them as JSON.
pub(super) fn answers(client: &mut Client, reports: &[Report]) -> Result<Vec<Value>, CommandError> {
    let mut definitions: BTreeMap<InstrumentId, InstrumentDefinition> = BTreeMap::new();
    let mut objects = Vec::new();
    let mut kind = None;
    for report in reports {
        let (_, instrument) = show::subject(&report.output.event);
        if instrument.0 != 0 && !definitions.contains_key(&instrument) {
            let found = client.instrument(InstrumentKey::Id(instrument), ANSWER_PATIENCE);
            found.map_err(connect::failed)?.map(|definition| definitions.insert(instrument, definition));
        }
        let of = definitions.get(&instrument);
        if kind.replace(std::mem::discriminant(&report.output.event))
            != Some(std::mem::discriminant(&report.output.event))
        {
            headline(&report.output.event);
        }
        row(report, of);
        objects.push(show::report_json(report, of));
    }
    Ok(objects)
}

fn headline(event: &Event) {
    match event {
        Event::Balance(_) => say!("{:<8} {:>30} {:>30}", "currency", "total", "held"),
        Event::Position(_) => say!(
            "{:<16} {:>22} {:>30} {:>22} {:>22}",
            "instrument",
            "position",
            "cost",
            "open buys",
            "open sells"
        ),
        _ => {}
    }
}

fn row(report: &Report, of: Option<&InstrumentDefinition>) {
    let scale = of.map_or(0, |of| of.quantity_scale);
    match &report.output.event {
        Event::Balance(e) => say!("{:<8} {:>30} {:>30}", e.currency.as_str(), e.total.get(), e.held.get()),
        Event::Position(e) => say!(
            "{:<16} {:>22} {:>30} {:>22} {:>22}",
            of.map_or_else(|| e.instrument.to_string(), |of| of.symbol.to_string()),
            decimal::format(e.quantity.into(), scale),
            e.cost.get(),
            decimal::format(e.open_buy.into(), scale),
            decimal::format(e.open_sell.into(), scale)
        ),
        _ => say!("{}", show::report(report, of)),
    }
}
