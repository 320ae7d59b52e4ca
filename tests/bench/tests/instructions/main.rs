//! Instructions per command of each stage, held against those recorded in `tests/instructions.txt`: a stage that costs over
//! a tenth more fails. Callgrind counts them, so that the figure is the same on a busy machine; on another compiler or CPU
//! than the recorded one the figures are printed and nothing is held against them.
//!
//! `cargo test --profile ci -p bench --test instructions` checks, `... -- --record` writes the file. It must not measure
//! time.

#![forbid(unsafe_code)]

mod stages;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

use stages::Stage;

/// How much more than recorded a stage may cost.
const SLACK: f64 = 0.10;
/// What is planted to see that the check finds it, as a part of the recorded figure, and in which stage.
const PLANTED: (Stage, f64) = (Stage::Unmarshal, 0.20);

/// What figures depend on beside the source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Conditions {
    rustc: String,
    cpu: String,
}

/// Instructions per command by stage.
type Figures = BTreeMap<String, f64>;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let ["--child", stage, planted] = args[..] {
        let stage = Stage::from_name(stage).expect("a stage's name");
        stages::run(stage, planted.parse().expect("a number"));
        return ExitCode::SUCCESS;
    }
    // What a test harness would be asked.
    if args.contains(&"--list") {
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("instructions: skipped, there is no valgrind");
        return ExitCode::SUCCESS;
    }
    match if args.contains(&"--record") { record() } else { check() } {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("instructions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn record() -> Result<(), String> {
    let text = format(&conditions()?, &measure()?);
    fs::write(file(), &text).map_err(|error| error.to_string())?;
    print!("{text}");
    Ok(())
}

fn check() -> Result<(), String> {
    let text = fs::read_to_string(file()).map_err(|error| format!("{}: {error}", file().display()))?;
    let (recorded_under, recorded) = parse(&text)?;
    let (found_under, found) = (conditions()?, measure()?);
    print!("{}", format(&found_under, &found));
    if found_under != recorded_under {
        println!("instructions: nothing is held against these; the recorded ones are for {recorded_under:?}");
        return Ok(());
    }
    compare(&recorded, &found)?;
    let (stage, part) = PLANTED;
    let name = stage.name().to_owned();
    let expected = recorded.get(&name).ok_or("no such stage is recorded")?;
    let slowed = run_child(stage, (expected * part) as u64)?;
    println!("{name} {slowed:.0} with {:.0}% planted", 100.0 * part);
    match compare(&recorded, &Figures::from([(name, slowed)])) {
        Err(_) => Ok(()),
        Ok(()) => Err("a stage that was slowed down is not found".into()),
    }
}

/// Fails where a found figure is too high, or has none to be held against.
fn compare(recorded: &Figures, found: &Figures) -> Result<(), String> {
    for (stage, found) in found {
        let recorded = recorded.get(stage).ok_or(format!("{stage} has no recorded figure"))?;
        if *found > recorded * (1.0 + SLACK) {
            return Err(format!(
                "{stage} costs {found:.0} instructions a command, {recorded:.0} are recorded; make it cheaper, or record \
                 the new figures with --record and say why in the commit"
            ));
        }
    }
    Ok(())
}

fn measure() -> Result<Figures, String> {
    Stage::ALL.into_iter().map(|stage| Ok((stage.name().to_owned(), run_child(stage, 0)?))).collect()
}

/// Instructions per command of a stage, with so many more planted in each.
fn run_child(stage: Stage, planted: u64) -> Result<f64, String> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*stages::measured*"])
        .arg(env::current_exe().map_err(|error| error.to_string())?)
        .args(["--child", stage.name(), &planted.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{} under valgrind: {text}", stage.name()));
    }
    let collected =
        text.lines().find_map(|line| line.split_once("Collected :")).map(|(_, count)| count.trim());
    let collected: u64 = collected
        .and_then(|count| count.parse().ok())
        .filter(|count| *count > 0)
        .ok_or_else(|| format!("valgrind counted nothing of {}: {text}", stage.name()))?;
    Ok(collected as f64 / stages::COMMANDS as f64)
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../instructions.txt")
}

fn conditions() -> Result<Conditions, String> {
    let rustc = Command::new("rustc").arg("-V").output().map_err(|error| format!("rustc: {error}"))?;
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpus.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim())
    };
    // Virtual machines call many CPUs by one name.
    let cpu = format!("{}, family {}, model {}", field("model name"), field("cpu family"), field("model\t"));
    let rustc = String::from_utf8_lossy(&rustc.stdout);
    Ok(Conditions { rustc: rustc.trim().trim_start_matches("rustc ").to_owned(), cpu })
}

fn format(conditions: &Conditions, figures: &Figures) -> String {
    let mut text = format!("rustc {}\ncpu {}\n", conditions.rustc, conditions.cpu);
    for (stage, figure) in figures {
        // Writing into a string can't fail.
        let _ = writeln!(text, "{stage} {figure:.0}");
    }
    text
}

fn parse(text: &str) -> Result<(Conditions, Figures), String> {
    let mut fields: BTreeMap<&str, &str> = text.lines().filter_map(|line| line.split_once(' ')).collect();
    let mut take =
        |name| fields.remove(name).map(str::to_owned).ok_or(format!("no line begins with `{name}`"));
    let conditions = Conditions { rustc: take("rustc")?, cpu: take("cpu")? };
    let figure = |(stage, figure): (&str, &str)| {
        let figure = figure.parse().map_err(|error| format!("{stage}: {error}"))?;
        Ok((stage.to_owned(), figure))
    };
    let figures = fields.into_iter().map(figure).collect::<Result<_, String>>()?;
    Ok((conditions, figures))
}
