//! The bound of stops that enter within one command. The oracle looks at every waiting stop of an instrument for each one
//! that enters, so the stops are of many instruments, which begin to trade with one tick.

use oracle::scenario::run_text;

/// What docs/rulebook.md calls `CASCADE_MAX`.
const STOPS: usize = 10_000;
const INSTRUMENTS: usize = 25;

#[test]
fn ten_thousand_stops_enter_within_one_command_and_the_rest_with_the_next() {
    let mut text = String::from("scenario a cascade over many instruments\nusers ann bob\n");
    let mut step = |line: String| text.push_str(&(line + "\n"));
    for number in 1..=INSTRUMENTS {
        step(format!("instrument X{number}"));
        step(format!("bob: new b sell 1@100 on=X{number}"));
        step(format!("bob: new b buy 1@100 on=X{number}"));
        step(format!("phase X{number} pre_open"));
        step(format!("repeat {} ann: new s sell 1@market stop=100 on=X{number}", STOPS / INSTRUMENTS));
        step(format!("schedule X{number} +10s continuous"));
    }
    // Two more, in the instrument that comes last.
    step(format!("ann: new last sell 1@90 stop=100 on=X{INSTRUMENTS}"));
    step(format!("ann: new dated sell 1@90 stop=100 gtd expire=+20s on=X{INSTRUMENTS}"));
    step("clock +10s".to_owned());
    step(format!("tick\n  count ann triggered {STOPS}\n  count ann expired {STOPS}"));
    // Both come in before the next command has its effect, and before its timers.
    step("clock +10s".to_owned());
    step(
        "ann: status last
  ann triggered last 1@90 stop=100
  ann triggered dated 1@90 stop=100
  ann expired dated 1@90 expired
  ann state last 1@90 new stop=none"
            .to_owned(),
    );
    let run = run_text("cascade", &text);
    assert_eq!(run.map_err(|errors| errors[0].to_string()), Ok(1));
}
