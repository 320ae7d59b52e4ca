//! Messages at a fixed rate, whether the core is ready or not (open loop): how long after it was due each is done, against
//! the same loop around nothing.

use std::hint::black_box;
use std::time::{Duration, Instant};

use book::Request;

use super::{Digest, Flow};
use crate::table::{Row, Table};

/// Messages a second.
const RATE: f64 = 5e6;
/// Runs of each; the one with the lowest percentile counts, since other programs only add.
const RUNS: usize = 3;

pub(super) fn run(table: &mut Table, flow: &Flow) {
    let mut with = f64::INFINITY;
    let mut without = f64::INFINITY;
    for _ in 0..RUNS {
        let mut core = flow.prepared();
        let mut digest = Digest::default();
        with = with.min(percentile(&flow.requests, |request| core.apply(request, &mut digest)));
        without = without.min(percentile(&flow.requests, |request| {
            black_box(request);
        }));
    }
    let note = format!("{} at {} M/s offered, open loop", flow.name, RATE / 1e6);
    table.push(Row::new("core/paced-empty-p99.9", without, "ns").note(note.clone()));
    let row = Row::new("core/paced-p99.9", with, "ns").against("the same loop without a core", without);
    table.push(row.note(format!("{note}; {:.0} ns more, aimed at below 1 us", with - without)));
}

/// The 99.9th percentile, in ns, of how late messages were done.
fn percentile(requests: &[Request], mut apply: impl FnMut(&Request)) -> f64 {
    let mut late: Vec<u32> = vec![0; requests.len()];
    let started = Instant::now();
    for (at, (request, late)) in requests.iter().zip(&mut late).enumerate() {
        let due = started + Duration::from_nanos((at as f64 * 1e9 / RATE) as u64);
        while Instant::now() < due {}
        apply(request);
        *late = Instant::now().saturating_duration_since(due).as_nanos().min(u128::from(u32::MAX)) as u32;
    }
    late.sort_unstable();
    f64::from(late[(late.len() * 999 / 1000).min(late.len() - 1)])
}
