//! The jobs of one measurement: requests, ledger rows and messages, as the dispatcher writes them.

use domain::event::DeliveryJob;
use domain::{Channel, DeliveryIds, Envelope, Event, Lane, SendId, StreamName, Timestamp};
use service_kit::append::{NewEvent, append};
use service_kit::clock;
use sqlx::{Connection, PgConnection};

use super::Subject;
use crate::installation::Installation;

/// Number of deliveries per send.
const RECIPIENTS: usize = 100;
/// Maximum number of messages in one call to the log.
const CHUNK: usize = 2_000;

/// Removes what the previous measurement left, except for ended deliveries, and adds `deliveries` new jobs.
pub(super) async fn put(installation: &Installation, subject: &Subject, deliveries: usize) {
    let mut connection = clear(installation).await;
    let mut targets = subject.targets.iter().cycle();
    let mut jobs = Vec::with_capacity(deliveries);
    while jobs.len() < deliveries {
        let send_id = SendId(clock::new_id());
        for _ in 0..RECIPIENTS.min(deliveries - jobs.len()) {
            let (user, target) = targets.next().unwrap().clone();
            let id = DeliveryIds::TimeOrdered.derive(send_id, user, subject.channel, &target);
            let job = DeliveryJob::first(id, subject.channel, user, target, subject.content.clone());
            jobs.push((send_id, job));
        }
    }
    insert(&mut connection, installation, &jobs).await;
    connection.close().await.unwrap();
    for jobs in jobs.chunks(CHUNK) {
        publish(installation, subject.channel, jobs).await;
    }
}

/// Removes what the previous measurement left, except for ended deliveries.
pub(super) async fn clear(installation: &Installation) -> PgConnection {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    let statement = "TRUNCATE timer, awaiting_receipt, suppression, attachment";
    sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
    connection
}

pub(super) async fn insert(
    connection: &mut PgConnection,
    installation: &Installation,
    jobs: &[(SendId, DeliveryJob)],
) {
    let all = || jobs.iter();
    sqlx::query(
        "WITH job AS (
           SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::text[], $6::text[])
             AS job (id, send_id, user_number, channel, target)
         ), requests AS (
           INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
           SELECT DISTINCT $1::bigint, send_id, now(), 'transactional', $7::int FROM job
         )
         INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
         SELECT $1, id, send_id, row_number() OVER (PARTITION BY send_id) - 1, user_number, channel, target FROM job",
    )
    .bind(installation.app.0)
    .bind(all().map(|(_, job)| job.delivery_id.0).collect::<Vec<_>>())
    .bind(all().map(|(send_id, _)| send_id.0).collect::<Vec<_>>())
    .bind(all().map(|(_, job)| job.user.0).collect::<Vec<_>>())
    .bind(all().map(|(_, job)| job.channel.as_str()).collect::<Vec<_>>())
    .bind(all().map(|(_, job)| job.target.as_str()).collect::<Vec<_>>())
    .bind(i32::try_from(RECIPIENTS).unwrap())
    .execute(connection)
    .await
    .unwrap();
}

/// Publishes jobs, several in a message, like the dispatcher.
pub(super) async fn publish(installation: &Installation, channel: Channel, jobs: &[(SendId, DeliveryJob)]) {
    let stream = StreamName::Job(channel, Lane::Transactional);
    let event = |(send_id, job): &(SendId, DeliveryJob)| {
        let envelope = Envelope {
            id: clock::new_id(),
            app: installation.app,
            at: clock::now(),
            send_id: Some(*send_id),
            caused_by: None,
            trace: None,
            event: Event::DeliveryJob(Box::new(job.clone())),
        };
        NewEvent::new(stream, None, &envelope).unwrap()
    };
    let events: Vec<NewEvent> = jobs.iter().map(event).collect();
    for appended in append(&installation.log, &events).await {
        appended.unwrap();
    }
}

/// Returns true if every job is acknowledged.
pub(super) async fn all_done(installation: &Installation, channel: Channel) -> bool {
    let stream = StreamName::Job(channel, Lane::Transactional);
    let last = installation.log.state(stream).await.unwrap().last_seq;
    let progress = installation.log.consumer_progress(stream, channel.as_str()).await.unwrap();
    progress.is_some_and(|progress| progress.ack_floor == last)
}

/// Returns the number of deliveries per second. The time is measured from the first settled delivery to the last, so it does not
/// include the start of the process.
///
/// # Panics
/// Fewer than 99 % of the deliveries were sent by their first attempt. The worker may postpone a few until a push service has
/// answered for the first time, and no dispatcher runs that would publish them again.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(super) async fn settled_per_second(
    installation: &Installation,
    deliveries: usize,
    began: Timestamp,
) -> f64 {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    let (sent, after_first, seconds): (i64, i64, f64) = sqlx::query_as(
        "WITH settled AS (SELECT settled_at AS at FROM delivery
           WHERE status = 'sent' AND attempt = 1 AND settled_at >= to_timestamp($1::bigint / 1000.0))
         SELECT count(*), count(*) FILTER (WHERE at > (SELECT min(at) FROM settled)),
           extract(epoch FROM max(at) - min(at))::float8 FROM settled",
    )
    .bind(began.millis())
    .fetch_one(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    assert!(
        usize::try_from(sent).unwrap() * 100 >= deliveries * 99,
        "only {sent} of {deliveries} deliveries were sent"
    );
    after_first as f64 / seconds
}
