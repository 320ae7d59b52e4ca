//! Export of the whole state as records in canonical order, and the hash over them. It must give everything that later
//! behaviour depends on, and nothing that depends on the allocator.

mod accounts;
mod extra;

use protocol::{Capacities, ClOrdId, StreamHash, UserDefinition};

use crate::arena::Handle;
use crate::exchange::Exchange;
use crate::instruments::Instrument;
use crate::record::{
    InstrumentRecord, NameRecord, OrderRecord, Record, SessionRecord, UserRecord, VenueRecord,
};

impl Exchange {
    /// Gives every record of the state, in canonical order. A divergence is not part of it: who has one must stop.
    pub fn export(&self, f: &mut dyn FnMut(Record)) {
        f(Record::Venue(Box::new(self.venue_record())));
        for place in self.sessions.places() {
            let session = self.sessions.get(place);
            f(Record::Session(Box::new(SessionRecord {
                highest_request_id: session.highest_request_id.0,
                last_report: session.last_report,
                deadline: session.deadline().map(|deadline| deadline.0),
                session: session.id.0,
                connection: session.connection.map(|connection| connection.0),
                user: session.user.as_ref().map(user_record),
            })));
        }
        for instrument in self.instruments.iter() {
            f(Record::Instrument(Box::new(instrument_record(instrument))));
        }
        for instrument in self.instruments.iter() {
            if let Some(special) = instrument.special_record() {
                f(Record::Special(Box::new(special)));
            }
        }
        self.export_accounts(&mut |record| f(Record::Accounts(Box::new(record))));
        self.for_each_handle(|handle| {
            if let Some(extra) = self.extra_record(handle) {
                f(Record::Extra(Box::new(extra)));
            }
            f(Record::Order(self.order_record(handle)));
        });
        for name in self.orders.names.iter() {
            let mut text = [0; ClOrdId::LENGTH_MAX];
            let bytes = name.text.as_bytes();
            text[..bytes.len()].copy_from_slice(bytes);
            let order = name.order.is_some().then(|| self.orders.arena.get(name.order));
            f(Record::Name(NameRecord {
                client_order_id: order.map_or(0, |order| order.client_order_id.0),
                session: self.sessions.get(name.session).id.0,
                length: bytes.len() as u8,
                text,
            }));
        }
    }

    /// Hash over the whole state, queue order included. It visits everything: not for the engine's thread.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        self.export_hashed(&mut |_| {})
    }

    /// [`export`](Self::export) and [`state_hash`](Self::state_hash) in one pass: the visit is what costs.
    pub fn export_hashed(&self, f: &mut dyn FnMut(Record)) -> u64 {
        let mut hash = StreamHash::default();
        self.export(&mut |record| {
            record.fold(&mut hash);
            f(record);
        });
        hash.value()
    }

    fn venue_record(&self) -> VenueRecord {
        let checkpoint = self.checkpoint;
        let Capacities { orders, levels, cl_ord_ids, sessions, instruments } = self.capacities;
        VenueRecord {
            sequence: self.sequence.0,
            log_time: self.log_time.0,
            running_hash: self.running_hash,
            checkpoint_sequence: checkpoint.map_or(0, |checkpoint| checkpoint.sequence.0),
            checkpoint_hash: checkpoint.map_or(0, |checkpoint| checkpoint.running_hash),
            last_order_id: self.last_order_id,
            last_trade_id: self.last_trade_id,
            seed: self.seed,
            ignored_frames: self.ignored,
            trading_day: self.trading_day.0,
            rulebook_version: self.rulebook_version,
            capacities: [orders, levels, cl_ord_ids, sessions, instruments],
            counts: [
                self.sessions.len(),
                self.instruments.len(),
                self.orders.arena.live(),
                self.orders.names.len(),
            ],
        }
    }

    fn order_record(&self, handle: Handle) -> OrderRecord {
        let order = self.orders.arena.get(handle);
        OrderRecord {
            price: order.price.0,
            leaves: order.leaves,
            cum: order.cum,
            order_id: order.order_id.0,
            client_order_id: order.client_order_id.0,
            session: self.sessions.get(order.session).id.0,
            account: order.account.0,
            instrument: self.instruments.get(order.instrument).definition.instrument.0,
            side: order.side.to_byte(),
            time_in_force: order.time_in_force.to_byte(),
            flags: order.flag_bits,
        }
    }
}

fn user_record(user: &UserDefinition) -> UserRecord {
    UserRecord {
        grace_ms: user.grace_ms,
        name: *user.name.as_padded(),
        scheme: user.credential.scheme,
        role: user.role.to_byte(),
        salt: user.credential.salt,
        hash: user.credential.hash,
        enabled: user.enabled,
        cancel_on_disconnect: user.cancel_on_disconnect,
    }
}

fn instrument_record(instrument: &Instrument) -> InstrumentRecord {
    let definition = &instrument.definition;
    InstrumentRecord {
        instrument: definition.instrument.0,
        symbol: *definition.symbol.as_padded(),
        price_scale: definition.price_scale,
        quantity_scale: definition.quantity_scale,
        phase: instrument.phase.to_byte(),
        stopped: instrument.stopped,
        tick_size: definition.tick_size.0,
        lot_size: definition.lot_size.0,
        price_min: definition.price_min.0,
        price_max: definition.price_max.0,
        quantity_max: definition.quantity_max.0,
        last_trade: instrument.last_trade.map(|price| price.0),
    }
}
