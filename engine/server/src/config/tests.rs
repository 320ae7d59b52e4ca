//! The example file against the defaults, and the refusals with their texts.

use std::path::Path;

use super::raw::RawConfig;
use super::{Config, Overrides};

const EXAMPLE: &str = include_str!("../../../../deploy/ringpit.toml");

fn load(text: &str) -> Result<Config, String> {
    Config::from_text(text, "ringpit.toml", Path::new("/etc/ringpit"), &Overrides::default())
        .map_err(|error| error.to_string())
}

#[test]
fn example_shows_the_defaults() {
    let example: RawConfig = toml::from_str(EXAMPLE).expect("the example parses");
    assert_eq!(example, RawConfig::default());
    assert!(load(EXAMPLE).is_ok());
    assert!(Config::load(None, &Overrides::default()).is_ok());
}

/// Every `# key = value` line of the example is an optional key with a value that the server takes, and every `# [section]`
/// line an optional section.
#[test]
fn example_keys_in_comments_are_valid() {
    let mut text = String::new();
    let mut keys = 0;
    for line in EXAMPLE.lines() {
        let optional = line.strip_prefix("# ").filter(|rest| {
            rest.starts_with('[')
                || rest
                    .split_once(" = ")
                    .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        });
        keys += usize::from(optional.is_some());
        text.push_str(optional.unwrap_or(line));
        text.push('\n');
    }
    assert!(keys >= 4, "the optional keys are shown in comments, found {keys}");
    let text = text.replace("demonstration = true", "demonstration = false");
    let config = load(&text).expect("the example with all its optional keys");
    assert_eq!(config.engine.threads.threads().len(), 3);
    assert!(config.journal.archive.is_some());
    assert_eq!(config.instruments.as_deref(), Some(Path::new("/etc/ringpit/instruments.csv")));
    assert!(config.users.operator.is_some());
    let cluster = config.cluster.expect("the section in comments");
    assert_eq!(cluster.founders, [cluster.member]);
    let raw: RawConfig = toml::from_str("[cluster]\nmember = 1").expect("valid");
    let shown: RawConfig = toml::from_str(&text).expect("valid");
    let (raw, shown) = (raw.cluster.expect("there"), shown.cluster.expect("there"));
    assert_eq!(
        (raw.listen, raw.durability, raw.heartbeat_ms, raw.election_ms, raw.allow_clear_text),
        (shown.listen, shown.durability, shown.heartbeat_ms, shown.election_ms, shown.allow_clear_text),
        "the example shows the defaults"
    );
}

#[test]
fn relative_paths_are_relative_to_the_file() {
    let config = load("data = 'd'").expect("valid");
    assert_eq!(config.data, Path::new("/etc/ringpit/d"));
    let overrides = Overrides { data: Some("e".into()), ..Overrides::default() };
    let config = Config::from_text("data = 'd'", "f", Path::new("/etc"), &overrides).expect("valid");
    assert_eq!(config.data, Path::new("e"));
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(load(text).expect_err("must be refused"), expected, "for {text:?}");
}

#[test]
fn wrong_text_is_named_with_its_line() {
    let error = load("data = 'd'\n[journal]\nsegment_mb = 3\n").expect_err("unknown key");
    assert!(error.starts_with("ringpit.toml:3: unknown field `segment_mb`, expected one of "), "{error}");
    assert!(!error.contains('\n'), "{error}");
    let error = load("\n\ndata = ").expect_err("no TOML");
    assert!(error.starts_with("ringpit.toml:3: "), "{error}");
    let error = load("[journal]\ndurability = 'tape'").expect_err("unknown level");
    assert!(error.contains("ringpit.toml:2: unknown variant `tape`"), "{error}");
    let error = load("[gateway]\nlisten = 'here'").expect_err("no address");
    assert!(error.starts_with("ringpit.toml:2: invalid socket address"), "{error}");
}

#[test]
fn unsafe_and_impossible_values_are_refused() {
    check("data = ''", "ringpit.toml: data: is empty");
    check("[journal]\nsegment_mib = 0", "ringpit.toml: journal.segment_mib: 0 is outside 1 to 4096");
    check("[recorder]\nmax_mib = 8", "ringpit.toml: recorder.max_mib: 8 is outside 16 to 65536");
    check(
        "[journal]\nsegment_mib = 64\nreserve_mib = 100",
        "ringpit.toml: journal.reserve_mib: 100 is less than two segments of 64 MiB, which cancels need while the disk is full",
    );
    check(
        "[journal]
archive_command = ' '",
        "ringpit.toml: journal.archive_command: is empty; give a command, or leave the key out",
    );
    let error = load(
        "[journal]
archive_command = 'cp'",
    )
    .expect_err("nothing reads it back");
    assert!(
        error.starts_with("ringpit.toml: journal.archive_command: give either journal.archive_folder"),
        "{error}"
    );
    let error = load(
        "[journal]
archive_folder = 'a'",
    )
    .expect_err("nothing copies");
    assert!(error.starts_with("ringpit.toml: journal.archive_command: must be given"), "{error}");
    check("[snapshots]\nkeep = 1", "ringpit.toml: snapshots.keep: 1 is outside 2 to 1000");
    check("[engine]\ninput_slots = 3000", "ringpit.toml: engine.input_slots: 3000 is not a power of two");
    check(
        "[engine]
threads = ['journal', 'x']",
        "ringpit.toml: engine.threads: `x` is no stage: journal, ticker, replicate, unmarshal, logic, reports, depth, metrics, or output for the last three",
    );
    check(
        "[engine]
threads = ['journal']",
        "ringpit.toml: engine.threads: stage ticker is on no thread",
    );
    let error = load(
        "[engine]
threads = ['journal+ticker@99999', 'replicate+unmarshal+logic+output']",
    )
    .expect_err("no CPU");
    assert!(error.starts_with("ringpit.toml: engine.threads: there is no CPU 99999"), "{error}");
    check(
        "[capacities]\norders = 0",
        "ringpit.toml: capacities.orders: 0 would let nothing happen; give at least 1",
    );
    check(
        "[http]\nlisten = '0.0.0.0:1'",
        "ringpit.toml: http.listen: 0.0.0.0:1 is not on loopback; administration and metrics have no login",
    );
    let error = load("[log]\nlevel = 'a=b=c'").expect_err("no filter");
    assert!(error.starts_with("ringpit.toml: log.level: `a=b=c` is no filter such as "), "{error}");
    for level in ["inof", "info,debgu", "info,gateway=debgu", "verbose"] {
        let error = load(&format!("[log]\nlevel = '{level}'")).expect_err("a mistyped level");
        assert!(error.starts_with(&format!("ringpit.toml: log.level: `{level}` is no filter ")), "{error}");
    }
    for level in ["info", "WARN", "info,gateway=debug", "off,replicator::tcp=trace"] {
        load(&format!("[log]\nlevel = '{level}'")).expect("a filter");
    }
    check(
        "[users]\noperator = 'admin'",
        "ringpit.toml: users.operator_password_file: must be given with users.operator",
    );
}

#[test]
fn remote_listeners_need_a_word_and_no_demonstration_users() {
    let remote = "[gateway]\nlisten = '10.0.0.1:4410'\n";
    let error = load(remote).expect_err("no flag");
    assert!(error.starts_with("ringpit.toml: gateway.listen: 10.0.0.1:4410 is not on loopback"), "{error}");
    let allowed = format!("{remote}allow_remote = true\n");
    let error = load(&allowed).expect_err("demonstration users");
    assert!(
        error.starts_with("ringpit.toml: users.demonstration: the demonstration users are for loopback only"),
        "{error}"
    );
    load(&format!("{allowed}[users]\ndemonstration = false\n")).expect("said so");
}

#[test]
fn members_say_who_they_are() {
    let config = load("[cluster]\nmember = 7").expect("valid");
    assert_eq!(config.durability_name(), "quorum");
    let cluster = config.cluster.expect("there");
    assert_eq!(cluster.member.address, "127.0.0.1:7301");
    assert_eq!(cluster.member.client_address, "127.0.0.1:4410");
    let config = load("[cluster]\nmember = 7\ndurability = 'memory'").expect("valid");
    assert_eq!((config.durability_name(), config.journal.durability), ("memory", super::Durability::Memory));
    assert_eq!(load("").expect("valid").durability_name(), "disk");
    let text = "[cluster]\nmember = 1\nlisten = '0.0.0.0:7301'\naddress = 'one.example:7301'\n[cluster.tls]\nca = \
                'ca'\ncertificate = 'c'\nkey = 'k'";
    let replicator::tcp::Security::Tls(tls) = load(text).expect("valid").cluster.expect("there").security
    else {
        panic!("certificates are given")
    };
    assert_eq!(tls.ca, Path::new("/etc/ringpit/ca"));
}

#[test]
fn no_two_parts_listen_at_one_place() {
    let text = |gateway: &str, http: &str, members: &str| {
        format!(
            "[gateway]\nlisten = '{gateway}'\nallow_remote = true\n[http]\nlisten = '{http}'\n[users]\n\
             demonstration = false\n[cluster]\nmember = 1\nlisten = '{members}'\nclient_address = 'one:1'"
        )
    };
    let check = |gateway, http, members, expected: Option<&str>| {
        let error = load(&text(gateway, http, members)).err();
        assert_eq!(error.as_deref(), expected.map(|text| format!("ringpit.toml: {text}")).as_deref());
    };
    let (one, two) = ("127.0.0.1:5001", "127.0.0.1:5002");
    check("127.0.0.1:5000", one, two, None);
    check("127.0.0.2:5001", one, two, None);
    check(
        one,
        one,
        two,
        Some("http.listen: 127.0.0.1:5001 is taken by gateway.listen; give it a port of its own"),
    );
    check(
        "0.0.0.0:5001",
        two,
        one,
        Some("cluster.listen: 127.0.0.1:5001 is taken by gateway.listen; give it a port of its own"),
    );
    check(
        "127.0.0.1:5000",
        two,
        two,
        Some("cluster.listen: 127.0.0.1:5002 is taken by http.listen; give it a port of its own"),
    );
    assert!(load("[gateway]\nlisten = '127.0.0.1:0'\n[http]\nlisten = '127.0.0.1:0'").is_ok());
}

#[test]
fn clusters_that_are_unsafe_or_make_no_sense_are_refused() {
    let refused = |text: &str, expected: &str| {
        let error = load(&format!("[cluster]\n{text}")).expect_err(text);
        assert!(error.starts_with(&format!("ringpit.toml: {expected}")), "{error}");
    };
    let error = load("[cluster]\nlisten = '127.0.0.1:1'").expect_err("nobody");
    assert!(error.contains("missing field `member`"), "{error}");
    check(
        "[journal]\ndurability = 'memory'\n[cluster]\nmember = 1",
        "ringpit.toml: journal.durability: cluster.durability takes its place on a member of a cluster; leave the key out",
    );
    refused("member = 0", "cluster.member: 0 is no member");
    refused("member = 1\nlisten = '0.0.0.0:7301'", "cluster.address: must be given, since nobody can");
    refused("member = 1\nlisten = '127.0.0.1:0'", "cluster.address: must be given, since nobody can");
    refused("member = 1\naddress = 'one'", "cluster.address: `one` is not of the form host:port");
    refused("member = 1\naddress = '0.0.0.0:1'", "cluster.address: `0.0.0.0:1` is no address that others");
    refused("member = 1\nclient_address = 'one:0'", "cluster.client_address: `one:0` is not of the form");
    refused("member = 1\nheartbeat_ms = 1", "cluster.heartbeat_ms: 1 is outside 5 to 5000");
    refused("member = 1\nelection_ms = [60, 60]", "cluster.election_ms: [60, 60] is no range");
    refused("member = 1\nelection_ms = [150, 70_000]", "cluster.election_ms: 70000 is outside 15 to 60000");
    refused(
        "member = 1\nheartbeat_ms = 51",
        "cluster.election_ms: [150, 250] begins within 3 heartbeats of 51 ms",
    );
    let clear = "cluster.tls: must be given, since";
    refused("member = 1\nlisten = '10.0.0.1:7301'", clear);
    refused("member = 1\naddress = 'one.example:7301'", clear);
    let remote = "member = 1\nlisten = '10.0.0.1:7301'\nallow_clear_text = true";
    load(&format!("[cluster]\n{remote}")).expect("said so");
    let tls = "[cluster.tls]\nca = 'ca'\ncertificate = 'c'\nkey = ''";
    refused(&format!("member = 1\n{tls}"), "cluster.tls.key: is empty");
    refused(&format!("{remote}\n{tls}"), "cluster.allow_clear_text: excludes cluster.tls");
}

#[test]
fn founders_are_told_apart_and_know_themselves() {
    const OWN: &str = "{ id = 1, address = '127.0.0.1:7301', client_address = '127.0.0.1:4410' }";
    let members = |list: &str| load(&format!("[cluster]\nmember = 1\nmembers = [{list}]"));
    let refused = |list: &str, expected: &str| {
        let error = members(list).expect_err(list);
        assert!(error.starts_with(&format!("ringpit.toml: cluster.members: {expected}")), "{error}");
    };
    let other = "{ id = 2, address = 'localhost:7302', client_address = 'localhost:2', zone = 'b' }";
    let config = members(&format!("{OWN}, {other}")).expect("valid");
    assert_eq!(config.cluster.expect("there").founders.len(), 2);
    refused(other, "member 1 is not among them");
    refused(&format!("{OWN}, {OWN}"), "member 1 is there twice");
    refused(&format!("{OWN}, {}", OWN.replace("id = 1", "id = 2")), "member 2: another one has the address");
    refused(
        &OWN.replace("4410", "4411"),
        "member 1 is 127.0.0.1:7301 for members, 127.0.0.1:4411 for clients",
    );
    let client = other.replace("localhost:2'", "127.0.0.1:4410'");
    refused(&format!("{OWN}, {client}"), "member 2: another one has the address 127.0.0.1:4410 too");
    let crossed = other.replace("localhost:2'", "127.0.0.1:7301'");
    refused(&format!("{OWN}, {crossed}"), "member 2: another one has the address 127.0.0.1:7301 too");
    let same = other.replace("localhost:2'", "localhost:7302'");
    refused(&format!("{OWN}, {same}"), "member 2: localhost:7302 can't be for members and for clients");
    refused(&OWN.replace("id = 1", "id = 0"), "0 is no member");
    refused(&OWN.replace("127.0.0.1:7301", "here"), "member 1: `here` is not of the form host:port");
}
