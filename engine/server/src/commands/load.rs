//! `ringpit load`: sends orders at a rate or as fast as answers allow, and measures how long acknowledgements take. At a
//! rate it is an open loop: latency counts from the moment at which a request was due, so that a server that stalls can't
//! hide it. It must not make up for the server: what is not answered is counted as lost.

mod failover;
mod lane;
mod orders;
mod result;
mod verify;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{ClientConfig, Start};
use protocol::{Body, Role, SessionId, UserDefinition};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::lane::Lane;
use self::orders::{Grid, Mix, Orders};
use self::result::{Result as LoadResult, Tally};
use self::verify::Verified;
use super::connect::{self, ConnectArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;

/// Most connections of one process: one thread drives them all.
const CONNECTIONS_MAX: usize = 256;
/// Session of the first user that is made for `--connections` above one. Users are numbered on from it.
const SESSION_FIRST: u32 = 1_000_000;
/// Below this wait the thread looks again at once: a system call would take longer.
const SPIN: Duration = Duration::from_micros(20);
/// Requests submitted to one lane before its socket is served.
const BURST: u64 = 512;

/// Send orders at a rate, or flat out, and measure the acknowledgements
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit load --rate 10000 --seconds 10            10,000 requests a second, latency from when each was due
  ringpit load --orders 1000000 --window 4096       as fast as the window allows
  ringpit load --connections 4 --seconds 10         four sessions; --operator makes their users
  ringpit load --rate 1000 --seconds 60 --resend --outcomes out.csv    goes on across restarts of the server
  ringpit load --connect a:7000,b:7000,c:7000 --rate 1000 --seconds 60 --verify    goes from leader to leader

The exit status is 0 only if every request has exactly one outcome. A run that breaks off still tells what it measured; its
JSON then has \"complete\": false.")]
pub struct LoadArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// User of the one connection
    #[arg(long, default_value = "demo")]
    user: String,
    /// Connections, each with a session of its own; above 1 the operator makes users for them
    #[arg(long, value_name = "N", default_value_t = 1)]
    connections: usize,
    /// Operator that makes the users
    #[arg(long, value_name = "USER", default_value = "admin")]
    operator: String,
    /// Requests a second over all connections; without it as fast as the windows allow
    #[arg(long, value_name = "N", value_parser = connect::rate())]
    rate: Option<u64>,
    /// Requests that each connection has in flight at most
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = connect::window)]
    window: usize,
    /// Seconds to send for [default: 10, unless --orders is given]
    #[arg(long, value_name = "S", value_parser = connect::seconds())]
    seconds: Option<u64>,
    /// Requests to send
    #[arg(long, value_name = "N")]
    orders: Option<u64>,
    /// Seconds at the start that are not measured
    #[arg(long, value_name = "S", default_value_t = 0, value_parser = connect::seconds())]
    warm_up: u64,
    /// Symbol of the instrument
    #[arg(long, default_value = "BTCUSD")]
    instrument: String,
    /// Shares of new orders, cancels and replaces
    #[arg(long, value_name = "N:C:R", default_value = "50:40:10")]
    mix: Mix,
    /// Of 100 new orders, how many are priced to trade
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    cross: u32,
    /// Price around which orders are placed [default: the middle of the instrument's limits, at most 50,000 units]
    #[arg(long, value_name = "PRICE")]
    mid: Option<String>,
    /// Seed of the orders
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on when a connection is lost: connect again and send again what the server has not seen. With several members
    /// that is always so
    #[arg(long)]
    resend: bool,
    /// At the end, read all reports of each session from number 1, and hold them against what was told of each request
    #[arg(long)]
    verify: bool,
    /// Seconds to wait for the last outcomes
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = connect::seconds())]
    drain: u64,
    /// Write the latencies as an HdrHistogram percentile table, in microseconds
    #[arg(long, value_name = "FILE")]
    histogram: Option<PathBuf>,
    /// Write each outcome once: user, request, outcome, report number, reason
    #[arg(long, value_name = "FILE")]
    outcomes: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

impl LoadArgs {
    /// Whether the load goes on when a connection is lost.
    fn goes_on(&self) -> bool {
        self.resend || self.connect.is_cluster()
    }
}

/// When requests are due.
struct Schedule {
    start: Instant,
    rate: Option<u64>,
    /// `None` without a bound.
    requests: Option<u64>,
    end: Option<Instant>,
    measure_from: Instant,
}

impl Schedule {
    fn new(args: &LoadArgs) -> Self {
        let start = Instant::now();
        let seconds = args.seconds.or(args.orders.is_none().then_some(10));
        Self {
            start,
            rate: args.rate,
            requests: args.orders,
            end: seconds.map(|seconds| start + Duration::from_secs(seconds)),
            measure_from: start + Duration::from_secs(args.warm_up),
        }
    }

    /// When request `n`, from 0, is due; `None` where it is not to be sent at all.
    fn due(&self, n: u64, now: Instant) -> Option<Instant> {
        if self.requests.is_some_and(|requests| n >= requests) {
            return None;
        }
        let due = match self.rate {
            Some(rate) => {
                self.start + Duration::from_nanos((u128::from(n) * 1_000_000_000 / u128::from(rate)) as u64)
            }
            None => now,
        };
        self.end.is_none_or(|end| due < end).then_some(due)
    }
}

/// Runs the command.
///
/// # Errors
/// A connection that can't be made, or a request that was lost or answered twice.
pub fn run(args: &LoadArgs) -> Result<(), CommandError> {
    check(args)?;
    // A file that can't be written is found out before the run, not behind it.
    let mut outcomes = args.outcomes.as_ref().map(create).transpose()?;
    let histogram = args.histogram.as_ref().map(create).transpose()?;
    let mut lanes = lanes(args)?;
    let mut tally = Tally::new();
    let schedule = Schedule::new(args);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let mut ran = send(&schedule, &mut lanes, &mut tally, &mut outcomes);
    let sending = schedule.start.elapsed();
    if ran.is_ok() {
        ran = drain(args, &schedule, &mut lanes, &mut tally, &mut outcomes);
    }
    let took = schedule.start.elapsed();
    // What was measured is told also where the run broke off, or a file could not be written to its end.
    let mut ran =
        ran.and(write(outcomes, "the outcomes", |_| Ok(())))
            .and(write(histogram, "the histogram", |file| tally.write_percentiles(file)));
    let mut result = LoadResult::new(args, &lanes, &tally, sending, took, cpu);
    if args.verify && ran.is_ok() {
        ran = verify(args, lanes).map(|verified| result.verified = Some(verified));
    }
    result.complete = ran.is_ok();
    result.print();
    args.output.last_line(&result.json());
    ran.and_then(|()| result.verdict())
}

/// Compares what was told with the reports of each session.
fn verify(args: &LoadArgs, lanes: Vec<Lane>) -> Result<Verified, CommandError> {
    let mut all = Verified::default();
    for lane in lanes {
        let Verified { reports, answers } = lane.verify(Duration::from_secs(args.connect.patience))?;
        all.reports += reports;
        all.answers += answers;
    }
    Ok(all)
}

/// Writes what is left to write into a file, if there is one.
fn write(
    file: Option<BufWriter<File>>,
    name: &str,
    content: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), CommandError> {
    let Some(mut file) = file else { return Ok(()) };
    content(&mut file)
        .and_then(|()| file.flush())
        .map_err(|error| CommandError::failed(format!("{name}: {error}")))
}

fn check(args: &LoadArgs) -> Result<(), CommandError> {
    if args.connections == 0 || args.connections > CONNECTIONS_MAX {
        return Err(CommandError::usage(format!("--connections: 1 to {CONNECTIONS_MAX}")));
    }
    if args.cross > 100 {
        return Err(CommandError::usage("--cross is at most 100"));
    }
    Ok(())
}

fn create(path: &PathBuf) -> Result<BufWriter<File>, CommandError> {
    let file =
        File::create(path).map_err(|error| CommandError::failed(format!("{}: {error}", path.display())))?;
    Ok(BufWriter::new(file))
}

/// Connects every lane.
fn lanes(args: &LoadArgs) -> Result<Vec<Lane>, CommandError> {
    let configs = match args.connections {
        1 => vec![args.connect.config(&args.user)?],
        _ => make_users(args)?,
    };
    let mut lanes = Vec::new();
    for (at, mut config) in configs.into_iter().enumerate() {
        config.window = args.window;
        config.reconnect = args.goes_on();
        let mut client = args.connect.connect(config.clone())?;
        let definition = connect::instrument(&mut client, &args.instrument)?;
        let grid = Grid::new(&definition, args.mid.as_deref()).map_err(CommandError::usage)?;
        let orders = Orders::new(args.seed.wrapping_add(at as u64), grid, args.mix, args.cross);
        lanes.push(Lane::new(config, client, orders, args.verify));
    }
    Ok(lanes)
}

/// Lets the operator make a user with a random password for each connection.
fn make_users(args: &LoadArgs) -> Result<Vec<ClientConfig>, CommandError> {
    let operator = ClientConfig { start: Start::New, ..args.connect.config(&args.operator)? };
    let mut operator = args.connect.connect(operator)?;
    let mut random = StdRng::from_rng(&mut rand::rng());
    let mut users = Vec::new();
    let mut bodies = Vec::new();
    for at in 0..args.connections {
        let name = connect::user_name(&format!("ld{at:04}"))?;
        let password: String = (0..10).map(|_| char::from(random.random_range(b'a'..=b'z'))).collect();
        let credential = gateway::credentials::hash(&password, random.random())
            .map_err(|error| CommandError::failed(error.to_string()))?;
        bodies.push(Body::PutUser(UserDefinition {
            session: SessionId(SESSION_FIRST + at as u32),
            name,
            credential,
            role: Role::Trader,
            enabled: true,
            cancel_on_disconnect: false,
            grace_ms: 0,
        }));
        users.push(args.connect.config_with(name, &password)?);
    }
    super::ctl::perform(&mut operator, &bodies)?;
    operator.logout(Duration::from_secs(5), |_| {}).map_err(connect::failed)?;
    Ok(users)
}

type Outcomes = Option<BufWriter<File>>;

/// Sends what is due until all is sent.
fn send(
    schedule: &Schedule,
    lanes: &mut [Lane],
    tally: &mut Tally,
    outcomes: &mut Outcomes,
) -> Result<(), CommandError> {
    let mut next = 0;
    let mut turn = 0;
    loop {
        let now = Instant::now();
        let mut wait = None;
        let mut refused = 0;
        // A lane whose window is full passes its turn; once all have, answers must come first.
        for _ in 0..BURST * lanes.len() as u64 {
            let Some(due) = schedule.due(next, now) else {
                return serve(lanes, tally, outcomes, schedule.measure_from).map(drop);
            };
            if due > now {
                wait = Some(due - now);
                break;
            }
            let count = lanes.len();
            if lanes[turn % count].submit(due) {
                next += 1;
                refused = 0;
            } else {
                refused += 1;
            }
            turn += 1;
            if refused == count {
                wait = Some(Duration::from_millis(50));
                break;
            }
        }
        let waiting = pending(lanes);
        serve(lanes, tally, outcomes, schedule.measure_from)?;
        // Answers have made room in a window: whoever waits for more of them now may wait in vain.
        if pending(lanes) < waiting {
            continue;
        }
        if let Some(wait) = wait.filter(|wait| *wait > SPIN) {
            let passed = now.elapsed();
            idle(lanes, wait.saturating_sub(passed));
        }
    }
}

fn pending(lanes: &[Lane]) -> usize {
    lanes.iter().map(Lane::pending).sum()
}

/// Waits for the outcomes that are still due.
fn drain(
    args: &LoadArgs,
    schedule: &Schedule,
    lanes: &mut [Lane],
    tally: &mut Tally,
    outcomes: &mut Outcomes,
) -> Result<(), CommandError> {
    let deadline = Instant::now() + Duration::from_secs(args.drain);
    while lanes.iter().any(|lane| lane.pending() > 0) && Instant::now() < deadline {
        serve(lanes, tally, outcomes, schedule.measure_from)?;
        idle(lanes, Duration::from_millis(50));
    }
    Ok(())
}

/// Writes what waits and takes what came, on every lane; whether anything came.
fn serve(
    lanes: &mut [Lane],
    tally: &mut Tally,
    outcomes: &mut Outcomes,
    measure_from: Instant,
) -> Result<bool, CommandError> {
    let mut heard = false;
    for lane in lanes {
        heard |= lane.serve(tally, outcomes, measure_from)?;
    }
    Ok(heard)
}

/// Waits until a lane has something to read, or the time is over.
fn idle(lanes: &[Lane], wait: Duration) {
    let next_look = lanes.iter().map(|lane| lane.client().next_look()).min().unwrap_or(wait);
    let wait = wait.min(Duration::from_millis(50)).min(next_look);
    let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(lanes.len());
    for lane in lanes {
        let Some(fd) = lane.client().as_fd() else { continue };
        let flags = if lane.client().wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        polled.push(PollFd::from_borrowed_fd(fd, flags));
    }
    let limit = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: wait.subsec_nanos().into() };
    // A wait that ends early does no harm: the lanes are served again.
    let _ = poll(&mut polled, Some(&limit));
}
