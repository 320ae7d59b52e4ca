//! A member's place: its machine, with or without a running process, and what becomes of that process. It must not look into
//! what the process does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use journaler::storage::fake::FakeStorage;
use oracle::random::Random;

use crate::edge::ToClient;
use crate::ground::Ground;
use crate::member::{Birth, Process};
use crate::post::Parcel;
use crate::trace::lock;
use crate::world::World;

/// Shortest time, in milliseconds, that a machine takes from its power to its member's start: longer than any packet lives.
const BOOT_MIN: u64 = 100;

/// A member's place: its machine, with or without a running process.
pub(crate) struct Seat {
    pub(crate) disk: FakeStorage,
    pub(crate) process: Option<Process>,
    /// The kernel's boot id.
    pub(crate) boot: u64,
    pub(crate) clock_ahead: u64,
    pub(crate) paused_until: u64,
    pub(crate) start_at: Option<u64>,
    pub(crate) write_max: Arc<AtomicU64>,
    /// What arrived while it was paused.
    pub(crate) inbox: Vec<Parcel>,
    /// It may have lost what it once acknowledged, and was not seen whole since.
    pub(crate) lossy: bool,
    /// Its disk was made to fail, so that its process may end.
    pub(crate) may_fail: bool,
    /// It may find its journal damaged: at `memory` a power cut can leave one.
    pub(crate) may_refuse: bool,
    /// Its journal was damaged where that must be noticed.
    pub(crate) damaged: bool,
}

impl Seat {
    pub(crate) fn new(write_max: u64) -> Self {
        Self {
            disk: FakeStorage::new(),
            process: None,
            boot: 1,
            clock_ahead: 0,
            paused_until: 0,
            start_at: None,
            write_max: Arc::new(AtomicU64::new(write_max)),
            inbox: Vec::new(),
            lossy: false,
            may_fail: false,
            may_refuse: false,
            damaged: false,
        }
    }

    /// A message arrives at the machine.
    pub(crate) fn take(&mut self, own: u64, parcel: Parcel, ground: &Ground, random: &mut Random) {
        let Parcel::Request { from, envelope, answer, .. } = parcel else { return };
        ground.trace.event("request", &[from, own]);
        match &mut self.process {
            Some(process) => process.handle(own, from, envelope, answer, &ground.post),
            // The machine is off, or only its process is gone.
            None if random.one_in(2) => lock(&ground.post).refuse(own, from, answer),
            None => {}
        }
    }

    pub(crate) fn describe(&self, id: u64) -> String {
        match &self.process {
            Some(Process::Member(running)) => {
                let status = running.cluster.status();
                format!(
                    "{id}: {:?} term {} last {:?} committed {:?} applied {:?} fed {} forgetful {}",
                    status.role,
                    status.term,
                    status.last_index,
                    status.committed_index,
                    status.applied_index,
                    running.view.marks().applied_sequence(),
                    status.forgetful
                )
            }
            Some(Process::Blank(_)) => format!("{id}: blank"),
            None => format!("{id}: down"),
        }
    }

    /// Sets the longest time of a write, in milliseconds.
    pub(crate) fn write_within(&self, milliseconds: u64) {
        self.write_max.store(milliseconds, Ordering::Relaxed);
    }
}

impl World {
    /// A process that ended, or wants to start again.
    pub(crate) fn look_after(&mut self, id: u64) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        let Some(process) = &seat.process else { return };
        let mut fatal = None;
        if let Process::Member(running) = process {
            fatal = running.view.fault().or_else(|| lock(&running.fatal).clone());
            if seat.lossy && self.now.is_multiple_of(20) {
                seat.lossy = !running.is_whole(lock(&self.ground.truth).end());
            }
        }
        let restarts = process.wants_restart();
        if let Some(line) = fatal {
            self.ground.trace.remark(|| format!("member {id} ends: {line}"));
            if !seat.may_fail {
                self.ground.trace.violated(format!("member {id} ended by itself: {line}"));
            }
            self.kill(id);
            self.start_later(id, 50);
        } else if restarts {
            self.ground.trace.event("restart", &[id]);
            self.kill(id);
            self.start_later(id, 2);
        }
    }

    /// As [`start_later`](Self::start_later), for a whole machine: what was on its way from it has arrived before.
    pub(crate) fn boot_later(&mut self, id: u64, delay_max: u64) {
        self.start_later(id, delay_max);
        if let Some(at) = self.seats.get_mut(&id).and_then(|seat| seat.start_at.as_mut()) {
            *at += BOOT_MIN;
        }
    }

    pub(crate) fn start_later(&mut self, id: u64, delay_max: u64) {
        let at = self.now + 1 + self.random.below(delay_max);
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.start_at = Some(at);
        }
    }

    pub(crate) fn start(&mut self, id: u64) {
        self.starts += 1;
        let seed = self.random.word();
        let Some(seat) = self.seats.get_mut(&id) else { return };
        seat.start_at = None;
        if seat.process.is_some() {
            return;
        }
        lock(&self.ground.disks).insert(id, seat.disk.clone());
        let birth = Birth {
            id,
            disk: &seat.disk,
            boot: seat.boot,
            now: self.now,
            clock_ahead: seat.clock_ahead,
            seed,
            slots: self.slots,
            starts: self.starts,
            write_max: Arc::clone(&seat.write_max),
        };
        let faults = seat.disk.faults_armed();
        let started = Process::start(&birth, &self.ground);
        let struck = seat.disk.faults_armed() < faults;
        match started {
            Ok(process) => {
                self.ground.trace.event("start", &[id, u64::from(matches!(process, Process::Blank(_)))]);
                seat.process = Some(process);
                if seat.damaged {
                    self.ground.trace.violated(format!("member {id} starts from a damaged journal"));
                }
            }
            Err(why) => {
                self.ground.trace.remark(|| format!("member {id} does not start: {why}"));
                // An error of the disk is over with the next start; only what stays is answered by an empty disk.
                if !struck && (seat.damaged || seat.may_refuse) {
                    self.wipe(id);
                    self.start_later(id, 50);
                } else if seat.may_fail {
                    self.start_later(id, 50);
                } else {
                    self.ground.trace.violated(format!("member {id} does not start: {why}"));
                }
            }
        }
    }

    /// Ends a process between two polls. Its disk keeps what a page cache keeps.
    pub(crate) fn kill(&mut self, id: u64) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        self.ground.trace.event("kill", &[id]);
        seat.process = None;
        seat.inbox.clear();
        seat.paused_until = 0;
        for wire in self.wires.values_mut().filter(|wire| wire.member == id) {
            wire.to_server.clear();
            wire.to_client.push_back((self.now + 2, ToClient::Closed));
        }
    }

    /// The member's disk is a new one.
    pub(crate) fn wipe(&mut self, id: u64) {
        self.kill(id);
        let Some(seat) = self.seats.get_mut(&id) else { return };
        seat.disk = FakeStorage::new();
        seat.lossy = true;
        seat.damaged = false;
        seat.may_refuse = false;
        lock(&self.ground.disks).insert(id, seat.disk.clone());
    }
}
