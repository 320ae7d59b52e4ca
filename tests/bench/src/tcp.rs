//! The real server over TCP loopback, with the real load generator on the same machine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::machine::{DURABLE_WRITE, LOOPBACK};
use crate::table::{Row, Table};

type Error = Box<dyn std::error::Error>;

/// Longest wait for the server to take orders.
const START_PATIENCE: Duration = Duration::from_secs(30);

/// Clients that misbehave at a time.
const HOSTILE_CLIENTS: usize = 8;

/// Runs the rows `tcp/*`.
pub(crate) fn run(table: &mut Table, folder: &Path, quick: bool) -> Result<(), Error> {
    let seconds = if quick { "3" } else { "10" };
    let server = Server::start(&folder.join("tcp"))?;
    let single = server.load(&["--window", "1", "--seconds", seconds])?;
    let p50 = figure(&single, "p50")?;
    table.push(
        Row::new("tcp/one-at-a-time-p50", p50, "us")
            .against(
                "durable write + loopback round trip",
                table.value(DURABLE_WRITE).unwrap_or(f64::NAN) + table.value(LOOPBACK).unwrap_or(f64::NAN),
            )
            .note("1 connection, window 1, 56-byte orders, durability disk"),
    );
    for rate in ["10000", "100000"] {
        let result = server.load(&["--rate", rate, "--seconds", seconds, "--warm-up", "1"])?;
        for percentile in ["p50", "p99", "p99.9"] {
            let row =
                Row::new(format!("tcp/{rate}-per-second-{percentile}"), figure(&result, percentile)?, "us");
            table.push(row.note(conditions(&result)));
        }
    }
    for connections in ["1", "4"] {
        let result =
            server.load(&["--window", "16384", "--connections", connections, "--seconds", seconds])?;
        table.push(
            Row::new(format!("tcp/flat-out-{connections}-connections"), rate_of(&result)?, "orders/s")
                .against("1 M/s aimed at", 1e6)
                .note(conditions(&result)),
        );
    }
    hostile(table, &server, seconds)
}

/// What the others notice of hostile clients: latency at a fixed rate beside connections that send garbage, lie about
/// lengths, or log in with wrong passwords as fast as they are let.
fn hostile(table: &mut Table, server: &Server, seconds: &str) -> Result<(), Error> {
    let quiet = server.load(&["--rate", "10000", "--seconds", seconds])?;
    let stop = AtomicBool::new(false);
    let address = server.address()?;
    let beside = std::thread::scope(|scope| {
        for kind in 0..HOSTILE_CLIENTS {
            let stop = &stop;
            scope.spawn(move || attack(address, kind, stop));
        }
        let beside = server.load(&["--rate", "10000", "--seconds", seconds]);
        stop.store(true, Ordering::Relaxed);
        beside
    })?;
    table.push(
        Row::new("tcp/10000-per-second-p99-attacked", figure(&beside, "p99")?, "us")
            .against("the same without the attack", figure(&quiet, "p99")?)
            .note(format!("{HOSTILE_CLIENTS} hostile clients, each connecting again when it is dropped")),
    );
    Ok(())
}

/// Connects again and again, each time with another kind of nonsense.
fn attack(address: SocketAddr, kind: usize, stop: &AtomicBool) {
    let mut nonsense: Vec<u8> = match kind % 4 {
        0 => (0..255).collect(),
        1 => vec![0xff; 70_000],
        2 => b"\0\x2fLdemo  wrong-pass          ".to_vec(),
        _ => vec![0],
    };
    if kind % 4 == 2 {
        nonsense.extend_from_slice(b"                   1");
    }
    while !stop.load(Ordering::Relaxed) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
            let _ = stream.write_all(&nonsense);
            let _ = stream.read(&mut [0; 64]);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The real binary: it lies beside this one.
pub(crate) fn binary() -> Result<PathBuf, Error> {
    let binary = std::env::current_exe()?.with_file_name("ringpit");
    if !binary.exists() {
        return Err(format!("{} is missing: cargo build --release -p server", binary.display()).into());
    }
    Ok(binary)
}

/// The object that a load printed.
pub(crate) fn last_line(output: &Output) -> Result<Value, Error> {
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("load failed: {text}{}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

/// A running server that is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    data: PathBuf,
    binary: PathBuf,
}

impl Server {
    pub(crate) fn start(data: &Path) -> Result<Self, Error> {
        let binary = binary()?;
        let child = Command::new(&binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(data)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, data: data.to_owned(), binary };
        let started = Instant::now();
        while !server.data.join("ready.json").exists() {
            if started.elapsed() > START_PATIENCE {
                return Err("the server does not get ready".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn address(&self) -> Result<SocketAddr, Error> {
        let ready: Value = serde_json::from_str(&std::fs::read_to_string(self.data.join("ready.json"))?)?;
        Ok(ready["native"].as_str().ok_or("no address in ready.json")?.parse()?)
    }

    /// Runs `ringpit load` and gives its last line.
    pub(crate) fn load(&self, arguments: &[&str]) -> Result<Value, Error> {
        let output = Command::new(&self.binary)
            .args(["load", "--json", "--data"])
            .arg(&self.data)
            .args(arguments)
            .output()?;
        last_line(&output)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn figure(result: &Value, percentile: &str) -> Result<f64, Error> {
    result["latency_us"][percentile].as_f64().ok_or_else(|| format!("no {percentile} in {result}").into())
}

pub(crate) fn rate_of(result: &Value) -> Result<f64, Error> {
    result["acked_per_second"].as_f64().ok_or_else(|| format!("no rate in {result}").into())
}

pub(crate) fn conditions(result: &Value) -> String {
    format!(
        "{} connections, window {}, 56-byte orders, client CPU {:.0}%",
        result["connections"],
        result["window"],
        100.0 * result["client_cpu_seconds"].as_f64().unwrap_or(f64::NAN)
            / result["seconds"].as_f64().unwrap_or(f64::NAN)
    )
}
