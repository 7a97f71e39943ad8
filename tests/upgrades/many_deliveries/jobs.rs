//! Jobs of the deliveries that `fill.sql` writes.

use chrono::{DateTime, Utc};
use domain::content::{Content, EmailContent, SmsContent};
use domain::event::DeliveryJob;
use domain::{AppId, Channel, DeliveryId, Envelope, Event, Lane, SendId, StreamName, Timestamp, UserNumber};
use event_log::{EventLog, Message};
use service_kit::append::{self, NewEvent};
use service_kit::clock;
use sqlx::PgPool;
use uuid::Uuid;

const JOBS: &str = "
    SELECT job AS place, filled.app_id, filled.id, filled.send_id, recipient, user_number, target, channel, attempt, lane,
      now() + expires AS expires_at
    FROM upgrade.filled JOIN upgrade.kind ON kind.number = kind JOIN upgrade.send ON send.id = send_id
    WHERE job IS NOT NULL ORDER BY send.number, recipient";
/// Timers are due now or within the next ten seconds.
const TIMERS: &str = "
    INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number)
    SELECT gen_random_uuid(), now() + n % 10 * interval '1 second', stream, message, app_id, send_id, user_number
    FROM unnest($1::uuid[], $2::text[], $3::bytea[]) WITH ORDINALITY AS job (id, stream, message, n)
    JOIN upgrade.filled USING (id)";
const PARKED: &str = "
    INSERT INTO parked (id, app_id, send_id, delivery_id, user_number, stream, message, cause)
    SELECT gen_random_uuid(), app_id, send_id, id, user_number, stream, message, '451'
    FROM unnest($1::uuid[], $2::text[], $3::bytea[]) AS job (id, stream, message) JOIN upgrade.filled USING (id)";

/// A delivery with a job.
#[derive(sqlx::FromRow)]
struct Row {
    place: String,
    app_id: i64,
    id: Uuid,
    send_id: Uuid,
    recipient: i32,
    user_number: i64,
    target: String,
    channel: String,
    attempt: i32,
    lane: String,
    expires_at: Option<DateTime<Utc>>,
}

/// Writes every job to its place: the log, a timer, or the table `parked`. If `bundles` is true, messages of the log contain several
/// jobs, as release 0.4 and later write them.
pub(super) async fn write(database: &PgPool, log: &EventLog, bundles: bool) {
    let rows: Vec<Row> = sqlx::query_as(JOBS).fetch_all(database).await.unwrap();
    let at = |place: &str| rows.iter().filter(|row| row.place == place).map(Row::job).collect::<Vec<_>>();
    for (place, statement) in [("timer", TIMERS), ("parked", PARKED)] {
        let ids: Vec<Uuid> = rows.iter().filter(|row| row.place == place).map(|row| row.id).collect();
        let jobs = at(place);
        sqlx::query(statement)
            .bind(ids)
            .bind(jobs.iter().map(|job| job.stream.to_string()).collect::<Vec<_>>())
            .bind(jobs.iter().map(|job| job.payload.to_vec()).collect::<Vec<_>>())
            .execute(database)
            .await
            .unwrap();
    }
    let jobs = at("log");
    println!("{} jobs, {} of them in the log", rows.len(), jobs.len());
    if bundles {
        append::append(log, &jobs).await.into_iter().for_each(Result::unwrap);
    } else {
        let single = |job: NewEvent| Message { stream: job.stream, id: job.message_id, payload: job.payload };
        let acks = log.publish_all(jobs.into_iter().map(single).collect()).await;
        assert!(acks.into_iter().all(|ack| !ack.unwrap().duplicate));
    }
}

impl Row {
    /// Encodes the job of the next attempt or, if the delivery has ended, of the last one.
    fn job(&self) -> NewEvent {
        let channel: Channel = self.channel.parse().unwrap();
        let lane: Lane = self.lane.parse().unwrap();
        let text = "It is on its way".to_owned();
        let content = match channel {
            Channel::Email => Content::Email(EmailContent {
                subject: "Order shipped".to_owned(),
                text: Some(text),
                ..EmailContent::default()
            }),
            _ => Content::Sms(SmsContent { text, from: None }),
        };
        let delivery = DeliveryId(self.id);
        let user = UserNumber(self.user_number);
        let job = DeliveryJob {
            attempt: self.attempt.try_into().unwrap(),
            expires_at: self.expires_at.map(Timestamp::from),
            recipient: Some(self.recipient.try_into().unwrap()),
            ..DeliveryJob::first(delivery, channel, user, self.target.clone(), content)
        };
        let envelope = Envelope {
            id: clock::new_id(),
            app: AppId(self.app_id),
            at: clock::now(),
            send_id: Some(SendId(self.send_id)),
            caused_by: None,
            trace: None,
            event: Event::DeliveryJob(Box::new(job)),
        };
        let message_id = format!("{delivery}.{}", self.attempt);
        NewEvent::new(StreamName::Job(channel, lane), Some(message_id), &envelope).unwrap()
    }
}
