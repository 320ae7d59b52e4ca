//! A venue of its own for each test: a folder, a configuration, and the real binary serving them. Everything started here
//! is ended here, by its process id. Waits are bounded by a count of looks; the bound only ends a test that hangs.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use client::{Client, ClientConfig, ClientEvent, Outcome, Password, SubmitError};
use protocol::{Body, Report, RequestId, UserName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use server::passwords::Passwords;
use server::ready::Ready;

use crate::tool::{Done, Job};

/// Between two looks at something that is waited for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(2);
/// Looks before a test gives up: two minutes, so that a machine that is busy elsewhere is not taken for a hang.
pub(crate) const LOOKS: usize = 60_000;
/// Longest wait for one answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// No snapshots, so that nothing is pruned and the whole history stays; small files, so that there are several.
pub(crate) const WHOLE_HISTORY: &str = "\
[journal]
segment_mib = 8
reserve_mib = 16
[snapshots]
every_frames = 1_000_000_000
every_seconds = 86_400
[log]
stats_seconds = 0
";

/// Looks until `found` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("waited too long for {what}");
}

/// The seed of a randomised test: RINGPIT_SEED, or a new one. It is printed, so that a failure can be had again.
pub(crate) fn seeded(test: &str) -> (u64, StdRng) {
    let seed = match std::env::var("RINGPIT_SEED") {
        Ok(text) => text.parse().expect("RINGPIT_SEED is a number"),
        Err(_) => rand::rng().random_range(0..1_000_000),
    };
    println!("{test}: RINGPIT_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

/// The binary under test: it lies beside the test's own, of the same profile.
pub(crate) fn binary() -> PathBuf {
    let own = std::env::current_exe().expect("a test knows its own file");
    let profile = own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
    let binary = profile.join("ringpit");
    assert!(
        binary.is_file(),
        "{} is not there: build it with the same profile (`cargo build --profile ci -p server`)",
        binary.display()
    );
    binary
}

/// The binary, without what the environment could change.
pub(crate) fn ringpit() -> Command {
    let mut command = Command::new(binary());
    command.env_remove("RUST_LOG").env_remove("RINGPIT_PASSWORD").env_remove("RINGPIT_NEW_PASSWORD");
    command
}

/// Has a process of the real binary break an invariant at each order of this quantity, after it has changed its state.
pub(crate) fn plant_poison(command: &mut Command, quantity: Option<u64>) {
    if let Some(quantity) = quantity {
        command.env("RINGPIT_PLANTED_POISON", quantity.to_string());
    }
}

/// A folder with a data directory and a configuration. Servers on it come one after the other, at one address.
pub(crate) struct Venue {
    folder: tempfile::TempDir,
    data: PathBuf,
    address: Option<SocketAddr>,
    /// Quantity of the orders that break an invariant, in servers and tools alike.
    pub(crate) poison: Option<u64>,
}

impl Venue {
    /// An empty venue with the configuration `toml`.
    pub(crate) fn new(toml: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ringpit-").tempdir().expect("a folder");
        let data = folder.path().join("data");
        Self::within(folder, data, toml)
    }

    /// A venue whose data is elsewhere.
    pub(crate) fn on(data: PathBuf, toml: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("ringpit-").tempdir().expect("a folder");
        Self::within(folder, data, toml)
    }

    fn within(folder: tempfile::TempDir, data: PathBuf, toml: &str) -> Self {
        let venue = Self { folder, data, address: None, poison: None };
        venue.configure(toml);
        venue
    }

    /// Gives it another configuration, from the next start on.
    pub(crate) fn configure(&self, toml: &str) {
        fs::write(self.path("ringpit.toml"), toml).expect("the configuration is written");
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// A file beside the data directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What the last server logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Starts a server without waiting for it.
    pub(crate) fn begin(&self) -> Starting {
        let log = File::create(self.path("log")).expect("a log file");
        let listen = self.address.map_or_else(|| "127.0.0.1:0".to_owned(), |address| address.to_string());
        let mut command = ringpit();
        plant_poison(&mut command, self.poison);
        let child = command
            .args(["serve", "--http", "127.0.0.1:0", "--listen", &listen])
            .arg("--config")
            .arg(self.path("ringpit.toml"))
            .arg("--data")
            .arg(&self.data)
            .arg("--ready-file")
            .arg(self.path("ready"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        Starting { process: Process(child), log: self.path("log"), ready: self.path("ready") }
    }

    /// Starts a server and waits until it takes orders. Later ones get the first one's address, as clients expect.
    pub(crate) fn start(&mut self) -> Server {
        let server = self.begin().ready();
        self.address = Some(server.ready.native);
        server
    }

    /// Starts a server that must not come up; gives how it ended.
    #[track_caller]
    pub(crate) fn refuses_to_start(&self) -> Done {
        let mut starting = self.begin();
        let code = starting.process.wait();
        let done = Done { code, out: String::new(), err: self.log() };
        assert!(code != Some(0), "the server must not start: {}", done.err);
        done
    }

    /// Runs a command on the data directory.
    pub(crate) fn tool(&self, arguments: &[&str]) -> Done {
        self.job(arguments).finish()
    }

    /// Starts a command on the data directory.
    pub(crate) fn job(&self, arguments: &[&str]) -> Job {
        let mut command = ringpit();
        plant_poison(&mut command, self.poison);
        command.args(arguments).arg("--data").arg(&self.data);
        Job::spawn(command)
    }

    /// Runs a command that must succeed; gives its JSON object.
    #[track_caller]
    pub(crate) fn ask(&self, arguments: &[&str]) -> Value {
        self.tool(&[arguments, &["--json"]].concat()).succeeded().json()
    }
}

/// A process that does not outlive its owner.
struct Process(Child);

impl Process {
    fn wait(&mut self) -> Option<i32> {
        wait_for("the end of a process", || self.0.try_wait().expect("a child can be asked")).code()
    }

    fn kill(&mut self) {
        // One that ended already can't be killed, and need not be.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server on its way up.
pub(crate) struct Starting {
    process: Process,
    log: PathBuf,
    ready: PathBuf,
}

impl Starting {
    /// `kill -9` before it is up, or whenever this moment is.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    fn ready(mut self) -> Server {
        let id = self.process.0.id();
        let ready = wait_for("a server to take orders", || {
            if let Some(status) = self.process.0.try_wait().expect("a child can be asked") {
                panic!(
                    "the server ended with {status}:\n{}",
                    fs::read_to_string(&self.log).unwrap_or_default()
                );
            }
            // One that an earlier server left is there until this one removes it: the process tells.
            Ready::read(&self.ready).expect("a ready file is whole").filter(|ready| ready.process == id)
        });
        Server { process: self.process, ready, log: self.log }
    }
}

/// A server that takes orders.
pub(crate) struct Server {
    process: Process,
    ready: Ready,
    log: PathBuf,
}

impl Server {
    pub(crate) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.process.kill();
    }

    /// SIGTERM; it must drain and end with success.
    #[track_caller]
    pub(crate) fn terminate(mut self) {
        kill_process(Pid::from_child(&self.process.0), Signal::TERM).expect("the signal is sent");
        let code = self.process.wait();
        assert_eq!(code, Some(0), "{}", fs::read_to_string(&self.log).unwrap_or_default());
    }

    /// Waits for it to end by itself; gives its exit status.
    pub(crate) fn ends(mut self) -> Option<i32> {
        self.process.wait()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.process.0.try_wait().expect("a child can be asked").is_none()
    }

    /// GET of its HTTP port: status and body; `None` where it doesn't answer (any more).
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        let answer = server::http::client::request(self.ready.http, "GET", path, None, "", PATIENCE).ok()?;
        Some((answer.status, answer.body))
    }

    /// What it says of itself.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        let answer = server::http::client::request(self.ready.http, "GET", "/status", None, "", PATIENCE);
        let body = match answer {
            Ok(answer) => answer.body,
            Err(error) => {
                let log = fs::read_to_string(&self.log).unwrap_or_default();
                panic!("a running server answers, not {error}; it logged:\n{log}");
            }
        };
        serde_json::from_str(&body).expect("a status is JSON")
    }

    /// The last frame whose reports are out.
    pub(crate) fn sequence(&self) -> u64 {
        self.status()["reported_sequence"].as_u64().expect("a number")
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.ready.process)).expect("it runs");
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has a size");
        let kib: u64 = line.trim().trim_end_matches(" kB").trim().parse().expect("a number");
        kib * 1024
    }

    /// Open file descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.ready.process)).expect("it runs").count()
    }

    /// The password of a demonstration user.
    pub(crate) fn password(&self, user: &str) -> String {
        let passwords =
            Passwords::load(&self.ready.data).expect("readable").expect("there are demonstration users");
        passwords.of(&UserName::new(user).expect("a name")).expect("a demonstration user").to_owned()
    }

    /// Logs in as a demonstration user, with the client library, to hear what is new.
    pub(crate) fn login(&self, user: &str) -> Trader {
        self.login_as(user, &self.password(user), client::Start::New)
    }

    /// Logs in as any user.
    pub(crate) fn login_as(&self, user: &str, password: &str, start: client::Start) -> Trader {
        let (user, password) =
            (UserName::new(user).expect("a name"), Password::new(password).expect("a password"));
        let config = ClientConfig {
            reconnect: false,
            start,
            ..ClientConfig::new(self.ready.native.to_string(), user, password)
        };
        Trader(Client::connect(config, PATIENCE).expect("the login is taken"))
    }
}

/// A logged-in client.
pub(crate) struct Trader(Client);

impl Trader {
    /// Sends a request and waits for its outcome; gives the reports up to it.
    #[track_caller]
    pub(crate) fn ask(&mut self, body: Body) -> (RequestId, Outcome, Vec<Report>) {
        let id = self.0.submit(body).expect("the request is taken");
        let mut reports = Vec::new();
        loop {
            match self.event() {
                ClientEvent::Report(report) => reports.push(report),
                ClientEvent::Outcome(of, outcome) if of == id => return (id, outcome, reports),
                _ => {}
            }
        }
    }

    /// As [`ask`](Self::ask), for a server that may end meanwhile: `None` then.
    pub(crate) fn try_ask(&mut self, body: Body) -> Option<Outcome> {
        let id = self.0.submit(body).ok()?;
        loop {
            match self.0.next_event(PATIENCE).ok()?? {
                ClientEvent::Outcome(of, outcome) if of == id => return Some(outcome),
                _ => {}
            }
        }
    }

    /// Sends a request that must be done.
    #[track_caller]
    pub(crate) fn done(&mut self, body: Body) -> RequestId {
        let (id, outcome, _) = self.ask(body);
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        id
    }

    /// Sends the same request so many times, as many at once as may be, and waits for all outcomes.
    #[track_caller]
    pub(crate) fn flood(&mut self, body: Body, count: u64) {
        let (mut sent, mut answered) = (0, 0);
        while answered < count {
            while sent < count {
                match self.0.submit(body) {
                    Ok(_) => sent += 1,
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => panic!("the request is not taken: {error}"),
                }
            }
            answered += u64::from(matches!(self.event(), ClientEvent::Outcome(..)));
        }
    }

    /// The reports up to number `last`.
    #[track_caller]
    pub(crate) fn reports_until(&mut self, last: u64) -> Vec<Report> {
        let mut reports: Vec<Report> = Vec::new();
        while reports.len() as u64 != last {
            if let ClientEvent::Report(report) = self.event() {
                reports.push(report);
            }
        }
        reports
    }

    #[track_caller]
    fn event(&mut self) -> ClientEvent {
        self.0.next_event(PATIENCE).expect("the connection stays").expect("something comes in time")
    }
}
