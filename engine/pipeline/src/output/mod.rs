//! The stages on the output ring. They run in parallel; each sees every event.

mod depth;
mod levels;
mod metrics;
mod reports;

use protocol::Sequence;
use ring::Polled;

pub(crate) use depth::Depth;
pub use depth::DepthView;
pub use metrics::EventMetrics;
pub(crate) use metrics::MetricsStage;
pub use reports::Muted;
pub(crate) use reports::{ReportBatch, Reports};

/// Most events of one step of an output stage.
const STEP_EVENTS_MAX: usize = 2048;

/// The last frame all of whose events a stage has seen, after a poll of at most [`STEP_EVENTS_MAX`] that ended with an
/// event of `open`. `published` is the mark as it was before the poll: all events up to it were in the ring then, so a
/// poll below its limit has taken them, those of frames without events included.
fn whole_up_to(polled: Polled, open: Sequence, published: Sequence) -> Sequence {
    let drained = match polled {
        Polled::Work(events) => events < STEP_EVENTS_MAX,
        Polled::Idle | Polled::Shutdown => true,
    };
    if drained && open <= published { published } else { Sequence(open.0.saturating_sub(1)) }
}
