//! The statistics as a page for Prometheus. Names and units are part of what operators build on: they don't change.

mod cluster;

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use pipeline::HistogramSnapshot;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::stats::{EngineStats, Stats};

/// Buckets of one octave in the engine's histograms; the page shows one bucket an octave.
const OCTAVE: usize = 8;
const NANOSECONDS: f64 = 1e9;
/// The buckets shown for times, in nanoseconds: a microsecond to about 17 seconds.
const TIMES: RangeInclusive<u64> = 1_000..=20_000_000_000;
/// The buckets shown for counts of frames.
const COUNTS: RangeInclusive<u64> = 1..=100_000;

/// Writes the page.
///
/// # Errors
/// None in fact: a String takes all that is written to it.
pub fn page(stats: Stats) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("ringpit");
    registry.register_collector(Box::new(Page(stats)));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(page)
}

#[derive(Debug)]
struct Page(Stats);

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stats = &self.0;
        let durability = stats.engine.as_ref().map_or("unknown", |engine| engine.durability);
        let labels = [("version", stats.version), ("durability", durability), ("phase", stats.phase)];
        encoder
            .encode_descriptor("build", "Version, durability and phase", None, MetricType::Info)?
            .encode_info(&labels)?;
        let mut writer = Writer { encoder };
        writer.gauge("ready", "1 while new orders are taken", u64::from(stats.ready))?;
        writer.gauge("uptime_seconds", "Seconds since the process started", stats.uptime_seconds)?;
        if let Some(cluster) = &stats.cluster {
            cluster::encode(&mut writer, cluster, &stats.commit_ns)?;
        }
        stats.engine.as_ref().map_or(Ok(()), |engine| encode_engine(&mut writer, engine))
    }
}

fn encode_engine(writer: &mut Writer<'_>, stats: &EngineStats) -> fmt::Result {
    writer.gauges(
        "sequence",
        "Last frame that each stage is through with",
        "stage",
        &[
            ("journaled", stats.journaled_sequence),
            ("durable", stats.durable_sequence),
            ("committed", stats.committed_sequence),
            ("applied", stats.applied_sequence),
            ("published", stats.published_sequence),
            ("reported", stats.reported_sequence),
            ("reports_durable", stats.reports_durable_sequence),
            ("snapshot", stats.snapshot_sequence),
        ],
    )?;
    if let Some(age) = stats.snapshot_age_seconds {
        writer.gauge("snapshot_age_seconds", "Log time since the newest snapshot", age)?;
    }
    writer.gauge("input_ring_slots", "Slots of the input ring", stats.input_ring_slots)?;
    writer.gauge("input_ring_used_slots", "Slots of the input ring in use", stats.input_ring_used)?;
    writer.gauge("open_orders", "Resting orders", stats.open_orders)?;
    writer.gauge("levels", "Price levels with orders", stats.levels)?;
    writer.gauge("sessions", "Users", stats.sessions)?;
    writer.gauge("instruments", "Instruments", stats.instruments)?;
    writer.gauge("trading_day", "Number of the trading day", stats.trading_day.into())?;
    writer.gauge("connections", "TCP connections of clients", stats.connections)?;
    writer.gauge("logged_in_connections", "Connections that are logged in", stats.logged_in)?;
    writer.counter(
        "connections_turned_away",
        "Connections turned away for a limit",
        stats.connections_turned_away,
    )?;
    writer.counter("logins_failed", "Logins that failed", stats.logins_failed)?;
    writer.counter("messages_refused", "Messages that the gateway refused", stats.messages_refused)?;
    writer.counter(
        "slow_readers",
        "Connections dropped because the client did not read",
        stats.slow_readers,
    )?;
    if let Some(free) = stats.disk_free_bytes {
        writer.gauge("disk_free_bytes", "Free bytes on the data directory's file system", free)?;
    }
    writer.gauge("disk_space_low", "1 while only cancels are taken", u64::from(stats.disk_space_low))?;
    writer.counters("events", "Events by kind", "kind", &stats.events)?;
    writer.counters("rejects", "Rejected requests by reason", "reason", &stats.rejects)?;
    writer.histogram(
        "journal_batch_frames",
        "Frames of a journal batch",
        &stats.batch_frames,
        1.0,
        &COUNTS,
    )?;
    writer.histogram(
        "journal_append_seconds",
        "From the write of a batch until it was durable at the configured level",
        &stats.append_ns,
        NANOSECONDS,
        &TIMES,
    )?;
    writer.histogram(
        "latency_seconds",
        "From the gateway's stamp of a frame to its first event",
        &stats.latency_ns,
        NANOSECONDS,
        &TIMES,
    )
}

/// Examples beside the buckets of a histogram, of which this page has none.
type Exemplars = HashMap<usize, Exemplar<[(&'static str, &'static str); 0], f64>>;

/// Writes metrics of each kind with their description.
struct Writer<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Writer<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    }

    fn seconds(&mut self, name: &str, help: &str, value: Duration) -> fmt::Result {
        let metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value.as_secs_f64()).encode(metric)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    }

    fn gauges(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (text, value) in values {
            let labels = [(label, *text)];
            ConstGauge::new(*value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn counters(&mut self, name: &str, help: &str, label: &str, values: &[(&str, u64)]) -> fmt::Result {
        let mut metric = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (text, value) in values {
            let labels = [(label, *text)];
            ConstCounter::new(*value).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A histogram in units of 1/`scale` of the recorded values, with one bucket an octave within `range`.
    fn histogram(
        &mut self,
        name: &str,
        help: &str,
        histogram: &HistogramSnapshot,
        scale: f64,
        range: &RangeInclusive<u64>,
    ) -> fmt::Result {
        let all: Vec<(u64, u64)> = histogram.buckets().collect();
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        let mut below = 0;
        let mut above = 0;
        for octave in all.chunks(OCTAVE) {
            let upper = octave.last().map_or(0, |(upper, _)| *upper);
            let count: u64 = octave.iter().map(|(_, count)| count).sum();
            if upper < *range.start() {
                below += count;
            } else if upper <= *range.end() {
                buckets.push((upper as f64 / scale, count + std::mem::take(&mut below)));
            } else {
                above += count;
            }
        }
        buckets.push((f64::INFINITY, above + below));
        let none: Option<&Exemplars> = None;
        self.encoder.encode_descriptor(name, help, None, MetricType::Histogram)?.encode_histogram(
            histogram.sum as f64 / scale,
            histogram.count,
            &buckets,
            none,
        )
    }
}

#[cfg(test)]
mod tests {
    use pipeline::Histogram;
    use replicator::{ClusterStatus, Member, MemberId, MemberRole, MemberStatus, Versions};

    use super::*;

    fn stats() -> Stats {
        let append = Histogram::default();
        append.record(1_000, 3);
        append.record(1_000_000, 1);
        let engine = EngineStats {
            durability: "disk",
            journaled_sequence: 12,
            durable_sequence: 12,
            committed_sequence: 12,
            applied_sequence: 11,
            published_sequence: 11,
            reported_sequence: 10,
            reports_durable_sequence: 5,
            snapshot_sequence: 4,
            snapshot_age_seconds: Some(6),
            input_ring_slots: 64,
            input_ring_used: 1,
            open_orders: 7,
            levels: 3,
            sessions: 2,
            instruments: 5,
            trading_day: 1,
            rulebook: 1,
            connections: 2,
            logged_in: 1,
            connections_turned_away: 0,
            logins_failed: 4,
            messages_refused: 0,
            slow_readers: 0,
            disk_free_bytes: Some(99),
            disk_space_low: false,
            skips: serde_json::json!([]),
            events: vec![("accepted", 8), ("trade", 0)],
            rejects: vec![("quantity_zero", 2)],
            batch_frames: Histogram::default().snapshot(),
            append_ns: append.snapshot(),
            latency_ns: Histogram::default().snapshot(),
        };
        Stats {
            phase: "serving",
            ready: true,
            reason: None,
            version: "1",
            rulebook_known: 1,
            process: 3,
            uptime_seconds: 9,
            commit_ns: append.snapshot(),
            cluster: Some(cluster()),
            engine: Some(engine),
        }
    }

    fn cluster() -> ClusterStatus {
        let member = |id, lag_entries| MemberStatus {
            member: Member { id: MemberId(id), ..Member::default() },
            voter: true,
            reachable: id != 3,
            trouble: None,
            last_index: Some(7),
            applied_index: Some(7),
            lag_entries,
            forgetful: false,
            versions: Versions::default(),
            catching_up: None,
        };
        ClusterStatus {
            member: MemberId(1),
            cluster: "c0ffee".to_owned(),
            incarnation: 0,
            role: MemberRole::Leader,
            term: 4,
            leader: Some(Member { id: MemberId(1), ..Member::default() }),
            confirmed: true,
            forgetful: false,
            last_index: Some(9),
            committed_index: Some(8),
            applied_index: Some(8),
            removed: false,
            disk_lag_ms: 250,
            disk_low: true,
            durability: "quorum",
            members: vec![member(1, None), member(2, Some(2)), member(3, None)],
        }
    }

    #[test]
    fn the_page_has_every_value() {
        let page = page(stats()).expect("a page");
        for line in [
            "ringpit_build_info{version=\"1\",durability=\"disk\",phase=\"serving\"} 1",
            "ringpit_ready 1",
            "ringpit_cluster_role{role=\"leader\"} 1",
            "ringpit_cluster_role{role=\"follower\"} 0",
            "ringpit_cluster_leader_member 1",
            "ringpit_cluster_entry{state=\"committed\"} 8",
            "ringpit_cluster_reachable{member=\"3\"} 0",
            "ringpit_cluster_lag_entries{member=\"2\"} 2",
            "ringpit_cluster_disk_lag_seconds 0.25",
            "ringpit_cluster_disk_low 1",
            "ringpit_cluster_commit_seconds_count 4",
            "ringpit_sequence{stage=\"applied\"} 11",
            "ringpit_sequence{stage=\"reports_durable\"} 5",
            "ringpit_events_total{kind=\"accepted\"} 8",
            "ringpit_rejects_total{reason=\"quantity_zero\"} 2",
            "ringpit_open_orders 7",
            "ringpit_logins_failed_total 4",
            "ringpit_disk_free_bytes 99",
            "ringpit_journal_append_seconds_count 4",
            "ringpit_journal_append_seconds_bucket{le=\"+Inf\"} 4",
        ] {
            assert!(page.lines().any(|there| there == line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
        let buckets: Vec<u64> = page
            .lines()
            .filter(|line| line.starts_with("ringpit_journal_append_seconds_bucket"))
            .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
            .collect();
        assert!(buckets.is_sorted() && buckets.contains(&3), "{buckets:?}");
    }

    #[test]
    fn the_object_leaves_out_what_never_happened() {
        let object = serde_json::to_value(stats()).expect("an object");
        assert_eq!(object["events"], serde_json::json!({ "accepted": 8 }));
        assert_eq!(object["journaled_sequence"], 12);
        assert_eq!(object["append_ns"]["count"], 4);
        assert!(object.get("reason").is_none());
    }
}
