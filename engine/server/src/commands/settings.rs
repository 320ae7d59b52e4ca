//! `ringpit settings`: what operators have set and is in force, read from snapshot and journal. The venue answers no such
//! question over the wire; a data directory can be asked while its server runs.

use clap::ValueEnum;
use exchange::{Exchange, InstrumentView};
use journaler::SharedStorage;
use protocol::{Body, InstrumentId, InstrumentRules, KillTarget, Limits, ParticipantId, PriceKind, Throttle};
use serde_json::{Value, json};

use super::data::{self, DataArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::progress::{Meter, Without};
use crate::{identity, replay, say, text};

/// Show the users, accounts and instruments that there are, with the rules, limits, fees and schedules in force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit settings --data data
  ringpit settings instruments --data data
  ringpit settings accounts --data data --json

Each line is the request that sets just this, with the numbers of the log: prices, quantities and amounts in their smallest
units. It reads the newest snapshot and the journal behind it, while the server runs or not, and says up to which frame. Of a
member of a cluster that may be a frame that is not committed yet. What operators did, and when, is in `ringpit journal show`;
balances and positions are told by `ringpit ctl account`.")]
pub struct SettingsArgs {
    /// What to show; without it, all
    #[arg(value_enum)]
    what: Option<What>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Capacities, seed, currencies, the venue's kill switch
    Venue,
    /// Users, their participants and throttles
    Users,
    /// Accounts, their limits, kill switches of them and of participants
    Accounts,
    /// Instruments: definition, phase, rules, ticks, prices, schedule, fees
    Instruments,
}

/// Runs the command.
///
/// # Errors
/// The journal is damaged, or there is no data directory.
pub fn run(args: &SettingsArgs) -> Result<(), CommandError> {
    let data = args.data.existing()?;
    let storage = data::open(&data)?;
    let exchange = state(&storage, identity::existing(&data, &storage)?)?;
    let mut object = json!({
        "sequence": exchange.sequence().0,
        "trading_day": exchange.trading_day().0,
        "rulebook": exchange.rulebook_version(),
    });
    say!(
        "up to frame {}, on trading day {}, by version {} of the rulebook",
        exchange.sequence(),
        exchange.trading_day(),
        exchange.rulebook_version()
    );
    for what in What::value_variants() {
        if args.what.is_some_and(|wanted| wanted != *what) {
            continue;
        }
        let settings = match what {
            What::Venue => venue(&exchange),
            What::Users => users(&exchange),
            What::Accounts => accounts(&exchange),
            What::Instruments => instruments(&exchange),
        };
        settings.iter().for_each(|body| say!("{}", text::body_line(body)));
        let name = what.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        object[name] = settings.iter().map(text::body_json).collect::<Value>();
    }
    args.output.last_line(&object);
    Ok(())
}

/// The state at the end of the journal.
fn state(storage: &SharedStorage, cluster_id: u128) -> Result<Exchange, CommandError> {
    let stat = super::journal::read_all(storage, cluster_id, "checking")?;
    let mut meter = Meter::new("replaying", Without::Nothing);
    let mut progress = |done, total| meter.at(done, total);
    let replayed =
        replay::replay(storage, cluster_id, replay::From::Snapshot, stat.last_sequence, &mut progress)?;
    let _: crate::progress::Rate = meter.finish();
    Ok(replayed.exchange)
}

fn venue(exchange: &Exchange) -> Vec<Body> {
    let mut all = vec![Body::SetCapacities(exchange.capacities()), Body::SetSeed(exchange.seed())];
    all.extend(exchange.currencies().map(|(currency, scale, ..)| Body::PutCurrency(currency, scale)));
    all.extend(exchange.is_killed().then_some(Body::Kill(KillTarget::Venue, true)));
    all
}

fn users(exchange: &Exchange) -> Vec<Body> {
    let mut all: Vec<_> = exchange.users().map(|user| Body::PutUser(*user)).collect();
    for of in exchange.controls() {
        if of.participant != ParticipantId(0) {
            all.push(Body::SetParticipant(of.session, of.participant));
        }
        if of.throttle != Throttle::default() {
            all.push(Body::SetThrottle(of.session, of.throttle));
        }
    }
    all
}

fn accounts(exchange: &Exchange) -> Vec<Body> {
    let killed = exchange.participants().filter(|(_, is_killed)| *is_killed);
    let mut all: Vec<_> = killed.map(|(id, _)| Body::Kill(KillTarget::Participant(id), true)).collect();
    for account in exchange.accounts() {
        let id = account.definition.account;
        all.push(Body::PutAccount(account.definition));
        if account.limits != Limits::default() {
            all.push(Body::SetLimits(id, None, account.limits));
        }
        let own = account.own_limits.iter();
        all.extend(own.map(|(instrument, limits)| Body::SetLimits(id, Some(*instrument), *limits)));
        all.extend(account.killed.then_some(Body::Kill(KillTarget::Account(id), true)));
    }
    all
}

fn instruments(exchange: &Exchange) -> Vec<Body> {
    let mut all = Vec::new();
    for (definition, phase) in exchange.instruments() {
        let id = definition.instrument;
        all.push(Body::PutInstrument(*definition));
        all.push(Body::SetPhase(id, phase));
        if let Some(view) = exchange.instrument(id) {
            all.extend(of_instrument(id, &view));
        }
        let fees = exchange.fee_schedules().filter(|(of, ..)| *of == id);
        all.extend(fees.map(|(_, group, fees)| Body::SetFees(id, group, fees)));
    }
    all
}

/// What an instrument has beyond its definition.
fn of_instrument(id: InstrumentId, view: &InstrumentView) -> Vec<Body> {
    let mut all = Vec::new();
    if view.rules != InstrumentRules::default() {
        all.push(Body::PutRules(id, view.rules));
    }
    if !view.ticks.rows().is_empty() {
        all.push(Body::PutTickTable(id, view.ticks));
    }
    let prices = [(PriceKind::Reference, view.reference_price), (PriceKind::Mark, view.mark_price)];
    for (kind, price) in prices {
        all.extend(price.map(|price| Body::SetPrice(id, kind, price)));
    }
    let changes = view.changes.iter().chain(&view.volatility_end);
    all.extend(changes.map(|change| Body::SchedulePhase(id, change.at, change.phase)));
    all
}
