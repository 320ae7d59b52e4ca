//! The command line: every command helps with an example, and whatever is wrong is said in one clear line with a status
//! that scripts can tell apart: 2 for what was asked wrongly, 1 for what could not be done.

use std::net::TcpListener;

use crate::harness::{Venue, WHOLE_HISTORY, ringpit};
use crate::tool::{Done, Job};

fn run(arguments: &[&str]) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = ringpit();
    // A working directory of its own: the default data directory is relative.
    command.args(arguments).current_dir(folder.path());
    Job::spawn(command).finish()
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let list = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "));
    let names =
        list.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Asks for the help of a command and all that are under it; gives how many those were.
fn check_help(path: &[&str]) -> usize {
    let done = run(&[path, &["--help"]].concat());
    assert_eq!(done.code, Some(0), "{path:?}: {}", done.err);
    let example = done.out.split_once("Example").map(|(_, example)| example).unwrap_or_default();
    assert!(example.contains("ringpit"), "{path:?} shows no example:\n{}", done.out);
    let below = commands(&done.out);
    1 + below.iter().map(|name| check_help(&[path, &[name.as_str()]].concat())).sum::<usize>()
}

#[test]
fn every_command_helps_with_an_example() {
    let help = run(&["--help"]).succeeded();
    let there = commands(&help.out);
    let named = [
        "serve",
        "check-config",
        "status",
        "journal",
        "snapshot",
        "backup",
        "replay",
        "trade",
        "ctl",
        "load",
        "flow",
    ];
    for name in named {
        assert!(there.iter().any(|there| there == name), "{name} is not in\n{}", help.out);
    }
    let count = check_help(&[]);
    assert!(count > 25, "{count} commands and subcommands");
}

#[test]
fn wrong_command_lines_are_told_what_is_wrong() {
    let cases: [(&[&str], &str); 10] = [
        (&["sevre"], "sevre"),
        (&["serve", "--listen", "nowhere"], "nowhere"),
        (&["serve", "--prot", "1"], "--prot"),
        (&["journal"], "journal"),
        (&["journal", "dump", "--from", "x"], "x"),
        (&["load", "--mix", "a:b:c"], "shares"),
        (&["load", "--rate", "0"], "--rate"),
        (&["flow"], "FEED"),
        (&["ctl", "add-user", "alice"], "--session"),
        (&["trade", "--user", "much-too-long"], "much-too-long"),
    ];
    for (arguments, what) in cases {
        let done = run(arguments);
        assert_eq!(done.code, Some(2), "{arguments:?}: {}", done.err);
        assert!(done.err.contains(what), "{arguments:?}: {what:?} is not in {}", done.err);
        assert!(!done.err.contains("panicked"), "{arguments:?}: {}", done.err);
    }
}

#[test]
fn wrong_configurations_are_refused_with_file_and_key() {
    let cases = [
        ("[gateway]\nlisten = \"0.0.0.0:4410\"\n", "gateway.listen"),
        ("[gateway]\nlisten = \"0.0.0.0:4410\"\nallow_remote = true\n", "users.demonstration"),
        ("[http]\nlisten = \"0.0.0.0:4480\"\n", "http.listen"),
        ("[gateway]\nlisten = \"here\"\n", "ringpit.toml:2"),
        ("[journal]\nsegment_mib = 0\n", "journal.segment_mib"),
        ("[journal]\nreserve_mib = 1\n", "journal.reserve_mib"),
        ("[journal]\nsegments = 1\n", "segments"),
        ("[engine]\ninput_slots = 1000\n", "engine.input_slots"),
        ("[snapshots]\nkeep = 1\n", "snapshots.keep"),
        ("[http]\nlisten = \"127.0.0.1:0\"\n[instruments]\nfile = \"none.csv\"\n", "none.csv"),
        ("data = 5\n", "ringpit.toml:1"),
        ("nonsense\n", "ringpit.toml:1"),
    ];
    for (toml, what) in cases {
        let venue = Venue::new(toml);
        let file = venue.path("ringpit.toml").display().to_string();
        for command in [&["check-config"][..], &["serve", "--data", "never"]] {
            let done = run(&[command, &["--config", &file]].concat());
            assert!(done.failed(2).contains(what), "{toml:?}: {what:?} is not in {}", done.err);
        }
        assert_eq!(run(&["check-config", "--config", &file]).err.lines().count(), 1, "{toml:?}");
    }
    let done = run(&["check-config", "--config", "none.toml"]);
    assert!(done.failed(2).contains("none.toml"), "{}", done.err);
    let venue = Venue::new(WHOLE_HISTORY);
    let file = venue.path("ringpit.toml").display().to_string();
    assert_eq!(run(&["check-config", "--config", &file, "--json"]).succeeded().json()["valid"], true);
    let remote = run(&["serve", "--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"]);
    assert!(remote.failed(2).contains("allow_remote"), "{}", remote.err);
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    let serve = |more: &[&str]| run(&[&["serve"], more].concat());
    let done = serve(&["--listen", &address, "--http", "127.0.0.1:0"]);
    assert!(done.failed(1).contains(&address), "{}", done.err);
    let done = serve(&["--listen", "127.0.0.1:0", "--http", &address]);
    assert!(done.failed(1).contains(&address), "{}", done.err);

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "not a folder").expect("written");
    let under = file.join("data").display().to_string();
    let here = folder.path().display().to_string();
    let never = folder.path().join("never").display().to_string();
    let cases: [(&[&str], &str); 12] = [
        (&["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", &under], &under),
        (&["replay", "--data", &never], &never),
        (&["replay", "--data", &here], &here),
        (&["journal", "verify", "--data", &never], &never),
        (&["snapshot", "list", "--data", &never], &never),
        (&["snapshot", "make", "--data", &here], &here),
        (&["status", "--data", &never], &never),
        (&["trade", "--data", &never], &never),
        (&["load", "--data", &never], &never),
        (&["flow", "--generate", "1", "--data", &never], &never),
        (&["ctl", "--data", &never, "end-of-day"], &never),
        (&["backup", "--to", &under, "--data", &never], &never),
    ];
    for (arguments, what) in cases {
        let done = run(arguments);
        let code = done.code.unwrap_or_default();
        assert!(code == 1 || code == 2, "{arguments:?} ended with {code}: {}", done.err);
        assert!(done.failed(code).contains(what), "{arguments:?}: {what:?} is not in {}", done.err);
        if arguments[0] != "serve" {
            assert_eq!(done.err.lines().count(), 1, "{arguments:?}: {}", done.err);
        }
    }
}
