//! What operators set of accounts under version 2 of the rulebook: whose they are, their money, limits, trades.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Body, Fees, InstrumentId, KillTarget, Limits,
    ParticipantId, Price, SelfTrade, SelfTradeAction, SessionId, Side, Throttle, TradeId, Transfer,
};

use super::rules::{CURRENCIES, currency};
use super::{Generator, Theme};

/// Accounts that streams use: number n is of participant 1 + (n - 1) mod 3.
pub(super) const ACCOUNTS: u32 = 6;
/// Participants that streams use.
pub(super) const PARTICIPANTS: u32 = 3;

impl Generator {
    /// The account of an order: one of the sender's participant's, or another one now and then.
    pub(super) fn account_of(&mut self, actor: usize) -> AccountId {
        let participant = self.actors[actor].participant;
        AccountId(match participant {
            0 => self.random.below(3) as u32,
            _ if self.random.one_in(50) => self.random.below(9) as u32,
            _ => participant + PARTICIPANTS * self.random.below(2) as u32,
        })
    }

    pub(super) fn account_body(&mut self) -> Body {
        let account = AccountId(1 + self.random.below(u64::from(ACCOUNTS)) as u32);
        let odd = if self.random.one_in(40) { AccountId(77) } else { account };
        match self.random.below(30) {
            0..2 => Body::PutAccount(self.account(account)),
            2 => {
                let (code, scale) = *self.random.pick(&CURRENCIES);
                let scale = if self.random.one_in(6) { self.random.below(30) as u8 } else { scale };
                Body::PutCurrency(currency(code), scale)
            }
            3 => {
                let participant = self.random.below(u64::from(PARTICIPANTS) + 1) as u32;
                Body::SetParticipant(self.session(), ParticipantId(participant))
            }
            4..6 => self.throttle(),
            6..10 => Body::SetLimits(odd, self.maybe_instrument(), self.limits()),
            10..12 => {
                let (_, instrument) = self.instrument();
                Body::SetFees(instrument, AccountGroup(self.random.below(3) as u32), self.fees())
            }
            12..18 => self.transfer(odd),
            18..21 => self.kill(odd),
            21..23 => Body::BustTrade(self.trade()),
            23..26 => {
                let (at, _) = self.instrument();
                let trade = self.trade();
                Body::CorrectTrade(trade, self.price(at, Side::Buy))
            }
            26..29 => Body::QueryAccount(if self.random.one_in(4) { AccountId(0) } else { odd }),
            _ => {
                let (at, instrument) = self.instrument();
                let mark = Price(self.mids[at] * self.instruments[at].tick_size.0);
                Body::SetPrice(instrument, protocol::PriceKind::Mark, mark)
            }
        }
    }

    fn session(&mut self) -> SessionId {
        if self.random.one_in(20) {
            return SessionId(self.random.below(60) as u32);
        }
        let actor = self.actor();
        self.actors[actor].user.session
    }

    fn maybe_instrument(&mut self) -> Option<InstrumentId> {
        let (_, instrument) = self.instrument();
        self.random.one_in(2).then_some(instrument)
    }

    pub(super) fn account(&mut self, account: AccountId) -> AccountDefinition {
        let participant = 1 + (account.0 - 1) % PARTICIPANTS;
        let group = 1 + self.random.below(2) as u32;
        let action = *self.random.pick(SelfTradeAction::ALL);
        AccountDefinition {
            account: if self.random.one_in(60) { AccountId(0) } else { account },
            participant: ParticipantId(match self.random.below(30) {
                0 => 0,
                1 => participant + 1,
                _ => participant,
            }),
            group: AccountGroup(self.random.below(3) as u32),
            self_trade: self.random.one_in(4).then_some(SelfTrade { group, action }),
        }
    }

    fn throttle(&mut self) -> Body {
        let session = self.session();
        let bound = |random: &mut crate::random::Random| {
            if random.one_in(2) { 0 } else { 1 + random.below(60) as u32 }
        };
        let throttle = Throttle { orders: bound(&mut self.random), cancels: bound(&mut self.random) };
        self.send_later(200, Body::SetThrottle(session, Throttle::default()));
        Body::SetThrottle(session, throttle)
    }

    fn kill(&mut self, account: AccountId) -> Body {
        let participant = ParticipantId(1 + self.random.below(u64::from(PARTICIPANTS) + 1) as u32);
        let target = match self.random.below(6) {
            0 => KillTarget::Venue,
            1..3 => KillTarget::Participant(participant),
            _ => KillTarget::Account(account),
        };
        self.send_later(60, Body::Kill(target, false));
        Body::Kill(target, true)
    }

    /// Bounds of which each is there now and then.
    fn limits(&mut self) -> Limits {
        let one_in = if self.theme == Theme::Limits { 3 } else { 8 };
        let bound = |random: &mut crate::random::Random, below: u64| {
            if random.one_in(one_in) { random.below(below) } else { 0 }
        };
        let random = &mut self.random;
        Limits {
            quantity: bound(random, 2_000),
            notional: bound(random, 1_000_000),
            open_notional: bound(random, 3_000_000),
            net_position: bound(random, 3_000),
            gross_position: bound(random, 5_000),
            collar: bound(random, 200),
            open_orders: bound(random, 12) as u32,
            duplicate_ms: bound(random, 2_000) as u32,
        }
    }

    fn fees(&mut self) -> Fees {
        let random = &mut self.random;
        let out_of_range = random.one_in(20);
        Fees {
            maker_ppm: random.range(-2_000, 5_000) as i32,
            taker_ppm: if out_of_range { 1_000_001 } else { random.range(0, 20_000) as i32 },
            maker_per_lot: random.range(-3, 5),
            taker_per_lot: if random.one_in(20) { 1_000_000_000_001 } else { random.range(0, 9) },
        }
    }

    fn transfer(&mut self, account: AccountId) -> Body {
        let (code, _) = *self.random.pick(&CURRENCIES);
        let code = if self.random.one_in(20) { "NONE" } else { code };
        let amount = match self.random.below(30) {
            0 => 0,
            1 => (1 << 100) + 1,
            2 => -(1 << 101),
            3..10 => i128::from(self.random.range(-10_000_000, 0)),
            10..20 => i128::from(self.random.range(0, 10_000_000)),
            _ => i128::from(self.random.range(0, 500_000_000)),
        };
        Body::Transfer(Transfer { account, currency: currency(code), amount: Amount::new(amount) })
    }

    /// A trade that may have been made; most streams make one in fewer than four commands.
    fn trade(&mut self) -> TradeId {
        TradeId(self.random.below(self.given / 4 + 2))
    }
}
