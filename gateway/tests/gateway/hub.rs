//! What the output stage tells reaches whom it is about, and passwords are what was hashed.

use gateway::credentials::{self, PasswordError, Verifier};
use gateway::{Hub, HubSeed, LoginVerdict, Port};
use protocol::{
    ConnectionId, Credential, Egress, EndReason, InstrumentDefinition, InstrumentId, InstrumentQuery, Joined,
    LoggedIn, LoginRefusal, LoginRefused, Notice, ParticipantId, Price, Quantity, ReportNumber, RequestId,
    Role, SessionId, Symbol, TradingDay, UserDefinition, UserName,
};

fn logged_in(session: u32, connection: ConnectionId) -> LoggedIn {
    LoggedIn {
        session: SessionId(session),
        connection,
        trading_day: TradingDay(1),
        last_report: ReportNumber(0),
        highest_request_id: RequestId(0),
    }
}

fn user(session: u32, name: &str, enabled: bool) -> UserDefinition {
    UserDefinition {
        session: SessionId(session),
        name: UserName::new(name).expect("a name"),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled,
        cancel_on_disconnect: false,
        grace_ms: 0,
    }
}

#[test]
fn verdicts_and_ends_reach_their_own_connection_only() {
    let (hub, mut egress) = Hub::new(&HubSeed { trading_day: TradingDay(1), ..HubSeed::default() });
    let (first, second) = (hub.connect(), hub.connect());
    assert_ne!(first.connection(), second.connection());
    let verdict = logged_in(1, first.connection());
    egress.notify(Notice::LoggedIn(verdict));
    let (session, connection, reason) = (SessionId(1), second.connection(), LoginRefusal::AlreadyLoggedIn);
    let refused = LoginRefused { session, connection, reason };
    egress.notify(Notice::LoginRefused(refused));
    assert_eq!(first.take_verdict(), Some(LoginVerdict::LoggedIn(verdict)));
    assert_eq!(second.take_verdict(), Some(LoginVerdict::Refused(refused)));
    assert_eq!(first.take_verdict(), None, "a verdict is told once");

    let ended = |ports: [&Port; 2]| ports.map(Port::ended);
    egress.notify(Notice::ConnectionEnded(SessionId(1), second.connection(), EndReason::Closed));
    egress.notify(Notice::ConnectionEnded(SessionId(2), first.connection(), EndReason::Closed));
    assert_eq!(ended([&first, &second]), [None, None], "neither is the session's live connection");
    egress.notify(Notice::ConnectionEnded(SessionId(1), first.connection(), EndReason::Operator));
    assert_eq!(ended([&first, &second]), [Some(EndReason::Operator), None]);

    // What is told to a connection that is gone is told to nobody, also not to the one that comes after it.
    let gone = second.connection();
    drop(second);
    let third = hub.connect();
    egress.notify(Notice::LoggedIn(logged_in(1, gone)));
    egress.notify(Notice::Reports(SessionId(1), TradingDay(1), ReportNumber(1)));
    assert_eq!(third.take_verdict(), None);
}

#[test]
fn definitions_and_the_day_follow_the_log() {
    let seed =
        HubSeed { trading_day: TradingDay(7), users: vec![user(1, "anna", true)], ..HubSeed::default() };
    let (hub, mut egress) = Hub::new(&seed);
    let find = |name: &str| {
        hub.user(UserName::new(name).expect("a name")).map(|user| (user.session.0, user.enabled))
    };
    assert_eq!(find("anna"), Some((1, true)));
    egress.notify(Notice::User(user(2, "bob", true)));
    egress.notify(Notice::User(user(1, "anna", false)));
    assert_eq!((find("anna"), find("bob")), (Some((1, false)), Some((2, true))));
    egress.notify(Notice::User(user(1, "cleo", true)));
    assert_eq!((find("anna"), find("cleo")), (None, Some((1, true))), "a session has one name");

    let definition = InstrumentDefinition {
        instrument: InstrumentId(5),
        symbol: Symbol::new("BTCUSD").expect("a symbol"),
        price_scale: 2,
        quantity_scale: 8,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(9),
        quantity_max: Quantity(9),
    };
    egress.notify(Notice::Instrument(definition));
    let ask = |instrument: u32, symbol: Option<&str>| {
        let symbol = symbol.and_then(Symbol::new);
        hub.instrument(&InstrumentQuery {
            request_id: RequestId(1),
            instrument: InstrumentId(instrument),
            symbol,
        })
    };
    assert_eq!(ask(0, Some("BTCUSD")), Some(definition));
    assert_eq!(ask(5, None), Some(definition));
    assert_eq!((ask(5, Some("ETHUSD")), ask(6, None)), (None, None));

    assert_eq!(hub.trading_day(), TradingDay(7));
    egress.notify(Notice::DayStarted(TradingDay(8)));
    assert_eq!(hub.trading_day(), TradingDay(8));
}

#[test]
fn observers_see_their_participants_sessions_and_operators_all() {
    let with_role = |session, name, role| UserDefinition { role, ..user(session, name, true) };
    let seed = HubSeed {
        users: vec![
            user(1, "anna", true),
            user(2, "bob", true),
            with_role(3, "watch", Role::Observer),
            with_role(4, "admin", Role::Operator),
        ],
        participants: vec![
            (SessionId(1), ParticipantId(7), Joined::default()),
            (SessionId(2), ParticipantId(8), Joined::default()),
        ],
        ..HubSeed::default()
    };
    let (hub, mut egress) = Hub::new(&seed);
    let seen = |observer: u32| -> Vec<u32> {
        let may = |session: &u32| {
            hub.may_observe(SessionId(observer), SessionId(*session), TradingDay(1)) == Some(ReportNumber(1))
        };
        (0..=5).filter(may).collect()
    };
    assert_eq!((seen(1), seen(3), seen(4), seen(9)), (vec![], vec![], vec![1, 2, 3, 4], vec![]));
    egress.notify(Notice::Participant(SessionId(3), ParticipantId(7), Joined::default()));
    assert_eq!(seen(3), [1, 3]);
    egress.notify(Notice::Participant(SessionId(1), ParticipantId(0), Joined::default()));
    assert_eq!(seen(3), [3]);
    egress.notify(Notice::User(user(3, "watch", true)));
    assert_eq!(seen(3), Vec::<u32>::new(), "a trader observes nobody");
}

#[test]
fn an_observer_reads_no_report_from_before_a_session_was_its_participants() {
    let watch = UserDefinition { role: Role::Observer, ..user(3, "watch", true) };
    let admin = UserDefinition { role: Role::Operator, ..user(4, "admin", true) };
    let behind = |day, last| Joined { trading_day: TradingDay(day), last_report: ReportNumber(last) };
    let seed = HubSeed {
        users: vec![user(1, "anna", true), watch, admin],
        participants: vec![
            (SessionId(1), ParticipantId(7), behind(5, 41)),
            (SessionId(3), ParticipantId(8), Joined::default()),
        ],
        ..HubSeed::default()
    };
    let (hub, mut egress) = Hub::new(&seed);
    let first = |observer: u32, day| {
        hub.may_observe(SessionId(observer), SessionId(1), TradingDay(day)).map(|number| number.0)
    };
    assert_eq!((first(3, 5), first(4, 5)), (None, Some(1)), "another participant's, and an operator");
    egress.notify(Notice::Participant(SessionId(1), ParticipantId(8), behind(6, 10)));
    assert_eq!([first(3, 5), first(3, 6), first(3, 7)], [None, Some(11), Some(1)]);
    assert_eq!(first(4, 6), Some(1));
}

#[test]
fn observers_are_woken_until_they_are_gone() {
    use std::future::Future;
    use std::task::{Context, Waker};

    let (hub, mut egress) = Hub::new(&HubSeed { trading_day: TradingDay(1), ..HubSeed::default() });
    let ports = [hub.connect(), hub.connect()];
    let is_told = |port: &Port| {
        let told = std::pin::pin!(port.told());
        told.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    };
    let mut report = |session| {
        egress.notify(Notice::Reports(SessionId(session), TradingDay(1), ReportNumber(1)));
    };
    report(5);
    assert_eq!(ports.each_ref().map(is_told), [false, false]);
    ports.iter().for_each(|port| port.observe(SessionId(5)));
    report(5);
    assert_eq!(ports.each_ref().map(is_told), [true, true], "any number of observers");
    report(6);
    assert_eq!(ports.each_ref().map(is_told), [false, false]);
    let [first, second] = ports;
    drop(first);
    report(5);
    assert!(is_told(&second));
}

#[test]
fn a_password_is_what_was_hashed_with_that_salt_and_scheme() {
    let credential = credentials::hash("secret", [1; 16]).expect("a password");
    let mut verifier = Verifier::default();
    let mut check = |credential: &Credential, password: &[u8]| verifier.verify(credential, password);
    assert!(check(&credential, b"secret"));
    for wrong in [&b"Secret"[..], b"secret ", b"secre", b""] {
        assert!(!check(&credential, wrong), "{wrong:?}");
    }
    assert!(!check(&Credential { salt: [2; 16], ..credential }, b"secret"));
    assert!(!check(&Credential { scheme: 2, ..credential }, b"secret"));
    assert!(check(&credential, b"secret"), "one verification leaves nothing for the next");
    for impossible in ["", "with space", "elevenchars", "ümlaut"] {
        assert_eq!(credentials::hash(impossible, [1; 16]), Err(PasswordError), "{impossible}");
    }
}
