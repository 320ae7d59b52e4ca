//! A cluster in a simulated world: members with the real engine and the real consensus, each on a fake disk, a network that
//! loses and delays, clients that time out and send again, and checkers that hold every output against the committed log.
//! A run follows from its seed alone, and replays exactly.

#![forbid(unsafe_code)]

mod checks;
mod client;
mod disk;
mod edge;
mod ends;
mod ground;
mod member;
mod nemesis;
mod post;
mod seat;
mod trace;
mod truth;
mod venue;
mod wires;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "planted")]
pub use protocol::planted::{Bug, plant};
use trace::Trace;
use world::World;

/// How a run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What it follows from.
    pub seed: u64,
    /// Of all that happened: the same in each run of the seed.
    pub trace_hash: u64,
    /// Virtual milliseconds.
    pub milliseconds: u64,
    /// Frames in the committed log.
    pub frames: u64,
    /// The first promise that was broken.
    pub violation: Option<String>,
    /// What happened, where that was wanted.
    pub lines: Vec<String>,
}

/// Runs one seed. With `keep` the outcome has the trace's lines.
#[must_use]
pub fn run(seed: u64, keep: bool) -> Outcome {
    let panics = count_panics();
    let trace = Trace::new(keep);
    let mut world = World::new(seed, trace.clone());
    if catch_unwind(AssertUnwindSafe(|| world.run())).is_err() {
        trace.violated("a panic, which the panic's message above tells of");
    }
    if count_panics() > panics {
        trace.violated("a task of a member panicked, as the message above tells");
    }
    Outcome {
        seed,
        trace_hash: trace.hash(),
        milliseconds: world.now,
        frames: world.frames().0,
        violation: trace.violation(),
        lines: trace.take_lines(),
    }
}

/// Panics so far in this process. A task's panic ends a real member, and is swallowed by the runtime here.
fn count_panics() -> u64 {
    static PANICS: AtomicU64 = AtomicU64::new(0);
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(panic);
        }));
    });
    PANICS.load(Ordering::Relaxed)
}

/// Whether a seed gives the same run each time in this build.
pub const REPLAYS: bool = cfg!(tokio_unstable);

/// What replays a seed.
#[must_use]
pub fn replay_command(seed: u64) -> String {
    format!("SIM_SEED={seed}\nreplay: cargo sim --from {seed} --seeds 1 --trace trace.txt")
}
