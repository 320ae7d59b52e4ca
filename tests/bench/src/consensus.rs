//! The consensus alone, with our log store and transport, in this process: one and three members, entries of 1, 64 and
//! 1,024 frames, in memory and on the disk. One entry at a time for its latency, eight on their way for the rate.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hdrhistogram::Histogram;
use journaler::storage::RealStorage;
use journaler::{Durability, Journal, JournalOptions, SharedStorage};
use protocol::{SLOT_LENGTH, Sequence};
use replicator::tcp::{Handler, Security, ServeLimits, TcpTransport, serve};
use replicator::{
    Blank, Cluster, ClusterOptions, Feed, Hooks, JournalMonitor, Lead, Member, MemberId, Proposal,
    ProposalSender, SnapshotFolder, Start, Timing, Transport, Versions, WriterHome, prepare, proposals,
};
use ring::WakeSet;

use crate::machine::DURABLE_WRITE;
use crate::table::{Row, Table};

type Error = Box<dyn std::error::Error>;

/// Longest wait for a leader, or for an entry.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was fed, and a bell for whoever waits for it.
struct Counter {
    fed: Arc<AtomicU64>,
    bell: mpsc::Sender<()>,
}

impl Feed for Counter {
    fn push(&mut self, frames: &[u8]) -> usize {
        self.fed.fetch_add((frames.len() / SLOT_LENGTH) as u64, Ordering::AcqRel);
        // Nobody waits at the end.
        let _ = self.bell.send(());
        frames.len()
    }

    fn fed(&self) -> Sequence {
        Sequence(self.fed.load(Ordering::Acquire))
    }
}

struct Quiet;

impl JournalMonitor for Quiet {
    fn appended(&mut self, _frames: u64, _took: Duration) {}
    fn space_low(&mut self, _low: bool) {}
    fn durable(&mut self, _sequence: Sequence) {}
}

struct NoSnapshots;

impl SnapshotFolder for NoSnapshots {
    fn newest_first(&self) -> Vec<Sequence> {
        Vec::new()
    }

    fn path(&self, sequence: Sequence) -> String {
        sequence.to_string()
    }
}

struct Place {
    member: Member,
    storage: SharedStorage,
    listener: TcpListener,
}

struct Running {
    cluster: Cluster,
    lead: Lead,
    proposals: ProposalSender,
    fed: Arc<AtomicU64>,
    bell: mpsc::Receiver<()>,
}

fn versions() -> Versions {
    Versions { binary: "bench".into(), journal: journaler::JOURNAL_FORMAT_VERSION, rulebook: 1 }
}

fn place(folder: &Path, id: u64) -> Result<Place, Error> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?.to_string();
    let storage = Arc::new(RealStorage::create(folder.join(id.to_string()))?);
    let member = Member { id: MemberId(id), client_address: address.clone(), address, zone: String::new() };
    Ok(Place { member, storage, listener })
}

/// Founds a cluster of these, over their sockets.
fn found(places: &[Place]) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let members: Vec<Member> = places.iter().map(|place| place.member.clone()).collect();
    runtime.block_on(async {
        let transport = TcpTransport::new(&Security::Clear)?;
        let mut first = None;
        for place in places {
            let blank = Arc::new(Blank::new(Arc::clone(&place.storage), place.member.clone(), versions()));
            first.get_or_insert_with(|| Arc::clone(&blank));
            let listener = tokio::net::TcpListener::from_std(place.listener.try_clone()?)?;
            let handler: Handler = Arc::new(move |envelope| {
                let blank = Arc::clone(&blank);
                Box::pin(async move { blank.handle(envelope).await })
            });
            let limits = ServeLimits::default();
            tokio::spawn(serve(listener, transport.clone(), limits, handler, std::future::pending()));
        }
        let transport: Arc<dyn Transport> = Arc::new(transport);
        if let Some(first) = first {
            first.found(&members, true, &transport).await?;
        }
        Ok::<_, Error>(())
    })
}

fn start(place: &Place, durability: Durability) -> Result<Running, Error> {
    let mut options = JournalOptions { durability, summarize: true, ..JournalOptions::new(0) };
    let Start::Member(mut prepared) = prepare(&place.storage, place.member.id, &options, 1, false)? else {
        return Err("the member was not founded".into());
    };
    options.cluster_id = prepared.cluster();
    let (journal, recovery) = Journal::open(Arc::clone(&place.storage), options)?;
    prepared.judge(&journal, &recovery, durability, "boot")?;
    let (fed, lead) = (Arc::new(AtomicU64::new(0)), Lead::new());
    let (bell, rung) = mpsc::channel();
    let (sender, receiver) = proposals(WakeSet::default());
    let transport = TcpTransport::new(&Security::Clear)?;
    let cluster = Cluster::spawn(ClusterOptions {
        member: place.member.clone(),
        timing: Timing::default(),
        durability,
        versions: versions(),
        transport: Arc::new(transport.clone()),
        storage: Arc::clone(&place.storage),
        prepared: *prepared,
        journal,
        summary: recovery.log.ok_or("a journal without a summary")?,
        applied: Sequence(0),
        feed: Box::new(Counter { fed: Arc::clone(&fed), bell }),
        proposals: receiver,
        monitor: Box::new(Quiet),
        snapshots: Arc::new(NoSnapshots),
        lead: lead.clone(),
        needed_from: Arc::default(),
        hooks: Hooks {
            checkpoints: Box::new(Vec::new),
            commit_took: Box::new(|_| ()),
            confirmed: Box::new(|_| ()),
            sequence: Box::new(Sequence::default),
            diverged: Box::new(|_| ()),
            fatal: Box::new(|line| eprintln!("{line}")),
            restart: Box::new(|| ()),
            secret: Vec::new(),
            told_secret: Box::new(|_| ()),
        },
        seed: place.member.id.0,
        writer: WriterHome::Thread,
    })?;
    let answering = cluster.clone();
    let handler: Handler = Arc::new(move |envelope| answering.handle(envelope));
    let listener = place.listener.try_clone()?;
    let runtime = cluster.runtime().ok_or("a consensus without a thread")?;
    runtime.spawn(async move {
        match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => {
                serve(listener, transport, ServeLimits::default(), handler, std::future::pending()).await;
            }
            Err(error) => eprintln!("{error}"),
        }
    });
    Ok(Running { cluster, lead, proposals: sender, fed, bell: rung })
}

fn entry(frames: usize) -> Bytes {
    let mut bytes = vec![0; frames * SLOT_LENGTH];
    for slot in bytes.chunks_mut(SLOT_LENGTH) {
        slot[0] = SLOT_LENGTH as u8;
    }
    bytes.into()
}

impl Running {
    fn wait_for(&self, fed: u64) -> Result<(), Error> {
        while self.fed.load(Ordering::Acquire) < fed {
            self.bell.recv_timeout(PATIENCE)?;
        }
        Ok(())
    }

    fn propose(&self, frames: &Bytes) -> Result<bool, Error> {
        let term = self.lead.term().ok_or("leadership was lost; the machine is too busy to measure on")?;
        Ok(self.proposals.try_propose(Proposal { term, frames: frames.clone() }).is_ok())
    }

    /// Nanoseconds from an entry's proposal until it is fed, one at a time.
    fn latency(&self, frames: usize, entries: usize) -> Result<Histogram<u64>, Error> {
        let bytes = entry(frames);
        let mut histogram = crate::machine::new_histogram();
        for _ in 0..entries {
            let fed = self.fed.load(Ordering::Acquire);
            let started = Instant::now();
            while !self.propose(&bytes)? {
                std::thread::yield_now();
            }
            self.wait_for(fed + frames as u64)?;
            histogram.saturating_record(started.elapsed().as_nanos() as u64);
        }
        Ok(histogram)
    }

    /// Frames a second with as many entries on their way as are taken.
    fn rate(&self, frames: usize, for_time: Duration) -> Result<f64, Error> {
        let bytes = entry(frames);
        let first = self.fed.load(Ordering::Acquire);
        let started = Instant::now();
        let mut proposed = 0;
        while started.elapsed() < for_time {
            if self.propose(&bytes)? {
                proposed += frames as u64;
            } else {
                // Rung for each entry that was fed.
                self.bell.recv_timeout(PATIENCE)?;
            }
        }
        self.wait_for(first + proposed)?;
        Ok(proposed as f64 / started.elapsed().as_secs_f64())
    }
}

fn leader(all: &[Running]) -> Result<&Running, Error> {
    let started = Instant::now();
    loop {
        if let Some(leader) = all.iter().find(|member| member.lead.is_confirmed()) {
            return Ok(leader);
        }
        if started.elapsed() > PATIENCE {
            return Err("no leader".into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs the rows `consensus/*`.
pub(crate) fn run(table: &mut Table, folder: &Path, quick: bool) -> Result<(), Error> {
    let raw = table.value(DURABLE_WRITE).unwrap_or(f64::NAN);
    let (entries, time) = if quick { (200, 500) } else { (2_000, 3_000) };
    let counts: &[u64] = if quick { &[3] } else { &[1, 3] };
    for &members in counts {
        for durability in [Durability::Memory, Durability::Disk] {
            let level = match durability {
                Durability::Memory => "memory",
                Durability::Disk => "quorum",
            };
            let data = folder.join(format!("consensus-{members}-{level}"));
            let places = (1..=members).map(|id| place(&data, id)).collect::<Result<Vec<_>, _>>()?;
            found(&places)?;
            let all = places.iter().map(|place| start(place, durability)).collect::<Result<Vec<_>, _>>()?;
            let leader = leader(&all)?;
            for frames in [1, 64, 1_024] {
                let latency = leader.latency(frames, entries)?;
                let name = format!("consensus/{members}-{level}-{frames}");
                let p50 = latency.value_at_quantile(0.5) as f64 / 1e3;
                let p99 = latency.value_at_quantile(0.99) as f64 / 1e3;
                table.push(
                    Row::new(format!("{name}-p50"), p50, "us")
                        .against("a durable write of 4 KiB", raw)
                        .note(format!("one entry at a time, p99 {p99:.0} us")),
                );
                let rate = leader.rate(frames, Duration::from_millis(time))?;
                table
                    .push(Row::new(format!("{name}-rate"), rate, "frames/s").note("entries on their way: 8"));
            }
            for member in &all {
                member.cluster.kill();
                member.cluster.join();
            }
            drop(all);
            // The journal's thread may be preparing a file still; what is left goes with the run's folder.
            let _ = std::fs::remove_dir_all(&data);
        }
    }
    Ok(())
}
