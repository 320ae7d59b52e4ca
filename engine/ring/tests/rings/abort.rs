//! A panic while slots are held ends the process, before anything behind sees the slots as done. Each case runs in a
//! child: this test binary again, with the one test and the case in the environment.

use std::convert::Infallible;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use ring::{WakeSet, input_ring, output_ring};

use crate::frames::frame;

const CASE: &str = "RINGPIT_ABORT_CASE";
const SIGABRT: i32 = 6;

/// Runs in the child: publishes, then panics in the named closure. `catch_unwind` shows that nobody can catch it.
fn child(case: &str) {
    let mut ring = input_ring::<u64>(64, WakeSet::default()).expect("a legal size");
    ring.ingress.try_publish(&frame(100, 0, 0)).expect("room");
    let (mut publisher, [mut poller]) = output_ring::<u64, 1>(64).expect("a legal size");
    publisher.try_publish(1).expect("room");
    let read_all = |poller: &mut ring::FramePoller| poller.poll(64, |_| Ok::<_, Infallible>(())).is_ok();
    let _ = catch_unwind(AssertUnwindSafe(|| match case {
        "journal" => {
            let _ = ring.journal.poll(64, |_| -> Result<(), Infallible> { panic!("planted") });
        }
        "unmarshal" => {
            ring.unmarshal.poll(64, |_, _| panic!("planted"));
        }
        "logic" | "logic takes too many" => {
            assert!(read_all(&mut ring.journal) && read_all(&mut ring.replicate));
            ring.unmarshal.poll(64, |_, _| ());
            ring.logic.poll(64, |_| if case == "logic" { panic!("planted") } else { 2 });
        }
        "output" => {
            poller.poll(64, |_, _| panic!("planted"));
        }
        "none" => {}
        other => unreachable!("{other}"),
    }));
    println!("survived");
}

#[test]
fn a_panic_with_slots_in_hand_aborts() {
    if let Ok(case) = std::env::var(CASE) {
        return child(&case);
    }
    let run = |case: &str| {
        let binary = std::env::current_exe().expect("this binary");
        Command::new(binary)
            .args(["--exact", "abort::a_panic_with_slots_in_hand_aborts", "--nocapture", "--test-threads=1"])
            .env(CASE, case)
            .output()
            .expect("a child")
    };
    for case in ["journal", "unmarshal", "logic", "logic takes too many", "output"] {
        let output = run(case);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.signal(), Some(SIGABRT), "{case}: {out}{err}");
        assert!(err.contains("fatal: panic while reading"), "{case} says what happened: {err}");
        assert!(!out.contains("survived"), "{case}: {out}");
    }
    let control = run("none");
    assert!(control.status.success(), "without a panic the child ends well");
    assert!(String::from_utf8_lossy(&control.stdout).contains("survived"));
}
