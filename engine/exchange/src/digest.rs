//! How every field of an event enters the running hash.
//!
//! The fields of one event are hashed in lanes of four words that don't wait for each other, and only their results join
//! the chain: what one event adds to the chain's latency is a few cycles, however many fields it has.

use protocol::{
    Accepted, Added, Amount, Canceled, Currency, Event, Executed, InstrumentDefinition, LoggedIn, Price,
    RejectReason, Rejected, Replaced, Side, StreamHash, Trade, UserDefinition,
};

/// Words of a lane.
const LANE: usize = 4;
/// Different for each lane, so that equal lanes don't cancel out.
const SEEDS: [u64; 4] =
    [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Takes in the words of one event of a kind.
#[inline(always)]
fn fold<const WORDS: usize>(hash: &mut StreamHash, kind: u64, words: [u64; WORDS]) {
    const { assert!(WORDS <= SEEDS.len() * LANE) };
    let (mut even, mut odd) = (kind, 0);
    for (number, lane) in words.chunks(LANE).enumerate() {
        let word = |at: usize| lane.get(at).copied().unwrap_or(0);
        let mut digest = StreamHash::resume(SEEDS[number]);
        digest.pair(word(0), word(1));
        if lane.len() > 2 {
            digest.pair(word(2), word(3));
        }
        if number % 2 == 0 {
            even ^= digest.value();
        } else {
            odd ^= digest.value();
        }
    }
    hash.pair(even, odd);
}

/// Two halves of a word.
#[inline(always)]
fn halves(upper: u32, lower: u32) -> u64 {
    (u64::from(upper) << 32) | u64::from(lower)
}

/// Four bytes as a half of a word.
#[inline(always)]
fn bytes(bytes: [u8; 4]) -> u32 {
    u32::from_le_bytes(bytes)
}

/// Takes an event in. [`Event::Checkpoint`] tells the hash and is not in it.
#[inline(always)]
pub(crate) fn fold_event(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::Accepted(e) => accepted(hash, e),
        Event::Executed(e) => executed(hash, e),
        Event::Trade(e) => trade(hash, e),
        Event::Added(e) => added(hash, e),
        Event::Canceled(e) => canceled(hash, e),
        Event::Replaced(e) => replaced(hash, e),
        other => fold_other(hash, other),
    }
}

#[inline(always)]
fn accepted(hash: &mut StreamHash, e: &Accepted) {
    let detail =
        bytes([e.side.to_byte(), e.order_type.to_byte(), e.time_in_force.to_byte(), e.flags.to_byte()]);
    fold(
        hash,
        1,
        [
            e.to.number.0,
            e.request_id.0,
            e.order_id.0,
            e.price.map_or(0, |price| price.0) as u64,
            e.quantity.0,
            halves(e.instrument.0, e.account.0),
            halves(e.to.session.0, detail),
            e.price.is_some().into(),
        ],
    );
}

#[inline(always)]
fn executed(hash: &mut StreamHash, e: &Executed) {
    fold(
        hash,
        2,
        [
            e.to.number.0,
            e.request_id.0,
            e.order_id.0,
            e.client_order_id.0,
            e.trade_id.0,
            e.last_price.0 as u64,
            e.last_quantity.0,
            e.leaves_quantity.0,
            e.cum_quantity.0,
            halves(e.instrument.0, e.account.0),
            halves(e.to.session.0, bytes([e.side.to_byte(), e.liquidity.to_byte(), 0, 0])),
        ],
    );
}

#[inline(always)]
fn trade(hash: &mut StreamHash, e: &Trade) {
    fold(
        hash,
        3,
        [
            e.trade_id.0,
            e.maker_order_id.0,
            e.taker_order_id.0,
            e.price.0 as u64,
            e.quantity.0,
            halves(e.instrument.0, e.taker_side.map_or(0, Side::to_byte).into()),
        ],
    );
}

#[inline(always)]
fn added(hash: &mut StreamHash, e: &Added) {
    fold(
        hash,
        4,
        [e.order_id.0, e.price.0 as u64, e.quantity.0, halves(e.instrument.0, e.side.to_byte().into())],
    );
}

#[inline(always)]
fn canceled(hash: &mut StreamHash, e: &Canceled) {
    fold(
        hash,
        5,
        [
            e.to.number.0,
            e.request_id.0,
            e.order_id.0,
            e.client_order_id.0,
            e.resting_price.map_or(0, |price| price.0) as u64,
            e.canceled_quantity.0,
            e.cum_quantity.0,
            halves(e.instrument.0, e.account.0),
            halves(
                e.to.session.0,
                bytes([e.side.to_byte(), e.reason.to_byte(), e.resting_price.is_none().into(), 0]),
            ),
        ],
    );
}

#[inline(always)]
fn replaced(hash: &mut StreamHash, e: &Replaced) {
    fold(
        hash,
        6,
        [
            e.to.number.0,
            e.request_id.0,
            e.order_id.0,
            e.client_order_id.0,
            e.price.map_or(0, |price| price.0) as u64,
            e.quantity.0,
            e.cum_quantity.0,
            halves(e.instrument.0, e.account.0),
            halves(
                e.to.session.0,
                bytes([e.side.to_byte(), e.kept_place.into(), e.price.is_none().into(), 0]),
            ),
        ],
    );
}

/// The events that are not worth inlining into every place that emits.
fn fold_other(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::Rejected(e) => rejected(hash, e),
        Event::Named(e) => {
            fold(hash, 8, [e.session.0.into()]);
            hash.bytes(e.cl_ord_id.as_bytes());
        }
        Event::Restated(e) => fold(
            hash,
            9,
            [
                e.to.number.0,
                e.order_id.0,
                e.client_order_id.0,
                e.price.map_or(0, |price| price.0) as u64,
                e.leaves_quantity.0,
                e.cum_quantity.0,
                halves(e.instrument.0, e.account.0),
                halves(
                    e.to.session.0,
                    bytes([e.side.to_byte(), e.reason.to_byte(), e.price.is_none().into(), 0]),
                ),
            ],
        ),
        Event::Expired(e) => fold(
            hash,
            10,
            [
                e.to.number.0,
                e.request_id.0,
                e.order_id.0,
                e.client_order_id.0,
                e.resting_price.map_or(0, |price| price.0) as u64,
                e.resting_price.is_some().into(),
                e.expired_quantity.0,
                e.cum_quantity.0,
                halves(e.instrument.0, e.account.0),
                halves(e.to.session.0, bytes([e.side.to_byte(), e.reason.to_byte(), 0, 0])),
            ],
        ),
        Event::OrderStatus(e) => {
            let missing = bytes([e.side.to_byte(), e.status.to_byte(), e.price.is_none().into(), 0]);
            fold(
                hash,
                11,
                [
                    e.to.number.0,
                    e.request_id.0,
                    e.order_id.0,
                    e.client_order_id.0,
                    e.price.map_or(0, |price| price.0) as u64,
                    e.leaves_quantity.0,
                    e.cum_quantity.0,
                    halves(e.instrument.0, e.account.0),
                    halves(e.to.session.0, missing),
                ],
            );
            if let Some(stop_price) = e.stop_price {
                hash.word(stop_price.0 as u64);
            }
        }
        Event::MassCanceled(e) => {
            fold(hash, 12, [e.to.number.0, e.request_id.0, e.orders, e.to.session.0.into()]);
        }
        Event::AdminDone(e) => fold(
            hash,
            13,
            [e.to.number.0, e.request_id.0, e.request_kind as u64, halves(e.to.session.0, e.instrument.0)],
        ),
        Event::Reduced(e) => fold(
            hash,
            14,
            [
                e.order_id.0,
                e.price.0 as u64,
                e.quantity.0,
                halves(e.instrument.0, bytes([e.side.to_byte(), e.gone.into(), 0, 0])),
            ],
        ),
        venue => fold_venue(hash, venue),
    }
}

fn rejected(hash: &mut StreamHash, e: &Rejected) {
    fold(
        hash,
        7,
        [
            e.to.number.0,
            e.request_id.0,
            e.client_order_id.map_or(0, |id| id.0),
            e.client_order_id.is_some().into(),
            e.highest_request_id.0,
            halves(e.to.session.0, e.instrument.0),
            e.request_kind.map_or(0, |kind| kind as u64),
            e.reason.to_byte().into(),
        ],
    );
}

/// The venue's own events that are no part of trading.
fn fold_venue(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::PhaseChanged(instrument, phase) => {
            fold(hash, 15, [instrument.0.into(), phase.to_byte().into()]);
        }
        Event::InstrumentDefined(definition) => fold_instrument(hash, definition),
        Event::UserDefined(user) => fold_user(hash, user),
        Event::LoggedIn(LoggedIn { session, connection, trading_day, last_report, highest_request_id }) => {
            fold(
                hash,
                18,
                [halves(session.0, connection.0), trading_day.0.into(), last_report.0, highest_request_id.0],
            );
        }
        Event::LoginRefused(e) => {
            fold(hash, 19, [halves(e.session.0, e.connection.0), e.reason.to_byte().into()]);
        }
        Event::ConnectionEnded(session, connection, reason) => {
            fold(hash, 20, [halves(session.0, connection.0), reason.to_byte().into()]);
        }
        Event::DayStarted(day) => fold(hash, 21, [day.0.into()]),
        Event::ParticipantSet(session, participant, _) => fold(hash, 32, [halves(session.0, participant.0)]),
        rules => fold_rules(hash, rules),
    }
}

/// A wide number as two words.
fn wide(amount: Amount) -> [u64; 2] {
    let bits = amount.get() as u128;
    [(bits >> 64) as u64, bits as u64]
}

/// An optional price as two words.
fn optional(price: Option<Price>) -> [u64; 2] {
    [price.is_some().into(), price.map_or(0, |price| price.0) as u64]
}

fn text(currency: Currency) -> u64 {
    u64::from_le_bytes(*currency.as_padded())
}

/// The events of version 2 of the rulebook.
fn fold_rules(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::Triggered(e) => {
            let [priced, price] = optional(e.price);
            fold(
                hash,
                22,
                [
                    e.to.number.0,
                    e.order_id.0,
                    e.client_order_id.0,
                    e.stop_price.0 as u64,
                    price,
                    e.leaves_quantity.0,
                    halves(e.instrument.0, e.account.0),
                    halves(e.to.session.0, bytes([e.side.to_byte(), priced as u8, 0, 0])),
                ],
            );
        }
        Event::MassQuoted(e) => {
            let reason = |reason: Option<RejectReason>| reason.map_or(0, RejectReason::to_byte);
            let detail = bytes([e.bids, e.asks, reason(e.bid_reason), reason(e.ask_reason)]);
            fold(
                hash,
                23,
                [
                    e.to.number.0,
                    e.request_id.0,
                    halves(e.instrument.0, e.account.0),
                    halves(e.to.session.0, detail),
                ],
            );
        }
        Event::Settled(e) => {
            let [upper, lower] = wide(e.fee);
            fold(
                hash,
                24,
                [
                    e.to.number.0,
                    e.trade_id.0,
                    e.client_order_id.0,
                    upper,
                    lower,
                    e.position as u64,
                    halves(e.instrument.0, e.account.0),
                    halves(e.to.session.0, e.side.to_byte().into()),
                ],
            );
        }
        Event::TradeRevised(e) => {
            let [corrected, price] = optional(e.new_price);
            fold(
                hash,
                25,
                [
                    e.to.number.0,
                    e.trade_id.0,
                    e.client_order_id.0,
                    e.quantity.0,
                    e.old_price.0 as u64,
                    price,
                    halves(e.instrument.0, e.account.0),
                    halves(e.to.session.0, bytes([e.side.to_byte(), corrected as u8, 0, 0])),
                ],
            );
        }
        other => fold_answer(hash, other),
    }
}

/// Answers about accounts and instruments, and what operators set.
fn fold_answer(hash: &mut StreamHash, event: &Event) {
    match event {
        Event::Balance(e) => {
            let ([total_upper, total], [held_upper, held]) = (wide(e.total), wide(e.held));
            let who = halves(e.to.session.0, e.account.0);
            fold(
                hash,
                26,
                [e.to.number.0, e.request_id.0, who, text(e.currency), total_upper, total, held_upper, held],
            );
        }
        Event::Position(e) => {
            let [upper, lower] = wide(e.cost);
            fold(
                hash,
                27,
                [
                    e.to.number.0,
                    e.request_id.0,
                    halves(e.to.session.0, e.account.0),
                    e.instrument.0.into(),
                    e.quantity as u64,
                    upper,
                    lower,
                    e.open_buy,
                    e.open_sell,
                ],
            );
        }
        Event::InstrumentState(e) => {
            let prices = [optional(e.last_price), optional(e.reference_price), optional(e.mark_price)];
            fold(
                hash,
                28,
                [
                    e.to.number.0,
                    e.request_id.0,
                    halves(e.to.session.0, e.instrument.0),
                    e.phase.to_byte().into(),
                    prices[0][0] | prices[1][0] << 1 | prices[2][0] << 2,
                    prices[0][1],
                    prices[1][1],
                    prices[2][1],
                    e.open_interest,
                ],
            );
        }
        Event::Configured(e) => fold(hash, 29, [e.kind as u64, e.id.into(), e.digest]),
        Event::Indicative(e) => {
            let [priced, price] = optional(e.price);
            let detail = bytes([priced as u8, e.surplus_side.map_or(0, Side::to_byte), 0, 0]);
            fold(hash, 30, [halves(e.instrument.0, detail), price, e.quantity.0, e.surplus.0]);
        }
        Event::MarginCall(e) => {
            let ([equity_upper, equity], [upper, lower]) = (wide(e.equity), wide(e.maintenance));
            fold(hash, 31, [e.account.0.into(), text(e.currency), equity_upper, equity, upper, lower]);
        }
        Event::Skipped(e) => {
            fold(hash, 120, []);
            hash.bytes(&e.frame_hash);
        }
        Event::Accepted(_)
        | Event::Rejected(_)
        | Event::Executed(_)
        | Event::Canceled(_)
        | Event::Replaced(_)
        | Event::Restated(_)
        | Event::Expired(_)
        | Event::OrderStatus(_)
        | Event::MassCanceled(_)
        | Event::AdminDone(_)
        | Event::Named(_)
        | Event::Added(_)
        | Event::Reduced(_)
        | Event::Trade(_)
        | Event::PhaseChanged(..)
        | Event::InstrumentDefined(_)
        | Event::UserDefined(_)
        | Event::ParticipantSet(..)
        | Event::LoggedIn(_)
        | Event::LoginRefused(_)
        | Event::ConnectionEnded(..)
        | Event::DayStarted(_)
        | Event::Triggered(_)
        | Event::MassQuoted(_)
        | Event::Settled(_)
        | Event::TradeRevised(_)
        | Event::Checkpoint(_) => {}
    }
}

fn fold_instrument(hash: &mut StreamHash, e: &InstrumentDefinition) {
    fold(
        hash,
        16,
        [
            halves(e.instrument.0, bytes([e.price_scale, e.quantity_scale, 0, 0])),
            e.tick_size.0 as u64,
            e.lot_size.0,
            e.price_min.0 as u64,
            e.price_max.0 as u64,
            e.quantity_max.0,
        ],
    );
    hash.bytes(e.symbol.as_padded());
}

fn fold_user(hash: &mut StreamHash, e: &UserDefinition) {
    let detail =
        bytes([e.role.to_byte(), e.enabled.into(), e.cancel_on_disconnect.into(), e.credential.scheme]);
    fold(hash, 17, [halves(e.session.0, detail), e.grace_ms.into()]);
    hash.bytes(e.name.as_padded());
    hash.bytes(&e.credential.salt);
    hash.bytes(&e.credential.hash);
}

#[cfg(test)]
mod tests {
    use protocol::{
        AccountId, ClientOrderId, InstrumentId, Liquidity, OrderId, Price, Quantity, Recipient, ReportNumber,
        RequestId, SessionId, Side, TradeId,
    };

    use super::*;

    #[test]
    fn every_field_of_an_execution_matters() {
        let base = Executed {
            to: Recipient { session: SessionId(1), number: ReportNumber(2) },
            request_id: RequestId(3),
            order_id: OrderId(4),
            client_order_id: ClientOrderId(5),
            trade_id: TradeId(6),
            last_price: Price(7),
            last_quantity: Quantity(8),
            leaves_quantity: Quantity(9),
            cum_quantity: Quantity(10),
            instrument: InstrumentId(11),
            account: AccountId(12),
            side: Side::Buy,
            liquidity: Liquidity::Maker,
        };
        let changed = [
            Executed { to: Recipient { session: SessionId(9), ..base.to }, ..base },
            Executed { to: Recipient { number: ReportNumber(9), ..base.to }, ..base },
            Executed { request_id: RequestId(9), ..base },
            Executed { order_id: OrderId(9), ..base },
            Executed { client_order_id: ClientOrderId(9), ..base },
            Executed { trade_id: TradeId(9), ..base },
            Executed { last_price: Price(9), ..base },
            Executed { last_quantity: Quantity(9), ..base },
            Executed { leaves_quantity: Quantity(8), ..base },
            Executed { cum_quantity: Quantity(9), ..base },
            Executed { instrument: InstrumentId(9), ..base },
            Executed { account: AccountId(9), ..base },
            Executed { side: Side::Sell, ..base },
            Executed { liquidity: Liquidity::Taker, ..base },
            base,
        ];
        let mut hashes: Vec<u64> = changed
            .iter()
            .map(|event| {
                let mut hash = StreamHash::default();
                fold_event(&mut hash, &Event::Executed(*event));
                hash.value()
            })
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), changed.len());
    }
}
