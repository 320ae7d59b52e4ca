//! The records of an exchange as chunks of a snapshot, and back. A chunk's payload is an rkyv archive of up to
//! [`CHUNK_RECORDS`] records; nothing read is trusted before rkyv's check and the import's own.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use exchange::{Exchange, Importer, RULEBOOK_VERSION, Record};
use protocol::Term;
use rkyv::rancor;

use crate::error::{Result, SnapshotError};
use crate::file::{ChunkBuffer, SnapshotReader, SnapshotWriter};
use crate::format::{CHUNK_HEADER_BYTES, SnapshotHeader};
use crate::replay::{Breathe, Step};

/// Records in a full chunk: about a megabyte of orders, which stays in a core's cache between the steps.
const CHUNK_RECORDS: usize = 16_384;

/// Records whose place in memory is read ahead together.
const FETCHED_TOGETHER: usize = 32;

/// Chunks that are read, or wait to be written, beside the one in work. More would only take memory.
const CHUNKS_AHEAD: usize = 2;

/// Kind of the chunks that hold the exchange's records, the only one so far.
const RECORDS_KIND: u32 = 1;

/// Bytes of a record in a chunk, about: most are 64, instruments and users have as much again beside them.
const RECORD_BYTES_ABOUT: u64 = 80;

/// Bytes that a snapshot of `exchange` takes, about and rather more.
pub(crate) fn bytes_about(exchange: &Exchange) -> u64 {
    let counts = exchange.counts();
    let small = u64::from(counts.orders) + u64::from(counts.cl_ord_ids);
    let large = u64::from(counts.sessions) + u64::from(counts.instruments);
    (small + 2 * large) * RECORD_BYTES_ABOUT + (1 << 16)
}

/// Gathers records into chunks, for the thread that writes them. The export can't be stopped from inside, so the first
/// error is kept and the rest of the records let go by.
struct Chunks<'a, 'b> {
    give: SyncSender<(u64, ChunkBuffer)>,
    spare: Receiver<ChunkBuffer>,
    gathered: Vec<Record>,
    breathe: &'a mut Breathe<'b>,
    failed: Option<SnapshotError>,
}

impl Chunks<'_, '_> {
    fn push(&mut self, record: Record) {
        if self.failed.is_some() {
            return;
        }
        self.gathered.push(record);
        if self.gathered.len() == CHUNK_RECORDS {
            self.failed = self.flush().err();
        }
    }

    fn flush(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let records = self.gathered.len() as u64;
        let mut buffer = self.spare.try_recv().unwrap_or_default();
        buffer.clear();
        buffer.resize(CHUNK_HEADER_BYTES, 0);
        let buffer = rkyv::api::high::to_bytes_in::<_, rancor::Error>(&self.gathered, buffer)
            .map_err(SnapshotError::Archive)?;
        self.gathered.clear();
        // Nobody takes it: the writer has failed, and tells why itself.
        let given = self.give.send((records, buffer));
        let stops = given.is_err() || (self.breathe)(Step::Written(records)).is_break();
        if stops { Err(SnapshotError::Stopped) } else { Ok(()) }
    }
}

/// Writes the chunks that it is given.
fn write_chunks(
    mut writer: SnapshotWriter,
    taken: &Receiver<(u64, ChunkBuffer)>,
    give_back: &SyncSender<ChunkBuffer>,
) -> Result<SnapshotWriter> {
    for (records, mut buffer) in taken {
        writer.chunk(RECORDS_KIND, records, &mut buffer)?;
        // Whoever has made the last chunk takes none back.
        let _ = give_back.try_send(buffer);
    }
    Ok(writer)
}

/// Writes the state of `exchange` and finishes the snapshot.
pub(crate) fn write(
    exchange: &Exchange,
    term: Term,
    writer: SnapshotWriter,
    breathe: &mut Breathe<'_>,
) -> Result<SnapshotHeader> {
    // Checksums, writes and waits for the disk are done beside the export.
    let (writer, state_hash) = thread::scope(|scope| {
        let (give, taken) = sync_channel(CHUNKS_AHEAD);
        let (give_back, spare) = sync_channel(CHUNKS_AHEAD + 1);
        let writing = scope.spawn(move || write_chunks(writer, &taken, &give_back));
        let gathered = Vec::with_capacity(CHUNK_RECORDS);
        let mut chunks = Chunks { give, spare, gathered, breathe, failed: None };
        let state_hash = exchange.export_hashed(&mut |record| chunks.push(record));
        let made = chunks.failed.take().map_or_else(|| chunks.flush(), Err);
        drop(chunks);
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // What the writer failed of comes first: it is why nobody took the chunks.
        written.and_then(|writer| made.map(|()| (writer, state_hash)))
    })?;
    writer.finish(
        SnapshotHeader {
            cluster_id: 0,
            rulebook_version: exchange.rulebook_version(),
            trading_day: exchange.trading_day(),
            sequence: exchange.sequence(),
            term,
            log_time: exchange.log_time(),
            running_hash: exchange.running_hash(),
            state_hash,
            records: 0,
            chunks: 0,
            file_bytes: 0,
        },
        &mut ChunkBuffer::new(),
    )
}

/// Reads all of a snapshot into an exchange and checks the result against the header.
pub(crate) fn read(reader: SnapshotReader) -> Result<(Exchange, SnapshotHeader)> {
    let header = *reader.header();
    if header.rulebook_version > RULEBOOK_VERSION {
        return Err(SnapshotError::WrongRulebook {
            file: reader.path().to_owned(),
            found: header.rulebook_version,
            supported: RULEBOOK_VERSION,
        });
    }
    let path = reader.path().to_owned();
    let corrupt = |offset, reason: String| SnapshotError::Corrupt { file: path.clone(), offset, reason };
    let mut importer = Importer::new();
    // Reading a chunk, its checksum and its archive's check are done beside the import of the one before.
    let end = thread::scope(|scope| -> Result<u64> {
        let (give, taken) = sync_channel(CHUNKS_AHEAD);
        let (give_back, spare) = sync_channel::<Vec<Record>>(CHUNKS_AHEAD + 1);
        scope.spawn(move || read_ahead(reader, &give, &spare));
        for chunk in taken {
            let (offset, mut records) = chunk?;
            if records.is_empty() {
                return Ok(offset);
            }
            for group in records.chunks(FETCHED_TOGETHER) {
                importer.fetch(group);
                for record in group {
                    importer.push(record).map_err(|error| corrupt(offset, error.to_string()))?;
                }
            }
            records.clear();
            // Whoever has read the last chunk takes none back.
            let _ = give_back.try_send(records);
        }
        unreachable!("what is read ends with an error or the place of the end mark")
    })?;
    let exchange = importer.finish().map_err(|error| corrupt(end, error.to_string()))?;
    contradiction(&header, &exchange).map_or(Ok((exchange, header)), |(field, said, found)| {
        Err(corrupt(end, format!("the header says {field} {said:#x}, the state has {found:#x}")))
    })
}

/// The records of a chunk and its place; no records: the end mark's.
type ReadChunk = Result<(u64, Vec<Record>)>;

/// Reads all chunks of a snapshot and gives their records, one chunk after the other, until all are read, one is wrong,
/// or nobody takes them any more.
fn read_ahead(mut reader: SnapshotReader, give: &SyncSender<ReadChunk>, spare: &Receiver<Vec<Record>>) {
    loop {
        let mut records = spare.try_recv().unwrap_or_default();
        let read = read_chunk(&mut reader, &mut records).map(|()| (reader.chunk_offset(), records));
        let goes_on = read.as_ref().is_ok_and(|(_, records)| !records.is_empty());
        if give.send(read).is_err() || !goes_on {
            return;
        }
    }
}

/// The records of the next chunk; none at the end mark.
fn read_chunk(reader: &mut SnapshotReader, records: &mut Vec<Record>) -> Result<()> {
    let Some(chunk) = reader.chunk()? else { return Ok(()) };
    let outcome = match chunk.kind {
        RECORDS_KIND => unarchive(chunk.payload, chunk.records, records),
        kind => Err(format!("chunks of kind {kind} are unknown")),
    };
    outcome.map_err(|reason| reader.corrupt(reason))
}

fn unarchive(payload: &[u8], count: u64, records: &mut Vec<Record>) -> std::result::Result<(), String> {
    let archived = rkyv::access::<rkyv::Archived<Vec<Record>>, rancor::Error>(payload)
        .map_err(|error| format!("the chunk's archive is wrong: {error}"))?;
    if archived.len() as u64 != count || count == 0 {
        return Err("the chunk holds another number of records than it says".to_owned());
    }
    for archived in archived.iter() {
        records
            .push(rkyv::deserialize::<Record, rancor::Error>(archived).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// The first field of the header that is not the state's, with both values.
fn contradiction(header: &SnapshotHeader, exchange: &Exchange) -> Option<(&'static str, u64, u64)> {
    let fields = [
        ("sequence", header.sequence.0, exchange.sequence().0),
        ("rulebook version", header.rulebook_version.into(), exchange.rulebook_version().into()),
        ("trading day", header.trading_day.0.into(), exchange.trading_day().0.into()),
        ("log time", header.log_time.0, exchange.log_time().0),
        ("running hash", header.running_hash, exchange.running_hash()),
        ("state hash", header.state_hash, exchange.state_hash()),
    ];
    fields.into_iter().find(|(_, said, found)| said != found)
}
