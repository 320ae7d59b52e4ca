//! Snapshot files on a storage: written under a temporary name and renamed when whole, read chunk by chunk with every
//! check. Does not know what is in a chunk.
//!
//! Reads go through one reused buffer and not through a map: what is checked is then what is used even if the file
//! changes meanwhile, a bad sector is an error value instead of a SIGBUS, and the fake disk is read by the same code.

use std::io::ErrorKind;

use journaler::storage::{Access, SharedStorage, StorageFile};
use protocol::Sequence;
use rkyv::util::AlignedVec;

use crate::error::{Context, Result, SnapshotError};
use crate::format::{
    self, ALIGNMENT, CHUNK_HEADER_BYTES, ChunkHeader, HEADER_BYTES, HeaderError, PAYLOAD_BYTES_MAX,
    SNAPSHOT_FORMAT_VERSION, SnapshotHeader,
};

/// Folder of the snapshots in the data directory.
pub const SNAPSHOT_FOLDER: &str = "snapshots";

/// A writer syncs after this many bytes, so that the disk's queue stays short for the journal's own writes.
const SYNC_BYTES: u64 = 16 << 20;

const PREFIX: &str = "snapshot-";
const TEMPORARY: &str = ".tmp";
const REFUSED: &str = ".refused";

/// Buffer for one chunk, aligned as its archive must be.
pub(crate) type ChunkBuffer = AlignedVec<ALIGNMENT>;

/// Path of a snapshot in the data directory. The names sort by sequence.
#[must_use]
pub fn snapshot_path(sequence: Sequence) -> String {
    format!("{SNAPSHOT_FOLDER}/{PREFIX}{:020}", sequence.0)
}

/// Path of a snapshot that was found bad and set aside.
pub(crate) fn refused_path(sequence: Sequence) -> String {
    format!("{}{REFUSED}", snapshot_path(sequence))
}

fn temporary_path(sequence: Sequence) -> String {
    format!("{}{TEMPORARY}", snapshot_path(sequence))
}

/// What is in the folder.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// Finished snapshots, oldest first.
    pub(crate) snapshots: Vec<Sequence>,
    /// Snapshots set aside, oldest first.
    pub(crate) refused: Vec<Sequence>,
    /// Paths of what a writer left unfinished.
    pub(crate) temporaries: Vec<String>,
}

pub(crate) fn list(storage: &SharedStorage) -> Result<Listing> {
    let names = match storage.list(SNAPSHOT_FOLDER) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).context("list", SNAPSHOT_FOLDER),
    };
    let mut listing = Listing::default();
    for name in names {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let number = |digits: &str| digits.parse().ok().map(Sequence);
        if rest.ends_with(TEMPORARY) {
            listing.temporaries.push(format!("{SNAPSHOT_FOLDER}/{name}"));
        } else if let Some(sequence) = rest.strip_suffix(REFUSED).and_then(number) {
            listing.refused.push(sequence);
        } else if let Some(sequence) = number(rest) {
            listing.snapshots.push(sequence);
        }
    }
    listing.snapshots.sort_unstable();
    listing.refused.sort_unstable();
    Ok(listing)
}

/// A snapshot being written. Dropped before [`finish`](Self::finish), it leaves nothing but a temporary file, which it
/// tries to remove.
#[derive(Debug)]
pub(crate) struct SnapshotWriter {
    storage: SharedStorage,
    file: Box<dyn StorageFile>,
    temporary: String,
    cluster_id: u128,
    sequence: Sequence,
    seed: u32,
    offset: u64,
    synced: u64,
    chunks: u64,
    records: u64,
    finished: bool,
}

impl SnapshotWriter {
    pub(crate) fn create(storage: &SharedStorage, cluster_id: u128, sequence: Sequence) -> Result<Self> {
        let temporary = temporary_path(sequence);
        match storage.remove(&temporary) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).context("remove", &temporary);
            }
            _ => {}
        }
        let file = storage.create(&temporary).context("create", &temporary)?;
        Ok(Self {
            storage: storage.clone(),
            file,
            temporary,
            cluster_id,
            sequence,
            seed: format::seed(cluster_id, sequence),
            offset: HEADER_BYTES as u64,
            synced: 0,
            chunks: 0,
            records: 0,
            finished: false,
        })
    }

    /// Writes a chunk. `buffer` holds room for the chunk's header, then the payload; it is padded and sealed here.
    pub(crate) fn chunk(&mut self, kind: u32, records: u64, buffer: &mut ChunkBuffer) -> Result<()> {
        let payload_bytes = buffer.len() - CHUNK_HEADER_BYTES;
        assert!(payload_bytes <= PAYLOAD_BYTES_MAX, "a chunk's records are bounded by its maker");
        let header = ChunkHeader { payload_bytes, kind: Some(kind), number: self.chunks, records };
        self.put(&header, buffer)?;
        self.chunks += 1;
        self.records += records;
        if self.offset - self.synced >= SYNC_BYTES {
            self.file.sync_data().context("sync", &self.temporary)?;
            self.synced = self.offset;
        }
        Ok(())
    }

    /// Writes the end mark and the header, makes the file durable and gives it its name. The counts, the cluster and
    /// the sequence of `header` are filled in here.
    pub(crate) fn finish(
        mut self,
        header: SnapshotHeader,
        buffer: &mut ChunkBuffer,
    ) -> Result<SnapshotHeader> {
        buffer.clear();
        buffer.resize(CHUNK_HEADER_BYTES, 0);
        self.put(&ChunkHeader::end(self.chunks, self.records), buffer)?;
        let header = SnapshotHeader {
            cluster_id: self.cluster_id,
            sequence: self.sequence,
            records: self.records,
            chunks: self.chunks,
            file_bytes: self.offset,
            ..header
        };
        self.file.write_all_at(&header.encode(), 0).context("write", &self.temporary)?;
        self.file.sync_data().context("sync", &self.temporary)?;
        let path = snapshot_path(self.sequence);
        self.storage.rename(&self.temporary, &path).context("rename", &self.temporary)?;
        self.finished = true;
        self.storage.sync_dir(SNAPSHOT_FOLDER).context("sync", SNAPSHOT_FOLDER)?;
        Ok(header)
    }

    fn put(&mut self, header: &ChunkHeader, buffer: &mut ChunkBuffer) -> Result<()> {
        buffer.resize(header.padded_bytes(), 0);
        header.seal(buffer, self.seed);
        self.file.write_all_at(buffer, self.offset).context("write", &self.temporary)?;
        self.offset += buffer.len() as u64;
        Ok(())
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        if !self.finished {
            // The next writer or start removes it just as well.
            let _ = self.storage.remove(&self.temporary);
        }
    }
}

/// Copies a snapshot into another data directory, each chunk checked against its checksum, durable but for the folder.
///
/// # Errors
/// `Corrupt` when a checksum of the source fails, which leaves nothing behind; `Io`.
pub(crate) fn copy(reader: &mut SnapshotReader, to: &SharedStorage) -> Result<()> {
    let sequence = reader.header.sequence;
    let temporary = temporary_path(sequence);
    let file = to.create(&temporary).context("create", &temporary)?;
    if let Err(error) = copy_chunks(reader, &*file, &temporary) {
        to.remove(&temporary).context("remove", &temporary)?;
        return Err(error);
    }
    file.sync_data().context("sync", &temporary)?;
    let path = snapshot_path(sequence);
    to.rename(&temporary, &path).context("rename", &temporary)
}

fn copy_chunks(reader: &mut SnapshotReader, file: &dyn StorageFile, path: &str) -> Result<()> {
    file.write_all_at(&reader.header.encode(), 0).context("write", path)?;
    loop {
        let goes_on = reader.chunk()?.is_some();
        file.write_all_at(&reader.buffer, reader.chunk_offset).context("write", path)?;
        if !goes_on {
            return Ok(());
        }
    }
}

/// A chunk as read, checked against its checksum.
#[derive(Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) kind: u32,
    pub(crate) records: u64,
    pub(crate) payload: &'a [u8],
}

/// A snapshot being read.
#[derive(Debug)]
pub(crate) struct SnapshotReader {
    file: Box<dyn StorageFile>,
    path: String,
    header: SnapshotHeader,
    seed: u32,
    offset: u64,
    /// Start of the chunk read last.
    chunk_offset: u64,
    chunks: u64,
    records: u64,
    buffer: ChunkBuffer,
}

impl SnapshotReader {
    /// Opens a snapshot and checks its header, its length and its cluster.
    pub(crate) fn open(storage: &SharedStorage, cluster_id: u128, sequence: Sequence) -> Result<Self> {
        let path = snapshot_path(sequence);
        let file = storage.open(&path, Access::Read).context("open", &path)?;
        let mut start = [0; HEADER_BYTES];
        let read = file.read_at(&mut start, 0).context("read", &path)?;
        let corrupt = |reason: &str| SnapshotError::Corrupt {
            file: path.clone(),
            offset: 0,
            reason: reason.to_owned(),
        };
        let header =
            SnapshotHeader::decode(start.get(..read).unwrap_or_default()).map_err(|error| match error {
                HeaderError::Bad(reason) => corrupt(reason),
                HeaderError::Version(found) => SnapshotError::WrongVersion {
                    file: path.clone(),
                    found,
                    supported: SNAPSHOT_FORMAT_VERSION,
                },
            })?;
        if header.cluster_id != cluster_id {
            let found = header.cluster_id;
            return Err(SnapshotError::ForeignCluster { file: path, found, expected: cluster_id });
        }
        if header.sequence != sequence {
            return Err(corrupt("the header is of another sequence than the name"));
        }
        if file.length().context("measure", &path)? != header.file_bytes {
            return Err(corrupt("the file has another length than its header says"));
        }
        Ok(Self {
            file,
            seed: format::seed(cluster_id, sequence),
            offset: HEADER_BYTES as u64,
            chunk_offset: HEADER_BYTES as u64,
            chunks: 0,
            records: 0,
            buffer: ChunkBuffer::new(),
            header,
            path,
        })
    }

    pub(crate) fn header(&self) -> &SnapshotHeader {
        &self.header
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Start of the chunk read last.
    pub(crate) fn chunk_offset(&self) -> u64 {
        self.chunk_offset
    }

    /// The error that something in the chunk read last is wrong.
    pub(crate) fn corrupt(&self, reason: impl Into<String>) -> SnapshotError {
        SnapshotError::Corrupt { file: self.path.clone(), offset: self.chunk_offset, reason: reason.into() }
    }

    /// Reads and checks the next chunk; `None` at the end mark, when all of the file has been seen.
    pub(crate) fn chunk(&mut self) -> Result<Option<Chunk<'_>>> {
        self.chunk_offset = self.offset;
        self.buffer.clear();
        self.read(CHUNK_HEADER_BYTES)?;
        let header = ChunkHeader::claimed(&self.buffer).map_err(|reason| self.corrupt(reason))?;
        self.read(header.padded_bytes())?;
        ChunkHeader::check(&self.buffer, self.seed).map_err(|reason| self.corrupt(reason))?;
        if header.number != self.chunks {
            return Err(self.corrupt("the chunk is out of its place"));
        }
        self.offset += header.padded_bytes() as u64;
        let Some(kind) = header.kind else { return self.end(&header).map(|()| None) };
        self.chunks += 1;
        self.records = self.records.saturating_add(header.records);
        let end = CHUNK_HEADER_BYTES + header.payload_bytes;
        let payload = self.buffer.get(CHUNK_HEADER_BYTES..end).unwrap_or_default();
        Ok(Some(Chunk { kind, records: header.records, payload }))
    }

    fn end(&self, mark: &ChunkHeader) -> Result<()> {
        let counted = (self.chunks, self.records, self.offset);
        if (mark.number, mark.records) != (self.chunks, self.records) {
            return Err(self.corrupt("the end mark counts other chunks or records"));
        }
        if counted != (self.header.chunks, self.header.records, self.header.file_bytes) {
            return Err(self.corrupt("the end mark is not where the header says"));
        }
        Ok(())
    }

    /// Extends the buffer, which starts at the chunk's start, to `length` bytes.
    fn read(&mut self, length: usize) -> Result<()> {
        let have = self.buffer.len();
        if self.chunk_offset.saturating_add(length as u64) > self.header.file_bytes {
            return Err(self.corrupt("the file ends before its end mark"));
        }
        self.buffer.resize(length, 0);
        let rest = self.buffer.get_mut(have..).unwrap_or_default();
        let wanted = rest.len();
        let read = self.file.read_at(rest, self.chunk_offset + have as u64).context("read", &self.path)?;
        if read == wanted { Ok(()) } else { Err(self.corrupt("the file ends before its end mark")) }
    }
}
