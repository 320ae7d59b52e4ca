//! Random flows, splits, cuts, crashes, kicks, refusals and ends of day: every request has exactly one outcome, and it is
//! the venue's.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

fn disturb(rig: &mut Rig, rng: &mut StdRng) {
    match rng.random_range(0..1_000) {
        0..12 => rig.cut(),
        12..20 => rig.crash(),
        20..26 => rig.venue.kick(),
        26..30 => rig.venue.end_of_day(rig.last_report.0),
        30..33 => rig.venue.leader = Some("other:2".into()),
        _ => {}
    }
}

fn run(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut venue = Venue::new(seed ^ 1);
    venue.refusals = rng.random_range(0..20);
    venue.rejects = rng.random_range(0..30);
    let mut rig = Rig::new(config(rng.random_range(1..40)), venue);
    rig.finish();
    let mut n = 0;
    for _ in 0..600 {
        for _ in 0..rng.random_range(0..5) {
            n += 1;
            rig.submit(request(n));
        }
        rig.advance(std::time::Duration::from_millis(rng.random_range(0..30)));
        rig.carry_up(rng.random_range(0..400));
        rig.venue.process(rng.random_range(0..6));
        rig.carry_down(rng.random_range(0..600));
        disturb(&mut rig, &mut rng);
        assert_eq!(rig.client.ended(), None);
    }
    rig.finish();
    rig.check();
    assert!(rig.submitted.len() > 50, "the flow got somewhere");
}

#[test]
fn random_failures_leave_one_true_outcome_each() {
    let seed = seed();
    for run_seed in seed..seed.saturating_add(100) {
        let caught = std::panic::catch_unwind(|| run(run_seed));
        if let Err(panic) = caught {
            println!("failed with RINGPIT_SEED={run_seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// The venue's truth is what decides: a client that resends what was processed is noticed.
#[test]
fn a_resend_of_a_processed_request_would_be_noticed() {
    let mut rig = Rig::new(config(8), Venue::new(3));
    rig.finish();
    rig.submit(request(1));
    let packet = rig.client.outgoing().to_vec();
    rig.carry_up(usize::MAX);
    let connection = rig.connection.expect("connected");
    rig.venue.receive(connection, &packet);
    rig.finish();
    assert_eq!(rig.venue.repeated, 1);
}
