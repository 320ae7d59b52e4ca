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

/// Every `# key = value` line of the example is an optional key with a value that the server takes.
#[test]
fn example_keys_in_comments_are_valid() {
    let mut text = String::new();
    let mut keys = 0;
    for line in EXAMPLE.lines() {
        let optional = line.strip_prefix("# ").filter(|rest| {
            rest.split_once(" = ")
                .is_some_and(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        });
        keys += usize::from(optional.is_some());
        text.push_str(optional.unwrap_or(line));
        text.push('\n');
    }
    assert!(keys >= 4, "the optional keys are shown in comments, found {keys}");
    let text = text.replace("demonstration = true", "demonstration = false");
    let config = load(&text).expect("the example with all its optional keys");
    assert_eq!(config.engine.threads.threads().len(), 2);
    assert!(config.journal.archive.is_some());
    assert_eq!(config.instruments.as_deref(), Some(Path::new("/etc/ringpit/instruments.csv")));
    assert!(config.users.operator.is_some());
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
