//! Help, refusals and exit statuses.

use crate::harness::{complaint, last_json, ringpit};

/// Every command, as `--help` lists them.
fn commands() -> Vec<String> {
    let help = String::from_utf8(ringpit(&["--help"]).stdout).expect("text");
    let listed = help.split("Commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_help_with_an_example() {
    let commands = commands();
    for expected in ["serve", "check-config", "status", "journal", "snapshot", "backup", "restore", "replay"]
    {
        assert!(commands.iter().any(|name| name == expected), "{expected} is not in {commands:?}");
    }
    for name in commands {
        let output = ringpit(&[&name, "--help"]);
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{name} --help");
        assert!(
            help.contains("Example") && help.contains(&format!("ringpit {name}")),
            "{name} has no example:\n{help}"
        );
    }
}

#[test]
fn usage_and_configuration_errors_are_one_line_and_status_2() {
    assert_eq!(ringpit(&["--no-such-option"]).status.code(), Some(2));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ringpit.toml");
    std::fs::write(&file, "[journal]\ndurabilty = 'disk'\n").expect("written");
    let path = file.display().to_string();
    for command in ["check-config", "serve"] {
        let output = ringpit(&[command, "--config", &path]);
        assert_eq!(output.status.code(), Some(2), "{command}");
        let text = complaint(&output);
        assert!(text.starts_with(&format!("ringpit: {path}:2: unknown field `durabilty`")), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
    let output = ringpit(&["check-config", "--config", "/no/such/file"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("/no/such/file: can't be read"), "{}", complaint(&output));
}

#[test]
fn a_good_configuration_is_valid() {
    let output = ringpit(&["check-config", "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    assert_eq!(last_json(&output)["valid"], true);
    assert!(last_json(&output)["note"].is_null());
}

#[test]
fn a_configuration_that_makes_no_user_is_valid_with_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("ringpit.toml");
    std::fs::write(&file, "[users]\ndemonstration = false\n").expect("written");
    let output = ringpit(&["check-config", "--json", "--config", &file.display().to_string()]);
    assert!(output.status.success(), "{}", complaint(&output));
    let note = last_json(&output)["note"].to_string();
    assert!(note.contains("users.operator_password_file"), "{note}");
}

#[test]
fn commands_without_a_data_directory_say_so() {
    let output = ringpit(&["status", "--data", "/no/such/directory"]);
    assert_eq!(output.status.code(), Some(1));
    let text = complaint(&output);
    assert!(text.starts_with("ringpit: /no/such/directory: there is no such data directory"), "{text}");
}
