//! Commands as child processes: their output goes to files, so that no full pipe can stop them, and they end with their
//! owner.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;

use crate::harness::wait_for;

/// How a command ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// Exit status; `None` where a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

impl Done {
    /// It must have succeeded.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.err, self.out);
        self
    }

    /// It must have failed with that status, and its last line says why; gives that line.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{}\n{}", self.err, self.out);
        let line = self.err.lines().last().unwrap_or_default();
        let is_clear = line.starts_with("ringpit: ")
            && !self.err.contains("panicked")
            && !self.err.contains("RUST_BACKTRACE");
        assert!(is_clear, "no clear last line in:\n{}", self.err);
        line
    }

    /// The object of `--json`.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}\n{}", self.err))
    }
}

/// A command that runs.
pub(crate) struct Job {
    child: Child,
    files: tempfile::TempDir,
    stdin: Option<ChildStdin>,
    what: String,
}

impl Job {
    /// Starts a command with nothing to read.
    pub(crate) fn spawn(command: Command) -> Self {
        Self::start(command, Stdio::null())
    }

    /// Starts a command that reads what [`say`](Self::say) says.
    pub(crate) fn talking(command: Command) -> Self {
        Self::start(command, Stdio::piped())
    }

    fn start(mut command: Command, stdin: Stdio) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let file = |name: &str| File::create(files.path().join(name)).expect("a file");
        command.stdin(stdin).stdout(file("out")).stderr(file("err"));
        let what = format!("{:?}", command.get_args().collect::<Vec<_>>());
        let mut child = command.spawn().expect("the command starts");
        let stdin = child.stdin.take();
        Self { child, files, stdin, what }
    }

    /// Gives it lines to read.
    pub(crate) fn say(&mut self, lines: &str) {
        let stdin = self.stdin.as_mut().expect("a job that listens");
        stdin.write_all(lines.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(self.files.path().join("out")).unwrap_or_default()
    }

    /// Waits until it has printed `text`.
    #[track_caller]
    pub(crate) fn prints(&mut self, text: &str) {
        wait_for(text, || {
            if self.printed().contains(text) {
                return Some(());
            }
            assert!(self.runs(), "{} ended without {text:?}: {:?}", self.what, self.outcome(None));
            None
        });
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_none()
    }

    /// Ends its input and waits for its end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Done {
        self.stdin = None;
        let status = wait_for(&self.what, || self.child.try_wait().expect("a child can be asked"));
        self.outcome(status.code())
    }

    fn outcome(&self, code: Option<i32>) -> Done {
        let read = |name: &str| fs::read_to_string(self.files.path().join(name)).unwrap_or_default();
        Done { code, out: read("out"), err: read("err") }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // One that ended already can't be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
