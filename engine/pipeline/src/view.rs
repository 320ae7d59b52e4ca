//! What anybody may see of a running engine: progress, counts, depth, reports. It must not hold up the engine, or keep
//! it alive.

use std::sync::Arc;

use journaler::{ReportLog, ReportReader, Skips};
use protocol::{Checkpoint, Sequence};

use crate::control::Control;
use crate::evidence::{Contradiction, Evidence};
use crate::marks::{Gauges, JournalMetrics, Marks, Shared};
use crate::output::{DepthView, EventMetrics};

/// A look at a running engine; cheap to clone and to send. It goes on to show the end when the engine has stopped.
#[derive(Clone, Debug)]
pub struct EngineView {
    pub(crate) shared: Arc<Shared>,
    pub(crate) control: Arc<Control>,
    pub(crate) events: Arc<EventMetrics>,
    pub(crate) depth: DepthView,
    pub(crate) report_log: ReportLog,
    pub(crate) evidence: Arc<Evidence>,
    pub(crate) skips: Arc<Skips>,
}

impl EngineView {
    /// How far each stage has come.
    #[must_use]
    pub fn marks(&self) -> &Marks {
        &self.shared.marks
    }

    /// What the journal stage measures, and the state of the disk's space.
    #[must_use]
    pub fn journal(&self) -> &JournalMetrics {
        &self.shared.journal
    }

    /// Counts of events and latencies.
    #[must_use]
    pub fn events(&self) -> &EventMetrics {
        &self.events
    }

    /// What the exchange holds, as of the last tick.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.shared.logic.load().gauges
    }

    /// The depth of every instrument.
    #[must_use]
    pub fn depth(&self) -> &DepthView {
        &self.depth
    }

    /// Reads the report log.
    #[must_use]
    pub fn report_reader(&self) -> ReportReader {
        self.report_log.reader()
    }

    /// All reports of frames up to here would survive a power cut.
    #[must_use]
    pub fn reports_durable_sequence(&self) -> Sequence {
        self.report_log.durable_mark()
    }

    /// The frames that this engine passes over, or did.
    #[must_use]
    pub fn skips(&self) -> &Skips {
        &self.skips
    }

    /// Ends the engine because others contradict its state: the logic stops before its next command, nothing more is
    /// written or told, the evidence goes into the data directory, and then the process ends. `by` says who expects what.
    pub fn diverged(&self, expected: Checkpoint, by: &str) {
        let Checkpoint { sequence, running_hash } = expected;
        let checkpoints = &self.shared.checkpoints;
        let own = checkpoints.hash_at(sequence);
        let contradiction = Contradiction { sequence, own, expected: running_hash, by };
        self.evidence.end(&self.control, checkpoints, &contradiction);
    }

    /// The error that ended the engine, if one did.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        self.control.fault()
    }
}
