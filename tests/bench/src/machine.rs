//! What the machine itself can do, measured in the same run as everything that is held against it.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::table::{Row, Table};

/// Row of the disk's durable write.
pub(crate) const DURABLE_WRITE: &str = "machine/durable-write-p50";
/// Row of the loopback round trip.
pub(crate) const LOOPBACK: &str = "machine/loopback-rtt-p50";

/// Measures a durable 4 KiB write into a pre-written file in `folder`, and a TCP round trip of 64 bytes.
///
/// # Errors
/// Whatever the disk or the socket says.
pub(crate) fn measure(table: &mut Table, folder: &Path) -> std::io::Result<()> {
    let write = durable_write(folder, 4096, 1_000)?;
    table.push(
        Row::new(DURABLE_WRITE, write.value_at_quantile(0.5) as f64 / 1e3, "us")
            .note("4 KiB pwrite + fdatasync into a pre-written file"),
    );
    table.push(Row::new("machine/durable-write-p99", write.value_at_quantile(0.99) as f64 / 1e3, "us"));
    let trip = round_trip(5_000)?;
    table.push(
        Row::new(LOOPBACK, trip.value_at_quantile(0.5) as f64 / 1e3, "us")
            .note("64 bytes there and back over blocking TCP"),
    );
    Ok(())
}

fn durable_write(folder: &Path, length: usize, writes: u64) -> std::io::Result<Histogram<u64>> {
    let path = folder.join("durable-write");
    let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
    file.write_all_at(&vec![0; length * writes as usize], 0)?;
    file.sync_all()?;
    let block = vec![7; length];
    let mut histogram = new_histogram();
    for at in 0..writes {
        let started = Instant::now();
        file.write_all_at(&block, at * length as u64)?;
        file.sync_data()?;
        histogram.saturating_record(started.elapsed().as_nanos() as u64);
    }
    std::fs::remove_file(path)?;
    Ok(histogram)
}

fn round_trip(trips: u64) -> std::io::Result<Histogram<u64>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut peer, _) = listener.accept()?;
        peer.set_nodelay(true)?;
        let mut block = [0; 64];
        for _ in 0..trips {
            peer.read_exact(&mut block)?;
            peer.write_all(&block)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut block = [1; 64];
    let mut histogram = new_histogram();
    for _ in 0..trips {
        let started = Instant::now();
        stream.write_all(&block)?;
        stream.read_exact(&mut block)?;
        histogram.saturating_record(started.elapsed().as_nanos() as u64);
    }
    echo.join().map_err(|_| std::io::Error::other("the echo thread panicked"))??;
    Ok(histogram)
}

/// A histogram of nanoseconds up to a minute with three digits.
#[must_use]
pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are constants that fit")
}
