//! The bound of stops and children that enter within one command. The oracle looks at every waiting order of an instrument
//! for each one that enters, so they are of many instruments, which begin to trade with one tick; and the whole state is
//! compared at the end only.

use oracle::duel::Duel;
use oracle::scenario::World;
use protocol::{Event, Quantity};

/// What docs/rulebook.md calls `CASCADE_MAX`.
const CASCADE_MAX: usize = 10_000;
const INSTRUMENTS: usize = 25;
/// What enters in each of them.
const ENTER: usize = CASCADE_MAX / INSTRUMENTS;
/// Most children of a parent.
const CHILDREN: usize = 16;

/// Engine and oracle in the words of the scenario language.
struct Venue {
    world: World,
    duel: Duel,
}

impl Venue {
    /// Instruments with a last trade price of 100, each in a call that ends in ten seconds.
    fn new() -> Self {
        let mut venue = Self { world: World::default(), duel: Duel::new(None) };
        venue.act("rulebook 2");
        venue.act("users ann bob");
        for number in 1..=INSTRUMENTS {
            venue.act(&format!("instrument X{number}"));
            venue.act(&format!("bob: new b sell 1@100 on=X{number}"));
            venue.act(&format!("bob: new b buy 1@100 on=X{number}"));
            venue.act(&format!("phase X{number} pre_open"));
            venue.act(&format!("schedule X{number} +10s continuous"));
        }
        venue
    }

    #[track_caller]
    fn act(&mut self, step: &str) -> Vec<Event> {
        let commands = self.world.commands(step).unwrap_or_else(|error| panic!("{step}: {error}"));
        let mut events = Vec::new();
        for command in &commands {
            let outputs = self.duel.step(command).unwrap_or_else(|mismatch| panic!("{step}: {mismatch}"));
            events.extend(outputs.iter().map(|output| output.event));
        }
        events
    }

    /// The calls end, and all of the state is compared, also once it was exported and imported.
    #[track_caller]
    fn begin(&mut self) -> Vec<Event> {
        self.world.move_clock("+10s").expect("a change of the clock");
        let events = self.act("tick");
        let checked = self.duel.check_state().and_then(|()| self.duel.round_trip());
        checked.unwrap_or_else(|mismatch| panic!("{mismatch}"));
        events
    }
}

fn count(events: &[Event], is_counted: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| is_counted(event)).count()
}

#[test]
fn ten_thousand_stops_enter_within_one_command_and_the_rest_with_the_next() {
    let mut venue = Venue::new();
    for number in 1..=INSTRUMENTS {
        for _ in 0..ENTER {
            venue.act(&format!("ann: new s sell 1@market stop=100 on=X{number}"));
        }
    }
    venue.act(&format!("ann: new last sell 2@90 stop=100 on=X{INSTRUMENTS}"));
    venue.act(&format!("ann: new dated sell 3@90 stop=100 gtd expire=+20s on=X{INSTRUMENTS}"));
    let events = venue.begin();
    assert_eq!(count(&events, |event| matches!(event, Event::Triggered(_))), CASCADE_MAX);
    assert_eq!(count(&events, |event| matches!(event, Event::Expired(_))), CASCADE_MAX);
    // What is left comes in before the next command has its effect, and before its timers.
    venue.world.move_clock("+10s").expect("a change of the clock");
    let events = venue.act("ann: status last");
    assert!(
        matches!(
            events[..],
            [
                Event::Triggered(_),
                Event::Added(_),
                Event::Triggered(_),
                Event::Added(_),
                Event::Expired(_),
                Event::OrderStatus(_)
            ]
        ),
        "{events:?}"
    );
}

#[test]
fn children_count_too() {
    let mut venue = Venue::new();
    let parents = ENTER / CHILDREN;
    for number in 1..=INSTRUMENTS {
        for _ in 0..parents {
            venue.act(&format!("ann: new p buy 1@100 on=X{number}"));
            for _ in 0..CHILDREN {
                venue.act(&format!("ann: new c sell 1@200 parent=p on=X{number}"));
            }
        }
        venue.act(&format!("bob: new m sell {parents}@100 on=X{number}"));
    }
    venue.act(&format!("ann: new p buy 1@100 on=X{INSTRUMENTS}"));
    venue.act(&format!("ann: new last sell 2@300 parent=p on=X{INSTRUMENTS}"));
    venue.act(&format!("bob: new m sell 1@100 on=X{INSTRUMENTS}"));
    let events = venue.begin();
    assert_eq!(count(&events, |event| matches!(event, Event::Added(_))), CASCADE_MAX);
    let events = venue.act("tick");
    let [Event::Added(last), Event::Checkpoint(_)] = events[..] else { panic!("{events:?}") };
    assert_eq!(last.quantity, Quantity(2));
}
