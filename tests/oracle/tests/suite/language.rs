//! Whatever can be asked can be written in the language, and is read back as the same.

use oracle::random::Random;
use oracle::scenario::{World, command_text};
use protocol::{
    AccountDefinition, AccountGroup, AccountId, Allocation, Amount, BandAction, Body, CancelOrder,
    Capacities, ClOrdId, ClientOrderId, Command, ConnectionId, Credential, Currency, DecodeError, EndReason,
    Fees, InstrumentDefinition, InstrumentId, InstrumentRules, KillTarget, Limits, LoginRequest, MassCancel,
    MassQuote, NewOrder, OrderFlags, OrderKey, OrderStatusRequest, OrderType, ParticipantId, Peg,
    PegReference, Phase, Price, PriceKind, QUOTE_LEVELS_MAX, Quantity, QuoteEntry, QuoteSide, ReplaceOrder,
    RequestId, Role, SelfTrade, SelfTradeAction, Sequence, SessionId, Settlement, Side, StopTrigger, Symbol,
    TICK_ROWS_MAX, Terms, Throttle, Tick, TickRow, TickTable, TimeInForce, Timestamp, TradeId, TradingDay,
    Transfer, UserDefinition, UserName,
};

const COMMANDS: u64 = 40_000;

/// Values of every type, with those at the edges more often than by chance.
struct Values(Random);

impl Values {
    fn u64(&mut self) -> u64 {
        match self.0.below(4) {
            0 => *self.0.pick(&[0, 1, u64::MAX]),
            1 => self.0.word(),
            _ => self.0.below(100),
        }
    }

    fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    fn i64(&mut self) -> i64 {
        match self.0.below(4) {
            0 => *self.0.pick(&[0, -1, i64::MIN, i64::MAX]),
            1 => self.0.word() as i64,
            _ => self.0.range(-100, 100),
        }
    }

    fn flag(&mut self) -> bool {
        self.0.one_in(2)
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if self.flag() { Some(value(self)) } else { None }
    }

    fn one<T: Copy>(&mut self, list: &[T]) -> T {
        *self.0.pick(list)
    }

    fn instrument(&mut self) -> InstrumentId {
        InstrumentId(self.u32())
    }

    fn account(&mut self) -> AccountId {
        AccountId(self.u32())
    }

    fn price(&mut self) -> Price {
        Price(self.i64())
    }

    fn quantity(&mut self) -> Quantity {
        Quantity(self.u64())
    }

    fn text(&mut self) -> ClOrdId {
        ClOrdId::new(format!("T-{}", self.u64()).as_bytes()).expect("a valid text")
    }

    fn currency(&mut self) -> Currency {
        Currency::new(self.one(&["USD", "BTC", "LONGCODE", "X"])).expect("a valid code")
    }

    fn key(&mut self) -> OrderKey {
        if self.flag() { OrderKey::Text(self.text()) } else { OrderKey::Id(ClientOrderId(self.u64())) }
    }

    fn self_trade(&mut self) -> SelfTrade {
        SelfTrade { group: self.u32(), action: self.one(SelfTradeAction::ALL) }
    }

    fn terms(&mut self) -> Terms {
        let peg = |values: &mut Self| Peg { reference: values.one(PegReference::ALL), offset: values.i64() };
        Terms::default()
            .with_stop_price(self.maybe(Self::price))
            .with_trail(self.maybe(Self::u64))
            .with_display(self.maybe(Self::quantity))
            .with_display_high(self.maybe(Self::quantity))
            .with_expire_time(self.maybe(|values| Timestamp(values.u64())))
            .with_minimum(self.maybe(Self::quantity))
            .with_peg(self.maybe(peg))
            .with_self_trade(self.maybe(Self::self_trade))
            .with_oco(self.maybe(Self::u64))
            .with_parent(self.maybe(|values| ClientOrderId(values.u64())))
    }

    fn new_order(&mut self) -> NewOrder {
        let order_type = self.one(OrderType::ALL);
        NewOrder {
            instrument: self.instrument(),
            side: self.one(Side::ALL),
            order_type,
            time_in_force: self.one(TimeInForce::ALL),
            flags: OrderFlags {
                post_only: self.flag(),
                slide: self.flag(),
                hidden: self.flag(),
                reduce_only: self.flag(),
            },
            price: (order_type == OrderType::Limit).then(|| self.price()),
            quantity: self.quantity(),
            account: self.account(),
            cl_ord_id: self.maybe(Self::text),
            terms: self.terms(),
        }
    }

    fn quote_side(&mut self) -> QuoteSide {
        let count = self.0.below(QUOTE_LEVELS_MAX as u64 + 1);
        let entries: Vec<_> =
            (0..count).map(|_| QuoteEntry { ticks: self.i64() as i32, lots: self.u32() }).collect();
        QuoteSide::new(&entries).expect("no more entries than there can be")
    }

    fn request(&mut self) -> Body {
        match self.0.below(8) {
            0..3 => Body::NewOrder(self.new_order()),
            3 => Body::CancelOrder(CancelOrder {
                order: self.key(),
                side: self.maybe(|values| values.one(Side::ALL)),
                cl_ord_id: self.maybe(Self::text),
            }),
            4 => Body::ReplaceOrder(ReplaceOrder {
                order: self.key(),
                side: self.maybe(|values| values.one(Side::ALL)),
                price: self.maybe(Self::price),
                quantity: self.quantity(),
                stop_price: self.maybe(Self::price),
                display: self.maybe(Self::quantity),
                cl_ord_id: self.maybe(Self::text),
            }),
            5 => Body::MassCancel(MassCancel {
                session: SessionId(self.u32()),
                instrument: self.maybe(Self::instrument),
                side: self.maybe(|values| values.one(Side::ALL)),
            }),
            6 => Body::OrderStatus(OrderStatusRequest { order: self.key() }),
            _ => Body::MassQuote(MassQuote {
                instrument: self.instrument(),
                account: self.account(),
                base: self.price(),
                bids: self.maybe(Self::quote_side),
                asks: self.maybe(Self::quote_side),
            }),
        }
    }

    fn of_server(&mut self) -> Body {
        match self.0.below(7) {
            0 => Body::Malformed(DecodeError::Kind),
            1 => Body::Login(LoginRequest { trading_day: self.maybe(|values| TradingDay(values.u32())) }),
            2 => Body::Logout,
            3 => Body::Disconnect(self.one(EndReason::ALL)),
            4 => Body::Start,
            5 => Body::Tick(Tick { checkpoint_sequence: Sequence(0), checkpoint_hash: 0 }),
            _ => Body::EndOfDay,
        }
    }

    fn definition(&mut self) -> Body {
        match self.0.below(5) {
            0 => Body::SetCapacities(Capacities {
                orders: self.u32(),
                levels: self.u32(),
                cl_ord_ids: self.u32(),
                sessions: self.u32(),
                instruments: self.u32(),
            }),
            1 => Body::SetRulebook(self.u32()),
            2 => Body::PutInstrument(InstrumentDefinition {
                instrument: self.instrument(),
                symbol: Symbol::new(self.one(&["X", "BTC-USD", "SIXTEEN_LETTERS_"])).expect("a symbol"),
                price_scale: self.u64() as u8,
                quantity_scale: self.u64() as u8,
                tick_size: self.price(),
                lot_size: self.quantity(),
                price_min: self.price(),
                price_max: self.price(),
                quantity_max: self.quantity(),
            }),
            3 => Body::PutUser(UserDefinition {
                session: SessionId(self.u32()),
                name: UserName::new(self.one(&["ann", "bob", "cecily"])).expect("a name"),
                credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
                role: self.one(Role::ALL),
                enabled: self.flag(),
                cancel_on_disconnect: self.flag(),
                grace_ms: self.u32(),
            }),
            _ => Body::DisconnectUser(SessionId(self.u32())),
        }
    }

    fn rules(&mut self) -> InstrumentRules {
        InstrumentRules {
            allocation: self.one(Allocation::ALL),
            allocation_minimum: self.quantity(),
            stop_trigger: self.one(StopTrigger::ALL),
            quantity_min: self.quantity(),
            notional_min: self.u64(),
            notional_max: self.u64(),
            protection: self.u64(),
            static_band: self.u64(),
            dynamic_band: self.u64(),
            band_action: self.one(BandAction::ALL),
            volatility_ms: self.u32(),
            random_end_ms: self.u32(),
            settlement: self.one(Settlement::ALL),
            base: self.maybe(Self::currency),
            quote: self.maybe(Self::currency),
            initial_margin: self.u64(),
            maintenance_margin: self.u64(),
        }
    }

    fn of_instrument(&mut self) -> Body {
        let instrument = self.instrument();
        match self.0.below(9) {
            0 => Body::SetPhase(instrument, self.one(Phase::ALL)),
            1 => Body::PutRules(instrument, self.rules()),
            2 => {
                let count = self.0.below(TICK_ROWS_MAX as u64 + 1);
                let rows: Vec<_> =
                    (0..count).map(|_| TickRow { from: self.price(), tick: self.price() }).collect();
                Body::PutTickTable(instrument, TickTable::new(&rows).expect("no more rows than can be"))
            }
            3 => Body::SchedulePhase(instrument, Timestamp(self.u64()), self.one(Phase::ALL)),
            4 => Body::ClearSchedule(instrument),
            5 => Body::SetPrice(instrument, self.one(PriceKind::ALL), self.price()),
            6 => Body::Delist(instrument),
            7 => Body::QueryInstrument(instrument),
            _ => {
                let fees = Fees {
                    maker_ppm: self.i64() as i32,
                    taker_ppm: self.i64() as i32,
                    maker_per_lot: self.i64(),
                    taker_per_lot: self.i64(),
                };
                Body::SetFees(instrument, AccountGroup(self.u32()), fees)
            }
        }
    }

    fn limits(&mut self) -> Limits {
        Limits {
            quantity: self.u64(),
            notional: self.u64(),
            open_notional: self.u64(),
            net_position: self.u64(),
            gross_position: self.u64(),
            collar: self.u64(),
            open_orders: self.u32(),
            duplicate_ms: self.u32(),
        }
    }

    fn amount(&mut self) -> Amount {
        Amount::new(match self.0.below(4) {
            0 => self.one(&[0, i128::MIN, i128::MAX, 1 << 100]),
            1 => i128::from(self.i64()) * i128::from(self.i64()),
            _ => i128::from(self.i64()),
        })
    }

    fn of_account(&mut self) -> Body {
        match self.0.below(11) {
            0 => Body::SetSeed(self.u64()),
            1 => Body::PutCurrency(self.currency(), self.u64() as u8),
            2 => Body::PutAccount(AccountDefinition {
                account: self.account(),
                participant: ParticipantId(self.u32()),
                group: AccountGroup(self.u32()),
                self_trade: self.maybe(Self::self_trade),
            }),
            3 => Body::SetParticipant(SessionId(self.u32()), ParticipantId(self.u32())),
            4 => {
                Body::SetThrottle(SessionId(self.u32()), Throttle { orders: self.u32(), cancels: self.u32() })
            }
            5 => Body::SetLimits(self.account(), self.maybe(Self::instrument), self.limits()),
            6 => Body::Transfer(Transfer {
                account: self.account(),
                currency: self.currency(),
                amount: self.amount(),
            }),
            7 => {
                let target = match self.0.below(3) {
                    0 => KillTarget::Venue,
                    1 => KillTarget::Participant(ParticipantId(self.u32())),
                    _ => KillTarget::Account(self.account()),
                };
                Body::Kill(target, self.flag())
            }
            8 => Body::BustTrade(TradeId(self.u64())),
            9 => Body::CorrectTrade(TradeId(self.u64()), self.price()),
            _ => Body::QueryAccount(self.account()),
        }
    }

    fn command(&mut self) -> Command {
        let body = match self.0.below(8) {
            0..3 => self.request(),
            3 => self.of_server(),
            4 => self.definition(),
            5..7 => self.of_instrument(),
            _ => self.of_account(),
        };
        Command {
            session: SessionId(self.u32()),
            connection: ConnectionId(self.u32()),
            request_id: RequestId(self.u64()),
            timestamp: Timestamp(1_700_000_000_000_000_000),
            body,
        }
    }
}

#[test]
fn every_command_is_read_back_from_its_text() {
    let mut values = Values(Random::new(7));
    for number in 0..COMMANDS {
        let command = values.command();
        let text = command_text(&command);
        let read = World::default().commands(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read, [command], "command {number}: {text}");
    }
}
