//! The text scenarios, and the language itself. `RINGPIT_FILE` says which files to run, by a part of their names.

use std::collections::BTreeSet;
use std::path::Path;

use oracle::scenario::{World, run_text, stream_text};
use oracle::stream::Generator;
use protocol::{
    Allocation, BandAction, Body, CancelReason, Command, Credential, ExpireReason, KillScope, Liquidity,
    LoginRefusal, OrdStatus, OrderType, PegReference, Phase, PriceKind, RejectReason, RestateReason, Role,
    SelfTradeAction, Settlement, StopTrigger, TimeInForce,
};

/// Names and texts of the files of scenarios.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("?").to_string();
            (name, std::fs::read_to_string(&path).expect("a readable file"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn every_scenario_comes_true() {
    let mut failures = Vec::new();
    let mut scenarios = 0;
    let only = std::env::var("RINGPIT_FILE").unwrap_or_default();
    for (name, text) in files().into_iter().filter(|(name, _)| name.contains(&only)) {
        match run_text(&name, &text) {
            Ok(number) => scenarios += number,
            Err(errors) => failures.extend(errors.iter().map(ToString::to_string)),
        }
    }
    println!("{scenarios} scenarios in files that come true");
    assert!(failures.is_empty(), "{} scenarios do not come true:\n{}", failures.len(), failures.join("\n\n"));
    assert!(scenarios > 60 || !only.is_empty(), "all files are read");
}

/// The number that opens a text, if it does.
fn leading_number(text: &str) -> Option<u32> {
    text.split(|letter: char| !letter.is_ascii_digit()).next().and_then(|digits| digits.parse().ok())
}

/// What titles say: of each the case that it is, and the rules that it names.
fn titles(files: &[(String, String)]) -> Vec<(Option<u32>, Vec<u32>)> {
    let titles =
        files.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| line.strip_prefix("scenario "));
    titles
        .map(|title| {
            let names = title.split_once(" # rule").map_or("", |(_, names)| names.trim_start_matches('s'));
            (leading_number(title), names.split(',').filter_map(|name| leading_number(name.trim())).collect())
        })
        .collect()
}

#[test]
fn every_rule_is_named_by_some_scenario() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/rulebook.md");
    let page = std::fs::read_to_string(page).expect("the rulebook");
    let rules: BTreeSet<u32> = page
        .lines()
        .filter(|line| line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok()))
        .filter_map(leading_number)
        .collect();
    assert!(rules.len() > 80 && rules.contains(&1) && rules.contains(&113), "the page is read: {rules:?}");
    let titles = titles(&files());
    let named: BTreeSet<u32> = titles.iter().flat_map(|(_, rules)| rules.iter().copied()).collect();
    let unknown: Vec<_> = named.difference(&rules).collect();
    assert!(unknown.is_empty(), "no rules, but named: {unknown:?}");
    // Rule 112 is of a program that stops, which ends a scenario: tests of engine/exchange show it.
    let missing: Vec<_> = rules.difference(&named).filter(|rule| **rule != 112).collect();
    assert!(missing.is_empty(), "named by no scenario: {missing:?}");
}

/// Inputs that broke other engines which are a matter of the rules; the others are about protocols and files.
const CASES: [u32; 31] = [
    1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14, 16, 19, 20, 21, 23, 24, 26, 27, 29, 30, 31, 32, 33, 34, 36, 37,
    49, 52, 54,
];

#[test]
fn every_input_that_broke_another_engine_has_its_scenario() {
    let shown: BTreeSet<u32> = titles(&files()).iter().filter_map(|(case, _)| *case).collect();
    assert_eq!(shown.into_iter().collect::<Vec<_>>(), CASES);
}

/// Every value of an enumeration must be found in some word of the lines.
fn check_found(kind: &str, names: impl IntoIterator<Item = &'static str>, words: &BTreeSet<&str>) {
    let missing: Vec<_> = names.into_iter().filter(|name| !words.contains(name)).collect();
    assert!(missing.is_empty(), "no scenario has {kind} {missing:?}");
}

macro_rules! check_all_found {
    ($words:expr, $($kind:ident except $except:expr),+) => {$(
        let except: &[$kind] = &$except;
        let names = $kind::ALL.iter().filter(|value| !except.contains(value)).map(|value| value.name());
        check_found(stringify!($kind), names, $words);
    )+};
}

#[test]
fn every_value_of_the_rules_is_expected_of_some_scenario() {
    let files = files();
    let lines: Vec<&str> = files.iter().flat_map(|(_, text)| text.lines()).collect();
    let words = |expected: bool| -> BTreeSet<&str> {
        let lines = lines.iter().filter(|line| line.starts_with(' ') == expected);
        lines.flat_map(|line| line.split([' ', '=', '@', ':', '+', '-'])).collect()
    };
    // A breach can't be made by a command, and a million accounts are more than a scenario has.
    check_all_found!(
        &words(true),
        RejectReason except [RejectReason::InstrumentStopped, RejectReason::AccountsFull],
        CancelReason except [],
        ExpireReason except [],
        RestateReason except [],
        OrderType except [],
        TimeInForce except [],
        Liquidity except [],
        OrdStatus except [],
        Phase except [],
        LoginRefusal except []
    );
    check_all_found!(
        &words(false),
        Allocation except [Allocation::PriceTime],
        StopTrigger except [StopTrigger::LastTrade],
        BandAction except [BandAction::Reject],
        Settlement except [Settlement::None],
        PegReference except [],
        SelfTradeAction except [],
        KillScope except [],
        PriceKind except [],
        Role except [Role::Trader]
    );
}

/// The text is refused, in that line and with those words.
fn check_fails(text: &str, line: usize, words: &str) {
    let errors = run_text("test", text).expect_err("the scenario must fail");
    let [error] = &errors[..] else { panic!("one error, not {errors:?}") };
    assert!(error.line == line && error.what.contains(words), "{error}");
}

#[test]
fn what_does_not_come_true_is_told_with_its_line() {
    let start = "scenario t\ninstrument X\nusers ann bob\nann: new 1 sell 5@100\n";
    let check = |rest: &str, line, words: &str| check_fails(&format!("{start}{rest}"), line, words);
    check("bob: new 2 buy 5@100\n  bob accepted 2\n", 5, "expected nothing more");
    check("bob: new 2 buy 5@100\n  bob accepted 2\n  bob executed 2 5@99\n", 5, "got bob executed 2 5@100");
    check("bob: new 2 buy 5@100\n  count bob executed 2\n", 5, "expected 2 times");
    check("bob: new 2 buy 5@99\n  bob accepted 2\n  bob expired 2\n", 5, "got nothing more");
    check("bob: new 2 buy 0@99\n", 5, "unexpected: bob rejected 2 quantity_zero");
    check("bob: new 2 buy 0@99\n  bob rejected 2 quantity_zero highest=7\n", 5, "highest=1");
    check("book X\n  sell 100: ann.1 6\n", 5, "ann.1 5");
    check("book X\n  empty\n", 5, "ann.1 5");
    check("book X\n  sell 100: ann.1 5\n  buy 99: bob.2 1\n", 5, "expected");
    check("eve: new 2 buy 0@99\n", 5, "nobody is named");
    check("bob: new 2 buy 1@99 postonly\n", 5, "means nothing");
    check("bob: cancel 9\n", 5, "no order is labelled");
    check("bob: new 2 buy 1@99 why=greed\n", 5, "no \"greed\" goes with this");
    check("skip bob: new 2 buy 5@100\n  bob accepted 2\n", 5, "got venue skipped");
    check("  bob accepted 2\n", 4, "expected bob accepted");
    check_fails("instrument X\n", 1, "title");
    check_fails("  nothing\n", 1, "without a step");
}

#[test]
fn printed_streams_read_back_as_the_same_commands() {
    for seed in 1..=8 {
        let mut generator = Generator::new(seed);
        let commands: Vec<Command> = (0..600).map(|_| generator.command()).collect();
        let text = stream_text(&commands);
        let mut world = World::default();
        let mut read = Vec::new();
        for line in text.lines().skip(2) {
            match line.strip_prefix("clock ") {
                Some(by) => world.move_clock(by).unwrap_or_else(|error| panic!("{line}: {error}")),
                None => read.append(
                    &mut world.commands(line).unwrap_or_else(|error| panic!("seed {seed}: {line}: {error}")),
                ),
            }
        }
        for (number, (command, read)) in commands.iter().zip(&read).enumerate() {
            assert_eq!(without_password(*command), *read, "seed {seed}, command {number}");
        }
        assert_eq!(commands.len(), read.len());
    }
}

/// The language has no passwords.
fn without_password(mut command: Command) -> Command {
    if let Body::PutUser(user) = &mut command.body {
        user.credential = Credential { scheme: 1, salt: [0; 16], hash: [0; 32] };
    }
    command
}
