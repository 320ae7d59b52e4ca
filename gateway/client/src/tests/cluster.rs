//! The venue as a cluster of members: one leads, what it had not processed may be lost or come later, and it can die, stop
//! while its connections stay, or lose its office in order.

use super::venue::{Item, Venue};
use super::*;
use protocol::soupbin::Packet;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Health {
    Up,
    /// It accepts connections and never answers.
    Stopped,
    /// It refuses connections.
    Down,
}

/// How a leader ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fall {
    Killed,
    Stopped,
    Deposed,
}

/// The members; their addresses are `m0`, `m1` and so on.
#[derive(Debug)]
pub(super) struct Cluster {
    health: Vec<Health>,
    leader: Option<usize>,
    /// A member that doesn't lead names this one.
    lie: Option<String>,
    /// Frames of a term that is over, which a leader still has and proposes in a later term.
    stale: Vec<Item>,
    /// Logins that find the leader behind what the client has seen.
    behind: u32,
}

impl Cluster {
    /// What answers at the address: nobody, or the member of that number.
    pub(super) fn member(&self, address: &str) -> Option<usize> {
        let member: usize = address.strip_prefix('m')?.parse().ok()?;
        self.health.get(member).is_some_and(|health| *health != Health::Down).then_some(member)
    }

    pub(super) fn is_stopped(&self, member: usize) -> bool {
        self.health[member] == Health::Stopped
    }
}

impl Venue {
    fn of_members(seed: u64, members: usize) -> Self {
        let cluster = Cluster {
            health: vec![Health::Up; members],
            leader: Some(0),
            lie: None,
            stale: Vec::new(),
            behind: 0,
        };
        let mut venue = Self::new(seed);
        venue.cluster = Some(cluster);
        venue
    }

    fn members(&mut self) -> &mut Cluster {
        self.cluster.as_mut().expect("a cluster")
    }

    /// The leader falls. Of what it had taken and not processed, `survives` is processed nevertheless, and the `kept` frames
    /// behind that stay with it.
    fn fall(&mut self, how: Fall, survives: usize, kept: usize) {
        let Some(leader) = self.members().leader.take() else { return };
        self.members().health[leader] = match how {
            Fall::Killed => Health::Down,
            Fall::Stopped => Health::Stopped,
            Fall::Deposed => Health::Up,
        };
        let of_leader: Vec<u32> =
            self.connections.iter().filter(|(_, state)| state.member == leader).map(|(id, _)| *id).collect();
        if how == Fall::Stopped {
            of_leader.iter().for_each(|id| self.freeze(*id));
        }
        self.process(survives);
        if how == Fall::Killed {
            self.connections.retain(|_, state| state.member != leader);
        } else if how == Fall::Deposed {
            for id in of_leader {
                self.send(id, &Packet::Debug(b"closing=server"));
                self.shut(id);
            }
        }
        self.live = None;
        let frames = self.queue.drain(..).filter(|item| matches!(item, Item::Frame(..))).take(kept);
        let stale: Vec<Item> = frames.collect();
        self.members().stale.extend(stale);
    }

    /// A member leads: with its term's first frame no connection is live, then comes what it may still have of an older term.
    fn elect(&mut self, member: usize) {
        self.members().health[member] = Health::Up;
        self.members().leader = Some(member);
        self.live = None;
        let stale = std::mem::take(&mut self.members().stale);
        self.queue.extend(stale);
    }

    /// All members are up, and one leads.
    pub(super) fn mend(&mut self) {
        let Some(cluster) = &mut self.cluster else { return };
        cluster.health.fill(Health::Up);
        if cluster.leader.is_none() {
            self.elect(1);
        }
    }

    /// Answers a login at a member that doesn't lead; false where it does.
    pub(super) fn turn_away(&mut self, connection: u32) -> bool {
        let Some(state) = self.connections.get(&connection) else { return false };
        let member = state.member;
        let Some(cluster) = &mut self.cluster else { return false };
        let (reason, leader) = match cluster.leader {
            Some(leader) if leader == member => {
                if cluster.behind == 0 {
                    return false;
                }
                cluster.behind -= 1;
                (b'S', None)
            }
            leader => (b'L', cluster.lie.clone().or(leader.map(|leader| format!("m{leader}")))),
        };
        if let Some(leader) = leader {
            self.send(connection, &Packet::Debug(format!("leader={leader}").as_bytes()));
        }
        self.send(connection, &Packet::LoginRejected(reason));
        self.close(connection);
        true
    }
}

fn rig(seed: u64, window: usize) -> Rig {
    let ClientConfig { user, password, .. } = config(window);
    let members = (0..3).map(|member| format!("m{member}")).collect();
    let config = ClientConfig { window, seed, ..ClientConfig::members(members, user, password) };
    Rig::new(config, Venue::of_members(seed, 3))
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    how: Fall,
    /// Bytes of the requests that still arrive.
    up: usize,
    /// Of the queue, how many items are processed before it.
    processed: usize,
    /// Bytes of the answers that still arrive.
    down: usize,
    /// Of the rest of the queue, how many items are processed though nobody hears of it, and how many come in a later term.
    survives: usize,
    kept: usize,
}

const REQUESTS: u64 = 12;

fn run(failure: Failure) -> (usize, usize) {
    let Failure { how, up, processed, down, survives, kept } = failure;
    let mut rig = rig(1, 64);
    rig.finish();
    (1..=REQUESTS).for_each(|n| rig.submit(request(n)));
    let up_bytes = rig.client.outgoing().len();
    rig.carry_up(up);
    rig.venue.process(processed);
    let down = rig.carry_down(down);
    rig.venue.fall(how, survives, kept);
    rig.advance(Duration::from_millis(1));
    rig.carry_down(usize::MAX);
    rig.venue.elect(2);
    rig.finish();
    rig.check();
    (up_bytes, down)
}

#[test]
fn a_failover_at_any_byte_leaves_one_true_outcome_each() {
    let all = usize::MAX;
    let whole = Failure { how: Fall::Killed, up: all, processed: all, down: all, survives: 0, kept: 0 };
    let (up_bytes, down_bytes) = run(whole);
    assert!(up_bytes > 600 && down_bytes > 600, "{up_bytes} up, {down_bytes} down");
    let mut states = 0;
    for how in [Fall::Killed, Fall::Stopped, Fall::Deposed] {
        for up in (0..=up_bytes).step_by(3) {
            run(Failure { how, up, processed: 0, down: 0, survives: up % 14, kept: up % 5 });
            states += 1;
        }
        for down in (0..=down_bytes).step_by(3) {
            run(Failure { how, down, ..whole });
            states += 1;
        }
        for processed in 0..=REQUESTS as usize {
            for survives in 0..=REQUESTS as usize - processed {
                run(Failure { how, processed, survives, kept: 3, ..whole });
                states += 1;
            }
        }
    }
    println!("{states} failovers");
}

fn disturb(rig: &mut Rig, rng: &mut StdRng) {
    match rng.random_range(0..1_000) {
        0..10 => rig.cut(),
        10..25 => {
            let how = [Fall::Killed, Fall::Stopped, Fall::Deposed][rng.random_range(0..3)];
            rig.venue.fall(how, rng.random_range(0..8), rng.random_range(0..8));
        }
        25..85 if rig.venue.members().leader.is_none() => rig.venue.elect(rng.random_range(0..3)),
        85..100 => {
            let lie = ["m0", "m1", "m2", "nowhere"][rng.random_range(0..4)];
            rig.venue.members().lie = rng.random_bool(0.5).then(|| lie.to_owned());
        }
        100..105 => rig.venue.members().behind = 2,
        105..109 => rig.venue.end_of_day(rig.last_report.0),
        109..115 => rig.venue.kick(),
        115..130 => {
            let member = rng.random_range(0..3);
            let cluster = rig.venue.members();
            if cluster.leader != Some(member) {
                let health = [Health::Up, Health::Stopped, Health::Down][rng.random_range(0..3)];
                cluster.health[member] = health;
            }
        }
        _ => {}
    }
}

fn run_random(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rig = rig(seed ^ 1, rng.random_range(1..40));
    rig.venue.refusals = rng.random_range(0..20);
    rig.venue.rejects = rng.random_range(0..30);
    rig.finish();
    let mut n = 0;
    for _ in 0..800 {
        for _ in 0..rng.random_range(0..5) {
            n += 1;
            rig.submit(request(n));
        }
        rig.advance(Duration::from_millis(rng.random_range(0..60)));
        rig.carry_up(rng.random_range(0..400));
        rig.venue.process(rng.random_range(0..6));
        rig.carry_down(rng.random_range(0..600));
        disturb(&mut rig, &mut rng);
        assert_eq!(rig.client.ended(), None);
    }
    rig.venue.members().lie = None;
    rig.finish();
    rig.check();
    assert!(rig.submitted.len() > 20, "the flow got somewhere");
}

#[test]
fn random_failovers_leave_one_true_outcome_each() {
    let seed = seed();
    for run_seed in seed..seed.saturating_add(100) {
        let caught = std::panic::catch_unwind(|| run_random(run_seed));
        if let Err(panic) = caught {
            println!("failed with RINGPIT_SEED={run_seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// Milliseconds from the fall of the leader to the next answer; the next leader is there `election` ms after it.
fn outage(how: Fall, election: u64, lie: Option<&str>) -> u64 {
    let mut rig = rig(7, 64);
    rig.finish();
    rig.submit(request(1));
    rig.finish();
    rig.venue.members().lie = lie.map(str::to_owned);
    rig.venue.fall(how, 0, 0);
    rig.submit(request(2));
    for ms in 0..10_000 {
        if ms == election {
            rig.venue.elect(2);
        }
        rig.carry_up(usize::MAX);
        rig.venue.process(usize::MAX);
        rig.carry_down(usize::MAX);
        if rig.outcomes.len() == 2 {
            rig.check();
            assert!(rig.venue.resumed > 0, "the way back is taken with a token");
            return ms;
        }
        rig.advance(Duration::from_millis(1));
    }
    panic!("never again an answer");
}

#[test]
fn a_fallen_leader_is_left_in_time() {
    let cases = [
        ("killed, and a leader is there at once", Fall::Killed, 0, None, 20),
        ("killed, 200 ms without a leader", Fall::Killed, 200, None, 250),
        ("stopped, and one is there before that is noticed", Fall::Stopped, 200, None, 330),
        ("stopped, and for long there is no other", Fall::Stopped, 1_000, None, 1_700),
        ("deposed", Fall::Deposed, 0, None, 20),
        ("members that name one that is not there", Fall::Killed, 100, Some("nowhere"), 150),
        ("members that name the dead leader", Fall::Killed, 100, Some("m0"), 150),
        ("members that name the stopped leader", Fall::Stopped, 100, Some("m0"), 5_000),
    ];
    for (name, how, election, lie, limit_ms) in cases {
        let ms = outage(how, election, lie);
        assert!(ms >= election && ms <= limit_ms, "{name}: {ms} ms");
    }
}
