//! What a cluster costs: three members as processes of the real binary, beside one server alone, under the same load on
//! the same machine; and how long an order waits when leadership is handed over or its leader is killed.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::table::{Row, Table};
use crate::tcp::{binary, conditions, figure, last_line, rate_of};

type Error = Box<dyn std::error::Error>;

const PATIENCE: Duration = Duration::from_secs(60);
/// Hand-overs, and kills, under one load.
const CHANGES: usize = 20;

struct Member {
    child: Child,
    data: PathBuf,
    config: PathBuf,
    native: String,
    http: String,
}

/// Servers that belong together; killed when this is dropped.
struct Venue {
    members: Vec<Member>,
    binary: PathBuf,
}

impl Drop for Venue {
    fn drop(&mut self) {
        for member in &mut self.members {
            // One that has ended can't be killed, and need not be.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    let held = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>()?;
    held.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn spawn(binary: &Path, member: &(PathBuf, PathBuf, String, String)) -> Result<Child, Error> {
    let (data, config, native, http) = member;
    let child = Command::new(binary)
        .args(["serve", "--listen", native, "--http", http, "--config"])
        .arg(config)
        .arg("--data")
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(child)
}

impl Venue {
    /// `members` members at a level, or one server alone.
    fn start(folder: &Path, members: usize, level: &str) -> Result<Self, Error> {
        let binary = binary()?;
        let ports = free_ports(3 * members)?;
        let address = |member: usize, place: usize| format!("127.0.0.1:{}", ports[3 * member + place]);
        let founders: Vec<String> = (0..members)
            .map(|member| {
                let (own, clients) = (address(member, 1), address(member, 0));
                format!("{{ id = {}, address = \"{own}\", client_address = \"{clients}\" }}", member + 1)
            })
            .collect();
        let mut venue = Self { members: Vec::new(), binary };
        for member in 0..members {
            let own = folder.join(format!("member-{}", member + 1));
            std::fs::create_dir_all(&own)?;
            let config = own.join("ringpit.toml");
            let text = if members == 1 {
                format!("[journal]\ndurability = \"{level}\"\n")
            } else {
                format!(
                    "[cluster]\nmember = {}\nlisten = \"{}\"\nclient_address = \"{}\"\ndurability = \"{level}\"\nmembers = [{}]\n",
                    member + 1,
                    address(member, 1),
                    address(member, 0),
                    founders.join(", ")
                )
            };
            std::fs::write(&config, text)?;
            let places = (own.join("data"), config, address(member, 0), address(member, 2));
            let child = spawn(&venue.binary, &places)?;
            let (data, config, native, http) = places;
            venue.members.push(Member { child, data, config, native, http });
        }
        for member in 0..members {
            venue.wait_until("a server is up", || venue.members[member].data.join("ready.json").exists())?;
        }
        if members > 1 {
            venue.run(0, &["cluster", "init"])?;
        }
        venue.leader()?;
        // The first leader makes the users and keeps their passwords.
        venue.wait_until("there are users", || venue.load(&["--orders", "1"]).is_ok())?;
        Ok(venue)
    }

    fn wait_until(&self, what: &str, reached: impl Fn() -> bool) -> Result<(), Error> {
        let started = Instant::now();
        while !reached() {
            if started.elapsed() > PATIENCE {
                return Err(format!("waited too long until {what}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn run(&self, member: usize, arguments: &[&str]) -> Result<Output, Error> {
        let output = Command::new(&self.binary)
            .args(arguments)
            .arg("--data")
            .arg(&self.members[member].data)
            .output()?;
        if !output.status.success() {
            return Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(output)
    }

    /// Who takes orders.
    fn leader(&self) -> Result<usize, Error> {
        let started = Instant::now();
        loop {
            for (number, member) in self.members.iter().enumerate() {
                let address = member.http.parse()?;
                let answer = server::http::client::request(
                    address,
                    "GET",
                    "/readyz",
                    None,
                    "",
                    Duration::from_secs(1),
                );
                if answer.is_ok_and(|answer| answer.status == 200) {
                    return Ok(number);
                }
            }
            if started.elapsed() > PATIENCE {
                return Err("no leader".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Entries that one member lacks of another's log.
    fn lag_of(&self, leader: usize, other: usize) -> Result<u64, Error> {
        let address = self.members[leader].http.parse()?;
        let patience = Duration::from_secs(5);
        let answer = server::http::client::request(address, "GET", "/status", None, "", patience)?;
        let status: Value = serde_json::from_str(&answer.body)?;
        status["cluster"]["members"][other]["lag_entries"].as_u64().ok_or_else(|| "no lag is told".into())
    }

    fn load_command(&self, arguments: &[&str]) -> Result<Command, Error> {
        let addresses: Vec<&str> = self.members.iter().map(|member| member.native.as_str()).collect();
        let keeper = self
            .members
            .iter()
            .find(|member| member.data.join("demonstration-passwords").exists())
            .ok_or("nobody has made the users yet")?;
        let mut command = Command::new(&self.binary);
        command
            .args(["load", "--json", "--connect", &addresses.join(","), "--data"])
            .arg(&keeper.data)
            .args(arguments);
        Ok(command)
    }

    fn load(&self, arguments: &[&str]) -> Result<Value, Error> {
        last_line(&self.load_command(arguments)?.output()?)
    }
}

/// Runs the rows `cluster/*`.
pub(crate) fn run(table: &mut Table, folder: &Path, quick: bool) -> Result<(), Error> {
    let seconds = if quick { "3" } else { "10" };
    for (alone, cluster) in [("disk", "quorum"), ("memory", "memory")] {
        let mut figures = Vec::new();
        for (members, level) in [(1, alone), (3, cluster)] {
            let data = folder.join(format!("cluster-{members}-{level}"));
            let venue = Venue::start(&data, members, level)?;
            let single = venue.load(&["--window", "1", "--seconds", seconds])?;
            let paced = venue.load(&["--rate", "5000", "--seconds", seconds, "--warm-up", "1"])?;
            let flat = venue.load(&["--window", "16384", "--seconds", seconds])?;
            figures.push((
                figure(&single, "p50")?,
                figure(&paced, "p99")?,
                rate_of(&flat)?,
                conditions(&flat),
            ));
            drop(venue);
            std::fs::remove_dir_all(&data)?;
        }
        let [one, three] = &figures[..] else { unreachable!("one and three") };
        let against = format!("one alone at {alone}");
        let row = |name: &str, value, unit| Row::new(format!("cluster/{cluster}-{name}"), value, unit);
        table.push(
            row("one-at-a-time-p50", three.0, "us").against(&*against, one.0).note("3 members, window 1"),
        );
        table.push(row("5000-per-second-p99", three.1, "us").against(&*against, one.1).note("3 members"));
        table.push(row("flat-out", three.2, "orders/s").against(&*against, one.2).note(three.3.clone()));
    }
    catching_up(table, folder, seconds)?;
    changes(table, folder, quick)
}

/// What clients feel of a member that catches up: the same paced load on two members alone, and while the third is sent all
/// that it lacks.
fn catching_up(table: &mut Table, folder: &Path, seconds: &str) -> Result<(), Error> {
    let data = folder.join("cluster-catching-up");
    let mut venue = Venue::start(&data, 3, "quorum")?;
    let leader = venue.leader()?;
    let behind = (leader + 1) % 3;
    venue.members[behind].child.kill()?;
    venue.members[behind].child.wait()?;
    venue.load(&["--window", "16384", "--seconds", seconds])?;
    let paced = ["--rate", "5000", "--seconds", seconds, "--warm-up", "1"];
    let without = figure(&venue.load(&paced)?, "p99")?;
    let places = {
        let member = &venue.members[behind];
        (member.data.clone(), member.config.clone(), member.native.clone(), member.http.clone())
    };
    venue.members[behind].child = spawn(&venue.binary, &places)?;
    let with = figure(&venue.load(&paced)?, "p99")?;
    let lag = venue.lag_of(leader, behind)?;
    let note = format!("5,000 a second; goal: at most doubled; {lag} entries were lacking at the end");
    table.push(
        Row::new("cluster/catching-up-5000-per-second-p99", with, "us")
            .against("the third away", without)
            .note(note),
    );
    drop(venue);
    std::fs::remove_dir_all(&data)?;
    Ok(())
}

/// Leadership handed over, and leaders killed, under load: the time from the last acknowledgement to the next.
fn changes(table: &mut Table, folder: &Path, quick: bool) -> Result<(), Error> {
    let wanted = if quick { 5 } else { CHANGES };
    for kill in [false, true] {
        let data = folder.join("cluster-changes");
        let mut venue = Venue::start(&data, 3, "quorum")?;
        let seconds = (wanted * 2 + 3).to_string();
        let load = venue
            .load_command(&["--rate", "2000", "--resend", "--seconds", &seconds])?
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        for _ in 0..wanted {
            std::thread::sleep(Duration::from_millis(1_000));
            let leader = venue.leader()?;
            if kill {
                let member = &mut venue.members[leader];
                member.child.kill()?;
                member.child.wait()?;
                let places =
                    (member.data.clone(), member.config.clone(), member.native.clone(), member.http.clone());
                member.child = spawn(&venue.binary, &places)?;
            } else {
                venue.run(leader, &["cluster", "hand-over"])?;
            }
        }
        let result = last_line(&load.wait_with_output()?)?;
        let gap = |what: &str| result["failover_ms"][what].as_f64().ok_or("no failover was seen");
        let name = if kill { "leader-killed" } else { "hand-over" };
        let goal = if kill { ("1 s", 1_000.0) } else { ("10 ms aimed at", 10.0) };
        table.push(Row::new(format!("cluster/{name}-p50"), gap("p50")?, "ms"));
        table.push(Row::new(format!("cluster/{name}-p99"), gap("p99")?, "ms").against(goal.0, goal.1).note(
            format!("{} times, {} lost, at a client with its login", result["failovers"], result["lost"]),
        ));
        drop(venue);
        std::fs::remove_dir_all(&data)?;
    }
    Ok(())
}
