//! What lies in `deploy/` and what the pages for operators say is held true: configurations pass the server's own check,
//! manifests are whole, alerts and panels name metrics that a running member shows, and every command line parses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{CommandFactory, Parser};
use replicator::tcp::{Security, TcpTransport, TlsOptions};
use serde_json::Value;
use server::commands::Cli;

use crate::harness::{Venue, ringpit, wait_for};
use crate::tool::Job;

fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the tests crate lies in the workspace").to_path_buf()
}

fn read(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file.
fn yaml(name: &str) -> Vec<Value> {
    let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(&read(name));
    documents.unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer}"))
}

fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    let list = value.pointer(pointer).and_then(Value::as_array);
    list.unwrap_or_else(|| panic!("no list at {pointer}"))
}

/// The configurations of three members, as `check-config` and the members themselves take them.
fn check_members(what: &str, members: [String; 3]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("secret")).expect("made");
    fs::copy(root().join("deploy/instruments.csv"), path("instruments.csv")).expect("copied");
    for file in ["operator.password", "secret/operator.password"] {
        fs::write(path(file), "password\n").expect("written");
        fs::set_permissions(path(file), fs::Permissions::from_mode(0o600)).expect("set");
    }
    let made = certificates(&path("made"), &["1=one.example", "2=two.example", "3=three.example"]);
    if made.is_none() {
        println!("{what}: there is no openssl, so members' certificates are not looked at");
    }
    let mut founders = BTreeSet::new();
    let mut zones = BTreeSet::new();
    for (toml, number) in members.iter().zip(1..) {
        let file = path("ringpit.toml");
        let mut table: toml::Table = toml.parse().expect("a configuration is TOML");
        let cluster = table["cluster"].as_table_mut().expect("a section");
        for (key, name) in [
            ("ca", "ca.pem".to_owned()),
            ("certificate", format!("member-{number}.pem")),
            ("key", format!("member-{number}.key")),
        ] {
            assert!(cluster["tls"][key].is_str(), "{what}, member {number}: no cluster.tls.{key}");
            cluster["tls"][key] = path("made").join(name).display().to_string().into();
        }
        if made.is_none() {
            cluster.remove("tls");
            cluster.insert("allow_clear_text".to_owned(), true.into());
        }
        fs::write(&file, table.to_string()).expect("written");
        let mut command = ringpit();
        command.args(["check-config", "--config"]).arg(&file);
        let done = Job::spawn(command).finish();
        assert_eq!(done.code, Some(0), "{what}, member {number}: {}", done.err);
        let cluster = &table["cluster"];
        assert_eq!(cluster["member"].as_integer(), Some(number), "{what}");
        founders.insert(cluster["members"].to_string());
        zones.insert(cluster["zone"].to_string());
    }
    assert_eq!(founders.len(), 1, "{what}: the members disagree on who founds the cluster");
    assert_eq!(zones.len(), 3, "{what}: a zone for each member");
}

#[test]
fn configurations_of_members_are_valid_and_agree() {
    for folder in ["cluster", "container"] {
        check_members(folder, [1, 2, 3].map(|number| read(&format!("deploy/{folder}/member-{number}.toml"))));
    }
    let manifests = yaml("deploy/kubernetes/ringpit.yaml");
    let template = manifests.iter().find_map(|manifest| manifest.pointer("/data/ringpit.toml"));
    let template = template.and_then(Value::as_str).expect("the template of the configuration");
    check_members("kubernetes", ["1", "2", "3"].map(|number| template.replace("@MEMBER@", number)));
}

/// Lets the script make certificates in a folder, and gives what it says; `None` where there is no openssl, which it needs.
fn certificates(tls: &Path, arguments: &[&str]) -> Option<String> {
    Command::new("openssl").arg("version").output().ok()?;
    let mut command = Command::new(root().join("deploy/cluster/certificates.sh"));
    let (options, members): (Vec<&str>, Vec<&str>) =
        arguments.iter().partition(|text| text.starts_with("--"));
    command.args(options).arg(tls).args(members);
    Some(Job::spawn(command).finish().succeeded().out)
}

#[test]
fn certificates_are_made_once_and_members_believe_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let tls = folder.path().join("tls");
    let members = ["1=one.example,10.0.0.1", "2=fd00::2"];
    if certificates(&tls, &members).is_none() {
        println!("skipped: there is no openssl, which certificates.sh needs");
        return;
    }
    fs::remove_dir_all(&tls).expect("made again");
    let run = |options: &[&str]| certificates(&tls, &[options, &members].concat()).expect("there is openssl");
    assert_eq!(run(&[]).matches("made").count(), 3, "an authority and two certificates");
    assert_eq!(run(&[]).matches("kept").count(), 2, "nothing is made twice");
    assert_eq!(run(&["--renew"]).matches("made").count(), 2, "but for the asking");
    for number in 1..=2 {
        let file = |name: &str| tls.join(name);
        let key = file(&format!("member-{number}.key"));
        let mode = fs::metadata(&key).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let certificate = file(&format!("member-{number}.pem"));
        let options = TlsOptions { ca: file("ca.pem"), certificate, key };
        let transport = TcpTransport::new(&Security::Tls(options));
        assert!(transport.is_ok(), "{:?}", transport.err());
    }
}

#[test]
fn compose_gives_each_member_its_own() {
    let [compose] = &yaml("deploy/container/compose.yaml")[..] else { panic!("one document") };
    for number in 1..=3 {
        let volumes = list(compose, &format!("/services/member-{number}/volumes"));
        let volumes: Vec<&str> = volumes.iter().filter_map(Value::as_str).collect();
        let expected = [
            format!("data-{number}:/var/lib/ringpit"),
            format!("./member-{number}.toml:/etc/ringpit/ringpit.toml:ro"),
            format!("secret-{number}:/etc/ringpit/secret:ro"),
        ];
        assert_eq!(volumes, expected);
    }
    let containerfile = read("deploy/container/Containerfile");
    let manifest: toml::Table = read("Cargo.toml").parse().expect("a manifest is TOML");
    let members = manifest["workspace"]["members"].as_array().expect("a list");
    for member in members.iter().filter_map(|member| member.as_str()?.split('/').next()) {
        assert!(
            containerfile.contains(&format!("COPY {member} {member}\n")),
            "the image is built without {member}"
        );
    }
}

#[test]
fn kubernetes_knows_that_only_the_leader_is_ready() {
    let manifests = yaml("deploy/kubernetes/ringpit.yaml");
    let find = |kind: &str, name: &str| {
        let found = manifests
            .iter()
            .find(|manifest| text(manifest, "/kind") == kind && text(manifest, "/metadata/name") == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let set = find("StatefulSet", "ringpit");
    assert_eq!(text(set, "/spec/podManagementPolicy"), "Parallel");
    assert_eq!(text(set, "/spec/updateStrategy/type"), "OnDelete");
    assert_eq!(set.pointer("/spec/ordinals/start"), Some(&1.into()), "a pod's number is its member's");
    let member = &list(set, "/spec/template/spec/containers")[0];
    assert_eq!(text(member, "/readinessProbe/httpGet/path"), "/readyz");
    let alive = list(member, "/livenessProbe/exec/command").last().and_then(Value::as_str);
    assert!(
        alive.is_some_and(|url| url.ends_with("/livez")),
        "recovery is no reason for a restart: {alive:?}"
    );
    let headless = find("Service", "ringpit-members");
    assert_eq!(headless.pointer("/spec/publishNotReadyAddresses"), Some(&true.into()));
    assert_eq!(find("PodDisruptionBudget", "ringpit").pointer("/spec/maxUnavailable"), Some(&0.into()));
    let config = find("ConfigMap", "ringpit-config");
    assert_eq!(text(config, "/data/health.conf"), read("deploy/monitoring/health.conf"));
    let offline = &yaml("deploy/kubernetes/offline.yaml")[0];
    assert_eq!(
        text(offline, "/spec/containers/0/image"),
        text(member, "/image"),
        "one binary for members and tools"
    );
}

/// Sample names of a page of metrics, by the kind that it says each metric is of.
fn sample_names(page: &str) -> BTreeSet<String> {
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let suffixes = |kind| match kind {
        "counter" => &["_total"][..],
        "histogram" => &["_bucket", "_sum", "_count"],
        "info" => &["_info"],
        _ => &[""],
    };
    let names = types
        .filter_map(|line| line.split_once(' '))
        .flat_map(|(name, kind)| suffixes(kind).iter().map(move |suffix| format!("{name}{suffix}")));
    names.collect()
}

/// The metrics that a text names, each with what follows its name.
fn metrics(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("ringpit_").map(move |(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        rest.split_at(end.unwrap_or(rest.len()))
    })
}

/// A cluster of one, with a snapshot; gives its page of metrics.
fn page_of_a_member() -> String {
    let port = |reserved: &std::net::TcpListener| reserved.local_addr().expect("an address").port();
    let reserved = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = format!("127.0.0.1:{}", port(&reserved));
    drop(reserved);
    let mut venue = Venue::new(&format!(
        "[capacities]\norders = 1000\nlevels = 1000\ncl_ord_ids = 1000\nsessions = 100\ninstruments = 100\n\
         [journal]\nsegment_mib = 4\nreserve_mib = 8\n\
         [cluster]\nmember = 1\nlisten = \"{address}\"\nclient_address = \"127.0.0.1:4410\"\n\
         members = [{{ id = 1, address = \"{address}\", client_address = \"127.0.0.1:4410\" }}]\n"
    ));
    let config = venue.path("ringpit.toml").display().to_string();
    let member = venue.start();
    venue.tool(&["cluster", "init", "--config", &config]).succeeded();
    wait_for("the member to lead", || member.get("/readyz").filter(|(status, _)| *status == 200));
    // There must be a checkpoint in the log first, which comes once a second.
    wait_for("a snapshot", || (venue.tool(&["snapshot", "make"]).code == Some(0)).then_some(()));
    let page = wait_for("the age of the snapshot", || {
        let (_, page) = member.get("/metrics")?;
        page.contains("\nringpit_snapshot_age_seconds ").then_some(page)
    });
    member.terminate();
    page
}

fn expressions_of_rules() -> Vec<String> {
    let [rules] = &yaml("deploy/monitoring/rules.yml")[..] else { panic!("one document") };
    let runbooks = ["docs/runbook.md", "deploy/host.md"].map(|file| (file, read(file).to_lowercase()));
    let mut expressions = Vec::new();
    for rule in list(rules, "/groups").iter().flat_map(|group| list(group, "/rules")) {
        let name = text(rule, "/alert");
        expressions.push(text(rule, "/expr").to_owned());
        assert!(["page", "ticket"].contains(&text(rule, "/labels/severity")), "{name}");
        assert!(!text(rule, "/annotations/summary").is_empty(), "{name}");
        // `FILE, SECTION: ...`, where the section is a heading or begins a paragraph.
        let (file, section) =
            text(rule, "/annotations/runbook").split_once(", ").expect("a file and a section");
        let section = section.split(':').next().unwrap_or_default().to_lowercase();
        let there = runbooks.iter().find(|(name, _)| *name == file).map(|(_, text)| text.as_str());
        let starts = [format!("\n## {section}"), format!("\n**{section}")];
        let found = there.is_some_and(|text| starts.iter().any(|start| text.contains(start.as_str())));
        assert!(found, "{name}: {file} has no section {section}");
    }
    assert!(expressions.len() > 15, "{}", expressions.len());
    expressions
}

fn expressions_of_dashboard() -> Vec<String> {
    let dashboard: Value =
        serde_json::from_str(&read("deploy/monitoring/grafana-dashboard.json")).expect("a dashboard is JSON");
    let panels = list(&dashboard, "/panels").iter().filter(|panel| text(panel, "/type") != "row");
    let mut ids = BTreeSet::new();
    let mut expressions: Vec<String> = Vec::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64()), "an id twice: {}", panel["id"]);
        assert!(!text(panel, "/description").is_empty());
        assert_eq!(text(panel, "/datasource/uid"), "${datasource}", "it is importable");
        expressions.extend(list(panel, "/targets").iter().map(|target| text(target, "/expr").to_owned()));
    }
    let titles = read("deploy/monitoring/grafana-dashboard.json");
    for title in [
        "Leader",
        "Term",
        "Lag behind the leader",
        "Commit latency of the leader",
        "Order latency",
        "Durable write (fsync) p99",
        "Ring occupancy",
        "Snapshot age",
        "Rejects",
    ] {
        assert!(titles.contains(&format!("\"title\": \"{title}\"")), "no panel {title}");
    }
    expressions
}

#[test]
fn alerts_and_panels_name_metrics_that_a_member_shows() {
    let page = page_of_a_member();
    let names = sample_names(&page);
    let mut used = BTreeSet::new();
    for expression in expressions_of_rules().iter().chain(&expressions_of_dashboard()) {
        for (name, rest) in metrics(expression) {
            assert!(names.contains(name), "{name} of `{expression}` is not on a member's page:\n{page}");
            used.insert(name.to_owned());
            let selector = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
            // Labels of the server's own; the others are Prometheus's.
            for matcher in selector.split(',').filter(|matcher| !matcher.contains("=~")) {
                let own =
                    ["stage=", "state=", "kind=", "role="].iter().any(|label| matcher.starts_with(label));
                let there = page.lines().any(|line| line.starts_with(name) && line.contains(matcher));
                assert!(!own || there, "`{matcher}` of `{expression}` selects nothing");
            }
        }
    }
    assert!(used.len() > 15, "{used:?}");
    let bases: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for file in ["docs/runbook.md", "deploy/host.md"] {
        for (name, _) in metrics(&read(file)) {
            assert!(
                names.contains(name) || bases.contains(name),
                "{file} names {name}, which no server shows"
            );
        }
    }
}

/// A command line of ours in a text.
#[derive(Debug)]
struct Line {
    /// What follows `ringpit`.
    arguments: Vec<String>,
    /// Whether it stands as one to be typed, and not as a mention that may leave out what goes without saying.
    whole: bool,
}

/// The arguments behind a program's name, up to where the shell takes over again.
fn arguments(rest: &str) -> Vec<String> {
    let words = rest.split_whitespace().map(|word| word.trim_end_matches(';'));
    let ends = |word: &str| word.starts_with(['#', '>', '|', '&', '<', '(']);
    words.take_while(|word| !ends(word)).map(|word| word.trim_matches(['"', '\'']).to_owned()).collect()
}

/// The arguments behind our program's name, where that is followed by one of the commands: it is a user's name, too.
fn behind_name(line: &str, commands: &BTreeSet<String>) -> Option<Vec<String>> {
    let names = line.match_indices("ringpit ").map(|(at, name)| (&line[..at], &line[at + name.len()..]));
    let words = names.filter(|(before, _)| before.is_empty() || before.ends_with([' ', '/']));
    words
        .map(|(_, rest)| arguments(rest))
        .find(|arguments| arguments.first().is_some_and(|command| commands.contains(command)))
}

/// The command lines of a page: those behind a prompt, and those in backticks.
fn lines_of_page(page: &str, commands: &BTreeSet<String>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        let line = line.trim_start();
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let line = line.replace("cargo run --release --", "ringpit").replace("target/release/", "");
        if fenced {
            let typed = ["$ ", "# ", ""].iter().find_map(|prompt| line.strip_prefix(prompt)).unwrap_or(&line);
            let typed = typed.strip_prefix("ringpit ").map(arguments);
            lines.extend(typed.map(|arguments| Line { arguments, whole: true }));
            continue;
        }
        for span in line.split('`').skip(1).step_by(2) {
            let own = span.strip_prefix("ringpit ").map(arguments);
            let found = own.or_else(|| behind_name(span, commands));
            lines.extend(found.map(|arguments| Line { arguments, whole: false }));
        }
    }
    lines
}

/// The command lines in a file that is none for people alone: wherever our name is followed by a command.
fn lines_of_file(text: &str, commands: &BTreeSet<String>) -> Vec<Line> {
    let joined = text.replace("\\\n#", " ").replace("\\\n", " ");
    let found = joined.lines().filter_map(|line| behind_name(line, commands));
    found.map(|arguments| Line { arguments, whole: true }).collect()
}

fn check_line(file: &str, line: &Line) {
    let mut arguments = vec!["ringpit".to_owned()];
    arguments.extend(line.arguments.iter().cloned());
    if !line.whole {
        arguments.push("--help".to_owned());
    }
    if let Err(error) = Cli::try_parse_from(&arguments) {
        let told = [clap::error::ErrorKind::DisplayHelp, clap::error::ErrorKind::DisplayVersion];
        assert!(told.contains(&error.kind()), "{file}: `{}`: {error}", arguments.join(" "));
    }
}

fn commands() -> BTreeSet<String> {
    Cli::command().get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

#[test]
fn every_command_line_for_operators_parses() {
    let commands = commands();
    let mut counts = BTreeMap::new();
    for file in [
        "README.md",
        "docs/runbook.md",
        "docs/cluster.md",
        "docs/testing.md",
        "deploy/host.md",
        "deploy/ringpit.toml",
    ] {
        let lines = lines_of_page(&read(file), &commands);
        lines.iter().for_each(|line| check_line(file, line));
        counts.insert(file, lines.len());
    }
    for file in [
        "deploy/ringpit.service",
        "deploy/cluster/ringpit@.service",
        "deploy/container/compose.yaml",
        "deploy/kubernetes/ringpit.yaml",
        "deploy/kubernetes/offline.yaml",
    ] {
        let lines = lines_of_file(&read(file), &commands);
        assert!(!lines.is_empty(), "{file} has no command line");
        lines.iter().for_each(|line| check_line(file, line));
    }
    assert!(counts["docs/runbook.md"] > 40, "{counts:?}");
    assert!(counts["README.md"] > 5, "{counts:?}");
}

#[test]
#[should_panic(expected = "--wiat")]
fn a_command_line_with_a_wrong_option_is_noticed() {
    let page = "```\n$ ringpit cluster add 4 a:1 b:2 --wiat   # and so on\n```\n";
    let lines = lines_of_page(page, &commands());
    assert_eq!(lines.len(), 1);
    lines.iter().for_each(|line| check_line("a page", line));
}
