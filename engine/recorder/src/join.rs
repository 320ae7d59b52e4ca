//! The time between two points for one sequence, straight from the records, also where they are of different writers. It must
//! not hold more than two files' worth of them.
//!
//! What a record is about its arguments' names say:
//!
//! - `sequence` is the last frame that passed the point; `frames` says how many, or `first` which was the first one.
//! - `session`: only the frames of that session.
//! - `slot` and `slots`, with `frames`: frames whose sequence nobody knew yet, by the slots of the ring that they took up to and
//!   with `slot`.
//! - `slot`, with `sequence` and `frames`: says so for all slots behind those of the record before it.

use std::collections::{BTreeMap, VecDeque};

use crate::point::PointInfo;
use crate::read::Contents;
use crate::record::{Entry, Record};

/// Claims that are kept for a batch to say which frames they are: on a member of a cluster none ever does.
const CLAIMS_MAX: usize = 1 << 16;

/// Two points by their names.
pub type Pair = (String, String);

/// Frames that passed a point together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    first: u64,
    last: u64,
    ticks: u64,
    session: Option<u64>,
}

/// Frames that are known by their slots.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// The slot behind the last.
    end: u64,
    slots: u64,
    frames: u64,
    ticks: u64,
    session: Option<u64>,
    point: usize,
}

/// What passed one point, in order of sequences.
#[derive(Debug, Default)]
struct Line {
    spans: VecDeque<Span>,
    last: u64,
}

impl Line {
    /// Takes in what is new: a session that reads its reports once more passes no point a second time.
    fn push(&mut self, mut span: Span) {
        span.first = span.first.max(self.last + 1);
        if span.first <= span.last {
            self.last = span.last;
            self.spans.push_back(span);
        }
    }

    /// Forgets what is at or below `done`.
    fn forget(&mut self, done: u64) {
        while self.spans.front().is_some_and(|span| span.last <= done) {
            self.spans.pop_front();
        }
    }
}

/// What passed a point in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Records.
    pub records: u64,
    /// Frames that they are about, where they are about frames.
    pub frames: u64,
}

/// Puts the records of files together, which must come in order.
#[derive(Debug)]
pub struct Join {
    pairs: Vec<Pair>,
    run: Option<u64>,
    points: Vec<PointInfo>,
    lines: BTreeMap<usize, Line>,
    /// Of the points that are about one session's frames.
    sessions: BTreeMap<(usize, u64), Line>,
    claims: VecDeque<Claim>,
    /// The slot behind the last one whose frames are known, and the sequence of the last of these.
    known: Option<(u64, u64)>,
    /// Everything up to here was looked at.
    done: u64,
    /// Frames that are told of.
    wanted: (u64, u64),
    /// By the points' names, in the order of the dictionaries.
    counted: Vec<(String, Counted)>,
    lost: u64,
}

/// Called with the number of the pair, the ticks between its points (0 where the counter went back), and how many frames it
/// was so for.
pub type Take<'a> = &'a mut dyn FnMut(usize, u64, u64);

impl Join {
    /// For the times between these points.
    #[must_use]
    pub fn new(pairs: Vec<Pair>) -> Self {
        Self {
            pairs,
            run: None,
            points: Vec::new(),
            lines: BTreeMap::new(),
            sessions: BTreeMap::new(),
            claims: VecDeque::new(),
            known: None,
            done: 0,
            wanted: (1, u64::MAX),
            counted: Vec::new(),
            lost: 0,
        }
    }

    /// Tells only of the frames `first` to `last`.
    #[must_use]
    pub fn within(mut self, first: u64, last: u64) -> Self {
        self.wanted = (first, last);
        self
    }

    /// Takes in a file's records. Tells of the frames that are too old for a record of this or a later file to be about them.
    pub fn add(&mut self, contents: &Contents, take: Take<'_>) {
        if self.run != Some(contents.run) || self.points != contents.points {
            self.finish(take);
            self.run = Some(contents.run);
            self.points.clone_from(&contents.points);
            for info in &contents.points {
                if !self.counted.iter().any(|(name, _)| *name == info.name) {
                    self.counted.push((info.name.clone(), Counted::default()));
                }
            }
        }
        let before = self.lines.values().map(|line| line.last).max().unwrap_or_default();
        for record in &contents.records {
            self.record(record);
        }
        self.tell(before, take);
    }

    /// Tells of all the rest.
    pub fn finish(&mut self, take: Take<'_>) {
        self.tell(u64::MAX, take);
        self.lines.clear();
        self.sessions.clear();
        self.claims.clear();
        (self.known, self.done) = (None, 0);
    }

    /// What passed each point that was passed, in the order of the dictionary.
    pub fn counted(&self) -> impl Iterator<Item = (&str, Counted)> {
        let all = self.counted.iter().map(|(name, counted)| (name.as_str(), *counted));
        all.filter(|(_, counted)| counted.records > 0)
    }

    /// Records that were lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn record(&mut self, record: &Record) {
        let (point, arguments) = match &record.entry {
            Entry::Lost(count) => return self.lost = self.lost.saturating_add(*count),
            Entry::Passed { point, arguments } => (*point, arguments),
        };
        let Some(info) = self.points.get(point) else { return };
        let value = |name| info.place_of(name).and_then(|place| arguments.get(place)).copied();
        let (session, slot, frames) = (value("session"), value("slot"), value("frames"));
        let sequences = record.sequences(&self.points);
        let claim = match (slot, value("slots"), frames) {
            (Some(slot), Some(slots), Some(frames)) => Some(Claim {
                end: slot.saturating_add(1),
                slots,
                frames,
                ticks: record.ticks,
                session,
                point,
            }),
            _ => None,
        };
        let passed = match sequences {
            Some((first, last)) if session.is_none() => last - first + 1,
            _ => frames.unwrap_or_default(),
        };
        if let Some((_, counted)) = self.counted.iter_mut().find(|(name, _)| *name == info.name) {
            counted.records += 1;
            counted.frames = counted.frames.saturating_add(passed);
        }
        if let Some(claim) = claim {
            let place = self.claims.partition_point(|other| other.end <= claim.end);
            self.claims.insert(place, claim);
            if self.claims.len() > CLAIMS_MAX {
                self.claims.pop_front();
            }
            return;
        }
        let Some((first, last)) = sequences else { return };
        let span = Span { first, last, ticks: record.ticks, session };
        match session {
            Some(session) => self.sessions.entry((point, session)).or_default().push(span),
            None => self.lines.entry(point).or_default().push(span),
        }
        if let Some(slot) = slot {
            self.know(slot.saturating_add(1), first, last);
        }
    }

    /// The slots up to `end` hold the frames `first` to `last`: the claims among them get their sequences.
    fn know(&mut self, end: u64, first: u64, last: u64) {
        let begun = self.known.replace((end, last));
        let Self { claims, lines, .. } = self;
        if let Some((start, _)) = begun.filter(|(start, before)| *start < end && *before + 1 == first) {
            let is_plain = end - start == last - first + 1;
            let (mut slot, mut next) = (start, first);
            for claim in claims.iter_mut() {
                let mut from = claim.end.saturating_sub(claim.slots);
                if is_plain {
                    from = from.max(slot);
                }
                if from >= end {
                    break;
                }
                // Where not every frame is of one slot, all that is before must be known.
                if from < slot || (from > slot && !is_plain) {
                    break;
                }
                next += from - slot;
                let to = claim.end.min(end);
                let left = (last + 1).saturating_sub(next);
                let frames = match (is_plain, to == claim.end) {
                    (true, _) => to - from,
                    (false, true) => claim.frames,
                    (false, false) => left,
                };
                if frames == 0 || frames > left {
                    break;
                }
                let Claim { ticks, session, point, .. } = *claim;
                let span = Span { first: next, last: next + frames - 1, ticks, session };
                lines.entry(point).or_default().push(span);
                // A claim may go on in the next batch.
                claim.slots -= to - from;
                claim.frames = claim.frames.saturating_sub(frames);
                (slot, next) = (to, next + frames);
            }
        }
        while claims.front().is_some_and(|claim| claim.end <= end) {
            claims.pop_front();
        }
    }

    /// Tells of the frames behind those that were told of, up to `to`.
    fn tell(&mut self, to: u64, take: Take<'_>) {
        for (number, (from, until)) in self.pairs.iter().enumerate() {
            let place = |name| self.points.iter().position(|info| info.name == name);
            let (Some(from), Some(until)) = (place(from.as_str()), place(until.as_str())) else { continue };
            let Some(line) = self.lines.get(&from) else { continue };
            let wanted = (self.wanted.0.max(self.done + 1), self.wanted.1.min(to));
            let within = |first: u64, last: u64| (first.max(wanted.0), last.min(wanted.1));
            let mut each = |a: &Span, b: &Span| {
                let (first, last) = within(a.first.max(b.first), a.last.min(b.last));
                if first <= last {
                    take(number, b.ticks.saturating_sub(a.ticks), last - first + 1);
                }
            };
            if let Some(other) = self.lines.get(&until) {
                overlaps(line.spans.iter().copied(), other.spans.iter().copied(), &mut each);
                continue;
            }
            // Of whose frames a span is, only their publication tells.
            for ((_, session), other) in self.sessions.range((until, 0)..=(until, u64::MAX)) {
                let owned = self.owned(line, *session);
                overlaps(owned.into_iter(), other.spans.iter().copied(), &mut each);
            }
        }
        self.done = self.done.max(to);
        let done = self.done;
        self.lines.values_mut().chain(self.sessions.values_mut()).for_each(|line| line.forget(done));
    }

    /// The parts of a line that are one session's.
    fn owned(&self, line: &Line, session: u64) -> Vec<Span> {
        let of_session = |spans: &VecDeque<Span>| {
            spans.iter().copied().filter(|span| span.session == Some(session)).collect::<Vec<_>>()
        };
        if line.spans.iter().any(|span| span.session.is_some()) {
            return of_session(&line.spans);
        }
        let mut owned = Vec::new();
        let publishers =
            self.lines.values().filter(|other| other.spans.iter().any(|span| span.session.is_some()));
        for publisher in publishers {
            overlaps(line.spans.iter().copied(), of_session(&publisher.spans).into_iter(), &mut |a, b| {
                owned.push(Span { first: a.first.max(b.first), last: a.last.min(b.last), ..*a });
            });
        }
        owned
    }
}

/// Calls with each two spans that have frames in common; both rows are in order.
fn overlaps(
    a: impl Iterator<Item = Span>,
    b: impl Iterator<Item = Span>,
    each: &mut dyn FnMut(&Span, &Span),
) {
    let (mut a, mut b) = (a.peekable(), b.peekable());
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        if left.first.max(right.first) <= left.last.min(right.last) {
            each(left, right);
        }
        if left.last <= right.last {
            a.next();
        } else {
            b.next();
        }
    }
}
