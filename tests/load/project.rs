//! Number of inbox items projected per second: by the inbox projection, compared with bare inserts of the same rows.

use std::time::{Duration, Instant};

use domain::StreamName;
use serde::Serialize;
use sqlx::{Connection, PgConnection};
use store::inbox::projection::INBOX;
use suite::cpu::Processes;
use testkit::eventually;

use crate::bare_insert;
use crate::inbox_events::{PublishedRows, Users, publish};
use crate::installation::{Installation, PARTITIONS};
use crate::plan;
use crate::role::Role;
use crate::series::Series;

const LONG: Duration = Duration::from_secs(120);
/// Poll interval of the checkpoints. It is short compared to the measured time.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Results of the projection and of bare inserts, by round, for events that all have `recipients` recipients.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProjectionReport {
    pub(crate) recipients: usize,
    pub(crate) per_second: Series,
    pub(crate) bare_per_second: Series,
    /// Processor time for one item.
    pub(crate) service_micros: Series,
    pub(crate) nats_micros: Series,
    pub(crate) postgres_micros: Series,
    pub(crate) bare_postgres_micros: Series,
}

/// Measures events with one recipient, and events with 500 recipients.
pub(crate) async fn measure(installation: &Installation, rounds: u32, items: u32) -> Vec<ProjectionReport> {
    bare_insert::prepare(installation.database_url()).await;
    let users = Users::of(installation.app);
    let counted = (Processes::named("nats-server"), Processes::named("postgres"));
    let mut results: Vec<ProjectionReport> = [1, 500].map(ProjectionReport::of).into();
    for round in 1..=rounds {
        eprintln!("project: round {round} of {rounds}");
        for projected in &mut results {
            let (log, app) = (&installation.log, installation.app);
            let published = publish(log, app, &users, items as usize, projected.recipients).await;
            projected.measure(installation, counted, published).await;
        }
    }
    results
}

impl ProjectionReport {
    fn of(recipients: usize) -> ProjectionReport {
        ProjectionReport {
            recipients,
            per_second: Series::default(),
            bare_per_second: Series::default(),
            service_micros: Series::default(),
            nats_micros: Series::default(),
            postgres_micros: Series::default(),
            bare_postgres_micros: Series::default(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(
        &mut self,
        installation: &Installation,
        (nats, postgres): (Option<Processes>, Option<Processes>),
        published: PublishedRows,
    ) {
        let used = || [nats, postgres].map(|some| some.map_or(0, Processes::micros));
        let items = published.rows.iter().map(Vec::len).sum::<usize>() as f64;
        let each = |before: u64, after: u64| (after - before) as f64 / items;

        empty_tables(installation).await;
        installation.settle().await;
        let before = used();
        let (rate, service) = self.project(installation, items).await;
        let after = used();
        self.per_second.push(rate);
        self.service_micros.push(each(0, service));
        self.nats_micros.push(each(before[0], after[0]));
        self.postgres_micros.push(each(before[1], after[1]));

        installation.settle().await;
        let before = used();
        let elapsed = bare_insert::insert(installation.database_url(), published.rows).await;
        self.bare_per_second.push(items / elapsed.as_secs_f64());
        self.bare_postgres_micros.push(each(before[1], used()[1]));
    }

    /// Runs the service. Returns the items per second, and the processor time of the service in microseconds. The rate is
    /// measured from the first batch that is visible in the database to the last, so it excludes the start of the process.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn project(&self, installation: &Installation, items: f64) -> (f64, u64) {
        let start = position(installation).await;
        let end = end(installation).await;
        let recipients = self.recipients as f64;
        assert!(
            ((end - start) as f64 * recipients - items).abs() < 0.5,
            "the log holds exactly the published events"
        );
        let inbox = installation.serve(Role::Inbox, &[]);
        let (seen, began) = eventually(LONG, "the projection starts", async || {
            let seen = position(installation).await;
            (seen > start).then(|| (seen, Instant::now()))
        })
        .await;
        let (mut at, mut look) = (seen, tokio::time::interval(LOOK_EVERY));
        while at < end {
            assert!(began.elapsed() < LONG, "the projection is at {at} of {end}");
            look.tick().await;
            at = position(installation).await;
        }
        let rate = (end - seen) as f64 * recipients / began.elapsed().as_secs_f64();
        (rate, Processes::below(inbox.id()).micros())
    }
}

/// Sum of the checkpoints of all partitions.
async fn position(installation: &Installation) -> u64 {
    let mut sum = 0;
    for number in 0..PARTITIONS {
        sum += installation.store.database().checkpoint(INBOX, StreamName::Inbox(number)).await.unwrap();
    }
    sum
}

/// Sum of the last sequences of all partitions.
async fn end(installation: &Installation) -> u64 {
    let mut sum = 0;
    for number in 0..PARTITIONS {
        sum += installation.log.state(StreamName::Inbox(number)).await.unwrap().last_seq;
    }
    sum
}

async fn empty_tables(installation: &Installation) {
    plan::clear(installation).await;
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    sqlx::raw_sql("TRUNCATE bare_item").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
