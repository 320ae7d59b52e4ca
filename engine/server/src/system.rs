//! The system session: commands of the server itself, published in order and each waited for. It is no connection, and
//! its answers are reports like any other session's.

use std::time::{Duration, Instant};

use journaler::{JournalError, REPORTS_READ_MAX, ReportReader};
use pipeline::{Clock, EngineView};
use protocol::{
    Body, Command, ConnectionId, Event, REPORT_STRIDE, RejectReason, Report, ReportNumber, RequestId,
    SessionId, TradingDay,
};
use ring::{Ingress, PublishError};

/// Commands on their way at a time, so that an fsync is shared by many. A ring without room for them is only full.
const WINDOW: u64 = 4096;
/// How long a command's answer may take before something is wrong: many times the slowest disk's fsync.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause before looking again, while nothing has come.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// Why the commands did not all come through.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// The ring never takes it, or the command has no frame: a bug.
    #[error("a command of the server's own can't be published: {0}")]
    Publish(String),
    /// The report log can't be read.
    #[error(transparent)]
    Reports(#[from] JournalError),
    /// A report can't be decoded.
    #[error("a report of the server's own session can't be read: {0}")]
    Decode(#[from] protocol::DecodeError),
    /// The engine failed meanwhile, or stands still.
    #[error("{0}")]
    Engine(String),
}

/// A command that the business logic refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refusal {
    /// The command.
    pub body: Body,
    /// Why.
    pub reason: RejectReason,
}

/// Publishes commands as the system and waits for their answers.
pub struct System {
    ingress: Ingress,
    reports: ReportReader,
    view: EngineView,
    clock: Clock,
    day: TradingDay,
    next_report: ReportNumber,
}

impl System {
    /// The system session, whose reports of the trading day so far end with `last_report`.
    #[must_use]
    pub fn new(
        ingress: Ingress,
        view: EngineView,
        clock: Clock,
        day: TradingDay,
        last_report: ReportNumber,
    ) -> Self {
        let reports = view.report_reader();
        Self { ingress, reports, view, clock, day, next_report: ReportNumber(last_report.0 + 1) }
    }

    /// Publishes the commands in order and waits until each is answered; gives those that were refused.
    ///
    /// # Errors
    /// [`SystemError`]; then not all were answered.
    pub fn run(&mut self, commands: &[Body]) -> Result<Vec<Refusal>, SystemError> {
        let mut refusals = Vec::new();
        let mut published = 0;
        let mut answered = 0;
        let mut moved = Instant::now();
        while answered < commands.len() as u64 {
            let mut idle = true;
            while let Some(body) = next(commands, published).filter(|_| published - answered < WINDOW) {
                if !self.publish(*body, RequestId(published + 1))? {
                    break;
                }
                published += 1;
                idle = false;
            }
            let before = answered;
            answered = self.read(commands, answered, &mut refusals)?;
            if answered > before {
                moved = Instant::now();
            } else if idle {
                self.check(moved)?;
                std::thread::sleep(LOOK_EVERY);
            }
        }
        Ok(refusals)
    }

    fn check(&self, moved: Instant) -> Result<(), SystemError> {
        if let Some(fault) = self.view.fault() {
            return Err(SystemError::Engine(fault));
        }
        if moved.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(SystemError::Engine(format!("the engine answered nothing for {seconds} s")));
        }
        Ok(())
    }

    /// Whether the ring had room.
    fn publish(&mut self, body: Body, request_id: RequestId) -> Result<bool, SystemError> {
        let command = Command {
            session: SessionId::SYSTEM,
            connection: ConnectionId(0),
            request_id,
            timestamp: self.clock.now(),
            body,
        };
        let frame = command.encode().ok_or_else(|| SystemError::Publish("it has no frame".to_owned()))?;
        match self.ingress.try_publish(frame.as_bytes()) {
            Ok(()) => Ok(true),
            Err(PublishError::Full(_)) => Ok(false),
            Err(error) => Err(SystemError::Publish(error.to_string())),
        }
    }

    /// Reads what came; gives how many commands are answered.
    fn read(
        &mut self,
        commands: &[Body],
        mut answered: u64,
        refusals: &mut Vec<Refusal>,
    ) -> Result<u64, SystemError> {
        let mut bytes = Vec::new();
        let count =
            self.reports.read(SessionId::SYSTEM, self.day, self.next_report, REPORTS_READ_MAX, &mut bytes)?;
        self.next_report.0 += count as u64;
        for stride in bytes.chunks_exact(REPORT_STRIDE) {
            let event = Report::decode(stride)?.output.event;
            let (request_id, refused) = match event {
                Event::AdminDone(done) => (done.request_id, None),
                Event::Rejected(rejected) => (rejected.request_id, Some(rejected.reason)),
                _ => continue,
            };
            if request_id.0 != answered + 1 {
                return Err(SystemError::Engine(format!(
                    "request {request_id} of the system was answered in the place of {}",
                    answered + 1
                )));
            }
            if let (Some(reason), Some(body)) = (refused, next(commands, answered)) {
                refusals.push(Refusal { body: *body, reason });
            }
            answered += 1;
        }
        Ok(answered)
    }
}

fn next(commands: &[Body], at: u64) -> Option<&Body> {
    commands.get(usize::try_from(at).ok()?)
}
