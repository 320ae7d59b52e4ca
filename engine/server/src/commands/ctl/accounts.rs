//! Subcommands about participants, accounts and money. Amounts are decimals of `--scale`, without it whole numbers
//! of the smallest unit, and the venue is asked whether the currency has just these.

use clap::Subcommand;
use client::{Client, Outcome};
use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Body, Fees, KillTarget, Limits, ParticipantId,
    RejectReason, SelfTrade, SelfTradeAction, SessionId, Throttle, Transfer,
};

use super::perform::{outcome_of, outcome_text};
use super::rules::currency;
use super::words::{distance, wrong};
use crate::commands::connect;
use crate::decimal;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(super) struct CurrencyArgs {
    /// Its code, 1 to 8 characters
    code: String,
    /// Decimals of its amounts
    #[arg(long)]
    scale: u8,
}

#[derive(Debug, clap::Args)]
pub(super) struct PutAccountArgs {
    /// Number of the account
    account: u32,
    /// Whose it is, for good
    #[arg(long)]
    participant: u32,
    /// Whose fees it pays; 0 is everybody who has none of their own
    #[arg(long, default_value_t = 0)]
    group: u32,
    /// Self-trade prevention of its orders that say nothing themselves
    #[arg(long, value_name = "GROUP:ACTION", value_parser = self_trade)]
    self_trade: Option<SelfTrade>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ParticipantArgs {
    /// Number of the participant; 0 takes it away
    participant: u32,
    /// Number of the user's session
    #[arg(long)]
    session: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct LimitsArgs {
    /// Number of the account
    account: u32,
    /// For this instrument alone, with decimals of its scales; else for all without limits of their own, in their smallest
    /// units
    #[arg(long, value_name = "SYMBOL")]
    instrument: Option<String>,
    /// Largest quantity of an order
    #[arg(long, value_name = "QUANTITY")]
    quantity: Option<String>,
    /// Largest quantity times price of an order
    #[arg(long, value_name = "NOTIONAL")]
    notional: Option<String>,
    /// Largest sum of that over the open orders
    #[arg(long, value_name = "NOTIONAL")]
    open_notional: Option<String>,
    /// Largest position with the open orders of its side
    #[arg(long, value_name = "QUANTITY")]
    net_position: Option<String>,
    /// Largest sum of long and short, open orders included
    #[arg(long, value_name = "QUANTITY")]
    gross_position: Option<String>,
    /// How far a limit price may be from the reference price
    #[arg(long, value_name = "DISTANCE")]
    collar: Option<String>,
    /// Most open orders
    #[arg(long, default_value_t = 0)]
    open_orders: u32,
    /// How long the same order is a duplicate, in milliseconds
    #[arg(long, default_value_t = 0)]
    duplicate_ms: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct FeesArgs {
    /// Symbol of the instrument
    symbol: String,
    /// Whose; 0 is everybody without fees of their own
    #[arg(long, default_value_t = 0)]
    group: u32,
    /// Of the resting side, in millionths of the notional; negative is a rebate
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    maker_ppm: i32,
    /// Of the incoming side
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    taker_ppm: i32,
    /// Of the resting side, in the smallest unit of the quote currency a lot
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    maker_per_lot: i64,
    /// Of the incoming side
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    taker_per_lot: i64,
}

#[derive(Debug, clap::Args)]
pub(super) struct ThrottleArgs {
    /// Number of the user's session
    #[arg(long)]
    session: u32,
    /// New orders, replaces and quote entries a second; 0 is no bound
    #[arg(long)]
    orders: u32,
    /// Cancels and mass cancels a second; 0 is no bound
    #[arg(long)]
    cancels: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct TransferArgs {
    /// Number of the account
    account: u32,
    /// The currency
    currency: String,
    /// How much
    amount: String,
    /// Decimals of the currency: with others than the venue has for it, nothing is done
    #[arg(long, default_value_t = 0)]
    scale: u8,
}

#[derive(Debug, clap::Args)]
pub(super) struct KillArgs {
    /// on or off
    #[arg(value_parser = ["on", "off"])]
    state: String,
    #[command(subcommand)]
    target: KillArgsTarget,
}

#[derive(Debug, Subcommand)]
enum KillArgsTarget {
    /// Everybody
    #[command(after_help = "Example:\n  ringpit ctl kill on venue")]
    Venue,
    /// The users and accounts of a participant
    #[command(after_help = "Example:\n  ringpit ctl kill on participant 7")]
    Participant {
        /// Its number
        number: u32,
    },
    /// An account
    #[command(after_help = "Example:\n  ringpit ctl kill off account 5")]
    Account {
        /// Its number
        number: u32,
    },
}

/// Reads `GROUP:ACTION`.
fn self_trade(text: &str) -> Result<SelfTrade, String> {
    let wrong = || "GROUP:ACTION with cancel-resting, cancel-incoming, cancel-both or decrement".to_owned();
    let (group, action) = text.split_once(':').ok_or_else(wrong)?;
    let action = SelfTradeAction::from_name(&action.replace('-', "_")).ok_or_else(wrong)?;
    Ok(SelfTrade { group: group.parse().map_err(|_| wrong())?, action })
}

impl CurrencyArgs {
    pub(super) fn body(&self) -> Result<Body, CommandError> {
        Ok(Body::PutCurrency(currency(&self.code)?, self.scale))
    }
}

impl PutAccountArgs {
    pub(super) fn body(&self) -> Body {
        Body::PutAccount(AccountDefinition {
            account: AccountId(self.account),
            participant: ParticipantId(self.participant),
            group: AccountGroup(self.group),
            self_trade: self.self_trade,
        })
    }
}

impl ParticipantArgs {
    pub(super) fn body(&self) -> Body {
        Body::SetParticipant(SessionId(self.session), ParticipantId(self.participant))
    }
}

impl LimitsArgs {
    pub(super) fn body(&self, client: &mut Client) -> Result<Body, CommandError> {
        let of = self.instrument.as_deref().map(|symbol| connect::instrument(client, symbol)).transpose()?;
        let (prices, quantities) = of.map_or((0, 0), |of| (of.price_scale, of.quantity_scale));
        let read = |name, text: &Option<String>, scale| distance(name, text.as_deref(), scale);
        let limits = Limits {
            quantity: read("quantity", &self.quantity, quantities)?,
            notional: read("notional", &self.notional, prices + quantities)?,
            open_notional: read("open-notional", &self.open_notional, prices + quantities)?,
            net_position: read("net-position", &self.net_position, quantities)?,
            gross_position: read("gross-position", &self.gross_position, quantities)?,
            collar: read("collar", &self.collar, prices)?,
            open_orders: self.open_orders,
            duplicate_ms: self.duplicate_ms,
        };
        Ok(Body::SetLimits(AccountId(self.account), of.map(|of| of.instrument), limits))
    }
}

impl FeesArgs {
    pub(super) fn body(&self, client: &mut Client) -> Result<Body, CommandError> {
        let of = connect::instrument(client, &self.symbol)?;
        let fees = Fees {
            maker_ppm: self.maker_ppm,
            taker_ppm: self.taker_ppm,
            maker_per_lot: self.maker_per_lot,
            taker_per_lot: self.taker_per_lot,
        };
        Ok(Body::SetFees(of.instrument, AccountGroup(self.group), fees))
    }
}

impl ThrottleArgs {
    pub(super) fn body(&self) -> Body {
        let throttle = Throttle { orders: self.orders, cancels: self.cancels };
        Body::SetThrottle(SessionId(self.session), throttle)
    }
}

impl TransferArgs {
    /// The venue must have the currency with these decimals, or another amount would be moved than was meant. It tells no
    /// scale, but refuses a transfer of nothing for an unknown currency first, and another scale of a known one.
    pub(super) fn check_scale(&self, client: &mut Client) -> Result<(), CommandError> {
        let currency = currency(&self.currency)?;
        let nothing = Transfer { account: AccountId(self.account), currency, amount: Amount::new(0) };
        match outcome_of(client, Body::Transfer(nothing))? {
            Outcome::Rejected(_, RejectReason::AmountInvalid) => {}
            outcome => {
                let (account, outcome) = (self.account, outcome_text(outcome));
                return Err(CommandError::failed(format!("account {account}, {currency}: {outcome}")));
            }
        }
        match outcome_of(client, Body::PutCurrency(currency, self.scale))? {
            Outcome::Done(_) => Ok(()),
            Outcome::Rejected(_, RejectReason::AccountExists) => Err(CommandError::failed(format!(
                "{currency} has another number of decimals than --scale {}",
                self.scale
            ))),
            outcome => Err(CommandError::failed(format!("currency {currency}: {}", outcome_text(outcome)))),
        }
    }

    /// `sign` is 1 for a deposit and -1 for a withdrawal.
    pub(super) fn body(&self, sign: i128) -> Result<Body, CommandError> {
        let amount =
            decimal::parse_wide(&self.amount, self.scale).map_err(|error| wrong("amount", &error))?;
        if amount <= 0 {
            return Err(CommandError::usage("an amount is above zero"));
        }
        Ok(Body::Transfer(Transfer {
            account: AccountId(self.account),
            currency: currency(&self.currency)?,
            amount: Amount::new(sign * amount),
        }))
    }
}

impl KillArgs {
    pub(super) fn body(&self) -> Body {
        let target = match self.target {
            KillArgsTarget::Venue => KillTarget::Venue,
            KillArgsTarget::Participant { number } => KillTarget::Participant(ParticipantId(number)),
            KillArgsTarget::Account { number } => KillTarget::Account(AccountId(number)),
        };
        Body::Kill(target, self.state == "on")
    }
}
