//! docs/native-order-entry.md says what the code does.

use protocol::soupbin::{HEARTBEAT_SECONDS, PACKET_LENGTH_MAX, Packet, SILENCE_SECONDS, read_packet};
use protocol::{
    CancelReason, Command, DEPTH_LEVELS_MAX, EndReason, ExpireReason, FrameKind, Liquidity, MassCancelScope,
    OrdStatus, OrderType, Phase, RefuseReason, RejectReason, RequestId, RestateReason, Role, Side,
    TimeInForce,
};

use gateway::{ListenerLimits, SessionLimits};

use crate::wire;

const PAGE: &str = include_str!("../../../docs/native-order-entry.md");

/// The page's part from a heading to the next one.
fn section(heading: &str) -> &'static str {
    let from = PAGE.find(&format!("### {heading}\n")).unwrap_or_else(|| panic!("no heading {heading}"));
    let rest = &PAGE[from + 4..];
    &rest[..rest.find("\n##").unwrap_or(rest.len())]
}

fn rows(section: &str) -> Vec<String> {
    let is_row = |line: &&str| line.starts_with("| ") && line[2..].starts_with(|c: char| c.is_ascii_digit());
    section.lines().filter(is_row).map(str::to_owned).collect()
}

macro_rules! check_codes {
    ($($heading:literal $type:ty),+ $(,)?) => {$(
        let found = rows(section($heading));
        let expected: Vec<String> =
            <$type>::ALL.iter().map(|value| format!("| {} | `{value}` | ", value.to_byte())).collect();
        assert_eq!(found.len(), expected.len(), "{}", $heading);
        for (row, start) in found.iter().zip(&expected) {
            assert!(row.starts_with(start), "{}: {row} instead of {start}", $heading);
        }
    )+};
}

#[test]
fn the_codes_are_those_of_the_protocol() {
    check_codes!(
        "Side" Side, "Order type" OrderType, "Time in force" TimeInForce, "Scope of a mass cancel" MassCancelScope,
        "Phase" Phase, "Role" Role, "Order status" OrdStatus, "Liquidity" Liquidity, "Rejected" RejectReason,
        "Canceled" CancelReason, "Expired" ExpireReason, "Restated" RestateReason, "Refused" RefuseReason,
        "Ends" EndReason,
    );
}

#[test]
fn every_kind_that_a_client_meets_is_there() {
    let tables: Vec<String> = ["Commands", "Numbered reports", "Unnumbered messages"]
        .iter()
        .flat_map(|name| rows(section(name)))
        .collect();
    let expected: Vec<String> = FrameKind::ALL
        .iter()
        .filter(|kind| kind.is_from_client() || !kind.is_command())
        .map(|kind| format!("| {} | {kind:?} | ", *kind as u8))
        .collect();
    assert_eq!(tables.len(), expected.len());
    for (row, start) in tables.iter().zip(&expected) {
        assert!(row.starts_with(start), "{row} instead of {start}");
    }
}

#[test]
fn the_limits_are_the_defaults() {
    let (session, listener) = (SessionLimits::default(), ListenerLimits::default());
    let throttle = session.throttle.expect("a limit by default");
    let thousands = |number: u64| {
        let digits = number.to_string();
        let (front, groups) = digits.split_at((digits.len() - 1) % 3 + 1);
        groups
            .as_bytes()
            .chunks(3)
            .fold(front.to_owned(), |text, group| format!("{text},{}", String::from_utf8_lossy(group)))
    };
    let text = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(throttle.rate, throttle.burst);
    for (what, sentence) in [
        ("throttle", format!("{} messages a second a session", thousands(throttle.rate.into()))),
        ("address", format!("{} connections an address", listener.connections_per_address_max)),
        ("connections", format!("{} in all", thousands(listener.connections_max as u64))),
        ("failures", format!("{} failed logins at once", listener.failed_logins.burst)),
        ("backlog", format!("falls {} reports behind", thousands(session.backlog_max))),
        ("stall", format!("takes no bytes for {} seconds", session.stall.as_secs())),
        ("login", format!("within {} seconds of the connection", session.login_deadline.as_secs())),
        ("heartbeat", format!("after {HEARTBEAT_SECONDS} second in which")),
        ("silence", format!("heard nothing for {SILENCE_SECONDS} seconds")),
        ("packet", format!("a length of 0 or above {PACKET_LENGTH_MAX}")),
        ("levels", format!("at most {DEPTH_LEVELS_MAX} are sent")),
    ] {
        assert!(text.contains(&sentence), "{what}: the page doesn't say {sentence:?}");
    }
}

#[test]
fn the_examples_are_what_they_are_said_to_be() {
    let bytes = |name: &str| -> Vec<u8> {
        let block = PAGE.split(&format!("```{name}\n")).nth(1).expect("the example");
        let hex = block.split("```").next().expect("its end");
        hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("hex")).collect()
    };
    assert_eq!(bytes("login"), wire::login_packet("demo", "secret", "", 1));
    let order = bytes("order");
    let Ok(Some((Packet::Unsequenced(frame), length))) = read_packet(&order) else { panic!("no message") };
    assert_eq!(length, order.len());
    let command = Command::try_decode(frame).expect("an order");
    assert_eq!((command.request_id, command.body), (RequestId(1), wire::new_order()));
}
