//! What goes wrong in a run, and when. It must keep to what the cluster promises to bear: never more than it may lose at
//! once.

use std::time::Duration;

use journaler::Durability;
use journaler::storage::fake::{Call, Fault};
use oracle::random::Random;
use protocol::Body;
use replicator::MemberId;

use crate::disk;
use crate::member::Process;
use crate::post::Weather;
use crate::trace::lock;
use crate::world::World;

/// Things that can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evil {
    Kill,
    PowerCut,
    AllDown,
    Isolate,
    OneWay,
    Between,
    Pause,
    SlowDisk,
    DiskError,
    Wipe,
    BitRot,
    ClockJump,
    HandOver,
    Membership,
    ClientCut,
    DayEnd,
    Conspiracy,
}

const EVILS: [Evil; 17] = [
    Evil::Kill,
    Evil::PowerCut,
    Evil::AllDown,
    Evil::Isolate,
    Evil::OneWay,
    Evil::Between,
    Evil::Pause,
    Evil::SlowDisk,
    Evil::DiskError,
    Evil::Wipe,
    Evil::BitRot,
    Evil::ClockJump,
    Evil::HandOver,
    Evil::Membership,
    Evil::ClientCut,
    Evil::DayEnd,
    Evil::Conspiracy,
];

/// What ends later.
#[derive(Clone, Copy, Debug)]
enum Relief {
    Heal(u64, u64),
    FastDisk(u64),
    Promote(u64),
    /// Of three members: the leader, one that has all, and one that lags.
    Strike(u64, u64, u64),
}

/// The plan of one run.
pub(crate) struct Nemesis {
    random: Random,
    /// What this run has: few kinds in a run find more than all at once.
    chosen: Vec<Evil>,
    gap_max: u64,
    length: u64,
    next: u64,
    reliefs: Vec<(u64, Relief)>,
    snapshot_every: u64,
    /// The one member whose vote is taken and given back.
    demoted: Option<u64>,
    day_ended: bool,
}

impl Nemesis {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let often = 1 + random.below(4);
        let mut chosen: Vec<Evil> = EVILS.into_iter().filter(|_| random.below(5) < often).collect();
        if chosen.is_empty() {
            chosen.push(Evil::Kill);
        }
        if chosen.contains(&Evil::Membership) {
            // Of two voters none may lose anything: nobody could lead any more.
            chosen.retain(|evil| !matches!(evil, Evil::Wipe | Evil::BitRot));
        }
        let gap_max = *random.pick(&[200, 600, 1_500]);
        let length = 2_000 + random.below(8_000);
        let snapshot_every = *random.pick(&[400, 1_000, 100_000]);
        Self {
            random,
            chosen,
            gap_max,
            length,
            next: 0,
            reliefs: Vec::new(),
            snapshot_every,
            demoted: None,
            day_ended: false,
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    pub(crate) fn begin(&mut self, now: u64) {
        self.next = now + 300 + self.random.below(self.gap_max);
    }

    /// The network gets worse.
    pub(crate) fn darken(&mut self, weather: &mut Weather) {
        weather.late_one_in = *self.random.pick(&[0, 10, 100]);
        weather.lost_one_in = *self.random.pick(&[0, 0, 30, 300]);
        weather.twice_one_in = *self.random.pick(&[0, 20]);
    }
}

impl World {
    /// Lets happen what is due.
    pub(crate) fn suffer(&mut self) {
        self.keep_houses();
        let now = self.now;
        let reliefs = std::mem::take(&mut self.nemesis.reliefs);
        let (due, rest): (Vec<_>, Vec<_>) = reliefs.into_iter().partition(|(at, _)| *at <= now);
        self.nemesis.reliefs = rest;
        for (_, relief) in due {
            self.relieve(relief);
        }
        if now < self.nemesis.next {
            return;
        }
        self.nemesis.next = now + 1 + self.nemesis.random.below(self.nemesis.gap_max);
        let evil = *self.nemesis.random.pick(&self.nemesis.chosen);
        let ids: Vec<u64> = self.seats.keys().copied().collect();
        // A leader is the more interesting victim.
        let victim = match self.leader() {
            Some(leader) if self.nemesis.random.one_in(3) => leader,
            _ => *self.nemesis.random.pick(&ids),
        };
        self.ground.trace.event("evil", &[evil as u64, victim]);
        self.ground.trace.remark(|| format!("{evil:?} meets member {victim}"));
        self.strike(evil, victim, &ids);
    }

    fn strike(&mut self, evil: Evil, victim: u64, ids: &[u64]) {
        let others: Vec<u64> = ids.iter().copied().filter(|id| *id != victim).collect();
        let other = *self.nemesis.random.pick(&others);
        match evil {
            Evil::Kill => {
                self.kill(victim);
                let delay = *self.nemesis.random.pick(&[20, 300, 2_000]);
                self.start_later(victim, delay);
            }
            Evil::PowerCut => self.power_cut(victim),
            Evil::AllDown => self.all_down(ids),
            Evil::Isolate => {
                for other in others {
                    self.cut(victim, other);
                    self.cut(other, victim);
                }
            }
            Evil::OneWay => {
                let (from, to) =
                    if self.nemesis.random.one_in(2) { (victim, other) } else { (other, victim) };
                self.cut(from, to);
            }
            Evil::Between => {
                self.cut(victim, other);
                self.cut(other, victim);
            }
            Evil::Pause => {
                let length = *self.nemesis.random.pick(&[20, 150, 400, 3_000]);
                let until = self.now + 1 + self.nemesis.random.below(length);
                if let Some(seat) = self.seats.get_mut(&victim) {
                    seat.paused_until = until;
                }
            }
            Evil::SlowDisk => {
                let slow = 5 + self.nemesis.random.below(200);
                if let Some(seat) = self.seats.get(&victim) {
                    seat.write_within(slow);
                }
                self.relieve_later(Relief::FastDisk(victim));
            }
            Evil::DiskError => self.disk_error(victim),
            Evil::Wipe => {
                if !self.anything_lost() {
                    self.wipe(victim);
                    self.boot_later(victim, 500);
                }
            }
            Evil::BitRot => self.bit_rot(victim),
            Evil::ClockJump => self.jump_clock(victim),
            Evil::HandOver => self.hand_over(other),
            Evil::Membership => self.demote(victim),
            Evil::ClientCut => self.break_a_wire(),
            Evil::DayEnd => self.end_day(),
            Evil::Conspiracy => self.conspire(),
        }
    }

    fn all_down(&mut self, ids: &[u64]) {
        for id in ids {
            if self.nemesis.random.one_in(2) && self.ground.durability == Durability::Disk {
                self.power_cut(*id);
            } else {
                self.kill(*id);
                self.start_later(*id, 300);
            }
        }
    }

    /// What a vote against the rules needs: one member lags behind, then the leader is gone, and the one that helped to
    /// commit loses its power.
    fn conspire(&mut self) {
        let Some(leader) = self.leader() else { return };
        let others: Vec<u64> = self.seats.keys().copied().filter(|id| *id != leader).collect();
        let [one, two] = others[..] else { return };
        let (full, behind) = if self.nemesis.random.one_in(2) { (one, two) } else { (two, one) };
        for other in [leader, full] {
            lock(&self.ground.post).cut(behind, other);
            lock(&self.ground.post).cut(other, behind);
        }
        let at = self.now + 100 + self.nemesis.random.below(500);
        self.nemesis.reliefs.push((at, Relief::Strike(leader, full, behind)));
    }

    /// Whether a member may lack what it once acknowledged: then no other may lose anything.
    fn anything_lost(&self) -> bool {
        self.seats.values().any(|seat| seat.lossy)
    }

    fn relieve_later(&mut self, relief: Relief) {
        let length = *self.nemesis.random.pick(&[100, 500, 2_500]);
        let at = self.now + 1 + self.nemesis.random.below(length);
        self.nemesis.reliefs.push((at, relief));
    }

    fn cut(&mut self, from: u64, to: u64) {
        lock(&self.ground.post).cut(from, to);
        self.relieve_later(Relief::Heal(from, to));
    }

    fn relieve(&mut self, relief: Relief) {
        match relief {
            Relief::Heal(from, to) => lock(&self.ground.post).heal(from, to),
            Relief::FastDisk(id) => {
                if let Some(seat) = self.seats.get(&id) {
                    seat.write_within(2);
                }
            }
            Relief::Promote(id) => self.promote(id),
            Relief::Strike(leader, full, behind) => {
                lock(&self.ground.post).heal_member(behind);
                self.power_cut(full);
                self.kill(leader);
                self.start_later(leader, 3_000);
            }
        }
    }

    /// The machine loses its power: what was not synced is lost, wholly or in part.
    fn power_cut(&mut self, id: u64) {
        let forgets = self.ground.durability == Durability::Memory;
        let few = self.nemesis.chosen.contains(&Evil::Membership);
        if forgets && (few || self.anything_lost()) {
            return;
        }
        self.kill(id);
        let Some(seat) = self.seats.get_mut(&id) else { return };
        let random = &mut self.nemesis.random;
        let density = random.below(5);
        seat.disk = seat.disk.power_cut(|_| random.below(4) < density);
        seat.boot += 1;
        seat.lossy |= forgets;
        seat.may_refuse |= forgets;
        self.boot_later(id, 500);
    }

    fn disk_error(&mut self, id: u64) {
        let random = &mut self.nemesis.random;
        let call = *random.pick(&[Call::Write, Call::SyncData, Call::Create, Call::SyncDir, Call::Allocate]);
        let path = (*random.pick(&["journal", "member", "reports", ""])).to_owned();
        let fault = Fault { call, path, after: random.below(20) as u32, errno: *random.pick(&[5, 28]) };
        if let Some(seat) = self.seats.get_mut(&id) {
            seat.disk.inject(fault);
            seat.may_fail = true;
        }
    }

    /// A bit turns over in the journal, in front of what vouches for it: the member must refuse to start.
    fn bit_rot(&mut self, id: u64) {
        if self.anything_lost() {
            return;
        }
        let random = &mut self.nemesis.random;
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if seat.disk.shared().list("incoming").is_ok() {
            // A snapshot that arrived may take the journal's place at the start.
            return;
        }
        let Some((path, offset)) = disk::vouched_byte(&seat.disk, random) else { return };
        seat.disk.flip_bit(&path, offset, random.below(8) as u8);
        seat.damaged = true;
        seat.lossy = true;
        self.kill(id);
        self.start_later(id, 300);
    }

    fn jump_clock(&mut self, id: u64) {
        let by = 1 + self.nemesis.random.below(5_000);
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if let Some(Process::Member(running)) = &seat.process {
            running.jump_clock(Duration::from_millis(by));
        }
        // At its next start the clock is somewhere else, before or behind.
        seat.clock_ahead = self.nemesis.random.below(5_000);
    }

    fn hand_over(&mut self, to: u64) {
        let trace = self.ground.trace.clone();
        if let Some(running) = self.leading() {
            running.wish(move |cluster| async move { cluster.hand_over(Some(MemberId(to))).await }, &trace);
        }
    }

    fn demote(&mut self, victim: u64) {
        let id = *self.nemesis.demoted.get_or_insert(victim);
        // From here on a majority is not the same for everybody.
        lock(&self.ground.voters).clear();
        let trace = self.ground.trace.clone();
        if let Some(running) = self.leading() {
            running.wish(move |cluster| async move { cluster.demote(MemberId(id), true).await }, &trace);
        }
        self.relieve_later(Relief::Promote(id));
    }

    fn promote(&mut self, id: u64) {
        let trace = self.ground.trace.clone();
        if let Some(running) = self.leading() {
            running.wish(move |cluster| async move { cluster.promote(MemberId(id), true).await }, &trace);
        }
    }

    /// The trading day ends, once in a run: nobody may be away for longer than the reports of a day are kept.
    fn end_day(&mut self) {
        if self.nemesis.day_ended {
            return;
        }
        if let Some(running) = self.leading() {
            running.edge.provision(&[Body::EndOfDay]);
            self.nemesis.day_ended = true;
        }
    }

    /// The background work of each member, at its own times.
    fn keep_houses(&mut self) {
        let every = self.nemesis.snapshot_every;
        for (id, seat) in &mut self.seats {
            let Some(Process::Member(running)) = &mut seat.process else { continue };
            let turn = self.now + id * 37;
            if seat.paused_until > self.now || !turn.is_multiple_of(200) {
                continue;
            }
            let mut outcome = running.engine.keep_house();
            if outcome.is_ok() && turn.is_multiple_of(every) {
                let trace = &self.ground.trace;
                outcome = running.engine.make_snapshot().map(|made| {
                    let sequence = made.map_or(0, |made| made.header.sequence.0);
                    trace.event("snapshot", &[*id, sequence]);
                });
            }
            if let Err(line) = outcome {
                lock(&running.fatal).get_or_insert(line);
            }
        }
    }

    /// All is well from here on.
    pub(crate) fn heal(&mut self) {
        self.ground.trace.event("heal", &[]);
        lock(&self.ground.post).heal_all();
        self.nemesis.reliefs.clear();
        let ids: Vec<u64> = self.seats.keys().copied().collect();
        for id in ids {
            let Some(seat) = self.seats.get_mut(&id) else { continue };
            seat.paused_until = 0;
            seat.write_within(2);
            if seat.process.is_none() {
                self.start_later(id, 100);
            }
        }
        self.finish_clients();
    }
}
