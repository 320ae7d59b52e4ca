//! The comparison of what a step brought with the lines that are indented under it.

use super::facts::{Facts, QUIET};
use super::words::parse;

/// Where nothing is expected, nothing may be refused. Counts alone are compared alone; else the lines must be all events,
/// in their order, but for quiet ones of kinds that no line names.
pub(super) fn check_events(events: &[Facts], expected: &[&str]) -> Result<(), String> {
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
