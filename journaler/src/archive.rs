//! Handing closed segments to a command of the operator's, and checking its copies before they may be pruned.
//!
//! The command is run by `sh -c` for one segment at a time, oldest first, with these variables:
//!
//! | variable | content |
//! |---|---|
//! | `RINGPIT_SEGMENT` | path of the segment |
//! | `RINGPIT_NAME` | its file name |
//! | `RINGPIT_COPY` | where the copy must be, if a folder for copies is configured |
//! | `RINGPIT_FIRST`, `RINGPIT_LAST` | sequences of its first and last frame |
//!
//! It must exit with 0 when the copy is durable. The copy is then read back, from the folder or as the standard output of
//! a second command, and compared byte for byte; only then does the mark move that pruning waits for. A failure is logged,
//! told to the caller and tried again at the next call. Nothing here holds up an append.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use protocol::Sequence;

use crate::error::{JournalError, Result};
use crate::segments::{ClosedSegment, Segments};
use crate::storage::Access;
use crate::survey::JOURNAL_FOLDER;
use crate::twoslot::{self, MarkFile};

const MARK_PATH: &str = "journal/archived";
const COMPARE_BYTES: usize = 256 << 10;
/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Longest run of a command, unless configured otherwise.
pub const ARCHIVE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(600);

/// Where the copy is read from after the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadBack {
    /// The command copies into this folder, to `RINGPIT_COPY`.
    Folder(PathBuf),
    /// This command, with the same variables, writes the copy to its standard output.
    Command(String),
}

/// How segments are archived.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// The command that copies.
    pub command: String,
    /// Where its copy is read back from.
    pub read_back: ReadBack,
    /// Longest run of a command; then it is killed.
    pub timeout: Duration,
}

/// Archives the closed segments of a journal; for a low-priority thread.
#[derive(Debug)]
pub struct Archiver {
    segments: Segments,
    options: ArchiveOptions,
    mark: MarkFile,
}

impl Archiver {
    /// Opens the archive's mark. The journal of `segments` must be open.
    ///
    /// # Errors
    /// `DamagedMark`, `Io`.
    pub fn open(segments: Segments, options: ArchiveOptions) -> Result<Self> {
        let mark = MarkFile::open(segments.storage(), JOURNAL_FOLDER, MARK_PATH)?;
        Ok(Self { segments, options, mark })
    }

    /// Last sequence of which the archive has a checked copy. Prune only what is not above it.
    pub fn archived_sequence(&self) -> Sequence {
        self.mark.sequence()
    }

    /// Archives the oldest closed segment that isn't yet. `None`: there is none.
    ///
    /// # Errors
    /// `Archive` if the command or the check failed: to be logged and tried again later. `Io` is fatal.
    pub fn run_once(&mut self) -> Result<Option<ClosedSegment>> {
        let archived = self.mark.sequence();
        let Some(segment) =
            self.segments.settled().into_iter().find(|closed| closed.last_sequence > archived)
        else {
            return Ok(None);
        };
        let failed = |reason: String| JournalError::Archive { file: segment.path.clone(), reason };
        let child = self.command(&self.options.command, &segment).stdout(Stdio::null()).spawn();
        let mut child = child.map_err(|error| failed(format!("command can't be started: {error}")))?;
        wait(&mut child, self.options.timeout).map_err(&failed)?;
        self.check_copy(&segment).map_err(&failed)?;
        self.mark.set(segment.last_sequence)?;
        Ok(Some(segment))
    }

    fn copy_path(&self, segment: &ClosedSegment) -> Option<PathBuf> {
        match &self.options.read_back {
            ReadBack::Folder(folder) => Some(folder.join(name_of(segment))),
            ReadBack::Command(_) => None,
        }
    }

    fn command(&self, text: &str, segment: &ClosedSegment) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", text])
            .env("RINGPIT_SEGMENT", self.segments.storage().locate(&segment.path))
            .env("RINGPIT_NAME", name_of(segment))
            .env("RINGPIT_FIRST", segment.first_sequence.to_string())
            .env("RINGPIT_LAST", segment.last_sequence.to_string())
            .stdin(Stdio::null());
        if let Some(copy) = self.copy_path(segment) {
            command.env("RINGPIT_COPY", copy);
        }
        command
    }

    fn check_copy(&self, segment: &ClosedSegment) -> std::result::Result<(), String> {
        match &self.options.read_back {
            ReadBack::Folder(_) => {
                let path = self.copy_path(segment).unwrap_or_default();
                let copy = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                self.compare(segment, copy)
            }
            ReadBack::Command(text) => {
                let child = self.command(text, segment).stdout(Stdio::piped()).spawn();
                let mut child =
                    child.map_err(|error| format!("read-back command can't be started: {error}"))?;
                let compared = match child.stdout.take() {
                    Some(output) => self.compare(segment, output),
                    None => Err("read-back command has no output".to_owned()),
                };
                let ended = wait(&mut child, self.options.timeout);
                compared.and(ended)
            }
        }
    }

    /// Compares a copy with the segment, byte for byte and to the end.
    fn compare(&self, segment: &ClosedSegment, mut copy: impl Read) -> std::result::Result<(), String> {
        let storage = self.segments.storage();
        let text = |error: io::Error| format!("comparing: {error}");
        let original = storage.open(&segment.path, Access::Read).map_err(text)?;
        let (mut left, mut right) = (vec![0; COMPARE_BYTES], vec![0; COMPARE_BYTES]);
        let mut offset = 0;
        loop {
            let ours = original.read_at(&mut left, offset).map_err(text)?;
            let theirs = read_full(&mut copy, &mut right).map_err(text)?;
            if left.get(..ours) != right.get(..theirs) {
                return Err(format!("the copy differs within {COMPARE_BYTES} bytes from offset {offset}"));
            }
            if ours == 0 {
                return Ok(());
            }
            offset += ours as u64;
        }
    }
}

/// The mark of an archive, for tools; 0 if there never was one.
///
/// # Errors
/// `DamagedMark`, `Io`.
pub fn archived_sequence(storage: &crate::storage::SharedStorage) -> Result<Sequence> {
    twoslot::peek(storage, MARK_PATH)
}

fn name_of(segment: &ClosedSegment) -> &str {
    segment.path.rsplit('/').next().unwrap_or(&segment.path)
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Waits for a command to end well, and kills it after `timeout`.
fn wait(child: &mut Child, timeout: Duration) -> std::result::Result<(), String> {
    let started = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("command failed: {status}")),
            Ok(None) if started.elapsed() < timeout => std::thread::sleep(POLL),
            Ok(None) => {
                let killed = child.kill().and_then(|()| child.wait().map(drop));
                return Err(match killed {
                    Ok(()) => format!("command was killed after {timeout:?}"),
                    Err(error) => format!("command could not be killed after {timeout:?}: {error}"),
                });
            }
            Err(error) => return Err(format!("command can't be waited for: {error}")),
        }
    }
}
