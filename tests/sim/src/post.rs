//! The network between the members: requests and answers that take their time, are lost, come twice, overtake each other,
//! or meet a cut. It must not look into a message.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use oracle::random::Random;
use replicator::{CallFuture, Channel, Envelope, Member, Transport, TransportError};
use tokio::sync::oneshot;

use crate::trace::lock;

type Answer = oneshot::Sender<Result<Envelope, TransportError>>;
/// Whoever answers first, answers.
pub(crate) type AnswerTo = Arc<Mutex<Option<Answer>>>;

/// How the network is in one run.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// Milliseconds that a message takes at most, beside one that every message takes.
    pub(crate) delay_max: u64,
    /// One in so many takes up to ten times as long.
    pub(crate) late_one_in: u64,
    /// One in so many is lost; 0: none.
    pub(crate) lost_one_in: u64,
    /// One request in so many comes twice; 0: none.
    pub(crate) twice_one_in: u64,
}

/// A message on its way.
pub(crate) enum Parcel {
    Request { from: u64, to: u64, envelope: Envelope, answer: AnswerTo },
    Answer { from: u64, to: u64, envelope: Result<Envelope, TransportError>, answer: AnswerTo },
}

/// All that is on its way.
pub(crate) struct Post {
    now: u64,
    random: Random,
    pub(crate) weather: Weather,
    /// Pairs (from, to) whose messages are lost.
    cuts: BTreeSet<(u64, u64)>,
    due: BTreeMap<(u64, u64), Parcel>,
    next: u64,
}

impl Post {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            now: 0,
            random: Random::new(seed),
            weather,
            cuts: BTreeSet::new(),
            due: BTreeMap::new(),
            next: 0,
        }
    }

    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
    }

    pub(crate) fn cut(&mut self, from: u64, to: u64) {
        self.cuts.insert((from, to));
    }

    pub(crate) fn heal(&mut self, from: u64, to: u64) {
        self.cuts.remove(&(from, to));
    }

    pub(crate) fn heal_member(&mut self, id: u64) {
        self.cuts.retain(|(from, to)| *from != id && *to != id);
    }

    pub(crate) fn heal_all(&mut self) {
        self.cuts.clear();
        self.weather.lost_one_in = 0;
        self.weather.twice_one_in = 0;
    }

    fn one_in(&mut self, times: u64) -> bool {
        times > 0 && self.random.one_in(times)
    }

    fn delay(&mut self) -> u64 {
        let delay = 1 + self.random.below(self.weather.delay_max + 1);
        let late = self.weather.late_one_in;
        if self.one_in(late) { delay * 10 } else { delay }
    }

    fn put(&mut self, parcel: Parcel) {
        let (from, to) = match &parcel {
            Parcel::Request { from, to, .. } | Parcel::Answer { from, to, .. } => (*from, *to),
        };
        let lost = self.weather.lost_one_in;
        // Who waits for what is lost waits until it gives up.
        if self.cuts.contains(&(from, to)) || self.one_in(lost) {
            return;
        }
        let at = self.now + self.delay();
        self.next += 1;
        self.due.insert((at, self.next), parcel);
    }

    fn request(&mut self, from: u64, to: u64, envelope: Envelope, answer: Answer) {
        let answer: AnswerTo = Arc::new(Mutex::new(Some(answer)));
        let twice = self.weather.twice_one_in;
        if self.one_in(twice) {
            let (envelope, answer) = (envelope.clone(), Arc::clone(&answer));
            self.put(Parcel::Request { from, to, envelope, answer });
        }
        self.put(Parcel::Request { from, to, envelope, answer });
    }

    /// Sends an answer back.
    pub(crate) fn answer(&mut self, from: u64, to: u64, envelope: Envelope, answer: AnswerTo) {
        self.put(Parcel::Answer { from, to, envelope: Ok(envelope), answer });
    }

    /// Nobody listens there.
    pub(crate) fn refuse(&mut self, from: u64, to: u64, answer: AnswerTo) {
        let refused =
            TransportError::Unreachable { address: from.to_string(), reason: "nobody listens".into() };
        self.put(Parcel::Answer { from, to, envelope: Err(refused), answer });
    }

    /// What arrives now. What meets a cut does not.
    pub(crate) fn arrived(&mut self) -> Vec<Parcel> {
        let later = self.due.split_off(&(self.now + 1, 0));
        let now = std::mem::replace(&mut self.due, later);
        let cuts = &self.cuts;
        now.into_values()
            .filter(|parcel| match parcel {
                Parcel::Request { from, to, .. } | Parcel::Answer { from, to, .. } => {
                    !cuts.contains(&(*from, *to))
                }
            })
            .collect()
    }
}

/// Hands an answer to whoever waits for it.
pub(crate) fn hand_over(envelope: Result<Envelope, TransportError>, answer: &AnswerTo) {
    if let Some(answer) = lock(answer).take() {
        // Whoever asked may have given up.
        let _ = answer.send(envelope);
    }
}

/// One member's end of the network.
pub(crate) struct Cable {
    pub(crate) from: u64,
    pub(crate) post: Arc<Mutex<Post>>,
}

struct Wire {
    from: u64,
    to: u64,
    post: Arc<Mutex<Post>>,
}

impl Transport for Cable {
    fn open(&self, target: &Member) -> Box<dyn Channel> {
        Box::new(Wire { from: self.from, to: target.id.0, post: Arc::clone(&self.post) })
    }
}

impl Channel for Wire {
    fn call(&mut self, request: Envelope) -> CallFuture<'_> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            lock(&self.post).request(self.from, self.to, request, answer);
            match answered.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }
}
