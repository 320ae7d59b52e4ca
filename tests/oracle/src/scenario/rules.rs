//! Steps that set what version 2 of the rulebook has: rules of instruments, phases to come, accounts, money, trades.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Allocation, Amount, BandAction, Body, Fees, InstrumentRules,
    KillTarget, Limits, ParticipantId, Phase, Price, PriceKind, Quantity, SessionId, Settlement, StopTrigger,
    Throttle, TickRow, TickTable, TradeId, Transfer,
};

use super::words::{Words, currency, parse, self_trade};
use super::world::World;

impl World {
    /// The body of a step; `None` for another part's verb.
    pub(super) fn rules_body(&mut self, verb: &str, words: &mut Words<'_>) -> Result<Option<Body>, String> {
        let instrument =
            |world: &Self, words: &mut Words<'_>| world.instrument(words.word("the instrument")?);
        Ok(Some(match verb {
            "rules" => Body::PutRules(instrument(self, words)?, rules(words)?),
            "ticks" => Body::PutTickTable(instrument(self, words)?, tick_table(words)?),
            "schedule" => {
                let instrument = instrument(self, words)?;
                match words.word("the time")? {
                    "clear" => Body::ClearSchedule(instrument),
                    time => Body::SchedulePhase(
                        instrument,
                        self.moment(time)?,
                        words.named(Phase::from_name).ok_or("the phase is missing")?,
                    ),
                }
            }
            "price" => {
                let instrument = instrument(self, words)?;
                let kind = words.named(PriceKind::from_name).ok_or("reference or mark is missing")?;
                Body::SetPrice(instrument, kind, Price(words.value("price")?))
            }
            "delist" => Body::Delist(instrument(self, words)?),
            "fees" => {
                let instrument = instrument(self, words)?;
                Body::SetFees(instrument, AccountGroup(words.number_or_zero("group")?), fees(words)?)
            }
            "seed" => Body::SetSeed(words.value("seed")?),
            "instrument-query" => Body::QueryInstrument(instrument(self, words)?),
            _ => return self.account_body(verb, words),
        }))
    }

    fn account_body(&mut self, verb: &str, words: &mut Words<'_>) -> Result<Option<Body>, String> {
        let account = |words: &mut Words<'_>| words.value("account").map(AccountId);
        Ok(Some(match verb {
            "currency" => Body::PutCurrency(currency(words.word("the code")?)?, words.value("scale")?),
            "account" => Body::PutAccount(AccountDefinition {
                account: account(words)?,
                participant: ParticipantId(words.number_or_zero("participant")?),
                group: AccountGroup(words.number_or_zero("group")?),
                self_trade: words.option("stp").map(self_trade).transpose()?,
            }),
            "participant" => {
                let session = self.session(words.word("the user")?)?;
                Body::SetParticipant(session, ParticipantId(words.value("participant")?))
            }
            "throttle" => {
                let session: SessionId = self.session(words.word("the user")?)?;
                Body::SetThrottle(
                    session,
                    Throttle {
                        orders: words.number_or_zero("orders")?,
                        cancels: words.number_or_zero("cancels")?,
                    },
                )
            }
            "limits" => {
                let account = account(words)?;
                let instrument = words.option("on").map(|symbol| self.instrument(symbol)).transpose()?;
                Body::SetLimits(account, instrument, limits(words)?)
            }
            "deposit" | "withdraw" => {
                let account = account(words)?;
                let sign = if verb == "withdraw" { "-" } else { "" };
                let amount = parse(&format!("{sign}{}", words.word("the amount")?), "amount")?;
                let currency = currency(words.word("the currency")?)?;
                Body::Transfer(Transfer { account, currency, amount: Amount::new(amount) })
            }
            "kill" => {
                let target = match words.word("whom")? {
                    "venue" => KillTarget::Venue,
                    "participant" => KillTarget::Participant(ParticipantId(words.value("participant")?)),
                    "account" => KillTarget::Account(account(words)?),
                    word => return Err(format!("{word:?} is not venue, participant or account")),
                };
                Body::Kill(target, on_or_off(words.word("on or off")?)?)
            }
            "bust" => Body::BustTrade(TradeId(words.value("trade")?)),
            "correct" => Body::CorrectTrade(TradeId(words.value("trade")?), Price(words.value("price")?)),
            "account-query" => Body::QueryAccount(account(words)?),
            _ => return Ok(None),
        }))
    }
}

fn on_or_off(word: &str) -> Result<bool, String> {
    match word {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{word:?} is neither on nor off")),
    }
}

fn rules(words: &mut Words<'_>) -> Result<InstrumentRules, String> {
    let none = InstrumentRules::default();
    Ok(InstrumentRules {
        allocation: words.named_option("allocation", Allocation::from_name)?.unwrap_or(none.allocation),
        allocation_minimum: Quantity(words.number_or_zero("allocation-minimum")?),
        stop_trigger: words.named_option("trigger", StopTrigger::from_name)?.unwrap_or(none.stop_trigger),
        quantity_min: Quantity(words.number_or_zero("quantity-min")?),
        notional_min: words.number_or_zero("notional-min")?,
        notional_max: words.number_or_zero("notional-max")?,
        protection: words.number_or_zero("protection")?,
        static_band: words.number_or_zero("static-band")?,
        dynamic_band: words.number_or_zero("dynamic-band")?,
        band_action: words.named_option("band-action", BandAction::from_name)?.unwrap_or(none.band_action),
        volatility_ms: words.milliseconds("volatility")?,
        random_end_ms: words.milliseconds("random-end")?,
        settlement: words.named_option("settlement", Settlement::from_name)?.unwrap_or(none.settlement),
        base: words.option("base").map(currency).transpose()?,
        quote: words.option("quote").map(currency).transpose()?,
        initial_margin: words.number_or_zero("initial-margin")?,
        maintenance_margin: words.number_or_zero("maintenance-margin")?,
    })
}

fn tick_table(words: &mut Words<'_>) -> Result<TickTable, String> {
    let row = |word: &str| {
        let (from, tick) = word.split_once(':').ok_or_else(|| format!("{word:?} is no FROM:TICK"))?;
        Ok::<_, String>(TickRow {
            from: Price(parse(from, "price")?),
            tick: Price(parse(tick, "tick size")?),
        })
    };
    let rows = words.rest().into_iter().map(row).collect::<Result<Vec<TickRow>, String>>()?;
    TickTable::new(&rows).ok_or_else(|| "a tick table has too many rows".to_string())
}

fn fees(words: &mut Words<'_>) -> Result<Fees, String> {
    Ok(Fees {
        maker_ppm: words.number_or_zero("maker")?,
        taker_ppm: words.number_or_zero("taker")?,
        maker_per_lot: words.number_or_zero("maker-lot")?,
        taker_per_lot: words.number_or_zero("taker-lot")?,
    })
}

fn limits(words: &mut Words<'_>) -> Result<Limits, String> {
    Ok(Limits {
        quantity: words.number_or_zero("quantity")?,
        notional: words.number_or_zero("notional")?,
        open_notional: words.number_or_zero("open-notional")?,
        net_position: words.number_or_zero("net")?,
        gross_position: words.number_or_zero("gross")?,
        collar: words.number_or_zero("collar")?,
        open_orders: words.number_or_zero("orders")?,
        duplicate_ms: words.milliseconds("duplicate")?,
    })
}
