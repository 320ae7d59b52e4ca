//! `ringpit recorder`: what a server's flight recorder wrote, as text or as times between its points. It reads files only, also
//! those of a server that runs.

mod lines;
mod stats;

use std::path::PathBuf;

use recorder::{Contents, Problem};

use super::data::DataArgs;
use crate::console;
use crate::error::CommandError;
use crate::server::RECORDER_FOLDER;

/// Look at what a server's flight recorder wrote: which frames passed which stage, and when
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit recorder stats --data data\n  ringpit recorder grep --sequence 4711 --data data\n  ringpit recorder decode data/recorder/0000000003.rec\n\nAll of them only read, and may be used while the server runs: what it recorded can be read a tenth of a second later."
)]
pub struct RecorderArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Decode(lines::DecodeArgs),
    Grep(lines::GrepArgs),
    Stats(stats::StatsArgs),
}

/// Which files.
#[derive(Debug, clap::Args)]
struct FilesArgs {
    /// Files of a flight recorder, or folders of them; without any, those of the data directory
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    data: DataArgs,
}

/// Runs the command.
///
/// # Errors
/// A file can't be read, or is damaged. What can be read is shown all the same.
pub fn run(args: &RecorderArgs) -> Result<(), CommandError> {
    match &args.action {
        Action::Decode(args) => lines::decode(args),
        Action::Grep(args) => lines::grep(args),
        Action::Stats(args) => stats::run(args),
    }
}

impl FilesArgs {
    /// The files, each folder's in the order in which they were written.
    fn paths(&self) -> Result<Vec<PathBuf>, CommandError> {
        let mut given = self.files.clone();
        if given.is_empty() {
            given.push(self.data.existing()?.join(RECORDER_FOLDER));
        }
        let mut paths = Vec::new();
        for path in given {
            if path.is_dir() {
                let files = recorder::list(&path);
                let files =
                    files.map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
                paths.extend(files);
            } else {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}

/// What is wrong with files, told at the end: what can be read is shown first.
#[derive(Debug, Default)]
struct Complaints {
    first: Option<String>,
    count: usize,
}

impl Complaints {
    /// Reads the files one after the other and shows what they hold, until `show` says that nobody looks any more.
    fn read(
        paths: &[PathBuf],
        show: &mut dyn FnMut(&Contents) -> Result<bool, CommandError>,
    ) -> Result<Self, CommandError> {
        let mut complaints = Self::default();
        for path in paths {
            match Contents::read(path) {
                Ok(contents) => {
                    let goes_on = show(&contents)?;
                    for problem in &contents.problems {
                        let line = format!("{}: {problem}", path.display());
                        match problem {
                            // So ends what a server is writing, or wrote when it was killed.
                            Problem::CutShort { .. } => console::complain(&line),
                            Problem::Damaged { .. } => complaints.add(line),
                        }
                    }
                    if !goes_on {
                        break;
                    }
                }
                Err(error) => complaints.add(format!("{}: {error}", path.display())),
            }
        }
        Ok(complaints)
    }

    fn add(&mut self, line: String) {
        self.first.get_or_insert(line);
        self.count += 1;
    }

    /// An error of one line where there was any.
    fn end(self) -> Result<(), CommandError> {
        match (self.first, self.count) {
            (None, _) => Ok(()),
            (Some(line), 1) => Err(CommandError::failed(line)),
            (Some(line), count) => {
                Err(CommandError::failed(format!("{line}; and {} more like it", count - 1)))
            }
        }
    }
}
