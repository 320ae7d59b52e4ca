//! The whole pipeline in this process: frames published into the input ring, journaled, decoded, applied, reported;
//! then the same journal replayed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use exchange::{EventSink, Exchange};
use journaler::storage::{RealStorage, SharedStorage};
use journaler::{Durability, JournalReader};
use pipeline::{Engine, EngineConfig, EngineHandle, Muted};
use protocol::{Command, Output, SLOT_LENGTH, Sequence};
use ring::{Ingress, PublishError};

use crate::table::{Row, Table};
use crate::venue::{CONNECTION, SESSION, command, login, setup};
use crate::workload::{Message, Scenario, generate};

const CLUSTER: u128 = 1;
/// Frames published in one claim.
const CLAIM_FRAMES: usize = 64;
/// Longest wait for the engine to come to an end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Error of any of the parts.
pub(crate) type Error = Box<dyn std::error::Error>;

/// Runs the rows `pipeline/memory`, `pipeline/disk` and `replay/*` with about `frames` frames.
pub(crate) fn run(table: &mut Table, folder: &Path, frames: u64, seed: u64) -> Result<(), Error> {
    let messages = generate(Scenario::NormalDay, frames * 2 / 5, seed);
    for durability in [Durability::Memory, Durability::Disk] {
        let name = match durability {
            Durability::Memory => "memory",
            Durability::Disk => "disk",
        };
        let data = folder.join(name);
        let storage: SharedStorage = Arc::new(RealStorage::create(&data)?);
        let (rate, batch) = pipeline(&storage, &config(durability), &messages)?;
        table.push(
            Row::new(format!("pipeline/{name}"), rate, "commands/s").against("6 M/s aimed at", 6e6).note(
                format!("{} frames, one publisher; {batch:.0} frames a batch (median)", messages.len()),
            ),
        );
        if durability == Durability::Disk {
            table.push(
                Row::new("replay/journal", replay(&storage)?, "frames/s").against("5 M/s aimed at", 5e6),
            );
            table.push(Row::new("replay/start", reopen(&storage, durability)?, "frames/s").note(
                "what a start does: verify, snapshot if any, replay, report log written again where it isn't durable",
            ));
        }
        std::fs::remove_dir_all(&data)?;
    }
    Ok(())
}

/// The defaults at a level of durability.
pub(crate) fn config(durability: Durability) -> EngineConfig {
    let mut config = EngineConfig::new(CLUSTER);
    config.journal.durability = durability;
    config
}

/// Pushes the messages through an engine; frames a second, and frames a journal batch.
pub(crate) fn pipeline(
    storage: &SharedStorage,
    config: &EngineConfig,
    messages: &[Message],
) -> Result<(f64, f64), Error> {
    let opened = Engine::open(storage.clone(), config, &mut |_| ())?;
    let engine = Engine::start(config, opened, Box::new(Muted))?;
    let mut ingress = engine.ingress();
    for command in setup().map(|body| Command { body, ..Command::default() }).iter().chain([&login()]) {
        let writer = command.encode().expect("commands made here have frames");
        publish(&mut ingress, &[writer.as_bytes()]);
    }
    let slots: Vec<_> =
        messages.iter().enumerate().map(|(at, message)| frame(&command(message, at as u64 + 1))).collect();
    let frames: Vec<&[u8]> = slots.iter().map(unpadded).collect();
    let started = Instant::now();
    for claim in frames.chunks(CLAIM_FRAMES) {
        publish(&mut ingress, claim);
    }
    wait_for(&engine, messages.len() as u64);
    let rate = messages.len() as f64 / started.elapsed().as_secs_f64();
    let batch = engine.view().journal().batch_frames.snapshot().quantile(500) as f64;
    drop(ingress);
    let stopped = engine.stop(PATIENCE);
    assert!(stopped.drained, "the engine drains: {:?}", stopped.fault);
    Ok((rate, batch))
}

/// The frame of a command, padded to its slot.
fn frame(command: &Command) -> [u8; SLOT_LENGTH] {
    let writer = command.encode().expect("commands made here have frames");
    let mut slot = [0; SLOT_LENGTH];
    slot[..writer.as_bytes().len()].copy_from_slice(writer.as_bytes());
    slot
}

/// The frame without the padding behind it.
fn unpadded(slot: &[u8; SLOT_LENGTH]) -> &[u8] {
    &slot[..usize::from(u16::from_le_bytes([slot[0], slot[1]]))]
}

/// Publishes the frames in one claim, trying again while the ring is full.
fn publish(ingress: &mut Ingress, frames: &[&[u8]]) {
    loop {
        match ingress.try_publish_many(frames) {
            Ok(()) => return,
            Err(PublishError::Full(_)) => std::thread::sleep(Duration::from_micros(50)),
            Err(error) => unreachable!("frames made here fit: {error}"),
        }
    }
}

/// Waits until the reports of at least so many frames are out.
fn wait_for(engine: &EngineHandle, frames: u64) {
    let view = engine.view();
    let started = Instant::now();
    while view.marks().reported_sequence() < Sequence(frames) {
        assert!(started.elapsed() < PATIENCE, "the engine stands still: {:?}", view.fault());
        std::thread::sleep(Duration::from_micros(200));
    }
}

struct Mute;

impl EventSink for Mute {
    fn emit(&mut self, _: Output) {}
}

/// The journal through the business logic alone.
fn replay(storage: &SharedStorage) -> Result<f64, Error> {
    let end = journaler::verify(storage, None, &mut |_| ())?.last_sequence;
    let reader = JournalReader::open(storage.clone())?;
    let mut exchange = Exchange::new();
    let started = Instant::now();
    let mut cursor = reader.frames_from(Sequence(1))?;
    let mut command = Command::default();
    while let Some((_, frame)) = cursor.next_frame(end)? {
        Command::decode_into(frame, &mut command);
        exchange.apply(&command, &mut Mute);
    }
    assert!(exchange.session(SESSION).is_some_and(|session| session.connection == Some(CONNECTION)));
    Ok(exchange.sequence().0 as f64 / started.elapsed().as_secs_f64())
}

/// What a start does before it takes orders.
fn reopen(storage: &SharedStorage, durability: Durability) -> Result<f64, Error> {
    let started = Instant::now();
    let opened = Engine::open(storage.clone(), &config(durability), &mut |_| ())?;
    Ok(opened.exchange().sequence().0 as f64 / started.elapsed().as_secs_f64())
}
