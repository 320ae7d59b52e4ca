//! Members of a cluster as processes: founded, changed, failed over, and refused where they must not run.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, ClientConfig, ClientEvent, Outcome, Password};
use protocol::{Body, InstrumentId, Price, Quantity, Side, UserName};
use rand::RngExt;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::passwords::Passwords;
use server::ready::Ready;

use crate::harness::{Home, complaint, last_json, ringpit, wait};

const PATIENCE: Duration = Duration::from_secs(60);

/// A port with 29 free ones behind it, as far as can be told.
fn free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let tries = (0..1_000).map(|_| rand::rng().random_range(700..1_900) * 16);
    tries.into_iter().find(|port| (1..=29).all(|more| is_free(port + more))).expect("free ports")
}

fn get(http: SocketAddr, path: &str) -> Option<(u16, String)> {
    let answer = server::http::client::request(http, "GET", path, None, "", PATIENCE).ok()?;
    Some((answer.status, answer.body))
}

fn status_of(data: &Path) -> Option<Value> {
    let ready = Ready::of_data(data).ok().flatten()?;
    serde_json::from_str(&get(ready.http, "/status")?.1).ok()
}

/// The number of the leader that a member knows of.
fn leader(data: &Path) -> Option<u64> {
    status_of(data)?["cluster"]["leader"]["id"].as_u64()
}

fn order(quantity: u64, price: i64) -> Body {
    Body::NewOrder(client::limit(InstrumentId(4), Side::Buy, Quantity(quantity), Price(price)))
}

/// Places an order over whatever failovers there are.
#[track_caller]
fn place(client: &mut Client, body: Body) {
    let id = client.submit(body).expect("taken");
    wait("an outcome", || {
        match client.next_event(Duration::from_millis(50)).expect("the client goes on by itself") {
            Some(ClientEvent::Outcome(of, outcome)) if of == id => {
                assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
                Some(())
            }
            _ => None,
        }
    });
}

/// A running `cluster demo`. Dropped, it is stopped.
struct Demo {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Demo {
    fn start(folder: &Path, port: u16) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ringpit"))
            .args(["cluster", "demo", "--port", &port.to_string(), "--data"])
            .arg(folder)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let told = BufReader::new(child.stdout.take().expect("piped"));
        let demo = Self { child, folder: folder.to_path_buf(), port };
        let mut lines = told.lines().map_while(Result::ok);
        assert!(
            lines.any(|line| line.starts_with("Ctrl-C stops all members")),
            "the members run:\n{}",
            demo.logs()
        );
        // What it tells later is nobody's business, but must have somewhere to go.
        std::thread::spawn(move || lines.for_each(drop));
        demo
    }

    fn data(&self, member: u16) -> PathBuf {
        self.folder.join(format!("member-{member}")).join("data")
    }

    fn http(&self, member: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port + 20 + member))
    }

    fn logs(&self) -> String {
        let log = |member: u16| std::fs::read_to_string(self.folder.join(format!("member-{member}/log")));
        (1..=3).filter_map(|member| log(member).ok()).collect()
    }

    fn client(&self) -> Client {
        let user = UserName::new("demo").expect("a name");
        let passwords = Passwords::load(&self.data(1)).expect("read").expect("kept");
        let password = Password::new(passwords.of(&user).expect("this one's")).expect("a password");
        let addresses = (1..=3).map(|member| format!("127.0.0.1:{}", self.port + member)).collect();
        let config = ClientConfig { addresses, ..ClientConfig::new("", user, password) };
        Client::connect(config, PATIENCE).unwrap_or_else(|error| panic!("{error}\n{}", self.logs()))
    }

    fn stop(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("the signal is sent");
        let status = wait("the end", || self.child.try_wait().expect("the child can be asked"));
        assert!(status.success(), "{status}\n{}", self.logs());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // One that has ended needs none; the members end with it.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

/// Asks for a version of the rules, over whichever member still runs, until it is done or refused with this complaint: it may
/// take the member a moment to hear, or to miss, the others.
#[track_caller]
fn rulebook(demo: &Demo, version: u32, refused: Option<&str>) {
    let member = (1..=3).find(|member| status_of(&demo.data(*member)).is_some()).expect("one answers");
    let data = demo.data(member).display().to_string();
    wait("the switch, or its refusal,", || {
        let output = ringpit(&["ctl", "--data", &data, "rulebook", &version.to_string()]);
        let (code, said) = (output.status.code(), complaint(&output));
        match refused {
            None => (code == Some(0)).then_some(()),
            Some(what) => (code == Some(1) && said.contains(what)).then_some(()),
        }
    });
}

#[test]
fn a_demonstration_fails_over_and_comes_back() {
    let home = Home::new();
    let folder = home.path("demo");
    let demo = Demo::start(&folder, free_ports());
    let mut client = demo.client();
    place(&mut client, order(1, 100));
    rulebook(&demo, 2, None);
    rulebook(&demo, 3, Some("member 3 (127.0.0.1:"));

    let first = leader(&demo.data(1)).and_then(|leader| u16::try_from(leader).ok()).expect("a leader");
    for member in 1..=3 {
        let answers = |path| get(demo.http(member), path).expect("it answers").0;
        assert_eq!(
            (answers("/healthz"), answers("/readyz") == 200),
            (200, member == first),
            "member {member}"
        );
    }
    let process = Ready::of_data(&demo.data(first)).expect("read").expect("there").process;
    let process = Pid::from_raw(process.try_into().expect("a process id")).expect("a process id");
    kill_process(process, Signal::KILL).expect("the signal is sent");
    place(&mut client, order(1, 101));
    let other = if first == 1 { 2 } else { 1 };
    let second = leader(&demo.data(other)).expect("a leader");
    assert_ne!(second, u64::from(first), "{}", demo.logs());
    rulebook(&demo, 2, Some("can't be reached; nothing was logged"));
    drop(client);
    let port = demo.port;
    demo.stop();

    // All three again, with both orders on each.
    let demo = Demo::start(&folder, port);
    for member in 1..=3 {
        wait("both orders on every member", || {
            (status_of(&demo.data(member))?["open_orders"] == 2).then_some(())
        });
    }
    place(&mut demo.client(), order(1, 102));
    demo.stop();
    let output = ringpit(&["cluster", "demo", "--members", "5", "--data", &folder.display().to_string()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(complaint(&output).contains("holds a demo of 3 members"), "{}", complaint(&output));
}

/// An authority, and members that it signs for.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self { issuer: CertifiedIssuer::self_signed(params, key).expect("an authority") }
    }

    /// Writes a member's three files.
    fn sign(&self, folder: &Path) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("written");
        write("ca.pem", self.issuer.pem());
        write("member.pem", certificate.pem());
        write("member.key", key.serialize_pem());
    }
}

/// Members with certificates, configured by hand. Dropped, those that run are killed.
struct Members {
    home: Home,
    port: u16,
    running: Vec<(u16, Child)>,
}

impl Members {
    fn new() -> Self {
        Self { home: Home::new(), port: free_ports(), running: Vec::new() }
    }

    fn folder(&self, member: u16) -> PathBuf {
        self.home.path(&format!("member-{member}"))
    }

    fn data(&self, member: u16) -> PathBuf {
        self.folder(member).join("data")
    }

    fn address(&self, member: u16) -> String {
        format!("127.0.0.1:{}", self.port + 10 + member)
    }

    fn clients(&self, member: u16) -> String {
        format!("127.0.0.1:{}", self.port + member)
    }

    /// Writes a member's configuration; gives its name.
    fn configure(&self, member: u16, founders: &[u16], authority: &Authority) -> String {
        let folder = self.folder(member);
        std::fs::create_dir_all(&folder).expect("made");
        authority.sign(&folder);
        let founder = |id: &u16| {
            let (address, clients) = (self.address(*id), self.clients(*id));
            format!("{{ id = {id}, address = '{address}', client_address = '{clients}', zone = 'z{id}' }}")
        };
        let founders: Vec<String> = founders.iter().map(founder).collect();
        let text = format!(
            "[journal]\nsegment_mib = 4\nreserve_mib = 16\n[capacities]\norders = 10_000\nlevels = 1_000\ncl_ord_ids = \
             10_000\nsessions = 100\ninstruments = 100\n[gateway]\nlisten = '{}'\n[http]\nlisten = \
             '127.0.0.1:{}'\n[cluster]\nmember = {member}\nlisten = '{}'\nzone = 'z{member}'\nmembers = \
             [{}]\n[cluster.tls]\nca = 'ca.pem'\ncertificate = 'member.pem'\nkey = 'member.key'\n",
            self.clients(member),
            self.port + 20 + member,
            self.address(member),
            founders.join(", "),
        );
        let file = folder.join("ringpit.toml");
        std::fs::write(&file, text).expect("written");
        file.display().to_string()
    }

    /// Starts a member and waits until it can be asked.
    fn start(&mut self, member: u16) {
        let log = std::fs::File::options().create(true).append(true).open(self.folder(member).join("log"));
        let child = Command::new(env!("CARGO_BIN_EXE_ringpit"))
            .args(["serve", "--config"])
            .arg(self.folder(member).join("ringpit.toml"))
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.expect("a log file"))
            .spawn()
            .expect("the binary starts");
        let process = child.id();
        self.running.push((member, child));
        wait("a member that can be asked", || {
            let ready = Ready::of_data(&self.data(member)).ok().flatten()?;
            (ready.process == process).then_some(())
        });
    }

    fn stop(&mut self, member: u16) {
        let place = self.running.iter().position(|(id, _)| *id == member).expect("it runs");
        let (_, mut child) = self.running.remove(place);
        kill_process(Pid::from_child(&child), Signal::TERM).expect("the signal is sent");
        let status = wait("the end", || child.try_wait().expect("the child can be asked"));
        assert!(status.success(), "{status}\n{}", self.log(member));
    }

    fn log(&self, member: u16) -> String {
        std::fs::read_to_string(self.folder(member).join("log")).unwrap_or_default()
    }

    /// Runs a command of a member; gives its standard output.
    #[track_caller]
    fn done(&self, member: u16, arguments: &[&str]) -> String {
        let output = self.ask(member, arguments);
        assert!(output.status.success(), "{arguments:?}: {}\n{}", complaint(&output), self.log(member));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command of a member that is refused with this.
    #[track_caller]
    fn refused(&self, member: u16, arguments: &[&str], why: &str) {
        let output = self.ask(member, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(complaint(&output).contains(why), "{arguments:?}: {}", complaint(&output));
    }

    fn ask(&self, member: u16, arguments: &[&str]) -> std::process::Output {
        let file = self.folder(member).join("ringpit.toml").display().to_string();
        ringpit(&[&["cluster"], arguments, &["--config", &file]].concat())
    }

    /// Waits until a member sees this many of them, each with what the first has or nearly.
    fn settle(&self, member: u16, count: usize) {
        wait("members that keep up", || {
            let status = status_of(&self.data(member))?;
            let members = status["cluster"]["members"].as_array()?;
            let keeps_up = |one: &Value| {
                one["reachable"] == true
                    && one["last_index"].is_u64()
                    && one["lag_entries"].as_u64() < Some(100)
            };
            (members.len() == count && members.iter().all(keeps_up)).then_some(())
        });
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for (_, child) in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn a_cluster_is_founded_changed_and_rebuilt() {
    let authority = Authority::new();
    let mut members = Members::new();
    for member in 1..=3 {
        members.configure(member, &[1, 2, 3], &authority);
        members.start(member);
    }
    members.refused(1, &["status"], "in no cluster yet");
    members.refused(1, &["hand-over"], "in no cluster yet");
    let founded = members.done(1, &["init"]);
    assert!(founded.contains("of 3 members is founded"), "{founded}");
    assert!(members.done(2, &["init"]).contains("is in cluster"), "it is safe to repeat");
    members.settle(1, 3);

    // Leadership goes where it is wanted, whoever is asked.
    for to in ["1", "2", "3", "3"] {
        assert!(members.done(1, &["hand-over", to]).contains(&format!("member {to} leads")));
    }
    let table = members.done(1, &["status"]);
    let row = table.lines().find(|line| line.starts_with('3')).expect("a row");
    assert!(row.contains("leader") && row.contains("z3"), "{table}");

    // One more, which gets what the others have, and goes again.
    members.configure(4, &[], &authority);
    members.start(4);
    members.refused(4, &["init"], "names no founders");
    let (address, clients) = (members.address(4), members.clients(4));
    let add = ["add", "4", &address, &clients, "--zone", "z4", "--wait"];
    assert!(members.done(1, &add).contains("member 4 has caught up"));
    members.done(1, &add);
    members.settle(4, 4);
    members.refused(2, &["promote", "4"], "--force");
    members.done(2, &["promote", "4", "--force"]);
    members.done(2, &["promote", "4", "--force"]);
    members.done(3, &["demote", "4"]);
    members.done(4, &["remove", "4"]);
    members.settle(1, 3);
    members.stop(4);
    (1..=3).for_each(|member| members.stop(member));

    // The others are lost: one goes on alone, after it has said what that may cost.
    let plan = members.done(2, &["rebuild"]);
    assert!(plan.contains("nothing is changed"), "{plan}");
    let rebuilt = members.ask(2, &["rebuild", "--yes", "--json"]);
    let incarnation = last_json(&rebuilt)["incarnation"].as_u64();
    assert!(incarnation.is_some_and(|drawn| drawn > 0), "{}", complaint(&rebuilt));
    members.start(2);
    wait("a leader", || (leader(&members.data(2)) == Some(2)).then_some(()));
    members.stop(2);
}

/// Data directories that are not the member's, and members of other authorities.
#[test]
fn what_must_not_run_as_a_member_does_not() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let mut members = Members::new();
    let file = members.configure(1, &[1, 2, 3], &authority);
    members.configure(2, &[1, 2, 3], &stranger);
    members.configure(3, &[1, 2, 3], &authority);
    (1..=3).for_each(|member| members.start(member));
    members.refused(1, &["init"], "invalid peer certificate");
    members.stop(2);
    members.configure(2, &[1, 2, 3], &authority);
    members.start(2);
    members.done(1, &["init"]);
    members.settle(3, 3);
    members.stop(1);

    let serve = |arguments: &[&str]| {
        let output = ringpit(&[&["serve"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        complaint(&output)
    };
    let data = members.data(1).display().to_string();
    let alone = serve(&["--data", &data, "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    assert!(alone.contains("belongs to a member of a cluster"), "{alone}");
    let other = serve(&[
        "--config",
        &file,
        "--data",
        &members.data(3).display().to_string(),
        "--http",
        "127.0.0.1:0",
    ]);
    assert!(other.contains("in use"), "{other}");
    members.stop(3);
    let other = serve(&["--config", &file, "--data", &members.data(3).display().to_string()]);
    assert!(other.contains("is member 3's, the configuration says member 1"), "{other}");

    // A copy, until its operator says that the original is gone.
    let copy = members.folder(1).join("copy");
    assert!(
        Command::new("cp").arg("-a").arg(members.data(1)).arg(&copy).status().expect("cp runs").success()
    );
    let copied = serve(&["--config", &file, "--data", &copy.display().to_string()]);
    assert!(copied.contains("is a copy of member 1's"), "{copied}");
    std::fs::remove_dir_all(members.data(1)).expect("removed");
    std::fs::rename(&copy, members.data(1)).expect("renamed");
    assert!(members.done(1, &["adopt"]).contains("is member 1 from now on"));
    members.start(3);
    members.start(1);
    members.settle(1, 3);

    // A server alone's directory does not begin a member.
    members.stop(1);
    let home = Home::new();
    let server = home.start(&[]);
    let orders = server.login("demo").ask(order(1, 100)).2.len();
    assert_eq!((orders, server.terminate()), (1, Some(0)));
    let begun = serve(&["--config", &file, "--data", &home.data_text(), "--http", "127.0.0.1:0"]);
    assert!(
        begun.contains("cluster.listen") || begun.contains("holds the journal of a server alone"),
        "{begun}"
    );
}
