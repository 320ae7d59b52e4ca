//! `ringpit recorder decode` and `grep`: records as lines.

use std::io::{self, BufWriter, Write};

use jiff::Timestamp as Moment;
use protocol::Timestamp;
use recorder::{Contents, Entry, Record};
use serde_json::{Map, Value, json};

use super::{Complaints, FilesArgs};
use crate::error::CommandError;
use crate::text;

/// Show records, one a line, in order of time within each file
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit recorder decode data/recorder/0000000003.rec")]
pub(super) struct DecodeArgs {
    #[command(flatten)]
    files: FilesArgs,
    /// Every line is a JSON object, the last one a summary
    #[arg(long)]
    json: bool,
}

/// Show the records that are asked for, one a line, in order of time within each file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit recorder grep --sequence 4711 --data data\n  ringpit recorder grep --point journal.written --since 2026-03-01T12:00:00Z --data data\n  ringpit recorder grep --text 'session 3' data/recorder/0000000003.rec"
)]
pub(super) struct GrepArgs {
    #[command(flatten)]
    files: FilesArgs,
    /// Only records whose text has this in it
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Only records of this point
    #[arg(long, value_name = "POINT")]
    point: Option<String>,
    /// Only records that are about this frame
    #[arg(long, value_name = "SEQUENCE")]
    sequence: Option<u64>,
    /// Only records from this time on, such as 2026-03-01T12:00:00.5Z
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only records before this time
    #[arg(long, value_name = "TIME")]
    until: Option<Moment>,
    /// Every line is a JSON object, the last one a summary
    #[arg(long)]
    json: bool,
}

impl GrepArgs {
    fn wants(&self, contents: &Contents, record: &Record) -> bool {
        let sequence = self.sequence.is_none_or(|wanted| {
            record.sequences(&contents.points).is_some_and(|(first, last)| (first..=last).contains(&wanted))
        });
        let point = self
            .point
            .as_ref()
            .is_none_or(|wanted| contents.point(record).is_some_and(|point| point.name == *wanted));
        let text = || self.text.as_ref().is_none_or(|wanted| contents.render(record).contains(wanted));
        let time = || {
            let at = i128::from(contents.clock.wall_ns(record.ticks));
            self.since.is_none_or(|since| at >= since.as_nanosecond())
                && self.until.is_none_or(|until| at < until.as_nanosecond())
        };
        sequence && point && time() && text()
    }
}

/// All records.
pub(super) fn decode(args: &DecodeArgs) -> Result<(), CommandError> {
    show(&args.files, args.json, &|_, _| true)
}

/// Those that are asked for.
pub(super) fn grep(args: &GrepArgs) -> Result<(), CommandError> {
    show(&args.files, args.json, &|contents, record| args.wants(contents, record))
}

fn show(
    files: &FilesArgs,
    is_json: bool,
    wants: &dyn Fn(&Contents, &Record) -> bool,
) -> Result<(), CommandError> {
    let mut out = BufWriter::new(io::stdout().lock());
    let (mut shown, mut lost) = (0_u64, 0_u64);
    let complaints = Complaints::read(&files.paths()?, &mut |contents| {
        for record in contents.records.iter().filter(|record| wants(contents, record)) {
            match record.entry {
                Entry::Lost(count) => lost = lost.saturating_add(count),
                Entry::Passed { .. } => shown += 1,
            }
            let written = if is_json {
                writeln!(out, "{}", object(contents, record))
            } else {
                writeln!(out, "{}", line(contents, record))
            };
            if !reaches(written)? {
                return Ok(false);
            }
        }
        Ok(true)
    })?;
    let summary = json!({ "records": shown, "lost": lost, "damaged": complaints.count });
    let written = if is_json { writeln!(out, "{summary}") } else { Ok(()) };
    reaches(written.and_then(|()| out.flush()))?;
    complaints.end()
}

/// Whether somebody reads what is written.
fn reaches(written: io::Result<()>) -> Result<bool, CommandError> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::failed(format!("standard output: {error}"))),
    }
}

fn time(contents: &Contents, record: &Record) -> String {
    text::time(Timestamp(contents.clock.wall_ns(record.ticks)))
}

fn line(contents: &Contents, record: &Record) -> String {
    let point = contents.point(record).map_or("", |point| point.name.as_str());
    let source = contents.source(record.source);
    format!("{} {source:9} {point:19} {}", time(contents, record), contents.render(record))
}

fn object(contents: &Contents, record: &Record) -> Value {
    let mut object = json!({
        "time": time(contents, record),
        "source": contents.source(record.source),
    });
    match &record.entry {
        Entry::Lost(count) => object["lost"] = (*count).into(),
        Entry::Passed { arguments, .. } => {
            let point = contents.point(record);
            let names = point.into_iter().flat_map(|point| point.arguments());
            let named: Map<String, Value> =
                names.zip(arguments).map(|(name, value)| (name.to_owned(), (*value).into())).collect();
            object["point"] = point.map(|point| point.name.as_str()).into();
            object["arguments"] = named.into();
        }
    }
    object
}
