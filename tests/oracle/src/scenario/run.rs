//! Reads a file of scenarios, runs each step against engine and oracle, and compares what is expected.

use std::fmt;

use protocol::Event;

use super::expect::check_events;
use super::facts::{Facts, facts};
use super::words::parse;
use super::world::World;
use crate::duel::Duel;

/// Hash by which a frame that is skipped was ordered: any will do.
const FRAME_HASH: [u8; 32] = [7; 32];

/// What a scenario begins with that doesn't begin with the rules of version 1.
const NEWEST_RULES: &str = "rulebook 2";

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
/// Of each scenario that does not come true the first line that is wrong; of a text that can't be read that line alone.
pub fn run_text(file: &str, text: &str) -> Result<usize, Vec<ScenarioError>> {
    let error = |line, what| ScenarioError { file: file.to_string(), line, what };
    let steps = read(text).map_err(|(line, what)| vec![error(line, what)])?;
    let is_title = |step: &Step<'_>| step.text.starts_with("scenario ");
    if let Some(step) = steps.first().filter(|step| !is_title(step)) {
        return Err(vec![error(step.line, "a file begins with a scenario's title".to_string())]);
    }
    let (mut scenarios, mut errors) = (0, Vec::new());
    for scenario in steps.chunk_by(|_, next| !is_title(next)) {
        scenarios += 1;
        for round_trips in [false, true] {
            if let Err((line, what)) = run_scenario(scenario, round_trips) {
                let with = if round_trips { " (with an export and import after every step)" } else { "" };
                errors.push(error(line, format!("{what}{with}")));
                break;
            }
        }
    }
    if errors.is_empty() { Ok(scenarios) } else { Err(errors) }
}

fn run_scenario(steps: &[Step<'_>], round_trips: bool) -> Result<(), (usize, String)> {
    let mut stage =
        Stage { world: World::default(), duel: Duel::new(None), round_trips, rules_in_force: false };
    steps.iter().try_for_each(|step| stage.step(step).map_err(|what| (step.line, what)))
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

pub(super) struct Stage {
    pub(super) world: World,
    pub(super) duel: Duel,
    round_trips: bool,
    /// Not yet only until the first step says whether the newest rules are in force.
    rules_in_force: bool,
}

impl Stage {
    fn step(&mut self, step: &Step<'_>) -> Result<(), String> {
        let (verb, rest) = step.text.split_once(' ').unwrap_or((step.text, ""));
        if verb == "scenario" {
            return no_expectation(step);
        }
        if !self.rules_in_force && step.text != "rulebook 1" {
            self.act(NEWEST_RULES, 1, &[])?;
        }
        self.rules_in_force = true;
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
            "balances" | "positions" => self.check_account(verb, rest.trim(), &step.expected),
            "repeat" => {
                let (times, text) = rest.split_once(' ').ok_or("repeat TIMES STEP")?;
                let times: usize = parse(times, "number of times")?;
                self.act(text, times, &step.expected)
            }
            _ => self.act(step.text, 1, &step.expected),
        }
    }

    fn act(&mut self, text: &str, times: usize, expected: &[&str]) -> Result<(), String> {
        let events = self.events(text, times)?;
        check_events(&events, expected)
    }

    /// What happens when a step is done so many times, with every check of the duel.
    pub(super) fn events(&mut self, text: &str, times: usize) -> Result<Vec<Facts>, String> {
        let (skips, text) = text.strip_prefix("skip ").map_or((false, text), |step| (true, step.trim()));
        let (text, why) = text.split_once(" why=").map_or((text, None), |(step, why)| (step, Some(why)));
        let mut events: Vec<Facts> = Vec::new();
        for _ in 0..times {
            for command in self.world.commands(text)? {
                let stepped = match why {
                    _ if skips => self.duel.skip(&command, FRAME_HASH),
                    Some(why) => self.duel.step_because(&command, why),
                    None => self.duel.step(&command),
                };
                let outputs = stepped.map_err(|mismatch| mismatch.what)?;
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
        Ok(events)
    }
}

fn no_expectation(step: &Step<'_>) -> Result<(), String> {
    match step.expected.first() {
        None => Ok(()),
        Some(line) => Err(format!("{line:?}: nothing can be expected of this step")),
    }
}
