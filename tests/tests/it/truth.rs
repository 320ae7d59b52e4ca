//! What really happened, read from a stopped server's files: the journal's frames through engine and oracle side by side,
//! and what each request came to. And the checks that hold clients and report files against it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use journaler::{JournalReader, REPORT_RECORD_BYTES, RealStorage, SharedStorage};
use oracle::duel::Duel;
use protocol::{
    Body, CancelReason, Command, Event, Output, REPORT_STRIDE, RejectReason, Report, ReportNumber, RequestId,
    Sequence, SessionId, TradingDay,
};

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    day: TradingDay,
    number: ReportNumber,
    reject: Option<RejectReason>,
    sequence: Sequence,
}

impl Answer {
    /// Whether the request was looked at: one with a used id, or from a dead connection, was not.
    fn is_verdict(&self) -> bool {
        !matches!(self.reject, Some(RejectReason::IdNotRising | RejectReason::NotLoggedIn))
    }
}

/// One outcome as a client wrote it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    user: String,
    request: u64,
    outcome: String,
    number: Option<u64>,
    reason: String,
}

impl Told {
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    pub(crate) fn request(&self) -> u64 {
        self.request
    }

    pub(crate) fn is_done(&self) -> bool {
        self.outcome == "done"
    }

    pub(crate) fn is_refused(&self, reason: &str) -> bool {
        self.outcome == "refused" && self.reason == reason
    }

    /// Plants a report number that is not the answer's.
    pub(crate) fn forge_number(&mut self) {
        self.number = self.number.map(|number| number + 1);
    }

    /// Plants that nothing happened.
    pub(crate) fn forge_outcome(&mut self) {
        "not_processed".clone_into(&mut self.outcome);
    }
}

/// Reads a client's outcomes: user, request, outcome, report number, reason.
pub(crate) fn told(text: &str) -> Vec<Told> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [user, request, outcome, number, reason] = fields[..] else {
            panic!("five fields, not {line:?}")
        };
        Told {
            user: user.to_owned(),
            request: request.parse().expect("a request id"),
            outcome: outcome.to_owned(),
            number: (!number.is_empty()).then(|| number.parse().expect("a report number")),
            reason: reason.to_owned(),
        }
    };
    text.lines().map(line).collect()
}

/// All that a journal says.
pub(crate) struct Truth {
    duel: Duel,
    answers: HashMap<(SessionId, RequestId), Vec<Answer>>,
    reports: BTreeMap<(TradingDay, SessionId), Vec<Output>>,
}

impl Truth {
    /// Reads the journal of a stopped server from its first frame to the end.
    ///
    /// # Errors
    /// Where engine and oracle disagree, a checkpoint in the log contradicts them, or quantities are not conserved.
    pub(crate) fn read(data: &Path) -> Result<Self, String> {
        Self::read_until(data, Sequence(u64::MAX))
    }

    /// As [`read`](Self::read), as if the journal ended with frame `end`.
    pub(crate) fn read_until(data: &Path, end: Sequence) -> Result<Self, String> {
        let fail = |error: &dyn std::fmt::Display| error.to_string();
        let storage: SharedStorage = Arc::new(RealStorage::open(data).map_err(|error| fail(&error))?);
        let stat = journaler::verify(&storage, None, &mut |_| {}).map_err(|error| fail(&error))?;
        let reader = JournalReader::open(storage).map_err(|error| fail(&error))?;
        let mut cursor = reader.frames_from(Sequence(1)).map_err(|error| fail(&error))?;
        let mut truth = Self { duel: Duel::new(None), answers: HashMap::new(), reports: BTreeMap::new() };
        let end = end.min(stat.last_sequence);
        while let Some((_, frame)) = cursor.next_frame(end).map_err(|error| fail(&error))? {
            truth.apply(&Command::decode(frame))?;
        }
        truth.duel.check_state().map_err(|error| fail(&error))?;
        Ok(truth)
    }

    fn apply(&mut self, command: &Command) -> Result<(), String> {
        if let Body::Tick(tick) = &command.body
            && let Some(checkpoint) = self.duel.exchange().checkpoint()
            // In a cluster a tick carries what a majority has confirmed so far, which may be an older one, or none.
            && tick.checkpoint_sequence == checkpoint.sequence
            && tick.checkpoint_hash != checkpoint.running_hash
        {
            return Err(format!("{tick:?} is in the log, the replay has {checkpoint:?}"));
        }
        let mut day = self.duel.exchange().trading_day();
        for output in self.duel.step(command).map_err(|error| error.to_string())? {
            if let Event::DayStarted(started) = output.event {
                day = started;
            }
            if let Some(to) = output.event.recipient() {
                self.reports.entry((day, to.session)).or_default().push(*output);
                if let Some((request, reject)) = answered(&output.event) {
                    let answer = Answer { day, number: to.number, reject, sequence: output.sequence };
                    self.answers.entry((to.session, request)).or_default().push(answer);
                }
            }
        }
        Ok(())
    }

    /// The last frame.
    pub(crate) fn sequence(&self) -> Sequence {
        self.duel.exchange().sequence()
    }

    /// The engine's hashes, as the tools print them: running, state and book.
    pub(crate) fn hashes(&self) -> [String; 3] {
        let exchange = self.duel.exchange();
        [exchange.running_hash(), exchange.state_hash(), exchange.book_hash()]
            .map(|hash| format!("{hash:016x}"))
    }

    /// Frame of the last verdict on any request.
    pub(crate) fn last_verdict(&self) -> Sequence {
        let verdicts = self.answers.values().flatten().filter(|answer| answer.is_verdict());
        verdicts.map(|answer| answer.sequence).max().expect("something was answered")
    }

    /// Plants a second execution of a request, as if it had been taken twice.
    pub(crate) fn plant_duplicate(&mut self, user: &str, request: u64) {
        let session = self.session(user).expect("a user");
        let answers = self.answers.get_mut(&(session, RequestId(request))).expect("an answered request");
        answers.push(answers[0]);
    }

    fn session(&self, user: &str) -> Result<SessionId, String> {
        let found = self.duel.exchange().users().find(|known| known.name.to_string() == user);
        found.map(|user| user.session).ok_or_else(|| format!("no user {user} in the log"))
    }

    /// Holds what clients were told against what happened: nothing acknowledged is lost, nothing was done twice, every
    /// request has one outcome, and it is the true one. The sessions named must have told of all their requests.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub(crate) fn check_outcomes(&self, told: &[Told]) -> Result<(), String> {
        let mut heard: BTreeMap<SessionId, BTreeSet<u64>> = BTreeMap::new();
        for told in told {
            let session = self.session(&told.user)?;
            if !heard.entry(session).or_default().insert(told.request) {
                return Err(format!("two outcomes of one request: {told:?}"));
            }
            self.check_outcome(session, told)?;
        }
        for (session, requests) in &heard {
            let (Some(first), Some(last)) = (requests.first(), requests.last()) else { continue };
            if let Some(missing) = (*first..=*last).find(|request| !requests.contains(request)) {
                return Err(format!("request {missing} of session {session} has no outcome"));
            }
            let unheard = self.answers.iter().find(|((of, request), answers)| {
                of == session && !requests.contains(&request.0) && answers.iter().any(Answer::is_verdict)
            });
            if let Some(((_, request), answers)) = unheard {
                return Err(format!("request {request} of session {session} was done, unheard: {answers:?}"));
            }
        }
        Ok(())
    }

    fn check_outcome(&self, session: SessionId, told: &Told) -> Result<(), String> {
        let answers = self.answers.get(&(session, RequestId(told.request))).map_or(&[][..], Vec::as_slice);
        let verdicts: Vec<&Answer> = answers.iter().filter(|answer| answer.is_verdict()).collect();
        if verdicts.len() > 1 {
            return Err(format!("taken twice: {told:?}, {answers:?}"));
        }
        let expected = match told.outcome.as_str() {
            "done" => verdicts.first().map(|answer| (answer.number.0, None)),
            "rejected" => verdicts.first().and_then(|answer| Some((answer.number.0, Some(answer.reject?)))),
            "refused" | "not_processed" if verdicts.is_empty() => return Ok(()),
            _ => return Err(format!("{told:?}, but the log has {answers:?}")),
        };
        let Some((number, reject)) = expected else {
            return Err(format!("acknowledged and lost: {told:?}, the log has {answers:?}"));
        };
        let is_same = told.number == Some(number)
            && verdicts.first().is_some_and(|answer| answer.reject == reject)
            && told.reason == reject.map(|reason| reason.to_string()).unwrap_or_default();
        if is_same { Ok(()) } else { Err(format!("{told:?}, but the log has {answers:?}")) }
    }

    /// Holds the report files of the current day against the reports that the replay makes: each at its place, none more,
    /// none missing. (That their numbers have no gap is the replay's own check.)
    ///
    /// # Errors
    /// The first report that differs.
    pub(crate) fn check_report_files(&self, data: &Path) -> Result<(), String> {
        let today = self.duel.exchange().trading_day();
        for ((day, session), reports) in self.reports.iter().filter(|((day, _), _)| *day == today) {
            let path = data.join(format!("reports/day-{day}/session-{session}"));
            let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let (records, rest) = bytes.as_chunks::<REPORT_RECORD_BYTES>();
            if records.len() != reports.len() + 1 || !rest.is_empty() {
                let (there, due) = (records.len().saturating_sub(1), reports.len());
                return Err(format!("{} has {there} reports, {due} are due", path.display()));
            }
            for (record, output) in records.iter().skip(1).zip(reports) {
                let (stride, _) = record.split_first_chunk::<REPORT_STRIDE>().ok_or("no report")?;
                let report =
                    Report::decode(stride).map_err(|error| format!("{}: {error}", path.display()))?;
                if report.output != *output {
                    return Err(format!("{} has {report:?} for {output:?}", path.display()));
                }
            }
        }
        Ok(())
    }

    /// All reports of a user's current day.
    pub(crate) fn reports(&self, user: &str) -> &[Output] {
        let key = (self.duel.exchange().trading_day(), self.session(user).expect("a user"));
        self.reports.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// The request that an event answers, and why it was rejected where it was.
fn answered(event: &Event) -> Option<(RequestId, Option<RejectReason>)> {
    let (request, reject) = match event {
        Event::Accepted(e) => (e.request_id, None),
        Event::Rejected(e) => (e.request_id, Some(e.reason)),
        // Those of a mass cancel, of a lost connection and of an operator answer nothing.
        Event::Canceled(e)
            if matches!(e.reason, CancelReason::Requested | CancelReason::ReplacedToExecuted) =>
        {
            (e.request_id, None)
        }
        Event::Replaced(e) => (e.request_id, None),
        Event::OrderStatus(e) => (e.request_id, None),
        Event::MassCanceled(e) => (e.request_id, None),
        Event::AdminDone(e) => (e.request_id, None),
        Event::MassQuoted(e) => (e.request_id, None),
        _ => return None,
    };
    (request.0 != 0).then_some((request, reject))
}
