//! `ringpit cluster demo`: a cluster on loopback, each member a process of its own, for whoever wants to see one. It uses
//! nothing that an operator could not use: configuration files, `serve`, `cluster init`.

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use replicator::{Member, MemberId};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::wishes::Asked;
use crate::assembly;
use crate::config::{Config, Overrides};
use crate::error::CommandError;
use crate::files::{self, Readers};
use crate::http::client;
use crate::membership::Wish;
use crate::passwords::Passwords;
use crate::ready::Ready;
use crate::say;

/// How long a member may take to start, and the cluster to take orders.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long a member may take to stop.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(5);
/// From the first port to that of the members among each other, and to that of health and metrics.
const MEMBER_PORTS: u16 = 10;
const HTTP_PORTS: u16 = 20;
const PORT_MAX: u16 = u16::MAX - HTTP_PORTS - 9;

/// Run a cluster on this machine, to try it out: its members, founded, with demonstration users
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit cluster demo
  ringpit cluster demo --members 5 --data /tmp/five

It prints where the members are and how to trade. Ctrl-C stops all of them; the same command starts them again with all that
they had. Remove the folder to begin anew.")]
pub(super) struct DemoArgs {
    /// How many members
    #[arg(long, default_value = "3", value_parser = PossibleValuesParser::new(["1", "3", "5", "7"]).map(|text| text.parse::<u16>().unwrap_or(3)))]
    members: u16,
    /// Folder of the members' configurations and data
    #[arg(long, value_name = "DIR", default_value = "cluster-demo")]
    data: PathBuf,
    /// Clients connect to the ports behind this one, members talk on those 10 higher, health and metrics are 20 higher
    #[arg(long, value_name = "PORT", default_value_t = 4500, value_parser = clap::value_parser!(u16).range(1024..=i64::from(PORT_MAX)))]
    port: u16,
}

/// One member before it runs.
struct Seat {
    member: Member,
    /// Its configuration.
    file: PathBuf,
    /// Its data directory.
    data: PathBuf,
    http: SocketAddr,
    log: PathBuf,
}

/// A member's process. Dropping it kills it.
struct Running {
    seat: Seat,
    child: Child,
    /// Whether its end was told.
    told: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended can't be killed, and need not be.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the command.
pub(super) fn run(args: &DemoArgs) -> Result<(), CommandError> {
    // From here on Ctrl-C comes here, and to none of the members.
    let stop = signals()?;
    let seats = seats(args)?;
    let mut members = Vec::new();
    for seat in seats {
        members.push(start(seat)?);
    }
    for member in &mut members {
        wait_until_up(member)?;
    }
    let first = members.first().ok_or_else(|| CommandError::usage("a demo has at least one member"))?;
    let asked = Asked::of(&first.seat.data)?;
    if asked.look()?.role == "blank" {
        say!("{}", asked.wish(&Wish::Init { force: false })?);
    }
    asked.wait_for_leader()?;
    let leader = wait_until_ready(&mut members)?;
    tell(&members, leader);
    watch(&mut members, &stop);
    stop_all(members)
}

/// Tells of Ctrl-C and SIGTERM.
fn signals() -> Result<Receiver<()>, CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("signals: {error}"));
    let (asked, stop) = channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
    let (mut interrupt, mut terminate) = {
        let _inside = runtime.enter();
        (signal(SignalKind::interrupt()).map_err(failed)?, signal(SignalKind::terminate()).map_err(failed)?)
    };
    let wait = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        // Without a receiver the command has ended already.
        let _ = asked.send(());
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(failed)?;
    Ok(stop)
}

/// The members of the folder: those that an earlier demo made, or new ones.
fn seats(args: &DemoArgs) -> Result<Vec<Seat>, CommandError> {
    let folder = std::path::absolute(&args.data)
        .map_err(|error| CommandError::failed(format!("{}: {error}", args.data.display())))?;
    let made = (1..=9).take_while(|id| config_file(&folder, *id).exists()).count();
    if made == 0 {
        make(&folder, args)?;
    } else if made != usize::from(args.members) {
        return Err(CommandError::usage(format!(
            "{} holds a demo of {made} members: give --members {made}, or another folder with --data DIR",
            args.data.display()
        )));
    }
    (1..=args.members).map(|id| seat(&folder, id)).collect()
}

fn config_file(folder: &Path, id: u16) -> PathBuf {
    folder.join(format!("member-{id}")).join("ringpit.toml")
}

fn seat(folder: &Path, id: u16) -> Result<Seat, CommandError> {
    let file = config_file(folder, id);
    let config = Config::load(Some(&file), &Overrides::default())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let cluster = config.cluster.ok_or_else(|| {
        CommandError::usage(format!("{}: [cluster] is gone; remove the folder to begin anew", file.display()))
    })?;
    let log = file.with_file_name("log");
    Ok(Seat { member: cluster.member, file, data: config.data, http: config.http, log })
}

/// Writes the configurations, and the passwords that all members' demonstration users have.
fn make(folder: &Path, args: &DemoArgs) -> Result<(), CommandError> {
    let names = assembly::demonstration_names();
    let passwords = Passwords::random(&names);
    let list: Vec<String> = (1..=args.members).map(|id| founder(args.port, id)).collect();
    // Member 1 is written last: without it, the next start makes all of them again.
    for id in (1..=args.members).rev() {
        let file = config_file(folder, id);
        let data = file.with_file_name("data");
        let failed =
            |error: &dyn std::fmt::Display| CommandError::failed(format!("{}: {error}", file.display()));
        std::fs::create_dir_all(&data).map_err(|error| failed(&error))?;
        passwords.store(&data).map_err(|error| failed(&error))?;
        let text = configuration(args.port, id, &list);
        files::write_atomically(&file, text.as_bytes(), Readers::All).map_err(|error| failed(&error))?;
    }
    Ok(())
}

fn founder(port: u16, id: u16) -> String {
    let (address, clients) = (port + MEMBER_PORTS + id, port + id);
    format!("{{ id = {id}, address = \"127.0.0.1:{address}\", client_address = \"127.0.0.1:{clients}\" }}")
}

/// A member's configuration. Its capacities are small, so that several members fit on one machine.
fn configuration(port: u16, id: u16, founders: &[String]) -> String {
    let (clients, members, http) = (port + id, port + MEMBER_PORTS + id, port + HTTP_PORTS + id);
    format!(
        "# Member {id} of a demonstration cluster, made by `ringpit cluster demo`.\n\
         data = \"data\"\n\n\
         [journal]\nsegment_mib = 16\nreserve_mib = 64\n\n\
         [capacities]\norders = 1_000_000\nlevels = 100_000\ncl_ord_ids = 1_000_000\nsessions = 1_000\ninstruments = 1_000\n\n\
         [gateway]\nlisten = \"127.0.0.1:{clients}\"\n\n\
         [http]\nlisten = \"127.0.0.1:{http}\"\n\n\
         [cluster]\nmember = {id}\nlisten = \"127.0.0.1:{members}\"\nmembers = [\n    {},\n]\n",
        founders.join(",\n    ")
    )
}

/// Starts a member's process, away from this one's terminal group, so that Ctrl-C does not reach it.
fn start(seat: Seat) -> Result<Running, CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("member {}: {error}", seat.member.id));
    let binary = std::env::current_exe().map_err(failed)?;
    let log = File::options().create(true).append(true).open(&seat.log).map_err(failed)?;
    let child = Command::new(binary)
        .args(["serve", "--config"])
        .arg(&seat.file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    Ok(Running { seat, child, told: false })
}

impl Running {
    /// Why it ended, if it did.
    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        let text = std::fs::read_to_string(&self.seat.log).unwrap_or_default();
        let last = text.lines().last().unwrap_or("it said nothing");
        Some(format!("member {} ended ({status}): {last}", self.seat.member.id))
    }
}

fn wait_until_up(member: &mut Running) -> Result<(), CommandError> {
    let process = member.child.id();
    wait(std::slice::from_mut(member), "starts", |members| {
        let data = members.first().map(|member| member.seat.data.clone()).unwrap_or_default();
        Ready::of_data(&data).ok().flatten().is_some_and(|ready| ready.process == process).then_some(())
    })
}

/// Waits until one of them takes orders of the demonstration users; gives its number.
fn wait_until_ready(members: &mut [Running]) -> Result<MemberId, CommandError> {
    wait(members, "takes orders", |members| {
        let leader = members.iter().find(|member| {
            client::request(member.seat.http, "GET", "/readyz", None, "", TIMEOUT)
                .is_ok_and(|answer| answer.status == 200)
        })?;
        let status = client::request(leader.seat.http, "GET", "/status", None, "", TIMEOUT).ok()?;
        let status: serde_json::Value = serde_json::from_str(&status.body).ok()?;
        let users = status.get("sessions").and_then(serde_json::Value::as_u64)?;
        (users as usize >= assembly::demonstration_names().len()).then_some(leader.seat.member.id)
    })
}

/// Looks until there is something to be seen, while all are well.
fn wait<T>(
    members: &mut [Running],
    what: &str,
    mut look: impl FnMut(&[Running]) -> Option<T>,
) -> Result<T, CommandError> {
    let started = Instant::now();
    loop {
        if let Some(why) = members.iter_mut().find_map(Running::ended) {
            return Err(CommandError::failed(why));
        }
        if let Some(seen) = look(members) {
            return Ok(seen);
        }
        if started.elapsed() > START_PATIENCE {
            let log = members.first().map(|member| member.seat.log.display().to_string()).unwrap_or_default();
            return Err(CommandError::failed(format!(
                "no member {what} after {} s; see {log}",
                START_PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn tell(members: &[Running], leader: MemberId) {
    for Running { seat, child, .. } in members {
        let Seat { member, http, data, .. } = seat;
        let leads = if member.id == leader { ", leads" } else { "" };
        say!(
            "member {}: clients at {}, health and metrics at http://{http}, data in {}, process {}{leads}",
            member.id,
            member.client_address,
            data.display(),
            child.id()
        );
    }
    let Some(first) = members.first() else { return };
    let (data, file) = (first.seat.data.display(), first.seat.file.display());
    let addresses: Vec<&str> =
        members.iter().map(|member| member.seat.member.client_address.as_str()).collect();
    let clients = format!("--data {data} --connect {}", addresses.join(","));
    say!("");
    say!("trade:    ringpit trade {clients}");
    say!("load:     ringpit load {clients} --rate 1000 --seconds 60");
    say!("look:     ringpit cluster status --data {data}");
    say!("failover: kill -9 the leader's process; another member leads at once, and clients go on with it");
    say!("          ringpit serve --config {file}     starts member {} again", first.seat.member.id);
    say!("Ctrl-C stops all members; the same command starts them again with all that they had.");
}

/// Until asked to stop, tells of members that end.
fn watch(members: &mut [Running], stop: &Receiver<()>) {
    while stop.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        for member in members.iter_mut().filter(|member| !member.told) {
            if let Some(why) = member.ended() {
                member.told = true;
                say!("{why}");
                say!("start it again with: ringpit serve --config {}", member.seat.file.display());
            }
        }
    }
}

/// Asks all at once, so that nobody is elected only to stop next.
fn stop_all(mut members: Vec<Running>) -> Result<(), CommandError> {
    say!("stopping");
    for member in &members {
        // One that has ended needs no signal.
        let _ = kill_process(Pid::from_child(&member.child), Signal::TERM);
    }
    let started = Instant::now();
    while members.iter_mut().any(|member| matches!(member.child.try_wait(), Ok(None))) {
        if started.elapsed() > STOP_PATIENCE {
            return Err(CommandError::failed(format!(
                "not all members stopped within {} s; those are killed, and recover at the next start",
                STOP_PATIENCE.as_secs()
            )));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use protocol::UserName;

    use super::*;

    #[test]
    fn its_configurations_are_valid_and_agree() {
        let list: Vec<String> = (1..=3).map(|id| founder(4500, id)).collect();
        let mut founders = None;
        for id in 1..=3 {
            let text = configuration(4500, id, &list);
            let config = Config::from_text(&text, "ringpit.toml", Path::new("/demo"), &Overrides::default())
                .unwrap_or_else(|error| panic!("{error}\n{text}"));
            let cluster = config.cluster.expect("a member");
            assert_eq!(cluster.member.id, MemberId(id.into()));
            assert_eq!(*founders.get_or_insert_with(|| cluster.founders.clone()), cluster.founders);
        }
        assert_eq!(founders.map(|founders| founders.len()), Some(3));
    }

    #[test]
    fn everybody_who_trades_has_a_password() {
        let passwords = Passwords::random(&assembly::demonstration_names());
        assert!(passwords.of(&UserName::new("demo").expect("a name")).is_some());
    }
}
