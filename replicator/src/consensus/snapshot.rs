//! A snapshot with its report log on its way to another member, and what the other does with it: gather all files beside
//! its own, then start again from them. It must not touch the member's own files before all of the new ones are durable.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use bytes::Bytes;
use journaler::storage::{Access, SharedStorage, StorageFile};
use journaler::{Journal, JournalError, JournalOptions, LogEnd, REPORTS_FOLDER, ReportLog, ReportLogOptions};
use prost::Message;
use protocol::{Sequence, Term};

use super::record::{RecordError, RecordFile};
use super::types::{decode_membership, log_id_from_proto};
use crate::proto;

/// Where files of a snapshot are gathered, in the data directory.
const INCOMING: &str = "incoming";
/// Written when all are there.
const COMPLETE: &str = "incoming/complete";
/// Written when the member's own files are gone, so that a repetition does not remove those that were moved in.
const OLD_GONE: &str = "incoming/old-gone";
/// Bytes of one piece.
pub(crate) const PIECE_BYTES: usize = 1 << 20;
/// Most files of one snapshot: each session's reports of two days, and the snapshot.
const FILES_MAX: usize = 1 << 20;

/// Where the snapshots are.
pub trait SnapshotFolder: Send + Sync + 'static {
    /// Sequences of the finished snapshots, the newest first.
    fn newest_first(&self) -> Vec<Sequence>;
    /// The file of one, relative to the data directory.
    fn path(&self, sequence: Sequence) -> String;
}

/// A snapshot as the library hands it around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotFiles {
    pub(crate) sequence: Sequence,
}

/// The files of a snapshot, open, so that they can be read to the end whatever is removed meanwhile.
pub(crate) struct Outgoing {
    files: Vec<(proto::SnapshotFile, Box<dyn StorageFile>)>,
}

impl Outgoing {
    /// Opens the snapshot of `sequence` and the report log as it is now.
    pub(crate) fn open(
        storage: &SharedStorage,
        folder: &Arc<dyn SnapshotFolder>,
        sequence: Sequence,
    ) -> io::Result<Self> {
        let mut paths = vec![folder.path(sequence)];
        for day in storage.list(REPORTS_FOLDER)? {
            let day = format!("{REPORTS_FOLDER}/{day}");
            // The mark is a file; it is made anew where the snapshot arrives.
            let Ok(sessions) = storage.list(&day) else { continue };
            paths.extend(sessions.into_iter().map(|session| format!("{day}/{session}")));
        }
        let mut files = Vec::with_capacity(paths.len());
        for path in paths {
            let file = storage.open(&path, Access::Read)?;
            let bytes = file.length()?;
            files.push((proto::SnapshotFile { path, bytes }, file));
        }
        Ok(Self { files })
    }

    pub(crate) fn listed(&self) -> Vec<proto::SnapshotFile> {
        self.files.iter().map(|(file, _)| file.clone()).collect()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(file, _)| file.bytes).sum()
    }

    /// The piece behind `at`: (file, offset); `None` behind the last.
    pub(crate) fn piece(&self, at: (usize, u64)) -> io::Result<Option<(Piece, (usize, u64))>> {
        let (mut number, mut offset) = at;
        while self
            .files
            .get(number)
            .is_some_and(|(file, _)| offset >= file.bytes && number + 1 < self.files.len())
        {
            number += 1;
            offset = 0;
        }
        let Some((file, open)) = self.files.get(number).filter(|(file, _)| offset < file.bytes) else {
            return Ok(None);
        };
        let length = usize::try_from(file.bytes - offset).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let mut bytes = vec![0; length];
        let read = open.read_at(&mut bytes, offset)?;
        if read < length {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, format!("{} became shorter", file.path)));
        }
        let end = offset + length as u64;
        let last = number + 1 == self.files.len() && end == file.bytes;
        let piece = Piece { file: number as u32, offset, last, bytes: bytes.into() };
        Ok(Some((piece, (number, end))))
    }
}

/// Some bytes of one file.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) file: u32,
    pub(crate) offset: u64,
    pub(crate) last: bool,
    pub(crate) bytes: Bytes,
}

/// A snapshot that is arriving.
pub(crate) struct Incoming {
    meta: proto::SnapshotMeta,
    files: Vec<(proto::SnapshotFile, Option<Box<dyn StorageFile>>)>,
    received: u64,
    /// File and offset behind the last piece that was taken.
    next: (u32, u64),
}

impl Incoming {
    /// Makes room for an offered snapshot; what arrived of an earlier one is removed.
    pub(crate) fn begin(storage: &SharedStorage, offer: &proto::SnapshotOffer) -> io::Result<Self> {
        let Some(meta) = offer.meta.clone() else {
            return Err(io::Error::other("an offer without a snapshot"));
        };
        if offer.files.len() > FILES_MAX {
            return Err(io::Error::other("an offer of too many files"));
        }
        remove_tree(storage, INCOMING)?;
        let needed: u64 = offer.files.iter().map(|file| file.bytes).sum();
        if storage.free_space()? < needed {
            return Err(io::Error::new(
                ErrorKind::StorageFull,
                format!("no room for a snapshot of {needed} bytes"),
            ));
        }
        let mut files = Vec::with_capacity(offer.files.len());
        for file in &offer.files {
            check_path(&file.path)?;
            files.push((file.clone(), None));
        }
        Ok(Self { meta, files, received: 0, next: (0, 0) })
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Takes a piece; true once all are there and durable. One that was taken before comes again where its answer was lost.
    pub(crate) fn take(&mut self, storage: &SharedStorage, piece: &Piece) -> io::Result<bool> {
        if (piece.file, piece.offset) < self.next {
            return Ok(false);
        }
        let Some((file, open)) = self.files.get_mut(piece.file as usize) else {
            return Err(io::Error::other("a piece of no file"));
        };
        if piece.offset + piece.bytes.len() as u64 > file.bytes {
            return Err(io::Error::other("a piece behind its file's end"));
        }
        let to = match open {
            Some(to) => to,
            None => {
                let path = format!("{INCOMING}/{}", file.path);
                storage.create_dir(parent(&path))?;
                open.insert(storage.create(&path)?)
            }
        };
        to.write_all_at(&piece.bytes, piece.offset)?;
        self.received += piece.bytes.len() as u64;
        self.next = (piece.file, piece.offset + piece.bytes.len() as u64);
        if piece.offset + piece.bytes.len() as u64 == file.bytes {
            to.sync_data()?;
            *open = None;
        }
        if !piece.last {
            return Ok(false);
        }
        if self.received != self.files.iter().map(|(file, _)| file.bytes).sum::<u64>() {
            return Err(io::Error::other("the last piece came before others"));
        }
        self.complete(storage)?;
        Ok(true)
    }

    fn complete(&self, storage: &SharedStorage) -> io::Result<()> {
        let offer = proto::SnapshotOffer {
            meta: Some(self.meta.clone()),
            files: self.files.iter().map(|(file, _)| file.clone()).collect(),
            ..Default::default()
        };
        for folder in folders(&offer.files) {
            storage.sync_dir(&format!("{INCOMING}/{folder}"))?;
        }
        storage.sync_dir("")?;
        let marker = storage.create(COMPLETE)?;
        let bytes = offer.encode_to_vec();
        let mut framed = crc32c::crc32c(&bytes).to_le_bytes().to_vec();
        framed.extend(bytes);
        marker.write_all_at(&framed, 0)?;
        marker.sync_data()?;
        storage.sync_dir(INCOMING)
    }
}

/// Only names that a report log or a snapshot has: nothing outside the data directory, and nothing of the member's own.
fn check_path(path: &str) -> io::Result<()> {
    let plain = path.split('/').all(|part| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '.')
            && !part.starts_with('.')
    });
    let known = path.starts_with("reports/day-") || path.starts_with("snapshots/");
    if plain && known { Ok(()) } else { Err(io::Error::other(format!("an offer of the file {path:?}"))) }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The folders of the files and all above them, the deepest first.
fn folders(files: &[proto::SnapshotFile]) -> Vec<String> {
    let mut folders = std::collections::BTreeSet::new();
    for file in files {
        let mut folder = parent(&file.path);
        while !folder.is_empty() {
            folders.insert(folder.to_owned());
            folder = parent(folder);
        }
    }
    folders.into_iter().rev().collect()
}

/// Removes a folder and all in it; nothing there is fine.
fn remove_tree(storage: &SharedStorage, folder: &str) -> io::Result<()> {
    let names = match storage.list(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for name in names {
        let path = format!("{folder}/{name}");
        if storage.list(&path).is_ok() {
            remove_tree(storage, &path)?;
        } else {
            storage.remove(&path)?;
        }
    }
    storage.sync_dir(folder)?;
    storage.remove_dir(folder)?;
    storage.sync_dir(parent(folder))
}

/// Why a snapshot that arrived could not be started from.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The disk.
    #[error("installing the snapshot that arrived: {0}")]
    Io(#[from] io::Error),
    /// The journal or the report log.
    #[error("installing the snapshot that arrived: {0}")]
    Journal(#[from] JournalError),
    /// The member's own file.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// What was said of it makes no sense.
    #[error("installing the snapshot that arrived: {0}")]
    Nonsense(String),
}

/// Ends what a transfer began, before anything is opened: the member's log, snapshots and reports give way to those that
/// arrived. Safe to repeat after a crash at any point. Gives the last frame that the member then has.
pub(crate) fn finish_install(
    storage: &SharedStorage,
    journal: &JournalOptions,
    record: &mut RecordFile,
) -> Result<Option<Sequence>, InstallError> {
    let marker = match storage.open(COMPLETE, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            remove_tree(storage, INCOMING)?;
            return Ok(None);
        }
        opened => opened?,
    };
    let mut bytes = vec![0; usize::try_from(marker.length()?).unwrap_or(0)];
    marker.read_at(&mut bytes, 0)?;
    let Some((_, body)) = bytes
        .split_first_chunk::<4>()
        .filter(|(sum, body)| u32::from_le_bytes(**sum) == crc32c::crc32c(body))
    else {
        // Torn while it was written: the transfer was not complete.
        remove_tree(storage, INCOMING)?;
        return Ok(None);
    };
    let offer =
        proto::SnapshotOffer::decode(body).map_err(|error| InstallError::Nonsense(error.to_string()))?;
    let meta = offer.meta.ok_or_else(|| InstallError::Nonsense("no snapshot".into()))?;
    let last = meta.last.ok_or_else(|| InstallError::Nonsense("no place in the log".into()))?;
    let sequence = Sequence(meta.sequence);

    if storage.open(OLD_GONE, Access::Read).is_err() {
        remove_tree(storage, journaler::JOURNAL_FOLDER)?;
        remove_tree(storage, "snapshots")?;
        remove_tree(storage, REPORTS_FOLDER)?;
        drop(storage.create(OLD_GONE)?);
        storage.sync_dir(INCOMING)?;
    }
    for file in &offer.files {
        storage.create_dir(parent(&file.path))?;
        match storage.rename(&format!("{INCOMING}/{}", file.path), &file.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed?,
        }
    }
    for folder in folders(&offer.files) {
        storage.sync_dir(&folder)?;
    }
    storage.sync_dir("")?;
    // Made anew by a repetition too: nothing was written to it yet.
    remove_tree(storage, journaler::JOURNAL_FOLDER)?;
    let behind = LogEnd { index: last.index + 1, sequence, term: Term(last.term) };
    drop(Journal::create_behind(storage.clone(), journal.clone(), behind)?);
    let reports = ReportLog::open(storage.clone(), &ReportLogOptions::default())?;
    reports.sync(sequence)?;
    if let Some(id) = &meta.membership_log_id {
        let membership = decode_membership(&meta.membership).map_err(InstallError::Nonsense)?;
        let id = log_id_from_proto(id);
        record.change(|record| record.membership = Some((id, membership)))?;
    }
    record.change(|record| record.last_index_min = behind.index)?;
    storage.remove(COMPLETE)?;
    storage.sync_dir(INCOMING)?;
    remove_tree(storage, INCOMING)?;
    Ok(Some(sequence))
}
