//! Bytes of every kind: cut anywhere, made up, or broken. Whatever comes, the session answers or drops the client, and
//! its buffers keep their size.

use gateway::{SessionLimits, ThrottleLimits};
use protocol::EndReason;
use protocol::soupbin::Packet;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::script::{Act, Driver};
use crate::wire::{self, CURRENT};

/// Most bytes that a session's two buffers may hold, whatever happens.
const BUFFER_MAX: usize = 64 * 1024;

fn seed() -> u64 {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_201);
    println!("seed {seed} (set RINGPIT_SEED to change it)");
    seed
}

/// Everything that a client may say, in one piece; the login is 49 bytes long.
fn conversation() -> Vec<u8> {
    let mut bytes = wire::login_packet("demo", "secret", CURRENT, 11);
    for id in 71..74 {
        bytes.extend(wire::message(&wire::frame(id, wire::new_order())));
    }
    bytes.extend(wire::packet(&Packet::ClientHeartbeat));
    bytes.extend(wire::packet(&Packet::Debug(b"hello")));
    bytes.extend(wire::message(&wire::frame(74, wire::replace())));
    bytes.extend(wire::message(&wire::depth_query(1, 1)));
    bytes.extend(wire::message(b"not a frame"));
    bytes.extend(wire::message(&wire::frame(75, wire::mass_cancel())));
    bytes.extend(wire::packet(&Packet::LogoutRequest));
    bytes
}

fn converse(pieces: &[&[u8]]) -> Vec<String> {
    let mut driver = Driver::new(SessionLimits::default());
    for piece in pieces {
        driver.bytes(piece);
        if driver.lines.last().is_some_and(|line| line.starts_with("verify")) {
            driver.act(&Act::Right);
            driver.act(&Act::LoggedIn(70));
        }
    }
    driver.act(&Act::Ended(EndReason::Logout));
    driver.lines
}

#[test]
fn where_the_bytes_are_cut_changes_nothing() {
    let bytes = conversation();
    let sorted = |pieces: &[&[u8]]| {
        // How answers and frames interleave is the cut's; each by itself is not.
        let lines = converse(pieces);
        let (frames, answers): (Vec<_>, Vec<_>) = lines.into_iter().partition(|line| line.starts_with('>'));
        (frames, answers)
    };
    let whole = sorted(&[&bytes]);
    assert_eq!(whole.0.len(), 7, "the login, five requests and the logout: {:?}", whole.0);
    assert_eq!(whole.1.last().map(String::as_str), Some("closed logout"));
    for cut in 0..=bytes.len() {
        assert_eq!(sorted(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(sorted(&single), whole, "byte by byte");
}

#[test]
fn random_and_broken_bytes_neither_panic_nor_fill_memory() {
    let mut random = StdRng::seed_from_u64(seed());
    let good = conversation();
    for round in 0..2_000 {
        let limits = SessionLimits {
            throttle: random.random_bool(0.5).then_some(ThrottleLimits { rate: 1_000, burst: 50 }),
            ..SessionLimits::default()
        };
        let mut driver = Driver::new(limits);
        if random.random_bool(0.8) {
            [Act::Login(CURRENT, 1), Act::Right, Act::LoggedIn(70)].iter().for_each(|act| driver.act(act));
        }
        for _ in 0..random.random_range(1..8) {
            let bytes = match random.random_range(0..4) {
                0 => (0..random.random_range(0..3_000)).map(|_| random.random()).collect(),
                1 => empty_messages(random.random_range(0..2_000)),
                _ => mutated(&good, &mut random),
            };
            driver.bytes(&bytes);
            driver.act(&disturbance(&mut random));
            assert!(driver.out.pending().len() <= BUFFER_MAX, "round {round}");
            assert!(driver.inbound.space().len() <= BUFFER_MAX, "round {round}");
        }
        for act in [Act::RingFull(false), Act::Stalled(false), Act::Lost, Act::LoggedIn(70)] {
            driver.act(&act);
        }
        assert!(driver.session.is_finished(), "round {round}: {:?}", driver.session);
        let entered = driver.lines.iter().any(|line| line.starts_with("> login"));
        let left = driver
            .lines
            .iter()
            .filter(|line| line.starts_with("> logout") || line.starts_with("> disconnect"))
            .count();
        assert!(left <= 1, "round {round}: the exchange heard of two ends: {:?}", driver.lines);
        assert!(entered || left == 0, "round {round}: an end without a beginning: {:?}", driver.lines);
    }
}

fn empty_messages(count: usize) -> Vec<u8> {
    (0..count).flat_map(|_| [0, 1, b'U']).collect()
}

/// The good bytes from behind the login on, with some of them changed, lost or said twice.
fn mutated(good: &[u8], random: &mut StdRng) -> Vec<u8> {
    let mut bytes = good[49..].to_vec();
    for _ in 0..random.random_range(0..4) {
        let place = random.random_range(0..bytes.len());
        match random.random_range(0..3) {
            0 => bytes[place] ^= 1 << random.random_range(0..8),
            1 => bytes.truncate(place.max(1)),
            _ => bytes.extend_from_within(place..),
        }
    }
    bytes
}

fn disturbance(random: &mut StdRng) -> Act {
    match random.random_range(0..11) {
        0 => Act::RingFull(random.random()),
        1 => Act::Stalled(random.random()),
        2 => Act::Wait(random.random_range(0..3_000)),
        3 => Act::Reports(3, random.random_range(10..40)),
        4 => Act::Today(random.random_range(3..5)),
        5 => Act::Ended(EndReason::Operator),
        6 => Act::Stop,
        7 => Act::Term(Some(random.random_range(5..7)), None),
        8 => Act::Term(None, Some("b:2")),
        9 => Act::Confirmed(random.random()),
        _ => Act::Wait(1),
    }
}
