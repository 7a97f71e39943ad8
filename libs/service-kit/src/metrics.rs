use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;
use store::Store;

use crate::{Build, Tasks};

/// Labels: `lane`.
pub const ACCEPTED: &str = "tidings_accepted_total";
/// Labels: `lane`.
pub const DISPATCHED: &str = "tidings_dispatched_total";
/// Labels: `lane`.
pub const DISPATCH_PAUSED: &str = "tidings_dispatch_paused";
/// Labels: `channel`, `status`.
pub const DELIVERIES: &str = "tidings_deliveries_total";
/// Labels: `result` (`settled`, `unchanged`, `waiting` for its message, or `unreadable`).
pub const RECEIPTS: &str = "tidings_receipts_total";
/// Labels: `app`, `provider`.
pub const RECEIPTS_MISSED: &str = "tidings_receipts_missed_total";
/// Labels: `keyword` (`stop`, `start`, `help`, or `unknown_sender`).
pub const SMS_KEYWORDS: &str = "tidings_sms_keywords_total";
/// Labels: `stream`.
pub const STREAM_MESSAGES: &str = "tidings_stream_messages";
/// Labels: `stream`.
pub const STREAM_BYTES: &str = "tidings_stream_bytes";
/// From 0 to 1; 0 if the number of bytes that the log can hold is unknown.
pub const LOG_STORE_FILL: &str = "tidings_log_store_fill_ratio";
/// Counts one copy of each stream; 0 if the limit is unknown.
pub const LOG_STORE_LIMIT: &str = "tidings_log_store_limit_bytes";
/// Labels: `quota` (`sends`, `files`).
pub const BYTES_REFUSED: &str = "tidings_bytes_refused_total";
/// Labels: `stream`. From 0 to 1: the highest of the stream's messages and bytes, each divided by its limit, and of [`LOG_STORE_FILL`].
pub const STREAM_FILL: &str = "tidings_stream_fill_ratio";
/// Labels: `stream`.
pub const STREAM_PENDING: &str = "tidings_stream_pending";
/// Labels: `stream`.
pub const STREAM_OLDEST_AGE: &str = "tidings_stream_oldest_age_seconds";
/// Labels: `stream`.
pub const PROJECTION_LAG_EVENTS: &str = "tidings_projection_lag_events";
/// Labels: `stream`.
pub const PROJECTION_LAG_SECONDS: &str = "tidings_projection_lag_seconds";
/// Labels: `route`, `method`, `status`.
pub const HTTP_REQUEST_SECONDS: &str = "tidings_http_request_seconds";
pub const CONNECTIONS_REFUSED: &str = "tidings_connections_refused_total";
/// Labels: `code`.
pub const REFUSED_CREDENTIALS: &str = "tidings_refused_credentials_total";
pub const ACCEPT_TO_INBOX_SECONDS: &str = "tidings_accept_to_inbox_seconds";
/// Labels: `cause` (`age` or `count`).
pub const INBOX_REMOVED: &str = "tidings_inbox_removed_total";
/// Labels: `transport` (`sse` or `socket_io`).
pub const REALTIME_CONNECTIONS: &str = "tidings_realtime_connections";
/// Labels: `kind`.
pub const REALTIME_EVENTS: &str = "tidings_realtime_events_total";
/// Labels: `reason` (`rebuilt`, `too_old` or `too_slow`).
pub const REALTIME_RESETS: &str = "tidings_realtime_resets_total";
/// Labels: `partition`.
pub const REALTIME_BEHIND_SECONDS: &str = "tidings_realtime_behind_seconds";
/// Labels: `lane`. Starts at the scheduled time of a scheduled send.
pub const ACCEPT_TO_PLAN_SECONDS: &str = "tidings_accept_to_plan_seconds";
/// Labels: `channel`. Counts first attempts only.
pub const JOB_WAIT_SECONDS: &str = "tidings_job_wait_seconds";
/// Labels: `channel`.
pub const PROVIDER_CALL_SECONDS: &str = "tidings_provider_call_seconds";
/// Labels: `channel`, `app`, `provider`. Exists only for providers whose breaker has opened before.
pub const PROVIDER_BREAKER: &str = "tidings_provider_breaker";
/// Labels: `channel`, `cause`: providers are paused (`breaker`) or have reached their limit of concurrent calls (`busy`) or of calls per
/// second (`rate`).
pub const POSTPONED: &str = "tidings_postponed_total";
/// Labels: `channel`, `reason` (`breaker_open`, `rate_limited`, `provider_busy`, `retry_later`, `log_full`). Counts up to 10,000 in all.
pub const DELIVERIES_WAITING: &str = "tidings_deliveries_waiting";
/// Labels: `channel`.
pub const COPIES_IN_DOUBT: &str = "tidings_copies_in_doubt_total";
pub const REMOVED_SENDS: &str = "tidings_removed_sends_total";
pub const REDRIVEN: &str = "tidings_redriven_messages_total";
/// Labels: `outcome`.
pub const WEBHOOK_ATTEMPTS: &str = "tidings_webhook_attempts_total";
pub const WEBHOOK_CALL_SECONDS: &str = "tidings_webhook_call_seconds";
pub const WEBHOOK_PENDING: &str = "tidings_webhook_pending";
pub const WEBHOOK_OLDEST_AGE: &str = "tidings_webhook_oldest_age_seconds";

/// Labels: `channel`. The sender is on a block list, for example, which affects every message of the channel.
pub const PROVIDER_ALERTS: &str = "tidings_provider_alerts_total";

/// Labels: `type`.
pub const UNKNOWN_EVENTS: &str = "tidings_unknown_events_total";
/// Labels: `type`.
pub const NEWER_EVENTS: &str = "tidings_newer_events_total";
/// Labels: `stream`.
pub const DEAD_EVENTS: &str = "tidings_dead_events_total";

/// Labels: `service`, `version`, `revision`.
pub const BUILD_INFO: &str = "tidings_build_info";
/// Labels: `state` (`used` or `idle`).
pub const DATABASE_CONNECTIONS: &str = "tidings_database_connections";
pub const DATABASE_CONNECTIONS_MAX: &str = "tidings_database_connections_max";
/// Labels: `holder` (`session`, `prepared` or `replication`). While it grows, PostgreSQL removes no old versions of rows.
pub const DATABASE_OLDEST_SNAPSHOT: &str = "tidings_database_oldest_snapshot_seconds";

/// Upper bounds in seconds.
const BUCKETS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Without upkeep, observations would accumulate in a process that is not scraped.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

static RECORDER: OnceLock<Result<PrometheusHandle, String>> = OnceLock::new();

#[derive(Debug, thiserror::Error)]
#[error("metrics: {0}")]
pub struct MetricsError(String);

/// Only the first call has an effect.
pub fn install() -> Result<(), MetricsError> {
    let recorder = RECORDER.get_or_init(|| {
        let builder = PrometheusBuilder::new().set_buckets(&BUCKETS).map_err(|error| error.to_string())?;
        let recorder = builder.install_recorder().map_err(|error| error.to_string())?;
        describe();
        describe_work();
        Collector::default().describe();
        Ok(recorder)
    });
    recorder.as_ref().map(|_| ()).map_err(|error| MetricsError(error.clone()))
}

fn describe() {
    describe_gauge!(BUILD_INFO, "Always 1; its labels name the program");
    describe_gauge!(DATABASE_CONNECTIONS, "Connections of this process to PostgreSQL");
    describe_gauge!(DATABASE_CONNECTIONS_MAX, "Maximum number of connections of this process to PostgreSQL");
    describe_gauge!(
        DATABASE_OLDEST_SNAPSHOT,
        Unit::Seconds,
        "Age of the oldest transaction because of which PostgreSQL keeps old versions of rows"
    );
    describe_counter!(ACCEPTED, "Sends that the log confirmed");
    describe_counter!(DISPATCHED, "Sends whose chunks are all planned");
    describe_gauge!(DISPATCH_PAUSED, "1 if sends wait because a stream is nearly full, otherwise 0");
    describe_counter!(REMOVED_SENDS, "Sends removed because they were older than the retention");
    describe_counter!(REDRIVEN, "Parked messages that redrives of the console published again");
    describe_counter!(RECEIPTS, "Receipts over SMPP");
    describe_counter!(RECEIPTS_MISSED, "Receipts that no message has matched within 30 seconds");
    describe_counter!(SMS_KEYWORDS, "Keywords in SMS from recipients");
    describe_counter!(DELIVERIES, "Deliveries that reached a status");
    describe_gauge!(STREAM_MESSAGES, "Messages held by a stream");
    describe_gauge!(STREAM_BYTES, Unit::Bytes, "Bytes held by a stream");
    describe_gauge!(
        LOG_STORE_FILL,
        "Bytes in all streams, as a share of the size up to which the log can grow"
    );
    describe_gauge!(LOG_STORE_LIMIT, Unit::Bytes, "Size up to which the log can grow");
    describe_counter!(BYTES_REFUSED, "Sends refused because their app has reached a quota of bytes");
    describe_gauge!(
        STREAM_FILL,
        "Fill of a stream: the highest share of its messages, its bytes and the store"
    );
    describe_gauge!(STREAM_PENDING, "Messages that the stream's consumer has not acknowledged");
    describe_gauge!(STREAM_OLDEST_AGE, Unit::Seconds, "Age of the oldest message that is not acknowledged");
    describe_gauge!(PROJECTION_LAG_EVENTS, "Events that the projection has not committed");
    describe_gauge!(
        PROJECTION_LAG_SECONDS,
        Unit::Seconds,
        "Age of the oldest event that the projection has not committed"
    );
    describe_counter!(CONNECTIONS_REFUSED, "Connections closed at once because their peer has too many");
    describe_counter!(REFUSED_CREDENTIALS, "Requests whose credentials were refused");
    describe_histogram!(HTTP_REQUEST_SECONDS, Unit::Seconds, "Time to answer a request");
    describe_histogram!(
        ACCEPT_TO_INBOX_SECONDS,
        Unit::Seconds,
        "From accepting a send to its item in the inbox"
    );
    describe_gauge!(REALTIME_CONNECTIONS, "Open live connections");
    describe_counter!(REALTIME_EVENTS, "Updates added to the queues of live connections");
    describe_counter!(REALTIME_RESETS, "Live connections whose client had to fetch its items again");
    describe_gauge!(
        REALTIME_BEHIND_SECONDS,
        Unit::Seconds,
        "Age of the oldest change not reported to live connections"
    );
    describe_counter!(INBOX_REMOVED, "Inbox items removed because of their age or number");
}

fn describe_work() {
    describe_histogram!(
        ACCEPT_TO_PLAN_SECONDS,
        Unit::Seconds,
        "From accepting a send to its last job or inbox event"
    );
    describe_histogram!(
        JOB_WAIT_SECONDS,
        Unit::Seconds,
        "Time from a delivery's first job to its first call"
    );
    describe_counter!(UNKNOWN_EVENTS, "Messages of a type that this release does not know");
    describe_counter!(NEWER_EVENTS, "Messages that only a newer release can process");
    describe_counter!(DEAD_EVENTS, "Messages parked or dead-lettered because their processing keeps failing");
    describe_counter!(PROVIDER_ALERTS, "Refusals of all messages of a sender by a provider");
    describe_histogram!(PROVIDER_CALL_SECONDS, Unit::Seconds, "Duration of a call to a provider");
    describe_gauge!(PROVIDER_BREAKER, "0 closed, 1 half-open (a single call is tried), 2 open (no calls)");
    describe_counter!(
        COPIES_IN_DOUBT,
        "Calls for deliveries whose provider may have accepted an earlier call"
    );
    describe_gauge!(DELIVERIES_WAITING, "Deliveries that wait for a provider");
    describe_counter!(POSTPONED, "Jobs postponed without an attempt");
    describe_counter!(WEBHOOK_ATTEMPTS, "Attempts to deliver a message to an app's endpoint");
    describe_histogram!(WEBHOOK_CALL_SECONDS, Unit::Seconds, "Duration of a call to an endpoint");
    describe_gauge!(WEBHOOK_PENDING, "Messages to endpoints that are still to be delivered");
    describe_gauge!(WEBHOOK_OLDEST_AGE, Unit::Seconds, "Age of the oldest pending message to an endpoint");
}

pub(crate) fn name_build(service: &'static str, build: Build) {
    let labels = [("service", service), ("version", build.version), ("revision", build.revision)];
    gauge!(BUILD_INFO, &labels).set(1.0);
}

/// Records the metrics that are measured at each scrape: `process_*` (Prometheus's standard names), and those of the connection pool.
pub(crate) fn observe(store: &Store) {
    Collector::default().collect();
    let connections = store.connections();
    gauge!(DATABASE_CONNECTIONS, "state" => "used").set(f64::from(connections.used));
    gauge!(DATABASE_CONNECTIONS, "state" => "idle").set(f64::from(connections.idle));
    gauge!(DATABASE_CONNECTIONS_MAX).set(f64::from(connections.max));
}

/// Empty before [`install`].
#[must_use]
pub fn render() -> String {
    match RECORDER.get() {
        Some(Ok(recorder)) => recorder.render(),
        Some(Err(_)) | None => String::new(),
    }
}

pub(crate) async fn run_upkeep(tasks: Tasks) -> anyhow::Result<()> {
    let mut interval = tokio::time::interval(UPKEEP_INTERVAL);
    loop {
        tokio::select! {
            () = tasks.stopping() => return Ok(()),
            _ = interval.tick() => {}
        }
        if let Some(Ok(recorder)) = RECORDER.get() {
            recorder.run_upkeep();
        }
    }
}
