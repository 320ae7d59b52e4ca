//! Brings the log to what the configuration wants, while this member leads: users, instruments, capacities. What an earlier
//! leader has published is not published again, and what was lost with a leadership is, at the next one.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gateway::Hub;
use pipeline::Clock;
use protocol::{Body, Capacities, Command, ConnectionId, RequestId, SessionId, Term};
use replicator::{Cluster, Lead};
use ring::Ingress;

use super::Start;
use crate::assembly;
use crate::config::Config;
use crate::provision::{Known, Plan, Wanted};

/// Between two looks at the leadership and at what became of the commands.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long what was published may take to have an effect.
const EFFECT_PATIENCE: Duration = Duration::from_secs(5);
/// How often a term's leader publishes before it gives up: what stays away then was refused.
const ATTEMPTS_MAX: u32 = 3;
/// How long a new venue waits for all members to say that they know the newest rules.
const RULEBOOK_PATIENCE: Duration = Duration::from_secs(3);

/// A thread that provisions. It must be stopped for the engine to drain.
pub(super) struct Provisioner {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Provisioner {
    pub(super) fn start(start: &Start<'_>, lead: Lead, cluster: Cluster) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut work = Work {
            config: start.config.clone(),
            data: start.data.to_path_buf(),
            lead,
            hub: start.hub.clone(),
            ingress: start.engine.ingress(),
            clock: start.engine_config.clock.clone(),
            capacities: start.capacities,
            rulebook: start.rulebook,
            cluster,
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new().name("provision".to_owned()).spawn(move || work.run())?;
        Ok(Self { stop, thread })
    }

    pub(super) fn stop(self) {
        // The thread looks at nothing else that this thread has written.
        self.stop.store(true, Ordering::Relaxed);
        // A panic on that thread has aborted the process.
        let _ = self.thread.join();
    }
}

struct Work {
    config: Config,
    data: PathBuf,
    lead: Lead,
    hub: Hub,
    ingress: Ingress,
    clock: Clock,
    /// Those that this process published last, or of the state that it started from. The log tells nobody when another member
    /// changes them, so that they may be published once more than needed.
    capacities: Capacities,
    /// Of the state that it started from.
    rulebook: u32,
    cluster: Cluster,
    stop: Arc<AtomicBool>,
}

impl Work {
    fn run(&mut self) {
        let mut done = None;
        while !self.stop.load(Ordering::Relaxed) {
            let term = self.lead.term().filter(|term| Some(*term) != done);
            if let Some(term) = term
                && self.provision(term)
            {
                done = Some(term);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether `term` needs no more of it.
    fn provision(&mut self, term: Term) -> bool {
        let rulebook = self.rulebook_of_all(term);
        for attempt in 0..=ATTEMPTS_MAX {
            let plan = match self.plan(rulebook) {
                Ok(plan) => plan,
                Err(error) => {
                    tracing::error!(%error, "the configuration can't be published");
                    return true;
                }
            };
            if attempt == 0 {
                plan.tell_conflicts();
            }
            if plan.commands.is_empty() {
                return true;
            }
            if attempt == ATTEMPTS_MAX {
                let (left, first) = (plan.commands.len(), plan.commands.first());
                tracing::error!(
                    left,
                    ?first,
                    "the log refuses a part of what the configuration asks for: are [capacities] full?"
                );
                return true;
            }
            tracing::info!(commands = plan.commands.len(), %term, "the configuration is published");
            if !self.publish(&plan.commands, term) || !self.wait_for_effect(term, rulebook) {
                // The next leader's business, which may be this one again.
                return false;
            }
        }
        true
    }

    /// What the log has.
    fn known(&self) -> Known {
        Known {
            instruments: self.hub.instruments().into_iter().map(|each| (each.instrument, each)).collect(),
            users: self.hub.users(),
            capacities: self.capacities,
            rulebook: self.rulebook,
        }
    }

    /// The version of the rulebook that a new venue can begin with: one that not all members are known to know would stop
    /// those that don't.
    fn rulebook_of_all(&self, term: Term) -> u32 {
        if !self.known().is_new() {
            return self.rulebook;
        }
        let newest = exchange::RULEBOOK_VERSION;
        let since = Instant::now();
        while since.elapsed() < RULEBOOK_PATIENCE && !self.is_over(term) {
            let members = self.cluster.status().members;
            if members.iter().all(|member| member.reachable && member.versions.rulebook >= newest) {
                return newest;
            }
            thread::sleep(LOOK_EVERY);
        }
        tracing::warn!(
            version = self.rulebook,
            newest,
            "not all members are there and know the newest rulebook: the venue begins with an older one; \
             `ringpit ctl rulebook` switches it"
        );
        self.rulebook
    }

    /// What the log lacks.
    fn plan(&self, rulebook: u32) -> Result<Plan, crate::error::CommandError> {
        let known = self.known();
        let wanted = assembly::wanted_of_cluster(&self.config, &self.data, &known)?;
        let wanted = Wanted { rulebook, ..wanted };
        let plan = Plan::new(&wanted, &known);
        if plan.commands.is_empty() {
            assembly::finish_retirement(&self.data, &wanted)?;
        }
        Ok(plan)
    }

    /// Whether all were published in the term.
    fn publish(&mut self, commands: &[Body], term: Term) -> bool {
        for (at, body) in (1..).zip(commands) {
            let command = Command {
                session: SessionId::SYSTEM,
                connection: ConnectionId(0),
                request_id: RequestId(at),
                timestamp: self.clock.now(),
                body: *body,
            };
            let Some(frame) = command.encode() else {
                tracing::error!(?body, "the configuration asks for what has no frame");
                continue;
            };
            while self.ingress.try_publish(frame.as_bytes()).is_err() {
                if self.is_over(term) {
                    return false;
                }
                thread::sleep(LOOK_EVERY);
            }
            if let Body::SetCapacities(capacities) = body {
                self.capacities = *capacities;
            }
        }
        !self.is_over(term)
    }

    /// Waits until nothing is lacking, or for as long as that may take; whether the term goes on.
    fn wait_for_effect(&self, term: Term, rulebook: u32) -> bool {
        let published = Instant::now();
        while published.elapsed() < EFFECT_PATIENCE {
            if self.is_over(term) {
                return false;
            }
            if self.plan(rulebook).is_ok_and(|plan| plan.commands.is_empty()) {
                return true;
            }
            thread::sleep(LOOK_EVERY);
        }
        true
    }

    fn is_over(&self, term: Term) -> bool {
        self.lead.term() != Some(term) || self.stop.load(Ordering::Relaxed)
    }
}
