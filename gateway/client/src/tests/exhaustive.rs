//! One short flow, and the connection or the server failing after every single byte of it, in both directions.

use std::time::Duration;

use super::*;

const REQUESTS: u64 = 12;

#[derive(Clone, Copy, Debug)]
struct Failure {
    /// Bytes of the requests that still arrive.
    up: usize,
    /// Of the queue, how many items are processed before it.
    processed: usize,
    /// Bytes of the answers that still arrive.
    down: usize,
    crash: bool,
}

/// Logs in and submits the flow; then the failure, then an undisturbed end. Returns how many bytes there were to carry.
fn run(failure: Failure) -> (usize, usize) {
    let mut rig = Rig::new(config(64), Venue::new(1));
    rig.finish();
    (1..=REQUESTS).for_each(|n| rig.submit(request(n)));
    let up = rig.client.outgoing().len();
    rig.carry_up(failure.up);
    rig.venue.process(failure.processed);
    let down = rig.carry_down(failure.down);
    if failure.crash {
        rig.crash()
    } else {
        rig.cut()
    }
    rig.advance(Duration::from_millis(1));
    rig.finish();
    rig.check();
    (up, down)
}

#[test]
fn every_cut_of_the_bytes_leaves_one_true_outcome_each() {
    let whole = Failure { up: usize::MAX, processed: usize::MAX, down: usize::MAX, crash: true };
    let (up_bytes, down_bytes) = run(whole);
    assert!(up_bytes > 600 && down_bytes > 600, "{up_bytes} up, {down_bytes} down");
    let mut states = 0;
    for crash in [false, true] {
        for up in 0..=up_bytes {
            run(Failure { up, processed: usize::MAX, down: 0, crash });
            states += 1;
        }
        for down in 0..=down_bytes {
            run(Failure { up: usize::MAX, processed: usize::MAX, down, crash });
            states += 1;
        }
        for processed in 0..=REQUESTS as usize {
            for down in (0..=down_bytes).step_by(37) {
                run(Failure { up: usize::MAX, processed, down, crash });
                states += 1;
            }
        }
    }
    println!("{states} failures");
}
