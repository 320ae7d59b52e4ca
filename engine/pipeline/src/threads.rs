//! Which stages share a thread, as configuration says it. It must not start threads: the wiring does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ring::WaitStrategy;

/// A stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StageName {
    /// Makes frames durable; in a member: proposes them, since its consensus writes the journal.
    Journal,
    /// Publishes ticks.
    Ticker,
    /// Commits frames; in a member: tells the stages behind that what was fed is committed.
    Replicate,
    /// Decodes frames.
    Unmarshal,
    /// Applies commands.
    Logic,
    /// Writes the report log and notifies the gateways.
    Reports,
    /// Keeps the depth of each instrument.
    Depth,
    /// Counts.
    Metrics,
}

impl StageName {
    /// All of them, in the order in which a frame meets them.
    pub const ALL: [Self; 8] = [
        Self::Journal,
        Self::Ticker,
        Self::Replicate,
        Self::Unmarshal,
        Self::Logic,
        Self::Reports,
        Self::Depth,
        Self::Metrics,
    ];

    /// The name in configuration, logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Ticker => "ticker",
            Self::Replicate => "replicate",
            Self::Unmarshal => "unmarshal",
            Self::Logic => "logic",
            Self::Reports => "reports",
            Self::Depth => "depth",
            Self::Metrics => "metrics",
        }
    }
}

/// The stages of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Its stages, stepped in this order.
    pub stages: Vec<StageName>,
    /// The CPU that it is pinned to.
    pub core: Option<usize>,
}

/// The threads of the engine; each stage is on exactly one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadPlan(Vec<ThreadSpec>);

/// Why a plan of threads does not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThreadPlanError {
    /// A name that no stage has.
    #[error(
        "`{0}` is no stage: journal, ticker, replicate, unmarshal, logic, reports, depth, metrics, or output for the last three"
    )]
    UnknownStage(String),
    /// What follows the `@` is no CPU number.
    #[error("`{0}` is no CPU number")]
    Core(String),
    /// A stage is on two threads, or twice on one.
    #[error("stage {0} is there twice")]
    Twice(&'static str),
    /// A stage is on no thread.
    #[error("stage {0} is on no thread")]
    Missing(&'static str),
}

impl FromStr for ThreadSpec {
    type Err = ThreadPlanError;

    /// Reads `stage+stage+...`, with `@CPU` behind it where the thread is to be pinned. `output` stands for the three
    /// stages behind the output ring.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (names, core) = match text.split_once('@') {
            None => (text, None),
            Some((names, core)) => {
                let number =
                    core.trim().parse().map_err(|_| ThreadPlanError::Core(core.trim().to_owned()))?;
                (names, Some(number))
            }
        };
        let mut stages = Vec::new();
        for name in names.split('+').map(str::trim) {
            match StageName::ALL.into_iter().find(|stage| stage.name() == name) {
                Some(stage) => stages.push(stage),
                None if name == "output" => {
                    stages.extend([StageName::Reports, StageName::Depth, StageName::Metrics]);
                }
                None => return Err(ThreadPlanError::UnknownStage(name.to_owned())),
            }
        }
        Ok(Self { stages, core })
    }
}

impl fmt::Display for ThreadSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.stages.iter().map(|stage| stage.name()).collect();
        formatter.write_str(&names.join("+"))?;
        self.core.map_or(Ok(()), |core| write!(formatter, "@{core}"))
    }
}

impl ThreadPlan {
    /// A plan from its threads.
    ///
    /// # Errors
    /// A stage is on no thread, or there twice.
    pub fn new(threads: Vec<ThreadSpec>) -> Result<Self, ThreadPlanError> {
        for stage in StageName::ALL {
            match threads.iter().flat_map(|thread| &thread.stages).filter(|other| **other == stage).count() {
                0 => return Err(ThreadPlanError::Missing(stage.name())),
                1 => {}
                _ => return Err(ThreadPlanError::Twice(stage.name())),
            }
        }
        Ok(Self(threads))
    }

    /// A plan from one text a thread, as [`ThreadSpec`] reads it.
    ///
    /// # Errors
    /// As [`ThreadPlan::new`], and a name or CPU that can't be read.
    pub fn parse<'a>(threads: impl IntoIterator<Item = &'a str>) -> Result<Self, ThreadPlanError> {
        Self::new(threads.into_iter().map(str::parse).collect::<Result<_, _>>()?)
    }

    /// The default for a machine with so many CPUs, gateways' threads included.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        use StageName::{Depth, Journal, Logic, Metrics, Replicate, Reports, Ticker, Unmarshal};
        let threads: &[&[StageName]] = match cores {
            0..=1 => &[&[Journal, Ticker], &[Replicate, Unmarshal, Logic, Reports, Depth, Metrics]],
            2..=7 => &[&[Journal, Ticker], &[Replicate, Unmarshal, Logic], &[Reports, Depth, Metrics]],
            _ => &[&[Journal], &[Ticker, Replicate, Unmarshal], &[Logic], &[Reports], &[Depth, Metrics]],
        };
        Self(threads.iter().map(|stages| ThreadSpec { stages: stages.to_vec(), core: None }).collect())
    }

    /// Everything on one thread: for simulations.
    #[must_use]
    pub fn single() -> Self {
        Self(vec![ThreadSpec { stages: StageName::ALL.to_vec(), core: None }])
    }

    /// The threads.
    #[must_use]
    pub fn threads(&self) -> &[ThreadSpec] {
        &self.0
    }
}

/// The default way to wait on a machine with so many CPUs: spin, then park. Where cores are plenty the spin outlasts an
/// fsync, so that a thread that has work now and then never parks.
#[must_use]
pub fn wait_for_cores(cores: usize) -> WaitStrategy {
    let park = Duration::from_millis(10);
    match cores {
        0..=3 => WaitStrategy::default(),
        4..=7 => WaitStrategy::SpinThenPark { spins: 1_000, park },
        _ => WaitStrategy::SpinThenPark { spins: 20_000, park },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_has_each_stage_once() {
        for cores in [0, 1, 2, 3, 4, 6, 8, 64] {
            let plan = ThreadPlan::for_cores(cores);
            assert_eq!(ThreadPlan::new(plan.threads().to_vec()), Ok(plan));
        }
        assert_eq!(ThreadPlan::new(ThreadPlan::single().0).map(|plan| plan.0.len()), Ok(1));
    }

    #[test]
    fn plans_are_read_from_text() {
        let plan = ThreadPlan::parse(["journal+ticker@1", "replicate + unmarshal+logic+output"]).unwrap();
        let texts: Vec<String> = plan.threads().iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["journal+ticker@1", "replicate+unmarshal+logic+reports+depth+metrics"]);
        for (threads, error) in [
            (&["journal+x"][..], ThreadPlanError::UnknownStage("x".to_owned())),
            (&["journal@one"], ThreadPlanError::Core("one".to_owned())),
            (
                &["journal+ticker+replicate+unmarshal+logic+reports+depth"],
                ThreadPlanError::Missing("metrics"),
            ),
            (
                &["journal+ticker+journal", "replicate+unmarshal+logic+output"],
                ThreadPlanError::Twice("journal"),
            ),
        ] {
            assert_eq!(ThreadPlan::parse(threads.iter().copied()), Err(error), "{threads:?}");
        }
    }
}
