//! The reports stage: numbered reports into the report log, and notices to the gateways. It must not wait for the disk
//! (another thread makes the report log durable), or tell a gateway of a report that can't be read yet.

use std::collections::HashMap;
use std::sync::Arc;

use journaler::{JournalError, ReportWriter};
use protocol::{
    Egress, Event, Named, Notice, Output, REPORT_STRIDE, Recipient, ReportNumber, Sequence, SessionId,
    TradingDay, encode_report,
};
use recorder::{Writer, stages as points};
use ring::{OutputPoller, Polled, Stage, Work};

use super::{STEP_EVENTS_MAX, whole_up_to};
use crate::control::{Control, Course};
use crate::ids::IdHasher;
use crate::marks::Shared;

/// Bytes that the sessions' buffers together keep when they are empty. More, and all are given back: a step fills no more
/// than [`STEP_EVENTS_MAX`] reports, but it may be each time another session's.
const BUFFER_BYTES_KEPT: usize = 4 * STEP_EVENTS_MAX * REPORT_STRIDE;

/// One session's reports of the batch in hand, encoded, with consecutive numbers.
#[derive(Debug)]
struct Group {
    session: SessionId,
    first: ReportNumber,
    count: usize,
    /// The first `count` strides hold reports; what is behind them is left from before and written over.
    bytes: Vec<u8>,
}

impl Group {
    fn next(&self) -> ReportNumber {
        ReportNumber(self.first.0 + self.count as u64)
    }
}

/// Gathers reports by session and writes them, one write a session and batch. Used by the stage, and by recovery to
/// write again what the report log may lack.
#[derive(Debug)]
pub(crate) struct ReportBatch {
    writer: ReportWriter,
    day: TradingDay,
    named: Option<Named>,
    /// The first `used` hold reports; the rest are buffers to use again.
    groups: Vec<Group>,
    used: usize,
    /// Bytes of all buffers.
    buffer_bytes: usize,
    /// Place of the group that the last report went to.
    recent: usize,
    // Never iterated.
    places: HashMap<SessionId, usize, IdHasher>,
}

impl ReportBatch {
    /// A batch for reports of `day` and later.
    pub(crate) fn new(writer: ReportWriter, day: TradingDay) -> Self {
        Self {
            writer,
            day,
            named: None,
            groups: Vec::new(),
            used: 0,
            buffer_bytes: 0,
            recent: 0,
            places: HashMap::default(),
        }
    }

    /// The trading day of the reports that come next.
    pub(crate) fn day(&self) -> TradingDay {
        self.day
    }

    /// Goes on with the reports of `day`, at a start.
    pub(crate) fn enter(&mut self, day: TradingDay) {
        self.day = day;
    }

    /// Tells, at a start, that the reports of the day before are complete as they are.
    pub(crate) fn restore_day_before(&mut self) -> Result<(), JournalError> {
        match self.day.0.checked_sub(1) {
            None | Some(0) => Ok(()),
            Some(day) => self.writer.restore_ended_day(TradingDay(day)),
        }
    }

    /// Tells, at a start, that the day's reports up to `last` of a session are in the log.
    pub(crate) fn restore(&mut self, session: SessionId, last: ReportNumber) {
        self.writer.restore(session, self.day, last);
    }

    /// Takes in one event. Whatever a gateway must hear of it is told now or at the next [`flush`](Self::flush), in the
    /// order of the log; definitions at once, since a report may come that only makes sense with them.
    #[inline]
    pub(crate) fn take(&mut self, output: &Output, egress: &mut dyn Egress) -> Result<(), JournalError> {
        if let Some(to) = output.event.recipient() {
            self.push(output, to);
            return Ok(());
        }
        let (notice, after_reports) = match &output.event {
            Event::Named(named) => {
                self.named = Some(*named);
                return Ok(());
            }
            Event::InstrumentDefined(definition) => (Notice::Instrument(*definition), false),
            Event::UserDefined(user) => (Notice::User(*user), false),
            Event::ParticipantSet(session, participant, joined) => {
                (Notice::Participant(*session, *participant, *joined), false)
            }
            Event::LoggedIn(login) => (Notice::LoggedIn(*login), true),
            Event::LoginRefused(refused) => (Notice::LoginRefused(*refused), true),
            Event::ConnectionEnded(session, connection, reason) => {
                (Notice::ConnectionEnded(*session, *connection, *reason), true)
            }
            Event::DayStarted(day) => (Notice::DayStarted(*day), true),
            _ => return Ok(()),
        };
        if after_reports {
            self.flush(egress)?;
        }
        if let Notice::DayStarted(day) = notice {
            self.day = day;
        }
        egress.notify(notice);
        Ok(())
    }

    #[inline]
    fn push(&mut self, output: &Output, to: Recipient) {
        let named = if self.named.is_some() { self.named.take() } else { None };
        let cl_ord_id = named.as_ref().map(|named| {
            assert_eq!(named.session, to.session, "a text id is followed by its own report");
            &named.cl_ord_id
        });
        let place = self.place(to);
        let group = &mut self.groups[place];
        assert_eq!(group.next(), to.number, "session {} has a gap in its reports", to.session);
        let start = group.count * REPORT_STRIDE;
        if group.bytes.len() == start {
            group.bytes.resize(start + REPORT_STRIDE, 0);
            self.buffer_bytes += REPORT_STRIDE;
        }
        let room = group.bytes.get_mut(start..).and_then(<[u8]>::split_first_chunk_mut::<REPORT_STRIDE>);
        let Some((stride, _)) = room else { unreachable!("room for a stride was just made") };
        let encoded = encode_report(output, cl_ord_id, stride);
        assert!(encoded.is_some(), "an event with a recipient is a report");
        group.count += 1;
    }

    /// The place of a session's group, begun with report `to` where it has none yet.
    #[inline]
    fn place(&mut self, to: Recipient) -> usize {
        let Self { groups, used, recent, places, .. } = self;
        let is_recent = |group: &Group| group.session == to.session && group.count > 0;
        if !groups.get(*recent).is_some_and(is_recent) {
            *recent = *places.entry(to.session).or_insert_with(|| {
                *used += 1;
                *used - 1
            });
            if *recent == groups.len() {
                groups.push(Group { session: to.session, first: to.number, count: 0, bytes: Vec::new() });
            }
        }
        let group = &mut groups[*recent];
        if group.count == 0 {
            group.session = to.session;
            group.first = to.number;
        }
        self.recent
    }

    /// Writes what was gathered, and tells the gateways of it: once a session.
    pub(crate) fn flush(&mut self, egress: &mut dyn Egress) -> Result<(), JournalError> {
        let Self { writer, day, groups, used, places, buffer_bytes, .. } = self;
        for group in groups.iter_mut().take(*used) {
            let bytes = group.bytes.get(..group.count * REPORT_STRIDE).unwrap_or_default();
            writer.write(group.session, *day, group.first, bytes)?;
            egress.notify(Notice::Reports(group.session, *day, ReportNumber(group.next().0 - 1)));
            group.count = 0;
        }
        if *buffer_bytes > BUFFER_BYTES_KEPT {
            groups.clear();
            *buffer_bytes = 0;
        }
        *used = 0;
        places.clear();
        Ok(())
    }
}

/// Writes the report log and tells the gateways.
pub(crate) struct Reports {
    poller: OutputPoller<Output>,
    batch: ReportBatch,
    egress: Box<dyn Egress>,
    /// The last frame seen, whose events may not all have been seen.
    open: Sequence,
    recorder: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Reports {
    pub(crate) fn new(
        poller: OutputPoller<Output>,
        batch: ReportBatch,
        egress: Box<dyn Egress>,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let open = shared.marks.reported_sequence();
        let recorder = shared.recorder.writer("reports");
        Self { poller, batch, egress, open, recorder, shared, control }
    }

    fn step(&mut self) -> Result<Polled, JournalError> {
        let Self { poller, batch, egress, open, recorder, shared, .. } = self;
        // Read before the poll: all events up to here are in the ring by now.
        let published = shared.marks.published_sequence();
        let mut outcome = Ok(());
        let polled = poller.poll(STEP_EVENTS_MAX, |output, _| {
            *open = output.sequence;
            if outcome.is_ok() {
                outcome = batch.take(output, egress.as_mut());
            }
        });
        outcome?;
        batch.flush(egress.as_mut())?;
        let whole = whole_up_to(polled, *open, published);
        let reported = shared.marks.reported_sequence();
        if whole > reported {
            recorder.record(points::REPORTED, [whole.0 - reported.0, whole.0]);
            shared.marks.advance_reported(whole);
        }
        Ok(polled)
    }
}

impl Stage for Reports {
    fn name(&self) -> &'static str {
        "reports"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        match self.step() {
            Ok(Polled::Work(events)) => Work::Done(events),
            Ok(Polled::Idle) => Work::Idle,
            Ok(Polled::Shutdown) => Work::Finished,
            Err(error) => {
                self.control.fail(&format_args!("report log: {error}"));
                Work::Finished
            }
        }
    }
}

/// Tells nobody: for recovery, and for a member that does not lead.
#[derive(Clone, Copy, Debug)]
pub struct Muted;

impl Egress for Muted {
    fn notify(&mut self, _: Notice) {}
}
