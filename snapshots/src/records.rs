//! The records of an exchange as chunks of a snapshot, and back. A chunk's payload is an rkyv archive of up to
//! [`CHUNK_RECORDS`] records; nothing read is trusted before rkyv's check and the import's own.

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

/// Gathers records into chunks. The export can't be stopped from inside, so the first error is kept and the rest of
/// the records let go by.
struct Chunks<'a, 'b> {
    writer: SnapshotWriter,
    gathered: Vec<Record>,
    buffer: ChunkBuffer,
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
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(CHUNK_HEADER_BYTES, 0);
        self.buffer = rkyv::api::high::to_bytes_in::<_, rancor::Error>(&self.gathered, buffer)
            .map_err(SnapshotError::Archive)?;
        self.gathered.clear();
        self.writer.chunk(RECORDS_KIND, records, &mut self.buffer)?;
        if (self.breathe)(Step::Written(records)).is_break() { Err(SnapshotError::Stopped) } else { Ok(()) }
    }
}

/// Writes the state of `exchange` and finishes the snapshot.
pub(crate) fn write(
    exchange: &Exchange,
    term: Term,
    writer: SnapshotWriter,
    breathe: &mut Breathe<'_>,
) -> Result<SnapshotHeader> {
    let mut chunks = Chunks {
        writer,
        gathered: Vec::with_capacity(CHUNK_RECORDS),
        buffer: ChunkBuffer::new(),
        breathe,
        failed: None,
    };
    let state_hash = exchange.export_hashed(&mut |record| chunks.push(record));
    if let Some(error) = chunks.failed.take() {
        return Err(error);
    }
    chunks.flush()?;
    let Chunks { writer, mut buffer, .. } = chunks;
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
        &mut buffer,
    )
}

/// Reads all of a snapshot into an exchange and checks the result against the header.
pub(crate) fn read(mut reader: SnapshotReader) -> Result<(Exchange, SnapshotHeader)> {
    let header = *reader.header();
    if header.rulebook_version > RULEBOOK_VERSION {
        return Err(SnapshotError::WrongRulebook {
            file: reader.path().to_owned(),
            found: header.rulebook_version,
            supported: RULEBOOK_VERSION,
        });
    }
    let mut importer = Importer::new();
    while let Some(chunk) = reader.chunk()? {
        let outcome = if chunk.kind == RECORDS_KIND {
            import(&mut importer, chunk.payload, chunk.records)
        } else {
            Err(format!("chunks of kind {} are unknown", chunk.kind))
        };
        outcome.map_err(|reason| reader.corrupt(reason))?;
    }
    let exchange = importer.finish().map_err(|error| reader.corrupt(error.to_string()))?;
    contradiction(&header, &exchange).map_or(Ok((exchange, header)), |(field, said, found)| {
        Err(reader.corrupt(format!("the header says {field} {said:#x}, the state has {found:#x}")))
    })
}

fn import(importer: &mut Importer, payload: &[u8], count: u64) -> std::result::Result<(), String> {
    let archived = rkyv::access::<rkyv::Archived<Vec<Record>>, rancor::Error>(payload)
        .map_err(|error| format!("the chunk's archive is wrong: {error}"))?;
    if archived.len() as u64 != count {
        return Err("the chunk holds another number of records than it says".to_owned());
    }
    let mut group = Vec::with_capacity(FETCHED_TOGETHER);
    let mut rest = archived.iter();
    while !rest.as_slice().is_empty() {
        group.clear();
        for archived in rest.by_ref().take(FETCHED_TOGETHER) {
            group.push(
                rkyv::deserialize::<Record, rancor::Error>(archived).map_err(|error| error.to_string())?,
            );
        }
        importer.fetch(&group);
        for record in &group {
            importer.push(record).map_err(|error| error.to_string())?;
        }
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
