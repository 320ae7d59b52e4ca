//! The simulated world: members, the network between them, clients, and a virtual time of whole milliseconds in which they
//! take their turns. All that happens follows from one seed. It must not touch real time, threads or files.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use journaler::Durability;
use oracle::random::Random;
use protocol::{Sequence, SessionId};

use crate::checks::Promises;
use crate::client::Client;
use crate::ground::Ground;
use crate::member::{self, MemberProcess, Process};
use crate::nemesis::Nemesis;
use crate::post::{self, Parcel, Post, Weather};
use crate::seat::Seat;
use crate::trace::{Trace, lock};
use crate::truth::Truth;
use crate::wires::Wire;

/// How long a healed cluster may take until all clients know everything and all members are equal. A piece of a snapshot
/// that got lost is waited for 20 s, and that may be so twice in a row.
const SETTLE_MAX: u64 = 60_000;
/// How long a founding may take.
const FOUNDING_MAX: u64 = 10_000;

/// All of it.
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) ground: Ground,
    pub(crate) seats: BTreeMap<u64, Seat>,
    pub(crate) clients: Vec<Client>,
    pub(crate) wires: BTreeMap<u64, Wire>,
    pub(crate) wires_made: u64,
    pub(crate) starts: u32,
    pub(crate) slots: usize,
    pub(crate) promises: Promises,
    pub(crate) provisioned_at: u64,
    pub(crate) nemesis: Nemesis,
}

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let durability = if random.one_in(4) { Durability::Memory } else { Durability::Disk };
        let weather = Weather { delay_max: random.below(4), late_one_in: 0, lost_one_in: 0, twice_one_in: 0 };
        let members = if random.one_in(8) { 5 } else { 3 };
        let ground = Ground {
            post: Arc::new(Mutex::new(Post::new(random.word(), weather))),
            truth: Arc::new(Mutex::new(Truth::new(trace.clone()))),
            trace: trace.clone(),
            durability,
            disks: Arc::default(),
            voters: Arc::default(),
            lost: Arc::default(),
            pushes: Arc::default(),
        };
        let seats = (1..=members).map(|id| (id, Seat::new(1 + random.below(3)))).collect();
        let count = 2 + random.below(3);
        let requests = 30 + random.below(200);
        let clients = (1..=count)
            .map(|session| Client::new(SessionId(session as u32), random.word(), requests, trace.clone()))
            .collect();
        let nemesis = Nemesis::new(random.word());
        let promises = Promises::new(trace);
        let slots = *random.pick(&[64, 256]);
        let (wires, wires_made, starts) = (BTreeMap::new(), 0, 0);
        Self {
            now: 0,
            random,
            ground,
            seats,
            clients,
            wires,
            wires_made,
            starts,
            slots,
            promises,
            provisioned_at: 0,
            nemesis,
        }
    }

    fn trace(&self) -> &Trace {
        &self.ground.trace
    }

    /// Founds the cluster, lets it live and suffer, heals it, and looks whether it then comes to rest.
    pub(crate) fn run(&mut self) {
        if !self.found() {
            return;
        }
        let end = self.now + self.nemesis.length();
        self.nemesis.begin(self.now);
        self.nemesis.darken(&mut lock(&self.ground.post).weather);
        while self.now < end && self.trace().violation().is_none() {
            self.suffer();
            self.tick();
        }
        self.heal();
        let healed = self.now;
        while self.trace().violation().is_none() && !self.is_settled() {
            self.tick();
            if self.now > healed + SETTLE_MAX {
                let clients: Vec<String> = self.clients.iter().map(Client::describe).collect();
                let members: Vec<String> = self.seats.iter().map(|(id, seat)| seat.describe(*id)).collect();
                let what = format!("no rest after all was healed: {clients:?}, {members:?}");
                self.trace().violated(what);
            }
        }
        self.finish();
    }

    fn found(&mut self) -> bool {
        let members: Vec<u64> = self.seats.keys().copied().collect();
        members.iter().for_each(|id| self.start(*id));
        if let Some(Process::Blank(blank)) = self.seats.get(&1).and_then(|seat| seat.process.as_ref()) {
            blank.found(1, members.iter().map(|id| member::member(*id)).collect(), &self.ground);
        }
        *lock(&self.ground.voters) = members.iter().copied().collect();
        while self.now < FOUNDING_MAX && self.trace().violation().is_none() {
            self.tick();
            if self.leader().is_some() {
                return true;
            }
        }
        self.trace().violated("no cluster was founded");
        false
    }

    /// The confirmed leader.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.promises.leader()
    }

    /// One millisecond.
    fn tick(&mut self) {
        self.now += 1;
        self.trace().at(self.now);
        lock(&self.ground.post).at(self.now);
        let due: Vec<u64> = self
            .seats
            .iter()
            .filter(|(_, seat)| seat.start_at.is_some_and(|at| at <= self.now))
            .map(|(id, _)| *id)
            .collect();
        due.into_iter().for_each(|id| self.start(id));
        let lost = self.seats.values().any(|seat| seat.lossy);
        self.ground.lost.store(lost, Ordering::Relaxed);
        self.deliver();
        self.promises.begin();
        for id in self.turns() {
            self.turn(id);
        }
        self.promises.end();
        self.provision();
        self.step_clients();
    }

    /// The members in the order in which they have their turns.
    fn turns(&mut self) -> Vec<u64> {
        let mut ids: Vec<u64> = self.seats.keys().copied().collect();
        for place in (1..ids.len()).rev() {
            ids.swap(place, self.random.below(place as u64 + 1) as usize);
        }
        ids
    }

    fn deliver(&mut self) {
        let arrived = lock(&self.ground.post).arrived();
        for parcel in arrived {
            match parcel {
                Parcel::Answer { from, to, envelope, answer } => {
                    self.ground.trace.event("answer", &[from, to]);
                    post::hand_over(envelope, &answer);
                }
                Parcel::Request { to, .. } => {
                    let Some(seat) = self.seats.get_mut(&to) else { continue };
                    if seat.process.is_some() && seat.paused_until > self.now {
                        seat.inbox.push(parcel);
                    } else {
                        let random = &mut self.random;
                        seat.take(to, parcel, &self.ground, random);
                    }
                }
            }
        }
    }

    /// One member's turn.
    fn turn(&mut self, id: u64) {
        let now = self.now;
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if seat.paused_until > now {
            return;
        }
        for parcel in std::mem::take(&mut seat.inbox) {
            seat.take(id, parcel, &self.ground, &mut self.random);
        }
        match &mut seat.process {
            None => return,
            Some(Process::Blank(blank)) => blank.step(now),
            Some(Process::Member(running)) => {
                let mut came = Vec::new();
                for (number, wire) in &mut self.wires {
                    if wire.member != id {
                        continue;
                    }
                    while wire.to_server.front().is_some_and(|(at, _)| *at <= now)
                        && let Some((_, packet)) = wire.to_server.pop_front()
                    {
                        came.push((*number, packet));
                    }
                }
                let (given, confirmed) = running.step(now, came);
                self.promises.stepped(id, running, confirmed, &given, &lock(&self.ground.truth));
                self.give(given);
            }
        }
        self.look_after(id);
    }

    fn is_settled(&self) -> bool {
        let end = lock(&self.ground.truth).end();
        self.clients.iter().all(Client::is_done)
            && self.seats.values().all(|seat| match &seat.process {
                Some(Process::Member(running)) => running.view.marks().reported_sequence() == end,
                _ => false,
            })
    }

    /// The member that is the confirmed leader.
    pub(crate) fn leading(&mut self) -> Option<&mut MemberProcess> {
        let leader = self.leader()?;
        match self.seats.get_mut(&leader)?.process.as_mut() {
            Some(Process::Member(running)) => Some(running),
            _ => None,
        }
    }

    /// Clients send nothing new from here on.
    pub(crate) fn finish_clients(&mut self) {
        self.clients.iter_mut().for_each(Client::finish);
    }

    /// What only the end shows.
    fn finish(&mut self) {
        let truth = Arc::clone(&self.ground.truth);
        let truth = lock(&truth);
        for client in &self.clients {
            client.check(&truth);
        }
        truth.check_whole();
        for (id, seat) in &mut self.seats {
            let Some(Process::Member(running)) = seat.process.take() else { continue };
            self.promises.ended(*id, *running, &truth);
        }
        self.ground.trace.event("end", &[truth.end().0, truth.hash_at(truth.end()).unwrap_or(0)]);
    }

    /// Frames in the committed log.
    pub(crate) fn frames(&self) -> Sequence {
        lock(&self.ground.truth).end()
    }
}
