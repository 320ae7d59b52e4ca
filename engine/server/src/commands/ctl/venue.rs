//! Subcommands about an instrument's phases and prices, and about trades.

use protocol::{Body, InstrumentDefinition, Phase, PriceKind, Timestamp, TradeId};

use super::words::{moment, phase, price, price_kind};
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(super) struct PhaseArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
    /// The phase
    #[arg(value_parser = phase)]
    pub(super) phase: Phase,
}

#[derive(Debug, clap::Args)]
pub(super) struct ScheduleArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
    /// When: 2026-05-02T16:00:00Z, or +SECONDS from now
    #[arg(value_parser = moment)]
    pub(super) at: Timestamp,
    /// The phase
    #[arg(value_parser = phase)]
    pub(super) phase: Phase,
}

#[derive(Debug, clap::Args)]
pub(super) struct PriceArgs {
    /// Symbol of the instrument
    pub(super) symbol: String,
    /// Which: reference or mark
    #[arg(value_parser = price_kind)]
    kind: PriceKind,
    /// The price
    #[arg(allow_negative_numbers = true)]
    price: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct TradeArgs {
    /// Number of the trade, as in the reports of both sides
    pub(super) trade: u64,
}

#[derive(Debug, clap::Args)]
pub(super) struct CorrectArgs {
    /// Number of the trade, as in the reports of both sides
    trade: u64,
    /// Symbol of the trade's instrument
    pub(super) symbol: String,
    /// The price that it should have had
    #[arg(allow_negative_numbers = true)]
    price: String,
}

#[derive(Debug, clap::Args)]
pub(super) struct SeedArgs {
    /// The seed of refills and of random ends of auctions
    pub(super) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(super) struct AccountArgs {
    /// Number of the account; 0 shows the venue's own fees
    pub(super) account: u32,
}

impl PriceArgs {
    pub(super) fn body(&self, of: &InstrumentDefinition) -> Result<Body, CommandError> {
        Ok(Body::SetPrice(of.instrument, self.kind, price(&self.price, of)?))
    }
}

impl CorrectArgs {
    pub(super) fn body(&self, of: &InstrumentDefinition) -> Result<Body, CommandError> {
        Ok(Body::CorrectTrade(TradeId(self.trade), price(&self.price, of)?))
    }
}
