//! Random requests of every kind that touches accounts: whatever comes, everything adds up after each of them, and the
//! state comes back from its records and goes on alike.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Body, ClientOrderId, Fees, InstrumentId, KillTarget, Limits,
    MassQuote, NewOrder, OrderFlags, OrderType, ParticipantId, Peg, PegReference, Phase, Price, PriceKind,
    Quantity, QuoteEntry, QuoteSide, SelfTrade, SelfTradeAction, Side, Terms, TimeInForce, Timestamp,
    TradeId,
};

use super::till::{ANN, BOB, Till, ZOE, account, cancel, limit, replace, transfer};
use crate::{Exchange, Record};

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    fn price(&mut self) -> Price {
        Price(40 + self.below(20) as i64)
    }

    fn side(&mut self) -> Side {
        self.pick(Side::ALL)
    }

    fn terms(&mut self, now: u64) -> Terms {
        let mut terms = Terms::default();
        if self.one_in(6) {
            let peg = Peg { reference: self.pick(PegReference::ALL), offset: self.below(3) as i64 };
            return terms.with_peg(Some(peg));
        }
        if self.one_in(5) {
            terms = terms.with_stop_price(Some(self.price()));
        }
        if self.one_in(8) {
            terms = terms.with_trail(Some(1 + self.below(4)));
        }
        if self.one_in(6) {
            terms = terms.with_display(Some(Quantity(10)));
        }
        if self.one_in(8) {
            terms = terms.with_minimum(Some(Quantity(20)));
        }
        if self.one_in(6) {
            terms = terms.with_oco(Some(1 + self.below(3)));
        }
        if self.one_in(8) {
            terms = terms.with_expire_time(Some(Timestamp(now + self.below(3_000_000_000))));
        }
        if self.one_in(6) {
            let action = self.pick(SelfTradeAction::ALL);
            terms = terms.with_self_trade(Some(SelfTrade { group: 1 + self.below(2) as u32, action }));
        }
        terms
    }

    /// An order of any kind; many of them are refused.
    fn order(&mut self, now: u64, account: u32, parents: &[ClientOrderId]) -> NewOrder {
        let instrument = 1 + self.below(3) as u32;
        let quantity = 10 * (1 + self.below(8));
        let price = self.price();
        let plain = limit(instrument, account, self.side(), quantity, price.0);
        if self.one_in(2) {
            return plain;
        }
        let mut terms = self.terms(now);
        if self.one_in(8) && !parents.is_empty() {
            terms = terms.with_parent(Some(self.pick(parents)));
        }
        let order_type = self.pick(OrderType::ALL);
        let time_in_force = match terms.expire_time() {
            Some(_) => TimeInForce::GoodTillDate,
            None => self.pick(TimeInForce::ALL),
        };
        let flags = OrderFlags {
            post_only: self.one_in(6),
            slide: self.one_in(12),
            hidden: self.one_in(5),
            reduce_only: self.one_in(5),
        };
        let price = (order_type == OrderType::Limit).then_some(price);
        NewOrder { order_type, time_in_force, flags, price, terms, ..plain }
    }

    fn quote(&mut self, account: u32) -> Body {
        let mut side = |sign: i32| {
            let entries: Vec<_> = (0..self.below(4) as i32)
                .map(|level| QuoteEntry { ticks: sign * (1 + level), lots: 1 + self.below(4) as u32 })
                .collect();
            if self.one_in(4) { None } else { QuoteSide::new(&entries) }
        };
        let (bids, asks) = (side(-1), side(1));
        let instrument = InstrumentId(1 + self.below(3) as u32);
        Body::MassQuote(MassQuote { instrument, account: AccountId(account), base: self.price(), bids, asks })
    }

    /// What operators do, and mostly may.
    fn administration(&mut self) -> Body {
        let instrument = InstrumentId(1 + self.below(3) as u32);
        let id = self.pick(&[10, 20]);
        match self.below(12) {
            0 => Body::SetFees(
                instrument,
                AccountGroup(self.below(2) as u32),
                Fees {
                    maker_ppm: self.below(20_000) as i32 - 10_000,
                    taker_ppm: self.below(20_000) as i32 - 5_000,
                    maker_per_lot: self.below(7) as i64 - 3,
                    taker_per_lot: self.below(7) as i64 - 3,
                },
            ),
            1 => {
                let limits = Limits {
                    open_orders: self.pick(&[0, 6]),
                    net_position: self.pick(&[0, 300]),
                    duplicate_ms: self.pick(&[0, 500]),
                    ..Limits::default()
                };
                Body::SetLimits(AccountId(id), self.pick(&[None, Some(instrument)]), limits)
            }
            2 | 3 => Body::SetPrice(instrument, self.pick(PriceKind::ALL), self.price()),
            4 => {
                let target = self.pick(&[
                    KillTarget::Venue,
                    KillTarget::Account(AccountId(id)),
                    KillTarget::Participant(ParticipantId(1)),
                ]);
                Body::Kill(target, self.one_in(4))
            }
            5 => Body::Kill(self.pick(&[KillTarget::Venue, KillTarget::Account(AccountId(id))]), false),
            6 => Body::BustTrade(TradeId(1 + self.below(40))),
            7 => Body::CorrectTrade(TradeId(1 + self.below(400)), self.price()),
            8 => transfer(id, self.pick(&["EUR", "BTC"]), 100_000 - self.below(150_000) as i128),
            9 => {
                let self_trade = SelfTrade { group: 1, action: self.pick(SelfTradeAction::ALL) };
                let self_trade = self.one_in(2).then_some(self_trade);
                let group = AccountGroup(self.below(2) as u32);
                Body::PutAccount(AccountDefinition { self_trade, group, ..account(id, id / 10) })
            }
            10 if self.one_in(8) => Body::EndOfDay,
            _ => {
                let phase = if !self.one_in(3) { Phase::Continuous } else { self.pick(Phase::ALL) };
                Body::SetPhase(instrument, if phase == Phase::Delisted { Phase::Continuous } else { phase })
            }
        }
    }

    fn request(&mut self, now: u64, orders: &[(u32, ClientOrderId)]) -> (u32, Body) {
        let (session, account) = self.pick(&[(ANN, 10), (BOB, 20), (ANN, 10), (BOB, 20), (ZOE, 10)]);
        let own: Vec<_> = orders.iter().filter(|(owner, _)| *owner == session).map(|(_, id)| *id).collect();
        let some = |chance: &mut Self| own.get(chance.below(12) as usize).copied().unwrap_or_default();
        let body = match self.below(20) {
            0..=10 => Body::NewOrder(self.order(now, account, &own)),
            11 | 12 => cancel(some(self)),
            13 | 14 => replace(some(self), 10 * (1 + self.below(9)), self.price().0),
            15 | 16 => self.quote(account),
            _ => return (0, self.administration()),
        };
        (session, body)
    }
}

fn records(exchange: &Exchange) -> Vec<Record> {
    let mut records = Vec::new();
    exchange.export(&mut |record| records.push(record));
    records
}

fn check(seed: u64, requests: usize) {
    println!("seed {seed}");
    let mut chance = Chance(seed);
    let mut till = Till::new();
    for account in [10, 20] {
        till.deposit(account, "EUR", 400_000);
        till.deposit(account, "BTC", 500_000);
    }
    let mut orders: Vec<(u32, ClientOrderId)> = Vec::new();
    for number in 0..requests {
        let now = till.wait(chance.below(200_000_000));
        let (session, body) = chance.request(now, &orders);
        let quotes = matches!(body, Body::MassQuote(_));
        let id = till.next_id();
        till.send(session, body);
        if matches!(body, Body::NewOrder(_)) {
            orders.insert(0, (session, ClientOrderId(id)));
            orders.truncate(40);
        } else if quotes {
            till.skip_ids(20);
        }
        if number % 50 == 0 {
            let imported = Exchange::import(records(&till.exchange)).expect("a state");
            imported.check_conservation().expect("what is imported adds up");
            assert_eq!(imported.state_hash(), till.exchange.state_hash(), "seed {seed}, request {number}");
            till.exchange = imported;
        }
    }
}

#[test]
fn whatever_is_asked_everything_adds_up() {
    for seed in 1..=8 {
        check(seed, 600);
    }
}
