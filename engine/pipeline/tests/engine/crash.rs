//! Power cuts: what gateways were told of is never lost, and a disk that lies is found out.

use std::sync::Arc;

use journaler::storage::fake::{Call, FakeStorage, Fault, Lie};
use journaler::{Durability, SharedStorage};
use pipeline::{Engine, ManualClock, ThreadPlan};

use crate::support::*;

/// Runs an engine on `disk` with its stages stepped in random order, cuts the power, and says whether a fresh start
/// has all that was told of before. `keep` decides what of the unsynced survives.
fn cut_and_compare(
    disk: &FakeStorage,
    flow: &mut Flow,
    time: &ManualClock,
    keep: impl FnMut(usize) -> bool,
) -> Result<FakeStorage, String> {
    let mut config = config(time);
    config.threads = ThreadPlan::parse([
        "journal",
        "ticker",
        "replicate",
        "unmarshal",
        "logic",
        "reports",
        "depth",
        "metrics",
    ])
    .unwrap();
    let opened = Engine::open(disk.shared(), &config, &mut |_| ()).map_err(|error| error.to_string())?;
    let recorder = Recorder::default();
    let mut engine = Engine::stepped(&config, opened, Box::new(recorder.clone())).unwrap();
    let mut ingress = engine.ingress();
    feed(&mut engine, &mut ingress, &flow.opening());
    for _ in 0..flow.random.below(400) {
        let request = flow.request();
        publish(&mut ingress, &request, || {
            engine.step();
        });
        for _ in 0..flow.random.below(6) {
            engine.step_thread(flow.random.below(engine.threads() as u64) as usize);
        }
        match flow.random.below(200) {
            0 | 1 => engine.keep_house()?,
            2 | 3 => time.advance(milliseconds(1_000)),
            4 => publish(&mut ingress, &end_of_day(START), || {
                engine.step();
            }),
            _ => {}
        }
    }
    let told = acknowledged(&recorder, &engine.view().report_reader());
    let after = disk.power_cut(keep);
    drop((ingress, engine));
    flow.next_round();
    let opened = Engine::open(after.shared(), &config, &mut |_| ()).map_err(|error| error.to_string())?;
    still_there(&told, &opened.report_reader(), opened.exchange().trading_day())?;
    let (exchange, _) = replayed(&after.shared(), opened.exchange().sequence());
    if exchange.state_hash() != opened.exchange().state_hash() {
        return Err("the recovered state is not the journal's".to_owned());
    }
    drop(opened);
    Ok(after)
}

#[test]
fn what_was_acknowledged_survives_power_cuts() {
    let mut random = Random(seed(5));
    for _ in 0..8 {
        let (mut disk, time) = (FakeStorage::new(), ManualClock::at(START));
        let mut flow = Flow::new(random.next());
        for _ in 0..8 {
            let mut survivors = Random(random.next());
            let share = random.below(4);
            let after = cut_and_compare(&disk, &mut flow, &time, |_| survivors.below(3) < share);
            disk = after.unwrap_or_else(|lost| panic!("{lost}"));
        }
    }
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    let mut random = Random(seed(6));
    let found = (0..10).any(|_| {
        let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
        disk.lie(Lie::SyncData);
        let lost = cut_and_compare(&disk, &mut Flow::new(random.next()), &time, |_| false);
        lost.inspect_err(|lost| println!("found out: {lost}")).is_err()
    });
    assert!(found, "acknowledged reports were lost and nobody noticed");
}

#[test]
fn at_level_memory_housekeeping_makes_durable_what_a_steady_flow_keeps_from_being_idle() {
    let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
    let mut config = config(&time);
    config.journal.durability = Durability::Memory;
    config.journal.segment_bytes = 64 * 1024;
    let opened = Engine::open(disk.shared(), &config, &mut |_| ()).unwrap();
    let recorder = Recorder::default();
    let mut engine = Engine::stepped(&config, opened, Box::new(recorder.clone())).unwrap();
    let (mut ingress, view) = (engine.ingress(), engine.view());
    let mut flow = Flow::new(seed(7));
    feed(&mut engine, &mut ingress, &flow.opening());
    let mut told = Default::default();
    for round in 0..12 {
        let requests: Vec<_> = (0..400).map(|_| flow.request()).collect();
        feed(&mut engine, &mut ingress, &requests);
        // The last ones come after the last housekeeping: a power cut may take them.
        if round < 10 {
            assert!(view.journal().durable_sequence() < view.marks().journaled_sequence());
            engine.keep_house().unwrap();
            assert_eq!(view.journal().durable_sequence(), view.marks().journaled_sequence());
            assert_eq!(view.reports_durable_sequence(), view.marks().journaled_sequence());
            told = acknowledged(&recorder, &view.report_reader());
        }
    }
    let durable = view.journal().durable_sequence();
    let after = disk.power_cut(|_| false);
    drop((ingress, engine));
    let opened = Engine::open(after.shared(), &config, &mut |_| ()).unwrap();
    assert!(opened.exchange().sequence() >= durable);
    assert_eq!(still_there(&told, &opened.report_reader(), opened.exchange().trading_day()), Ok(()));
}

#[test]
fn a_disk_error_ends_the_engine_and_nothing_more_comes_out() {
    for call in [Call::Write, Call::SyncData] {
        let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
        let (mut engine, recorder) = stepped(&disk.shared(), &config(&time));
        let mut ingress = engine.ingress();
        let mut flow = Flow::new(0);
        feed(&mut engine, &mut ingress, &flow.opening());
        let (applied, told) = (engine.view().marks().applied_sequence(), recorder.notices());
        disk.inject(Fault { call, path: "journal".to_owned(), after: 0, errno: 5 });
        for _ in 0..10 {
            ingress.try_publish(flow.request().as_bytes()).unwrap();
        }
        assert!(engine.settle(STEPS_MAX));
        let fault = engine.view().fault().expect("the engine has ended");
        assert!(fault.starts_with("journal: ") && !fault.contains('\n'), "{fault}");
        assert_eq!(engine.view().marks().applied_sequence(), applied);
        assert_eq!(recorder.notices(), told);
        drop(ingress);
        assert!(engine.stop(STEPS_MAX).is_some_and(|state| state.sequence() == applied));
    }
}

#[test]
fn a_second_engine_on_the_same_directory_is_refused() {
    let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
    let storage: SharedStorage = disk.shared();
    let (engine, _) = stepped(&storage, &config(&time));
    let refused = Engine::open(Arc::clone(&storage), &config(&time), &mut |_| ());
    assert!(refused.is_err_and(|error| error.to_string().contains("in use")));
    drop(engine);
    assert!(Engine::open(storage, &config(&time), &mut |_| ()).is_ok());
}
