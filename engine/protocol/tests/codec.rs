//! Every layout round-trips, and no input makes a decoder panic or take what it can't give back.

use protocol::soupbin::{Login, Packet, PacketError, read_packet, session_day, session_name, write_packet};
use protocol::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

fn seed() -> u64 {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_260_501);
    println!("seed {seed} (set RINGPIT_SEED to change it)");
    seed
}

fn text(bytes: &[u8]) -> ClOrdId {
    ClOrdId::new(bytes).expect("a valid text id")
}

fn order() -> NewOrder {
    NewOrder {
        instrument: InstrumentId(7),
        side: Side::Sell,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancel,
        flags: OrderFlags { post_only: true, ..OrderFlags::default() },
        price: Some(Price(-17)),
        quantity: Quantity(u64::MAX),
        account: AccountId(3),
        cl_ord_id: None,
        terms: protocol::Terms::default(),
    }
}

fn instrument() -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: InstrumentId(9),
        symbol: Symbol::new("BTCUSD").expect("a valid symbol"),
        price_scale: 2,
        quantity_scale: 8,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(i64::MIN),
        price_max: Price(i64::MAX),
        quantity_max: Quantity(u64::MAX),
    }
}

fn user() -> UserDefinition {
    UserDefinition {
        session: SessionId(4),
        name: UserName::new("demo").expect("a valid name"),
        credential: Credential { scheme: 1, salt: [7; 16], hash: [9; 32] },
        role: Role::Operator,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 1500,
    }
}

fn bodies() -> Vec<Body> {
    let long = text(&[b'x'; ClOrdId::LENGTH_MAX]);
    let key = OrderKey::Id(ClientOrderId(12));
    let mut market = order();
    market.order_type = OrderType::Market;
    market.price = None;
    let mut full = order();
    full.cl_ord_id = Some(long);
    full.terms = full
        .terms
        .with_stop_price(Some(Price(i64::MIN)))
        .with_display(Some(Quantity(5)))
        .with_expire_time(Some(Timestamp(u64::MAX)));
    let mass = |instrument, side| Body::MassCancel(MassCancel { session: SessionId(5), instrument, side });
    let replace = |order, cl_ord_id| {
        Body::ReplaceOrder(ReplaceOrder {
            order,
            side: Some(Side::Buy),
            price: Some(Price(-1)),
            quantity: Quantity(1),
            stop_price: None,
            display: None,
            cl_ord_id,
        })
    };
    vec![
        Body::NewOrder(order()),
        Body::NewOrder(market),
        Body::NewOrder(full),
        Body::CancelOrder(CancelOrder { order: key, side: None, cl_ord_id: None }),
        Body::CancelOrder(CancelOrder {
            order: OrderKey::Text(long),
            side: Some(Side::Buy),
            cl_ord_id: Some(long),
        }),
        replace(key, None),
        replace(OrderKey::Text(long), Some(long)),
        mass(None, None),
        mass(Some(InstrumentId(1)), None),
        mass(None, Some(Side::Buy)),
        mass(Some(InstrumentId(1)), Some(Side::Sell)),
        Body::OrderStatus(OrderStatusRequest { order: key }),
        Body::OrderStatus(OrderStatusRequest { order: OrderKey::Text(long) }),
        Body::Login(LoginRequest { trading_day: None }),
        Body::Login(LoginRequest { trading_day: Some(TradingDay(2)) }),
        Body::Logout,
        Body::Disconnect(EndReason::Silent),
        Body::Start,
        Body::Tick(Tick { checkpoint_sequence: Sequence(5), checkpoint_hash: u64::MAX }),
        Body::EndOfDay,
        Body::SetCapacities(Capacities::default()),
        Body::SetRulebook(2),
        Body::PutInstrument(instrument()),
        Body::SetPhase(InstrumentId(1), Phase::Halted),
        Body::PutUser(user()),
        Body::DisconnectUser(SessionId(4)),
    ]
    .into_iter()
    .chain(later_bodies())
    .collect()
}

/// Orders with every term of version 2 of the rulebook.
fn later_orders() -> Vec<Body> {
    let terms = Terms::default()
        .with_stop_price(Some(Price(i64::MIN)))
        .with_trail(Some(3))
        .with_display(Some(Quantity(5)))
        .with_display_high(Some(Quantity(u64::MAX)))
        .with_expire_time(Some(Timestamp(0)))
        .with_minimum(Some(Quantity(1)))
        .with_peg(Some(Peg { reference: PegReference::Midpoint, offset: -4 }))
        .with_self_trade(Some(SelfTrade { group: 7, action: SelfTradeAction::Decrement }))
        .with_oco(Some(9))
        .with_parent(Some(ClientOrderId(10)));
    let flags = OrderFlags { post_only: true, slide: true, hidden: true, reduce_only: true };
    let cl_ord_id = Some(text(&[b'y'; ClOrdId::LENGTH_MAX]));
    let full = NewOrder { terms, flags, cl_ord_id, time_in_force: TimeInForce::GoodTillDate, ..order() };
    let pegged = NewOrder { order_type: OrderType::Pegged, price: None, ..full };
    let replace = ReplaceOrder {
        order: OrderKey::Id(ClientOrderId(1)),
        side: None,
        price: None,
        quantity: Quantity(3),
        stop_price: Some(Price(0)),
        display: Some(Quantity(2)),
        cl_ord_id: None,
    };
    vec![Body::NewOrder(full), Body::NewOrder(pegged), Body::ReplaceOrder(replace)]
}

/// The requests of version 2 of the rulebook.
fn later_bodies() -> Vec<Body> {
    let (x, account) = (InstrumentId(3), AccountId(5));
    let currency = Currency::new("USDT").expect("a code");
    let rows = [TickRow { from: Price(0), tick: Price(1) }; protocol::TICK_ROWS_MAX];
    let entries = [QuoteEntry { ticks: -1, lots: u32::MAX }; protocol::QUOTE_LEVELS_MAX];
    let side = |count: usize| QuoteSide::new(&entries[..count]);
    let quote =
        |bids, asks| Body::MassQuote(MassQuote { instrument: x, account, base: Price(-9), bids, asks });
    let rules = InstrumentRules {
        settlement: Settlement::Cash,
        base: Some(currency),
        quote: Currency::new("12345678"),
        notional_max: u64::MAX,
        random_end_ms: 9,
        ..InstrumentRules::default()
    };
    let who = SelfTrade { group: 1, action: SelfTradeAction::CancelBoth };
    let account_of = |self_trade| {
        let (participant, group) = (ParticipantId(4), AccountGroup(2));
        Body::PutAccount(AccountDefinition { account, participant, group, self_trade })
    };
    let bodies = [
        quote(None, side(0)),
        quote(side(entries.len()), side(entries.len())),
        Body::PutRules(x, InstrumentRules::default()),
        Body::PutRules(x, rules),
        Body::PutTickTable(x, TickTable::default()),
        Body::PutTickTable(x, TickTable::new(&rows).expect("it is full")),
        Body::SchedulePhase(x, Timestamp(u64::MAX), Phase::Delisted),
        Body::ClearSchedule(x),
        Body::SetPrice(x, PriceKind::Mark, Price(i64::MIN)),
        Body::Delist(x),
        Body::SetFees(x, AccountGroup(1), Fees { maker_ppm: -5, taker_per_lot: i64::MIN, ..Fees::default() }),
        Body::SetLimits(account, None, Limits { collar: 3, duplicate_ms: 9, ..Limits::default() }),
        Body::SetLimits(account, Some(x), Limits { quantity: u64::MAX, open_orders: 1, ..Limits::default() }),
        Body::SetSeed(u64::MAX),
        Body::PutCurrency(currency, 18),
        account_of(None),
        account_of(Some(who)),
        Body::SetParticipant(SessionId(4), ParticipantId(0)),
        Body::SetThrottle(SessionId(4), Throttle { orders: 1, cancels: 2 }),
        Body::Transfer(Transfer { account, currency, amount: Amount::new(i128::MIN) }),
        Body::Kill(KillTarget::Venue, true),
        Body::Kill(KillTarget::Participant(ParticipantId(9)), false),
        Body::Kill(KillTarget::Account(account), true),
        Body::BustTrade(TradeId(8)),
        Body::CorrectTrade(TradeId(8), Price(-1)),
        Body::QueryAccount(account),
        Body::QueryInstrument(x),
    ];
    later_orders().into_iter().chain(bodies).collect()
}

#[test]
fn an_administrative_request_may_say_why() {
    let mut said = 0;
    for command in commands() {
        let Some(frame) = command.encode_because("a fat finger, see ticket 7") else { continue };
        said += 1;
        assert_eq!(Command::try_decode(frame.as_bytes()), Ok(command), "the text is not part of it");
        assert_eq!(Command::why(frame.as_bytes()), Some("a fat finger, see ticket 7"), "{command:?}");
        assert_eq!(Command::why(command.encode().expect("it encodes").as_bytes()), None);
    }
    assert!(said >= 20, "only {said} kinds take a text");
    let halt = Command { body: Body::SetPhase(InstrumentId(1), Phase::Halted), ..Command::default() };
    assert!(halt.encode_because("").is_none() && halt.encode_because(&"x".repeat(65)).is_none());
    let order = Command { body: Body::NewOrder(order()), ..Command::default() };
    assert!(order.encode_because("why not").is_none(), "an order has no such text");
}

fn commands() -> impl Iterator<Item = Command> {
    bodies().into_iter().map(|body| Command {
        session: SessionId(4),
        connection: ConnectionId(77),
        request_id: RequestId(u64::MAX),
        timestamp: Timestamp(123),
        body,
    })
}

fn events() -> Vec<Event> {
    let to = Recipient { session: SessionId(4), number: ReportNumber(3) };
    let (request_id, order_id, client_order_id) = (RequestId(9), OrderId(8), ClientOrderId(7));
    let (instrument, account, side) = (InstrumentId(6), AccountId(5), Side::Sell);
    let (price, cum_quantity) = (Price(-3), Quantity(2));
    let accepted = Accepted {
        to,
        request_id,
        order_id,
        price: Some(price),
        quantity: Quantity(4),
        instrument,
        account,
        side,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: OrderFlags { post_only: true, ..OrderFlags::default() },
    };
    let expired = Expired {
        to,
        request_id,
        order_id,
        client_order_id,
        resting_price: Some(price),
        expired_quantity: Quantity(4),
        cum_quantity,
        instrument,
        account,
        side,
        reason: ExpireReason::EndOfDay,
    };
    let rejected = Rejected {
        to,
        request_id,
        client_order_id: Some(client_order_id),
        highest_request_id: RequestId(11),
        instrument,
        request_kind: Some(FrameKind::NewOrder),
        reason: RejectReason::InstrumentStopped,
    };
    let canceled = Canceled {
        to,
        request_id,
        order_id,
        client_order_id,
        resting_price: Some(price),
        canceled_quantity: Quantity(4),
        cum_quantity,
        instrument,
        account,
        side,
        reason: CancelReason::Disconnected,
    };
    let replaced = Replaced {
        to,
        request_id,
        order_id,
        client_order_id,
        price: Some(price),
        quantity: Quantity(4),
        cum_quantity,
        instrument,
        account,
        side,
        kept_place: true,
    };
    let restated = Restated {
        to,
        order_id,
        client_order_id,
        price: Some(price),
        leaves_quantity: Quantity(4),
        cum_quantity,
        instrument,
        account,
        side,
        reason: RestateReason::NewDay,
    };
    let status = OrderStatusReport {
        to,
        request_id,
        order_id,
        client_order_id,
        price: Some(price),
        stop_price: None,
        leaves_quantity: Quantity(4),
        cum_quantity,
        instrument,
        account,
        side,
        status: OrdStatus::PartiallyFilled,
    };
    vec![
        Event::Accepted(accepted),
        Event::Accepted(Accepted { price: None, order_type: OrderType::Market, ..accepted }),
        Event::Rejected(rejected),
        Event::Rejected(Rejected { client_order_id: None, request_kind: None, ..rejected }),
        Event::Executed(Executed {
            to,
            request_id,
            order_id,
            client_order_id,
            trade_id: TradeId(1),
            last_price: price,
            last_quantity: Quantity(4),
            leaves_quantity: Quantity(0),
            cum_quantity,
            instrument,
            account,
            side,
            liquidity: Liquidity::Taker,
        }),
        Event::Canceled(canceled),
        Event::Canceled(Canceled { resting_price: None, ..canceled }),
        Event::Replaced(replaced),
        Event::Replaced(Replaced { price: None, kept_place: false, ..replaced }),
        Event::Restated(restated),
        Event::Restated(Restated { price: None, reason: RestateReason::Decremented, ..restated }),
        Event::Expired(expired),
        Event::Expired(Expired { resting_price: None, ..expired }),
        Event::OrderStatus(status),
        Event::OrderStatus(OrderStatusReport { price: None, stop_price: Some(price), ..status }),
        Event::MassCanceled(MassCanceled { to, request_id, orders: u64::MAX }),
        Event::AdminDone(AdminDone { to, request_id, request_kind: FrameKind::PutUser, instrument }),
    ]
}

/// The reports of version 2 of the rulebook.
fn later_events() -> Vec<Event> {
    let to = Recipient { session: SessionId(4), number: ReportNumber(3) };
    let (request_id, client_order_id) = (RequestId(9), ClientOrderId(7));
    let (instrument, account, side) = (InstrumentId(6), AccountId(5), Side::Sell);
    let (trade_id, price) = (TradeId(1), Price(-3));
    let currency = Currency::new("USD").expect("a code");
    let triggered = Triggered {
        to,
        order_id: OrderId(8),
        client_order_id,
        stop_price: price,
        price: Some(Price(9)),
        leaves_quantity: Quantity(4),
        instrument,
        account,
        side,
    };
    let quoted = MassQuoted {
        to,
        request_id,
        instrument,
        account,
        bids: 2,
        asks: 0,
        bid_reason: None,
        ask_reason: Some(RejectReason::QuoteInvalid),
    };
    let revised = TradeRevised {
        to,
        trade_id,
        client_order_id,
        quantity: Quantity(4),
        old_price: price,
        new_price: Some(Price(7)),
        instrument,
        account,
        side,
    };
    let state = InstrumentState {
        to,
        request_id,
        instrument,
        phase: Phase::ClosingAuction,
        last_price: Some(price),
        reference_price: None,
        mark_price: Some(Price(0)),
        open_interest: 12,
    };
    vec![
        Event::Triggered(triggered),
        Event::Triggered(Triggered { price: None, ..triggered }),
        Event::MassQuoted(quoted),
        Event::MassQuoted(MassQuoted { bid_reason: Some(RejectReason::Killed), ask_reason: None, ..quoted }),
        Event::Settled(Settled {
            to,
            trade_id,
            client_order_id,
            fee: Amount::new(i128::MIN),
            position: i64::MIN,
            instrument,
            account,
            side,
        }),
        Event::TradeRevised(revised),
        Event::TradeRevised(TradeRevised { new_price: None, ..revised }),
        Event::Balance(Balance {
            to,
            request_id,
            account,
            currency,
            total: Amount::new(-1),
            held: Amount::new(i128::MAX),
        }),
        Event::Position(Position {
            to,
            request_id,
            account,
            instrument,
            quantity: -5,
            cost: Amount::new(1 << 90),
            open_buy: 1,
            open_sell: u64::MAX,
        }),
        Event::InstrumentState(state),
        Event::InstrumentState(InstrumentState { reference_price: Some(price), last_price: None, ..state }),
    ]
}

#[test]
fn commands_round_trip_and_padding_is_allowed() {
    for command in commands() {
        let writer = command.encode().expect("every body but Malformed has a frame");
        let frame = writer.as_bytes();
        assert_eq!(Command::try_decode(frame), Ok(command));
        let mut padded = frame.to_vec();
        padded.resize(frame_slots(frame.len()) * SLOT_LENGTH, 0);
        assert_eq!(Command::decode(&padded), command);
    }
}

#[test]
fn a_plain_order_is_one_slot_and_a_malformed_one_has_no_frame() {
    let command = commands().next().expect("there are commands");
    assert_eq!(frame_slots(command.encode().expect("an order encodes").as_bytes().len()), 1);
    assert!(Command { body: Body::Malformed(DecodeError::Kind), ..command }.encode().is_none());
}

#[test]
fn a_frame_cut_anywhere_is_refused_and_keeps_what_can_be_read() {
    for command in commands() {
        let writer = command.encode().expect("every body but Malformed has a frame");
        let frame = writer.as_bytes();
        for end in 0..frame.len() {
            assert_eq!(
                Command::try_decode(&frame[..end]),
                Err(DecodeError::Truncated),
                "{command:?} cut at {end}"
            );
        }
        let cut = Command::decode(&frame[..HEADER_LENGTH]);
        assert_eq!(cut.request_id, command.request_id);
        assert_eq!(cut.session, command.session);
    }
}

#[test]
fn what_decodes_from_random_bytes_encodes_to_the_same_meaning() {
    let mut random = StdRng::seed_from_u64(seed());
    let frames: Vec<Vec<u8>> =
        commands().map(|command| command.encode().expect("it encodes").as_bytes().to_vec()).collect();
    let mut decoded = 0;
    let mut place = Command::default();
    for _ in 0..200_000 {
        let mut frame = frames[random.random_range(0..frames.len())].clone();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..frame.len());
            frame[at] = random.random();
        }
        if let Ok(command) = Command::try_decode(&frame) {
            decoded += 1;
            let again = command.encode().expect("what decodes encodes");
            assert_eq!(Command::try_decode(again.as_bytes()), Ok(command));
        }
        Command::decode_into(&frame, &mut place);
        assert_eq!(place, Command::decode(&frame), "the fast way and the other are one: {frame:?}");
        let _ = (Report::decode(&frame), Command::why(&frame));
        let _ = Unsequenced::decode(&frame);
    }
    assert!(decoded > 10_000, "only {decoded} of the changed frames decoded: the test looks at nothing");
}

#[test]
fn plain_frames_decode_the_same_both_ways() {
    let mut random = StdRng::seed_from_u64(seed());
    let plain = |body| Command { body, request_id: RequestId(5), ..Command::default() };
    let key = OrderKey::Id(ClientOrderId(3));
    let replace = ReplaceOrder {
        order: key,
        side: Some(Side::Buy),
        price: Some(Price(5)),
        quantity: Quantity(4),
        stop_price: None,
        display: None,
        cl_ord_id: None,
    };
    let bodies = [
        Body::NewOrder(order()),
        Body::CancelOrder(CancelOrder { order: key, side: None, cl_ord_id: None }),
        Body::ReplaceOrder(replace),
    ];
    let mut taken = [0; 3];
    for round in 0..300_000 {
        let writer = plain(bodies[round % 3]).encode().expect("it encodes");
        let mut frame = [0; SLOT_LENGTH];
        frame[..writer.as_bytes().len()].copy_from_slice(writer.as_bytes());
        // Length, kind, version, and every byte that has but few good values, which random ones would hardly ever have.
        for _ in 0..random.random_range(0..4) {
            let at = [0, 0, 2, 3, 52, 53, 54, 55, 56, random.random_range(0..SLOT_LENGTH)]
                [random.random_range(0..10)];
            frame[at] = if random.random() { random.random_range(0..70) } else { random.random() };
        }
        let frame = &frame[..random.random_range(writer.as_bytes().len()..=SLOT_LENGTH)];
        let mut place = plain(Body::EndOfDay);
        Command::decode_into(frame, &mut place);
        assert_eq!(place, Command::decode(frame), "{frame:?}");
        taken[round % 3] += usize::from(!matches!(place.body, Body::Malformed(_)));
    }
    assert!(taken.iter().all(|taken| *taken > 10_000), "{taken:?} decoded: the test looks at nothing");
}

#[test]
fn unknown_and_doubled_options_are_refused() {
    let command = commands().next().expect("there are commands");
    let frame = command.encode().expect("it encodes").as_bytes().to_vec();
    let with = |options: &[u8]| {
        let mut frame = frame.clone();
        frame.extend_from_slice(options);
        let length = frame.len() as u16;
        frame[..2].copy_from_slice(&length.to_le_bytes());
        Command::try_decode(&frame)
    };
    assert!(with(&[1, 1, b'a']).is_ok());
    for options in
        [&[99, 1, 0][..], &[1, 1, b'a', 1, 1, b'b'], &[1], &[1, 5, b'a'], &[1, 0], &[1, 1, b' '], &[3, 1, 0]]
    {
        assert_eq!(with(options), Err(DecodeError::Option), "{options:?}");
    }
}

#[test]
fn reports_round_trip_within_their_stride() {
    let name = text(&[b'n'; ClOrdId::LENGTH_MAX]);
    for event in events().into_iter().chain(later_events()) {
        let named = matches!(event, Event::Accepted(_) | Event::Rejected(_) | Event::Replaced(_));
        let report = Report {
            output: Output { sequence: Sequence(55), log_time: Timestamp(66), event },
            cl_ord_id: named.then_some(name),
        };
        let mut stride = [0xff; REPORT_STRIDE];
        report.encode(&mut stride).expect("it has a recipient");
        assert_eq!(Report::decode(&stride), Ok(report));
        let (request_id, session, trading_day) = (RequestId(8), SessionId(4), TradingDay(3));
        let copy = DropCopy { request_id, session, trading_day, report: Some(report) };
        let message = Unsequenced::DropCopy(copy);
        assert_eq!(Unsequenced::decode(message.encode().as_bytes()), Ok(message.clone()));
        let frame = &stride[..usize::from(u16::from_le_bytes([stride[0], stride[1]]))];
        let raw = DropCopy::encode_raw(request_id, session, trading_day, frame);
        assert_eq!(raw.as_bytes(), message.encode().as_bytes());
        for end in 0..HEADER_LENGTH + 16 {
            assert!(Report::decode(&stride[..end]).is_err());
        }
    }
}

#[test]
fn events_of_the_venue_are_no_reports() {
    let output = Output { event: Event::DayStarted(TradingDay(2)), ..Output::default() };
    let mut stride = [1; REPORT_STRIDE];
    assert!(Report { output, cl_ord_id: None }.encode(&mut stride).is_none());
    assert_eq!(stride, [1; REPORT_STRIDE]);
}

#[test]
fn unnumbered_messages_round_trip() {
    let level = |price| DepthLevel { price: Price(price), quantity: Quantity(5), orders: 2 };
    let depth = DepthSnapshot {
        instrument: InstrumentId(3),
        sequence: Sequence(9),
        bids: (0..DEPTH_LEVELS_MAX as i64).map(|at| level(-at)).collect(),
        asks: (0..DEPTH_LEVELS_MAX as i64).map(level).collect(),
        state: None,
    };
    let indicative = Indicative {
        instrument: InstrumentId(3),
        price: Some(Price(-7)),
        quantity: Quantity(u64::MAX),
        surplus: Quantity(5),
        surplus_side: Some(Side::Sell),
    };
    let in_phase = |phase, indicative| {
        let state = Some(MarketState { phase, indicative });
        Unsequenced::Depth(RequestId(1), DepthSnapshot { state, ..depth.clone() })
    };
    let request_id = RequestId(1);
    for message in [
        Unsequenced::Refused(Refused {
            request_id,
            reason: RefuseReason::DiskFull,
            request_kind: Some(FrameKind::NewOrder),
        }),
        Unsequenced::Refused(Refused { request_id, reason: RefuseReason::Malformed, request_kind: None }),
        Unsequenced::DepthQuery(DepthQuery {
            request_id,
            instrument: InstrumentId(3),
            levels: 5,
            with_state: false,
        }),
        Unsequenced::DepthQuery(DepthQuery {
            request_id,
            instrument: InstrumentId(3),
            levels: 5,
            with_state: true,
        }),
        Unsequenced::Depth(request_id, depth.clone()),
        in_phase(Phase::OpeningAuction, Some(indicative)),
        in_phase(Phase::OpeningAuction, Some(Indicative { surplus_side: None, ..indicative })),
        in_phase(Phase::Halted, None),
        Unsequenced::InstrumentQuery(InstrumentQuery {
            request_id,
            instrument: InstrumentId(0),
            symbol: Symbol::new("X"),
        }),
        Unsequenced::InstrumentQuery(InstrumentQuery {
            request_id,
            instrument: InstrumentId(3),
            symbol: None,
        }),
        Unsequenced::InstrumentDefinition(request_id, instrument()),
        Unsequenced::DropCopyRequest(DropCopyRequest {
            request_id,
            session: SessionId(4),
            trading_day: Some(TradingDay(3)),
            from: Some(ReportNumber(9)),
        }),
        Unsequenced::DropCopyRequest(DropCopyRequest {
            request_id,
            session: SessionId(4),
            trading_day: None,
            from: None,
        }),
        Unsequenced::DropCopy(DropCopy {
            request_id,
            session: SessionId(4),
            trading_day: TradingDay(3),
            report: None,
        }),
    ] {
        let writer = message.encode();
        assert_eq!(Unsequenced::decode(writer.as_bytes()), Ok(message));
    }
}

#[test]
fn packets_round_trip_and_wait_for_their_end() {
    let login = Login { username: *b"demo  ", password: *b"secret    ", session: [b' '; 10], next: 17 };
    for packet in [
        Packet::Debug(b"leader=127.0.0.1:1"),
        Packet::LoginAccepted { session: *b"0000000001", next: u64::MAX },
        Packet::LoginRejected(b'S'),
        Packet::Sequenced(&[1; 128]),
        Packet::ServerHeartbeat,
        Packet::EndOfSession,
        Packet::LoginRequest(login),
        Packet::Unsequenced(&[2; FRAME_LENGTH_MAX]),
        Packet::ClientHeartbeat,
        Packet::LogoutRequest,
    ] {
        let mut bytes = Vec::new();
        write_packet(&packet, &mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(read_packet(&bytes[..end]), Ok(None), "{packet:?} cut at {end}");
        }
        let length = bytes.len();
        bytes.push(0xff);
        assert_eq!(read_packet(&bytes), Ok(Some((packet, length))));
    }
}

#[test]
fn packets_that_lie_are_errors_at_once() {
    let login = |number: &[u8; 20]| {
        let mut bytes = vec![0, 47, b'L'];
        bytes.extend_from_slice(b"demo  secret              ");
        bytes.extend_from_slice(number);
        bytes
    };
    for (bytes, error) in [
        (vec![0, 0], PacketError::Length(0)),
        (vec![0xff, 0xff], PacketError::Length(0xffff)),
        (vec![4, 2], PacketError::Length(1026)),
        (vec![0, 1, b'X'], PacketError::Type(b'X')),
        (vec![0, 2, b'H', 0], PacketError::Payload(b'H')),
        (vec![0, 1, b'L'], PacketError::Payload(b'L')),
        (login(b"                  -1"), PacketError::Payload(b'L')),
        (login(b"99999999999999999999"), PacketError::Payload(b'L')),
        (login(b"                1 1 "), PacketError::Payload(b'L')),
    ] {
        assert_eq!(read_packet(&bytes), Err(error));
    }
    assert!(matches!(
        read_packet(&login(&[b' '; 20])),
        Ok(Some((Packet::LoginRequest(Login { next: 0, .. }), 49)))
    ));
}

#[test]
fn random_bytes_never_make_the_packet_reader_panic() {
    let mut random = StdRng::seed_from_u64(seed());
    for _ in 0..100_000 {
        let mut bytes = vec![0; random.random_range(0..80)];
        random.fill(&mut bytes[..]);
        if bytes.len() > 1 && random.random_bool(0.8) {
            bytes[0] = 0;
            bytes[1] %= 80;
        }
        if let Ok(Some((_, length))) = read_packet(&bytes) {
            assert!(length <= bytes.len());
        }
    }
}

#[test]
fn text_and_bytes_of_every_enumeration_agree() {
    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        all: &[T],
        byte: fn(T) -> u8,
        from: fn(u8) -> Option<T>,
        name: fn(T) -> &'static str,
        named: fn(&str) -> Option<T>,
    ) {
        assert!(from(0).is_none() && from(255).is_none());
        for value in all {
            assert_eq!(from(byte(*value)), Some(*value));
            assert_eq!(named(name(*value)), Some(*value));
        }
    }
    macro_rules! checked {
        ($($name:ident),+) => {
            $(check($name::ALL, $name::to_byte, $name::from_byte, $name::name, $name::from_name);)+
        };
    }
    checked!(Side, OrderType, TimeInForce, Liquidity, Phase, Role, OrdStatus, RejectReason, CancelReason);
    checked!(ExpireReason, RestateReason, MassCancelScope, LoginRefusal, EndReason, RefuseReason);
}

#[test]
fn the_stream_hash_sees_order_and_every_word() {
    let hash = |words: &[u64]| {
        let mut hash = StreamHash::default();
        words.iter().for_each(|word| hash.word(*word));
        hash.value()
    };
    assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
    assert_ne!(hash(&[0]), hash(&[0, 0]));
    assert_ne!(hash(&[]), hash(&[0]));
    let mut seen = std::collections::HashSet::new();
    for bit in 0..64 {
        assert!(seen.insert(hash(&[5, 1 << bit])));
        let mut pair = StreamHash::default();
        pair.pair(3, 1 << bit);
        assert!(seen.insert(pair.value()));
    }
}

#[test]
fn a_trading_day_has_one_session_name() {
    for day in [0, 1, 9, 10, 4_294_967_295] {
        assert_eq!(session_day(&session_name(TradingDay(day))), Some(TradingDay(day)));
    }
    assert_eq!(&session_name(TradingDay(42)), b"0000000042");
    assert_eq!(session_day(b"        42"), Some(TradingDay(42)));
    assert_eq!(session_day(b"42        "), Some(TradingDay(42)));
    for name in [b"          ", b"4 2       ", b"-1        ", b"4294967296", b"x         "] {
        assert_eq!(session_day(name), None);
    }
}
