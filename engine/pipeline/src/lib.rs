//! The pipeline: the stages around the exchange, their wiring, recovery and the engine's handle.
//!
//! [`Engine::open`] takes a data directory, finds the last state and gives it as [`Opened`]; [`Engine::start`] puts
//! threads to it and gives an [`EngineHandle`], or [`Engine::stepped`] an [`EngineStepper`] that a simulation drives
//! with one thread and its own time. `wiring.rs` opens with the diagram.
//!
//! ```text
//! let config = EngineConfig::new(cluster_id);
//! let opened = Engine::open(storage, &config, &mut |progress| ..)?;
//! let hub = ..;                                         // seeded from opened.exchange() and opened.report_reader()
//! let engine = Engine::start(config, opened, Box::new(hub))?;
//! let ingress = engine.ingress();                       // one clone a publisher; all dropped before stop()
//! let view = engine.view();                             // marks, depth, metrics, report reader: Clone + Send + Sync
//! let stopped = engine.stop(Duration::from_secs(5));    // drains, closes the journal, gives the last state
//! ```
//!
//! A member of a cluster is opened with [`Engine::open_member`] and started with [`Engine::start_member`]: the same stages,
//! but its consensus writes the journal, takes what gateways published, and feeds what is committed.
//!
//! It must not know a protocol or a socket, and nothing in it but [`Clock`] reads time.

#![forbid(unsafe_code)]

mod background;
mod checkpoints;
mod clock;
mod config;
mod control;
mod engine;
mod evidence;
mod histogram;
mod ids;
mod marks;
mod member;
mod output;
mod recovery;
mod stages;
mod stepper;
mod threads;
mod view;
mod wiring;

pub use background::MakeSnapshotError;
pub use checkpoints::{Checkpoints, ConfirmedCheckpoint};
pub use clock::{Clock, ManualClock};
pub use config::EngineConfig;
pub use control::Fatal;
pub use engine::{Engine, EngineHandle, SnapshotRequests, StartError, Stopped};
pub use histogram::{Histogram, HistogramSnapshot};
pub use marks::{Gauges, JournalMetrics, Marks};
pub use member::{Feed, JournalGauges, MemberParts, MemberPorts, Retention};
pub use output::{DepthView, EventMetrics, Muted};
pub use recovery::{Found, OpenError, Opened};
pub use stepper::EngineStepper;
pub use threads::{StageName, ThreadPlan, ThreadPlanError, ThreadSpec, wait_for_cores};
pub use view::EngineView;
