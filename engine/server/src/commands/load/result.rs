//! What a load run counted and measured, as lines, as JSON and as a percentile table.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use client::Outcome;
use hdrhistogram::Histogram;
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde_json::{Value, json};

use super::LoadArgs;
use super::failover::Failovers;
use super::lane::Lane;
use super::verify::Verified;
use crate::error::CommandError;
use crate::say;

/// Longest latency that the histogram holds, in nanoseconds; a longer one counts as that.
const LATENCY_MAX_NS: u64 = 600_000_000_000;
/// Percentiles that are printed.
const PERCENTILES: [f64; 7] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// Counts of a run.
pub(super) struct Tally {
    latency: Histogram<u64>,
    pub(super) done: u64,
    pub(super) rejected: u64,
    pub(super) refused: u64,
    pub(super) not_processed: u64,
    pub(super) unknown: u64,
    pub(super) duplicated: u64,
    pub(super) reports: u64,
    pub(super) executions: u64,
    pub(super) failovers: Failovers,
}

impl Tally {
    pub(super) fn new() -> Self {
        let latency =
            Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constants that fit");
        Self {
            latency,
            done: 0,
            rejected: 0,
            refused: 0,
            not_processed: 0,
            unknown: 0,
            duplicated: 0,
            reports: 0,
            executions: 0,
            failovers: Failovers::new(),
        }
    }

    /// Counts an outcome. Only acknowledgements have a latency, and only of requests due after the warm-up.
    pub(super) fn outcome(&mut self, outcome: Outcome, now: Instant, due: Instant, measure_from: Instant) {
        let place = match outcome {
            Outcome::Done(_) => &mut self.done,
            Outcome::Rejected(..) => &mut self.rejected,
            Outcome::Refused(_) => &mut self.refused,
            Outcome::NotProcessed => &mut self.not_processed,
            Outcome::Unknown => &mut self.unknown,
        };
        *place += 1;
        if matches!(outcome, Outcome::Done(_) | Outcome::Rejected(..)) && due >= measure_from {
            let nanoseconds =
                u64::try_from(now.saturating_duration_since(due).as_nanos()).unwrap_or(u64::MAX);
            self.latency.saturating_record(nanoseconds.max(1));
        }
    }

    /// Writes the table that HdrHistogram's plotters read, values in microseconds.
    pub(super) fn write_percentiles(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:>12} {:>14} {:>10} {:>14}\n",
            "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
        )?;
        let mut below = 0;
        for step in self.latency.iter_quantiles(5) {
            below += step.count_since_last_iteration();
            let quantile = step.quantile_iterated_to();
            let value = micros(step.value_iterated_to());
            write!(out, "{value:12.3} {quantile:1.12} {below:10}")?;
            if quantile < 1.0 { writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile))? } else { writeln!(out)? }
        }
        let (mean, deviation) = (self.latency.mean() / 1e3, self.latency.stdev() / 1e3);
        writeln!(out, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]")?;
        let (max, count) = (micros(self.latency.max()), self.latency.len());
        writeln!(out, "#[Max     = {max:12.3}, Total count    = {count:12}]")
    }
}

/// All that a run has to tell.
pub(super) struct Result<'a> {
    args: &'a LoadArgs,
    tally: &'a Tally,
    sent: u64,
    lost: u64,
    resent: usize,
    reconnects: u64,
    sending: Duration,
    took: Duration,
    cpu: Duration,
    /// Whether the run went on to its end, and its files were written.
    pub(super) complete: bool,
    /// What the reports were found to be, where they were read again.
    pub(super) verified: Option<Verified>,
}

impl<'a> Result<'a> {
    pub(super) fn new(
        args: &'a LoadArgs,
        lanes: &[Lane],
        tally: &'a Tally,
        sending: Duration,
        took: Duration,
        cpu_before: Timespec,
    ) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            args,
            tally,
            sent: lanes.iter().map(Lane::sent).sum(),
            lost: lanes.iter().map(|lane| lane.pending() as u64).sum(),
            resent: lanes.iter().map(|lane| lane.resent).sum(),
            reconnects: lanes.iter().map(|lane| lane.reconnects.saturating_sub(1)).sum(),
            sending,
            took,
            cpu: duration(cpu).saturating_sub(duration(cpu_before)),
            complete: false,
            verified: None,
        }
    }

    fn acked(&self) -> u64 {
        self.tally.done + self.tally.rejected
    }

    fn per_second(&self) -> f64 {
        self.acked() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn latency_from(&self) -> &'static str {
        if self.args.rate.is_some() { "due" } else { "sent" }
    }

    pub(super) fn print(&self) {
        let Tally {
            done,
            rejected,
            refused,
            not_processed,
            unknown,
            duplicated,
            reports,
            executions,
            latency,
            failovers,
        } = self.tally;
        let LoadArgs { connections, window, .. } = self.args;
        say!("connections {connections}, window {window}, new-order frame 56 bytes");
        say!(
            "sent        {} in {:.3} s ({:.3} s with the last answers)",
            self.sent,
            self.sending.as_secs_f64(),
            self.took.as_secs_f64()
        );
        say!(
            "acked       {} ({done} done, {rejected} rejected), {:.0} a second",
            self.acked(),
            self.per_second()
        );
        say!(
            "not acked   {refused} refused, {not_processed} not processed, {unknown} unknown, {} lost",
            self.lost
        );
        say!("duplicated  {duplicated}");
        say!("reports     {reports}, of them {executions} executions");
        say!("reconnects  {}, {} requests sent again", self.reconnects, self.resent);
        if let Some(line) = failovers.line() {
            say!("{line}");
        }
        if let Some(Verified { reports, answers }) = self.verified {
            say!(
                "verified    {reports} reports from number 1 without a gap; {answers} answers, each as told and once"
            );
        }
        say!("client CPU  {:.3} s ({:.0} %)", self.cpu.as_secs_f64(), self.cpu_percent());
        say!("latency     in microseconds, from when a request was {}", self.latency_from());
        for percentile in PERCENTILES {
            say!("  {:>7} %  {:12.1}", percentile, micros(latency.value_at_percentile(percentile)));
        }
    }

    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu.as_secs_f64() / self.took.as_secs_f64().max(1e-9)
    }

    pub(super) fn json(&self) -> Value {
        let tally = self.tally;
        let mut latency = serde_json::Map::new();
        for percentile in PERCENTILES {
            let value = micros(tally.latency.value_at_percentile(percentile));
            latency.insert(format!("p{percentile}"), json!(value));
        }
        let (failover_ms, session_outage_ms) = tally.failovers.json();
        json!({
            "complete": self.complete && self.lost == 0,
            "connections": self.args.connections,
            "window": self.args.window,
            "rate": self.args.rate,
            "sent": self.sent,
            "acked": self.acked(),
            "done": tally.done,
            "rejected": tally.rejected,
            "refused": tally.refused,
            "not_processed": tally.not_processed,
            "unknown": tally.unknown,
            "lost": self.lost,
            "unanswered": self.lost + tally.unknown,
            "duplicated": tally.duplicated,
            "failovers": tally.failovers.count,
            "failover_ms": failover_ms,
            "session_outage_ms": session_outage_ms,
            "verified_reports": self.verified.map(|verified| verified.reports),
            "verified_answers": self.verified.map(|verified| verified.answers),
            "reports": tally.reports,
            "executions": tally.executions,
            "reconnects": self.reconnects,
            "resent": self.resent,
            "seconds": self.took.as_secs_f64(),
            "acked_per_second": self.per_second(),
            "client_cpu_seconds": self.cpu.as_secs_f64(),
            "latency_from": self.latency_from(),
            "latency_us": latency,
        })
    }

    /// An error unless every request had one outcome. Without `--resend` a refusal, too, means that not all went well.
    pub(super) fn verdict(&self) -> std::result::Result<(), CommandError> {
        let Tally { duplicated, unknown, refused, .. } = self.tally;
        if self.lost > 0 || *duplicated > 0 || *unknown > 0 {
            let lost = self.lost + unknown;
            return Err(CommandError::failed(format!(
                "{lost} requests without an outcome, {duplicated} with two"
            )));
        }
        if *refused > 0 && !self.args.goes_on() {
            return Err(CommandError::failed(format!("the gateway refused {refused} requests")));
        }
        Ok(())
    }
}

fn duration(time: Timespec) -> Duration {
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e3
}
