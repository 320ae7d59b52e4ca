//! The subcommands, each with an example.

use std::path::PathBuf;

use clap::Subcommand;

use super::accounts::{
    CurrencyArgs, FeesArgs, KillArgs, LimitsArgs, ParticipantArgs, PutAccountArgs, ThrottleArgs, TransferArgs,
};
use super::calendar::CalendarArgs;
use super::rules::{RulesArgs, TicksArgs};
use super::users::{DisableArgs, UserArgs};
use super::venue::{AccountArgs, CorrectArgs, PhaseArgs, PriceArgs, ScheduleArgs, SeedArgs, TradeArgs};

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Create a user, or give one with the same name and session another password and settings
    #[command(after_help = "Example:\n  RINGPIT_NEW_PASSWORD=secret ringpit ctl add-user alice --session 10")]
    AddUser(UserArgs),
    /// Disconnect a user and let it log in no more; its orders stay. add-user with a new password lets it in again
    #[command(after_help = "Example:\n  ringpit ctl disable-user alice --session 10")]
    DisableUser(DisableArgs),
    /// End the connection of a session; it may log in again
    #[command(after_help = "Example:\n  ringpit ctl disconnect --session 10")]
    Disconnect(SessionArgs),
    /// Create the instruments of a CSV or TOML file; those that exist with the same definition stay as they are
    #[command(after_help = "Example:\n  ringpit ctl add-instruments --file instruments.csv")]
    AddInstruments(FileArgs),
    /// Stop trading in an instrument; cancels still work
    #[command(after_help = "Example:\n  ringpit ctl halt BTCUSD")]
    Halt(SymbolArgs),
    /// Go on trading in a halted instrument
    #[command(after_help = "Example:\n  ringpit ctl resume BTCUSD")]
    Resume(SymbolArgs),
    /// Set the venue's capacities, all of them, until the next start: then those of the configuration are published again
    #[command(
        after_help = "Example:\n  ringpit ctl set-capacities --orders 16000000 --levels 4000000 --cl-ord-ids 8000000 \\
      --sessions 10000 --instruments 200000

To keep them, put them into the configuration, too: the server publishes its [capacities] at each start."
    )]
    SetCapacities(CapacityArgs),
    /// Switch to the rules of a newer version, once all members of the cluster know them; the same ones again are done
    #[command(after_help = "Example:
  ringpit ctl --data data rulebook 2

It asks the server of --data, which must run on this machine, who knows the version. It is refused, and nothing is logged,
unless every member can be reached and knows it: one that doesn't could not go on. `ringpit status --json` has the version in
force (`rulebook`) and the newest known (`rulebook_known`). There is no way back to a lower one.")]
    Rulebook(RulebookArgs),
    /// End the trading day: day orders expire, reports are numbered from 1 again
    #[command(after_help = "Example:\n  ringpit ctl end-of-day")]
    EndOfDay,
    /// Cancel the orders of a session
    #[command(after_help = "Example:\n  ringpit ctl mass-cancel --session 10 --instrument BTCUSD --side buy")]
    MassCancel(MassCancelArgs),

    /// Set an instrument's rules: all of them, so what isn't given is as for one that was given none, which is said
    #[command(after_help = "Example:
  ringpit ctl set-rules BTCUSD --settlement cash --base BTC --quote USD --protection 50 --static-band 1000 \\
      --band-action auction --volatility-ms 5000
  ringpit ctl set-rules BTCUSD --file rules.toml --show

`ringpit settings instruments` shows the rules in force.")]
    SetRules(Box<RulesArgs>),
    /// Set an instrument's tick sizes by price
    #[command(after_help = "Example:\n  ringpit ctl set-ticks ACME 0:0.01 10:0.05 100:0.10")]
    SetTicks(TicksArgs),
    /// Put an instrument into a phase at once
    #[command(after_help = "Example:\n  ringpit ctl phase BTCUSD opening-auction")]
    Phase(PhaseArgs),
    /// Put an instrument into a phase at a time; the same time again replaces it
    #[command(after_help = "Example:\n  ringpit ctl schedule BTCUSD 2026-05-04T07:00:00Z continuous\n  \
ringpit ctl schedule BTCUSD +60 continuous")]
    Schedule(ScheduleArgs),
    /// Forget what is scheduled for an instrument
    #[command(after_help = "Example:\n  ringpit ctl clear-schedule BTCUSD")]
    ClearSchedule(SymbolArgs),
    /// Schedule the phases of the coming days by a calendar in local time; again and again with the same one
    #[command(after_help = "Example:
  ringpit ctl calendar stocks.toml --days 10
  ringpit ctl calendar stocks.toml --days 10 --show

stocks.toml:
  time_zone = \"America/New_York\"
  weekdays = [\"monday\", \"tuesday\", \"wednesday\", \"thursday\", \"friday\"]
  holidays = [\"2026-12-25\"]
  [groups]
  stocks = [\"ACME\", \"INITECH\"]
  [[hours]]
  instruments = [\"@stocks\", \"OIL\"]
  phases = [
    { at = \"09:00\", phase = \"opening-auction\" },
    { at = \"09:30\", phase = \"continuous\" },
    { at = \"15:55\", phase = \"closing-auction\" },
    { at = \"16:00\", phase = \"closed\" },
  ]
  [[hours]]
  dates = [\"2026-11-27\"]
  instruments = [\"@stocks\"]
  phases = [{ at = \"09:30\", phase = \"continuous\" }, { at = \"13:00\", phase = \"closed\" }]

Hours with dates take the place of the others on these days. What an instrument had scheduled is cleared first. A time that a
day skips when the clocks go forward is as much later; one that it has twice is the first.")]
    Calendar(CalendarArgs),
    /// Set an instrument's reference or mark price
    #[command(after_help = "Example:\n  ringpit ctl set-price BTCUSD reference 50000\n  \
ringpit ctl set-price BTCUSD mark 50125.50")]
    SetPrice(PriceArgs),
    /// Close an instrument for good: its orders are canceled; nobody may have a position in it
    #[command(after_help = "Example:\n  ringpit ctl delist BTCUSD --why 'replaced by BTCUSD2'")]
    Delist(SymbolArgs),
    /// An instrument's phase, prices and open interest
    #[command(after_help = "Example:\n  ringpit ctl instrument BTCUSD")]
    Instrument(SymbolArgs),
    /// Create a currency
    #[command(after_help = "Example:\n  ringpit ctl currency USD --scale 10

The scale of a currency that an instrument settles in must be at least price_scale plus quantity_scale (quote) or \
quantity_scale (base) of that instrument.")]
    Currency(CurrencyArgs),
    /// Create an account, or change its group and self-trade prevention
    #[command(
        after_help = "Example:\n  ringpit ctl set-account 100 --participant 7 --self-trade 1:cancel-resting"
    )]
    SetAccount(PutAccountArgs),
    /// Balances and positions of an account, in the smallest units of currencies
    #[command(
        after_help = "Example:\n  ringpit ctl account 100\n  ringpit ctl account 0        the venue's own fees"
    )]
    Account(AccountArgs),
    /// Say whose user a session is; its orders are then for accounts of that participant
    #[command(after_help = "Example:\n  ringpit ctl participant 7 --session 10")]
    Participant(ParticipantArgs),
    /// Set the limits of an account: all of them, so what isn't given is no limit
    #[command(
        after_help = "Example:\n  ringpit ctl limits 100 --instrument BTCUSD --quantity 5 --net-position 20 \
--open-orders 50 --collar 500"
    )]
    Limits(LimitsArgs),
    /// Set what trades in an instrument cost
    #[command(after_help = "Example:\n  ringpit ctl fees BTCUSD --maker-ppm -50 --taker-ppm 200\n  \
ringpit ctl fees BTCUSD --group 3 --taker-per-lot 5")]
    Fees(FeesArgs),
    /// Bound how many messages a session may send a second
    #[command(after_help = "Example:\n  ringpit ctl throttle --session 10 --orders 1000 --cancels 2000")]
    Throttle(ThrottleArgs),
    /// Pay into an account
    #[command(after_help = "Example:\n  ringpit ctl deposit 100 USD 25000.50 --scale 10 --why 'wire 4711'

--scale is the currency's number of decimals; without it the amount is a whole number of its smallest unit.")]
    Deposit(TransferArgs),
    /// Pay out of an account, at most what is free
    #[command(after_help = "Example:\n  ringpit ctl withdraw 100 USD 25000.50 --scale 10

--scale is the currency's number of decimals; without it the amount is a whole number of its smallest unit.")]
    Withdraw(TransferArgs),
    /// Cancel all orders of the venue, a participant or an account and refuse new ones (on), or lift that (off)
    #[command(after_help = "Example:\n  ringpit ctl kill on participant 7 --why 'runaway algorithm'\n  \
ringpit ctl kill off participant 7\n  ringpit ctl kill on venue\n  ringpit ctl kill on account 100

The answer does not count the orders: each is told to its session, and ringpit_events_total{kind=\"canceled\"} counts them all.")]
    Kill(KillArgs),
    /// Take a trade of today back: quantities, money and fees follow, orders are not revived
    #[command(after_help = "Example:\n  ringpit ctl bust 4711 --why 'clearly erroneous'")]
    Bust(TradeArgs),
    /// Give a trade of today another price: money follows
    #[command(after_help = "Example:\n  ringpit ctl correct 4711 BTCUSD 50000 --why 'clearly erroneous'")]
    Correct(CorrectArgs),
    /// Set the seed of what is drawn: sizes of refills, random ends of auctions
    #[command(after_help = "Example:\n  ringpit ctl seed 20260504")]
    Seed(SeedArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct SessionArgs {
    /// Number of the session
    #[arg(long)]
    pub(super) session: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct FileArgs {
    /// The file
    #[arg(long)]
    pub(super) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct SymbolArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct CapacityArgs {
    /// Live orders
    #[arg(long)]
    pub(super) orders: u32,
    /// Price levels
    #[arg(long)]
    pub(super) levels: u32,
    /// Text client order ids a trading day
    #[arg(long)]
    pub(super) cl_ord_ids: u32,
    /// Sessions
    #[arg(long)]
    pub(super) sessions: u32,
    /// Instruments
    #[arg(long)]
    pub(super) instruments: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct RulebookArgs {
    /// The version
    pub(super) version: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct MassCancelArgs {
    /// Number of the session
    #[arg(long)]
    pub(super) session: u32,
    /// Only the orders of this instrument
    #[arg(long, value_name = "SYMBOL")]
    pub(super) instrument: Option<String>,
    /// Only the orders of this side: buy or sell
    #[arg(long)]
    pub(super) side: Option<String>,
}
