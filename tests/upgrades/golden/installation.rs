//! An installation with all rows to which golden messages refer, and the services that read the messages. The first message of
//! every stream has an unknown type.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use domain::inbox::ItemChange;
use domain::webhook::WebhookEvent;
use domain::{Channel, Event, Lane, StreamName};
use serde_json::{Value, json};
use sqlx::PgPool;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use store::inbox::projection::INBOX;
use store::webhooks::WEBHOOKS;
use testkit::{Installation, eventually};

const SOON: Duration = Duration::from_secs(60);
/// Number of messages before a golden message in the first inbox stream. The item ids in a golden message depend
/// on its sequence.
pub(crate) const EVENTS_BEFORE: u64 = 8;
const STRANGE: &[u8] = br#"{"id":"018f3f6e-7c1a-7000-8000-000000000001","type":"Strange","v":1,"app":7,
    "at":"2026-01-02T03:04:05.678Z","sendId":null,"causedBy":null,"data":{}}"#;

/// Rows to which golden messages of all types refer.
const SEED: &str = "
    INSERT INTO app (id, name, api_key) OVERRIDING SYSTEM VALUE VALUES (7, 'shop', 'shop');
    INSERT INTO app_user (app_id, number, identifier, profile) OVERRIDING SYSTEM VALUE VALUES
      (7, 42, 'ada', '{\"email\": \"ada@example.com\"}'), (7, 43, 'cyd', '{}');
    INSERT INTO category (app_id, id, identifier, name) OVERRIDING SYSTEM VALUE VALUES (7, 3, 'orders', 'Orders');
    INSERT INTO template (app_id, identifier, version) VALUES (7, 'order-shipped', 1);
    INSERT INTO template_version (app_id, template_id, version, name, channels)
      SELECT app_id, id, 1, 'Order shipped', '{
        \"inApp\": {\"title\": \"Order {{ order.id }} shipped\"},
        \"email\": {\"subject\": \"Order {{ order.id }} shipped\", \"text\": \"On its way\"}
      }' FROM template;";
/// Items and a delivery that golden messages change.
const SEED_OF_ROWS: &str = "
    INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients, body) VALUES
      (7, '018f3f6e-7c1a-7000-8000-0000000000bb', '2026-01-02T03:04:05Z', 'transactional', 'Order shipped', 501, $1);
    INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, attempt) VALUES
      (7, '0c5a2a1c-9a7e-5b0e-9e57-0000000000dd', '018f3f6e-7c1a-7000-8000-0000000000bb', 0, 42, 'email',
       'ada@example.com', 1);";

pub(crate) struct GoldenInstallation {
    pub(super) outbox: Arc<Outbox>,
    _smtp: SmtpStandIn,
    installation: Installation,
}

impl Deref for GoldenInstallation {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl GoldenInstallation {
    /// Starts an installation with all rows to which the events of a message refer, but without services.
    pub(super) async fn start(events: &[Event]) -> GoldenInstallation {
        let installation = GoldenInstallation::with_partitions(1).await;
        match &events[0] {
            // The services write the rows of this send when they process it.
            Event::SendAccepted(_) => {}
            Event::DeliveryJob(job) => {
                seed_rows(&installation.pool, job.attempt, false).await;
                for event in &events[1..] {
                    seed_delivery(&installation.pool, event).await;
                }
            }
            event => {
                let read = event.kind().starts_with("InboxItemUn");
                seed_rows(&installation.pool, 1, read).await;
                hide_items(&installation.pool, event).await;
            }
        }
        installation
    }

    /// Starts an installation without a send.
    pub(crate) async fn with_partitions(partitions: u32) -> GoldenInstallation {
        let outbox = Outbox::in_memory();
        let smtp = SmtpStandIn::start(SmtpSettings::default(), Arc::clone(&outbox)).await.unwrap();
        let installation = Installation::start(|config| {
            config.outbound.allow_private = true;
            config.streams.partitions = partitions;
        })
        .await;
        seed(&installation.pool, &smtp).await;
        for stream in StreamName::all(partitions) {
            installation.publish(stream, STRANGE.to_vec()).await;
        }
        for _ in 1..EVENTS_BEFORE {
            installation.publish(StreamName::Inbox(0), STRANGE.to_vec()).await;
        }
        GoldenInstallation { outbox, _smtp: smtp, installation }
    }

    pub(crate) fn serve(&self) {
        self.context.serve("dispatcher", dispatcher::run);
        self.context.serve("inbox", inbox::run);
        self.context.serve("email", email::run);
        self.context.serve("webhooks", webhooks::run);
    }

    /// Waits until every message is processed. Services acknowledge a message only after they have written its rows.
    pub(super) async fn quiet(&self) {
        eventually(SOON, "every message is processed", async || {
            let timers = self.count("SELECT count(*) FROM timer").await;
            let sends = self.is_done(StreamName::Send(Lane::Transactional), "dispatcher").await;
            let jobs = self.is_done(StreamName::Job(Channel::Email, Lane::Transactional), "email").await;
            let inbox = self.is_followed(INBOX, StreamName::Inbox(0)).await
                && self.is_followed(WEBHOOKS, StreamName::Inbox(0)).await;
            let outcomes = self.is_followed(WEBHOOKS, StreamName::Outcome).await;
            // A process marks its first event, and removes the mark after the commit.
            let marks = self.count("SELECT count(*) FROM message_failure WHERE failures = 0").await;
            (timers == 0 && sends && jobs && inbox && outcomes && marks == 0).then_some(())
        })
        .await;
    }

    async fn is_done(&self, stream: StreamName, durable: &str) -> bool {
        let progress = self.context.log.consumer_progress(stream, durable).await.unwrap();
        progress.is_some_and(|progress| progress.pending + progress.ack_pending == 0)
    }

    async fn is_followed(&self, projection: &str, stream: StreamName) -> bool {
        let last = self.context.log.state(stream).await.unwrap().last_seq;
        self.context.store.database().checkpoint(projection, stream).await.unwrap() == last
    }
}

async fn seed(pool: &PgPool, smtp: &SmtpStandIn) {
    sqlx::raw_sql(SEED).execute(pool).await.unwrap();
    let settings = json!({
        "host": "127.0.0.1", "port": smtp.address().port(), "security": "none", "from": "shop@example.com",
    });
    for (priority, identifier) in [(1, "main"), (2, "second")] {
        sqlx::query(
            "INSERT INTO provider (app_id, identifier, channel, kind, priority, enabled, settings)
             VALUES (7, $1, 'email', 'smtp', $2, true, $3)",
        )
        .bind(identifier)
        .bind(priority)
        .bind(&settings)
        .execute(pool)
        .await
        .unwrap();
    }
    let events: Vec<_> = WebhookEvent::ALL.iter().map(ToString::to_string).collect();
    // The endpoint has no secret, so no webhook is sent, and the rows of webhooks do not change.
    sqlx::query(
        "INSERT INTO webhook_endpoint (app_id, url, events, since)
         VALUES (7, 'https://shop.example.com/', $1, '2026-01-01T00:00:00Z')",
    )
    .bind(&events)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO attachment VALUES (7, '018f3f6e-7c1a-7000-8000-0000000000bb', 0, $1, '2100-01-01T00:00:00Z')",
    )
    .bind(vec![b'%'; 48_213])
    .execute(pool)
    .await
    .unwrap();
}

/// Hides the two inbox items, if the event returns them to the list.
async fn hide_items(pool: &PgPool, event: &Event) {
    let hidden = match event {
        Event::InboxItemsChanged(ItemChange::Unarchived, _) => "archived_at = '2026-01-01T12:00:00Z'",
        Event::InboxSnoozesEnded(_) => "snoozed_until = '2126-01-03T03:04:05.678Z'",
        _ => return,
    };
    let statement = format!(
        "UPDATE inbox_item SET {hidden};
         UPDATE inbox_counter SET total = 0, unread = 0, unseen = 0, hidden = 2"
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(pool).await.unwrap();
}

/// Inserts the delivery of a further job of a bundle.
async fn seed_delivery(pool: &PgPool, event: &Event) {
    let Event::DeliveryJob(job) = event else { panic!("not a job: {event:?}") };
    sqlx::query(
        "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, attempt)
         SELECT app_id, $1, send_id, 1, $2, channel, $3, attempt FROM delivery",
    )
    .bind(job.delivery_id.0)
    .bind(job.user.0)
    .bind(&job.target)
    .execute(pool)
    .await
    .unwrap();
}

/// Inserts two inbox items, and a send with two chunks. The first chunk is planned and has one delivery. If `read` is true, the
/// items are marked as read.
async fn seed_rows(pool: &PgPool, attempt: u32, read: bool) {
    let mut recipients = vec![Value::from("nobody"); 500];
    recipients.iter_mut().enumerate().for_each(|(number, name)| *name = format!("nobody-{number}").into());
    recipients.push("ada".into());
    let body =
        json!({"content": {"title": "Order shipped"}, "recipients": recipients, "lane": "transactional"});
    let [request, delivery] = SEED_OF_ROWS.split_inclusive(';').take(2).collect::<Vec<_>>()[..] else {
        panic!("two statements");
    };
    sqlx::query(request).bind(body).execute(pool).await.unwrap();
    sqlx::query(delivery).execute(pool).await.unwrap();
    sqlx::query("UPDATE delivery SET attempt = $1")
        .bind(i32::try_from(attempt).unwrap())
        .execute(pool)
        .await
        .unwrap();
    sqlx::query(
        "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, seen_at, clicked_at, content, event_id)
         SELECT 7, 42, id, ('018f3f6e-7c1a-7000-8000-00000000' || id)::uuid, '2026-01-01T00:00:00Z', CASE WHEN $1 THEN timestamptz '2026-01-01T12:00:00Z' END,
                CASE WHEN $1 THEN timestamptz '2026-01-01T12:00:00Z' END, '{\"title\": \"Before\"}', gen_random_uuid()
         FROM unnest('{2048, 4096}'::bigint[]) AS id",
    )
    .bind(read)
    .execute(pool)
    .await
    .unwrap();
    sqlx::query(
        "INSERT INTO inbox_counter (app_id, user_number, total, unread, unseen) VALUES (7, 42, 2, $1, $1)",
    )
    .bind(if read { 0_i64 } else { 2 })
    .execute(pool)
    .await
    .unwrap();
}
