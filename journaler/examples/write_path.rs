//! Compares ways to write a batch durably into a segment of zeros, and to read one: the numbers behind the journal's
//! choices. `cargo run --release -p journaler --example write_path -- DIRECTORY`

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use journaler::{Durability, Journal, JournalOptions, JournalReader, RealStorage, SharedStorage};
use protocol::{Sequence, Term};
use rustix::fs::{Mode, OFlags};

const SEGMENT_BYTES: u64 = 64 << 20;
const WRITES_MAX: u64 = 1000;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let directory = std::env::args().nth(1).ok_or("usage: write_path DIRECTORY")?;
    let directory = Path::new(&directory).join("write_path");
    let storage: SharedStorage = Arc::new(RealStorage::create(&directory)?);
    for bytes in [512, 4096, 64 << 10, 1 << 20] {
        for (name, flags, sync) in [
            ("pwrite+fdatasync", OFlags::empty(), true),
            ("O_DIRECT|O_DSYNC", OFlags::DIRECT | OFlags::DSYNC, false),
            ("O_DIRECT+fdatasync", OFlags::DIRECT, true),
        ] {
            raw(&storage, &directory, name, flags, sync, bytes)?;
        }
    }
    for (durability, frames) in
        [(Durability::Disk, 1), (Durability::Disk, 64), (Durability::Disk, 1024), (Durability::Memory, 1024)]
    {
        journal(&directory, durability, frames)?;
    }
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

fn raw(
    storage: &SharedStorage,
    directory: &Path,
    name: &str,
    flags: OFlags,
    sync: bool,
    bytes: usize,
) -> Outcome {
    let file = storage.create("raw")?;
    file.allocate_zeroed(SEGMENT_BYTES)?;
    file.sync_data()?;
    let descriptor = rustix::fs::open(directory.join("raw"), OFlags::RDWR | flags, Mode::empty())?;
    let memory = vec![7_u8; bytes + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let batch = &memory[start..start + bytes];
    let mut latencies = Vec::new();
    for place in 0..(SEGMENT_BYTES / bytes as u64).min(WRITES_MAX) {
        let began = Instant::now();
        assert_eq!(rustix::io::pwrite(&descriptor, batch, place * bytes as u64)?, bytes);
        if sync {
            rustix::fs::fdatasync(&descriptor)?;
        }
        latencies.push(began.elapsed());
    }
    latencies.sort_unstable();
    let total: std::time::Duration = latencies.iter().sum();
    println!(
        "{name:>18} {bytes:>8} B: p50 {:>5} us, p99 {:>5} us, {:>6.0} MB/s",
        latencies[latencies.len() / 2].as_micros(),
        latencies[latencies.len() * 99 / 100].as_micros(),
        (latencies.len() * bytes) as f64 / total.as_secs_f64() / 1e6
    );
    storage.remove("raw")?;
    Ok(())
}

fn journal(directory: &Path, durability: Durability, frames: u64) -> Outcome {
    let storage: SharedStorage = Arc::new(RealStorage::create(directory.join("data"))?);
    let options = JournalOptions { durability, ..JournalOptions::new(1) };
    let (mut journal, _) = Journal::open(Arc::clone(&storage), options)?;
    let mut frame = [0_u8; 64];
    frame[..2].copy_from_slice(&56_u16.to_le_bytes());
    let slots = frame.repeat(frames as usize);
    let batches = if durability == Durability::Disk { WRITES_MAX } else { 4 * WRITES_MAX };
    let mut latencies = Vec::new();
    let began = Instant::now();
    for _ in 0..batches {
        let began = Instant::now();
        journal.append(&slots, frames, Term(1))?;
        latencies.push(began.elapsed());
    }
    let rate = (batches * frames) as f64 / began.elapsed().as_secs_f64();
    latencies.sort_unstable();
    println!(
        "journal {durability:?} {frames:>5} frames a batch: p50 {:>5} us, p99 {:>5} us, {rate:>10.0} frames/s",
        latencies[latencies.len() / 2].as_micros(),
        latencies[latencies.len() * 99 / 100].as_micros(),
    );
    let last = journal.journaled_sequence();
    journal.close()?;
    let began = Instant::now();
    let mut cursor = JournalReader::open(storage)?.frames_from(Sequence(1))?;
    let mut read = 0_u64;
    while cursor.next_frame(last)?.is_some() {
        read += 1;
    }
    println!("    read back: {:>10.0} frames/s", read as f64 / began.elapsed().as_secs_f64());
    std::fs::remove_dir_all(directory.join("data"))?;
    Ok(())
}
