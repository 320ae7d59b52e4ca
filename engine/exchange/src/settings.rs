//! What operators set of an instrument beyond its definition: rules, tick table, prices; and the venue's seed. Each is
//! checked whole before anything changes, and what was so already changes nothing.

use protocol::{
    BandAction, Body, Command, FrameKind, InstrumentId, InstrumentRules, Price, PriceKind, RejectReason,
    TickTable,
};

use crate::exchange::{Exchange, Request};
use crate::instruments::Instrument;
use crate::outbox::{EventSink, Outbox};

/// Largest band and protection, in price units: a price further away than this can't be told anyway.
const DISTANCE_MAX: u64 = i64::MAX as u64;

/// Whether an instrument can have those rules, as far as they concern how it trades.
pub(crate) fn rules_are_valid(rules: &InstrumentRules) -> bool {
    let distances = [rules.protection, rules.static_band, rules.dynamic_band];
    let has_an_end = rules.band_action != BandAction::Auction || rules.volatility_ms > 0;
    distances.iter().all(|distance| *distance <= DISTANCE_MAX) && has_an_end
}

/// Whether an instrument can have that tick table.
pub(crate) fn ticks_are_valid(table: &TickTable, tick_size: Price) -> bool {
    let rises = table.rows().windows(2).all(|pair| pair[0].from < pair[1].from);
    rises && table.rows().iter().all(|row| row.tick.0 > 0 && row.tick.0 % tick_size.0 == 0)
}

impl Instrument {
    /// Its rules; those of an instrument that was given none are the default.
    pub(crate) fn rules(&self) -> InstrumentRules {
        self.special.as_ref().map_or_else(InstrumentRules::default, |special| special.rules)
    }

    /// Its tick table, empty where it was given none.
    pub(crate) fn ticks(&self) -> TickTable {
        self.special.as_ref().map_or_else(TickTable::default, |special| special.ticks)
    }

    /// What bands, collars and auctions are measured from.
    pub(crate) fn reference_price(&self) -> Option<Price> {
        self.special.as_ref().and_then(|special| special.reference)
    }
}

impl Exchange {
    /// Does what an operator's request of version 2 about an instrument, or about the seed, asks.
    pub(crate) fn administer_instrument<S: EventSink>(
        &mut self,
        request: &Request,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let nothing = InstrumentId(0);
        let (kind, id, changed) = match &command.body {
            Body::PutRules(id, rules) => (FrameKind::PutRules, *id, self.put_rules(*id, rules)?),
            Body::PutTickTable(id, table) => (FrameKind::PutTickTable, *id, self.put_tick_table(*id, table)?),
            Body::SetPrice(id, kind, price) => {
                (FrameKind::SetPrice, *id, self.set_price(*id, *kind, *price, out)?)
            }
            Body::SchedulePhase(id, at, phase) => {
                (FrameKind::SchedulePhase, *id, self.schedule_phase(*id, *at, *phase)?)
            }
            Body::ClearSchedule(id) => (FrameKind::ClearSchedule, *id, self.clear_schedule(*id)?),
            Body::Delist(id) => {
                self.delist(*id, out)?;
                (FrameKind::Delist, *id, false)
            }
            Body::SetSeed(seed) => (FrameKind::SetSeed, nothing, self.set_seed(*seed)),
            _ => return Err(RejectReason::OptionNotOffered),
        };
        self.follow(out);
        if changed {
            self.configured(kind, id.0, command, out);
        }
        self.admin_done(request, kind, id, out);
        Ok(())
    }

    /// True: the rules are other ones now.
    fn put_rules(&mut self, id: InstrumentId, rules: &InstrumentRules) -> Result<bool, RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        if !rules_are_valid(rules) {
            return Err(RejectReason::DefinitionInvalid);
        }
        let instrument = self.instruments.get(place);
        if instrument.rules() == *rules {
            return Ok(false);
        }
        self.change_settlement(place, rules)?;
        self.set_rules(place, rules);
        self.touch(place);
        Ok(true)
    }

    /// True: the table is another one now.
    fn put_tick_table(&mut self, id: InstrumentId, table: &TickTable) -> Result<bool, RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        let instrument = self.instruments.get_mut(place);
        if !ticks_are_valid(table, instrument.definition.tick_size) {
            return Err(RejectReason::DefinitionInvalid);
        }
        if instrument.ticks() == *table {
            return Ok(false);
        }
        instrument.special_mut().ticks = *table;
        self.forget_look(place);
        self.touch(place);
        self.note_auction(place);
        Ok(true)
    }

    /// True: the price is another one now. The mark price is looked at by accounts in any case.
    fn set_price<S: EventSink>(
        &mut self,
        id: InstrumentId,
        kind: PriceKind,
        price: Price,
        out: &mut Outbox<'_, S>,
    ) -> Result<bool, RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        let instrument = self.instruments.get_mut(place);
        instrument.check_price(price)?;
        let special = instrument.special_mut();
        let before = match kind {
            PriceKind::Reference => special.reference.replace(price),
            PriceKind::Mark => special.mark.replace(price),
        };
        match kind {
            PriceKind::Reference => self.note_auction(place),
            PriceKind::Mark => {
                self.note_mark(place);
                self.call_margins(place, out);
            }
        }
        Ok(before != Some(price))
    }

    /// True: the seed is another one now.
    fn set_seed(&mut self, seed: u64) -> bool {
        std::mem::replace(&mut self.seed, seed) != seed
    }
}
