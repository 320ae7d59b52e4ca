//! Starts the binary and asks it. Waits are bounded by counts; the bound only ends a test that hangs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use client::{Client, ClientConfig, ClientEvent, Outcome, Password};
use protocol::{Body, Report, RequestId, UserName};
use rustix::process::{Pid, Signal, kill_process};
use server::passwords::Passwords;
use server::ready::Ready;

/// Looks for something that must come about; 60 s in all.
const LOOKS: usize = 6_000;
const LOOK_EVERY: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks until something comes about.
#[track_caller]
pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(seen) = look() {
            return seen;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    panic!("{what} did not come about");
}

/// Runs a command to its end.
pub(crate) fn ringpit(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ringpit"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

/// The last line of an output as JSON.
pub(crate) fn last_json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}; {}", complaint(output)))
}

/// Standard error as text.
pub(crate) fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A data directory, and where its servers write their ready file.
pub(crate) struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn data_text(&self) -> String {
        self.data().display().to_string()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts a server and waits until it takes orders.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        let ready_file = self.path("ready");
        let log = std::fs::File::create(self.path("log")).expect("a log file");
        let child = Command::new(env!("CARGO_BIN_EXE_ringpit"))
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"])
            .arg("--data")
            .arg(self.data())
            .arg("--ready-file")
            .arg(&ready_file)
            .args(more)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        // Written by an earlier server of this home, it may be there until this one removes it: the process tells.
        let process = child.id();
        let mut running = Running { child, ready: None, home: self.path("") };
        for _ in 0..LOOKS {
            match Ready::read(&ready_file).expect("a ready file is whole") {
                Some(ready) if ready.process == process => {
                    running.ready = Some(ready);
                    return running;
                }
                _ => {}
            }
            if let Some(status) = running.child.try_wait().expect("the child can be asked") {
                panic!("the server ended with {status}:\n{}", self.log());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("the server did not get ready:\n{}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// A server that takes orders. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    ready: Option<Ready>,
    home: PathBuf,
}

impl Running {
    pub(crate) fn ready(&self) -> &Ready {
        self.ready.as_ref().expect("only a ready server is given out")
    }

    /// Asks for a clean stop and waits for it; gives the exit status.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Asks twice, the second time with the other signal.
    pub(crate) fn terminate_twice(mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        self.signal(Signal::INT);
        self.wait()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the signal is sent");
    }

    /// As a power cut of the process.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.wait();
    }

    fn wait(&mut self) -> Option<i32> {
        for _ in 0..LOOKS {
            if let Some(status) = self.child.try_wait().expect("the child can be asked") {
                return status.code();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let log = std::fs::read_to_string(self.home.join("log")).unwrap_or_default();
        panic!("the server did not end:\n{log}");
    }

    /// Logs in as one of the demonstration users.
    pub(crate) fn login(&self, name: &str) -> Trader {
        let ready = self.ready();
        let user = UserName::new(name).expect("a name");
        let passwords = Passwords::load(&ready.data).expect("passwords").expect("demonstration users");
        let password = Password::new(passwords.of(&user).expect("this one's")).expect("a password");
        let config =
            ClientConfig { reconnect: false, ..ClientConfig::new(ready.native.to_string(), user, password) };
        Trader(Client::connect(config, PATIENCE).unwrap_or_else(|error| {
            let log = std::fs::read_to_string(self.home.join("log")).unwrap_or_default();
            panic!("{name} can't log in: {error}\n{log}")
        }))
    }

    /// GET of the HTTP port: status and body.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let answer = server::http::client::request(self.ready().http, "GET", path, None, "", PATIENCE)
            .expect("the HTTP port answers");
        (answer.status, answer.body)
    }
}

impl Running {
    /// Gets a page until it has all the lines.
    pub(crate) fn get_with(&self, path: &str, lines: &[&str]) {
        let mut missing = String::new();
        for _ in 0..LOOKS {
            let (status, page) = self.get(path);
            assert_eq!(status, 200, "{path}");
            match lines.iter().find(|line| !page.lines().any(|there| there == **line)) {
                None => return,
                Some(line) => missing = format!("{line} is not in\n{page}"),
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("{missing}");
    }

    /// Gets a page until it has the status.
    pub(crate) fn get_until_status(&self, path: &str, wanted: u16) {
        for _ in 0..LOOKS {
            if self.get(path).0 == wanted {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("{path} never answers {wanted}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that ended already can't be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A logged-in client.
pub(crate) struct Trader(Client);

impl Trader {
    /// Sends a request and waits for its outcome; gives the reports up to it.
    pub(crate) fn ask(&mut self, body: Body) -> (RequestId, Outcome, Vec<Report>) {
        let id = self.0.submit(body).expect("taken");
        let mut reports = Vec::new();
        loop {
            match self.event() {
                ClientEvent::Report(report) => reports.push(report),
                ClientEvent::Outcome(of, outcome) if of == id => return (id, outcome, reports),
                _ => {}
            }
        }
    }

    /// Waits for the next report.
    pub(crate) fn report(&mut self) -> Report {
        loop {
            if let ClientEvent::Report(report) = self.event() {
                return report;
            }
        }
    }

    fn event(&mut self) -> ClientEvent {
        self.0.next_event(PATIENCE).expect("the connection stays").expect("something comes in time")
    }
}

/// Whether a file is there.
pub(crate) fn is_there(path: &Path) -> bool {
    path.try_exists().expect("the folder can be asked")
}
