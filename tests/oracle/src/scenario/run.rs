//! Reads a file of scenarios, runs each step against engine and oracle, and compares what is expected.

use std::fmt;

use protocol::{Event, Price, Side};

use super::facts::{Facts, QUIET, facts};
use super::world::{World, parse};
use crate::duel::Duel;

/// A scenario is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A step with the lines that are indented under it.
struct Step<'a> {
    line: usize,
    text: &'a str,
    expected: Vec<&'a str>,
}

/// Runs all scenarios of a text, each once as it is and once with an export and import after every step. Gives how many
/// scenarios there are.
///
/// # Errors
/// The first line that is wrong or does not come true.
pub fn run_text(file: &str, text: &str) -> Result<usize, ScenarioError> {
    let steps = read(text).map_err(|(line, what)| ScenarioError { file: file.to_string(), line, what })?;
    let mut scenarios = 0;
    for round_trips in [false, true] {
        scenarios = 0;
        let mut stage = Stage { world: World::default(), duel: Duel::new(None), round_trips, begun: false };
        for step in &steps {
            scenarios += usize::from(step.text.starts_with("scenario "));
            stage.step(step).map_err(|what| {
                let with = if round_trips { " (with an export and import after every step)" } else { "" };
                ScenarioError { file: file.to_string(), line: step.line, what: format!("{what}{with}") }
            })?;
        }
    }
    Ok(scenarios)
}

fn read(text: &str) -> Result<Vec<Step<'_>>, (usize, String)> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // A number such as #12 is no comment.
        let is_comment = line == "#" || line.starts_with("# ");
        let content = if is_comment { "" } else { line.split_once(" # ").map_or(line, |(before, _)| before) };
        if content.trim().is_empty() {
            continue;
        }
        if content.starts_with([' ', '\t']) {
            match steps.last_mut() {
                Some(step) => step.expected.push(content.trim()),
                None => return Err((number + 1, "an expectation without a step".to_string())),
            }
        } else {
            steps.push(Step { line: number + 1, text: content.trim(), expected: Vec::new() });
        }
    }
    Ok(steps)
}

struct Stage {
    world: World,
    duel: Duel,
    round_trips: bool,
    begun: bool,
}

impl Stage {
    fn step(&mut self, step: &Step<'_>) -> Result<(), String> {
        let (verb, rest) = step.text.split_once(' ').unwrap_or((step.text, ""));
        if verb == "scenario" {
            let round_trips = self.round_trips;
            *self = Self { world: World::default(), duel: Duel::new(None), round_trips, begun: true };
            return no_expectation(step);
        }
        if !self.begun {
            return Err("a file begins with a scenario's title".to_string());
        }
        match verb {
            "clock" => {
                self.world.move_clock(rest.trim())?;
                no_expectation(step)
            }
            "snapshot" => {
                self.duel.round_trip().map_err(|mismatch| mismatch.what)?;
                no_expectation(step)
            }
            "book" => self.check_book(rest.trim(), &step.expected),
            "repeat" => {
                let (times, text) = rest.split_once(' ').ok_or("repeat TIMES STEP")?;
                let times: usize = parse(times, "number of times")?;
                self.act(text, times, &step.expected)
            }
            _ => self.act(step.text, 1, &step.expected),
        }
    }

    fn act(&mut self, text: &str, times: usize, expected: &[&str]) -> Result<(), String> {
        let mut events: Vec<Facts> = Vec::new();
        for _ in 0..times {
            for command in self.world.commands(text)? {
                let outputs = self.duel.step(&command).map_err(|mismatch| mismatch.what)?;
                let mut named = None;
                for output in outputs {
                    if let Event::Named(name) = output.event {
                        named = Some(name.cl_ord_id);
                    } else if let Some(facts) = facts(&self.world, &output.event, named.take()) {
                        events.push(facts);
                    }
                }
            }
        }
        self.duel.check_state().map_err(|mismatch| mismatch.what)?;
        if self.round_trips {
            self.duel.round_trip().map_err(|mismatch| mismatch.what)?;
        }
        check_events(&events, expected)
    }

    /// Compares a book: for each side its levels from the best on, `SIDE PRICE: USER.LABEL QUANTITY, ...`.
    fn check_book(&self, symbol: &str, expected: &[&str]) -> Result<(), String> {
        let instrument = self.world.instrument(symbol)?;
        let mut lines: Vec<(Side, Price, Vec<String>)> = Vec::new();
        self.duel.exchange().for_each_order(|order| {
            let Some(order_price) = order.price.filter(|_| order.instrument == instrument) else { return };
            let label = self.world.labels_of(order.session, order.client_order_id).swap_remove(0);
            let text = format!("{}.{label} {}", self.world.name_of(order.session), order.leaves_quantity);
            match lines.last_mut() {
                Some((side, price, orders)) if (*side, *price) == (order.side, order_price) => {
                    orders.push(text)
                }
                _ => lines.push((order.side, order_price, vec![text])),
            }
        });
        let side = |wanted: Side| -> Vec<String> {
            lines
                .iter()
                .filter(|(side, ..)| *side == wanted)
                .map(|(side, price, orders)| format!("{side} {price}: {}", orders.join(", ")))
                .collect()
        };
        let wanted: Vec<&str> = expected.iter().copied().filter(|line| *line != "empty").collect();
        for (name, actual) in [("buy", side(Side::Buy)), ("sell", side(Side::Sell))] {
            let wanted: Vec<String> = wanted
                .iter()
                .filter(|line| line.split_whitespace().next() == Some(name))
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect();
            if wanted != actual {
                let list =
                    |lines: &[String]| lines.iter().map(|line| format!("\n  {line}")).collect::<String>();
                return Err(format!("expected{}\ngot{}", list(&wanted), list(&actual)));
            }
        }
        match wanted.iter().find(|line| !line.starts_with("buy ") && !line.starts_with("sell ")) {
            None => Ok(()),
            Some(line) => Err(format!("{line:?} is no level of a book")),
        }
    }
}

fn no_expectation(step: &Step<'_>) -> Result<(), String> {
    match step.expected.first() {
        None => Ok(()),
        Some(line) => Err(format!("{line:?}: nothing can be expected of this step")),
    }
}

/// Where nothing is expected, nothing may be refused. Counts alone are compared alone; else the lines must be all events,
/// in their order, but for quiet ones of kinds that no line names.
fn check_events(events: &[Facts], expected: &[&str]) -> Result<(), String> {
    let all = || events.iter().map(|event| format!("\n  {}", event.text())).collect::<String>();
    if expected.is_empty() {
        let refused = events.iter().find(|event| event.kind == "rejected" || event.kind == "login-refused");
        return refused.map_or(Ok(()), |event| Err(format!("unexpected: {}", event.text())));
    }
    let (counts, lines): (Vec<&str>, Vec<&str>) =
        expected.iter().partition(|line| line.starts_with("count "));
    for count in &counts {
        let words: Vec<&str> = count.split_whitespace().collect();
        let [_, who, kind, number] = words[..] else {
            return Err(format!("{count:?} is not: count WHO KIND NUMBER"));
        };
        let found = events.iter().filter(|event| event.who == who && event.kind == kind).count();
        if found != parse::<usize>(number, "count")? {
            return Err(format!("expected {number} times {who} {kind}, got {found}"));
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    let lines: Vec<&str> = lines.into_iter().filter(|line| *line != "nothing").collect();
    let named = |kind: &str| lines.iter().any(|line| line.split_whitespace().nth(1) == Some(kind));
    let audible: Vec<&Facts> =
        events.iter().filter(|event| !QUIET.contains(&event.kind) || named(event.kind)).collect();
    for (number, line) in lines.iter().enumerate() {
        match audible.get(number) {
            Some(event) if event.agree_with(line) => {}
            Some(event) => {
                return Err(format!("expected {line}\n     got {}\nof all events:{}", event.text(), all()));
            }
            None => return Err(format!("expected {line}\n     got nothing more\nof all events:{}", all())),
        }
    }
    match audible.get(lines.len()) {
        None => Ok(()),
        Some(event) => {
            Err(format!("expected nothing more\n     got {}\nof all events:{}", event.text(), all()))
        }
    }
}
