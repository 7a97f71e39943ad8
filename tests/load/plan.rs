//! Number of recipients planned per second: by one dispatcher beside the inbox projection, for sends that name one recipient, that name
//! 500, and that go to a topic. Compared with bare inserts of the same rows of plans.

use std::time::{Duration, Instant};

use domain::send::SendRequest;
use domain::{Envelope, Event, Lane, SendId, StreamName};
use event_log::Message;
use serde::Serialize;
use serde_json::json;
use service_kit::clock;
use sqlx::{Connection, PgConnection};
use suite::cpu::Processes;
use testkit::eventually;

use crate::installation::Installation;
use crate::old_sends;
use crate::role::Role;
use crate::series::Series;

const LONG: Duration = Duration::from_secs(300);
/// Poll interval of the tables: short compared to the measured time, and long enough to cost PostgreSQL little.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of rows of a bare insert, and of recipients of a large send.
const CHUNK: u32 = 500;
const TOPIC: &str = "everyone";

/// Results of one kind of sends, by round.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanReport {
    pub(crate) name: &'static str,
    #[serde(skip)]
    audience: Audience,
    pub(crate) per_second: Series,
    pub(crate) bare_per_second: Series,
    /// Processor time for one recipient, without the start of the services. That of the databases includes the inbox projection.
    pub(crate) service_micros: Series,
    pub(crate) nats_micros: Series,
    pub(crate) postgres_micros: Series,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Audience {
    /// Sends with this number of named recipients.
    Named(u32),
    /// One send to a topic.
    Topic,
}

/// Measures the kinds of sends. Each measurement has `recipients` recipients, and a fifth of them if each has a separate send.
pub(crate) async fn measure(installation: &Installation, rounds: u32, recipients: u32) -> Vec<PlanReport> {
    prepare(installation, recipients).await;
    let kinds = [
        ("sends to 1 recipient", Audience::Named(1)),
        ("sends to 500 recipients", Audience::Named(CHUNK)),
        ("a send to a topic", Audience::Topic),
    ];
    let mut reports: Vec<_> = kinds.map(|(name, audience)| PlanReport::of(name, audience)).into();
    for round in 1..=rounds {
        eprintln!("plan: round {round} of {rounds}");
        for report in &mut reports {
            let recipients =
                if matches!(report.audience, Audience::Named(1)) { recipients / 5 } else { recipients };
            report.measure(installation, recipients).await;
        }
    }
    reports
}

impl PlanReport {
    fn of(name: &'static str, audience: Audience) -> PlanReport {
        PlanReport {
            name,
            audience,
            per_second: Series::default(),
            bare_per_second: Series::default(),
            service_micros: Series::default(),
            nats_micros: Series::default(),
            postgres_micros: Series::default(),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(&mut self, installation: &Installation, recipients: u32) {
        let (nats, postgres) = (Processes::named("nats-server"), Processes::named("postgres"));
        let used = || [nats, postgres].map(|some| some.map_or(0, Processes::micros));

        clear(installation).await;
        publish(installation, self.audience, recipients).await;
        installation.settle().await;
        let inbox = installation.serve(Role::Inbox, &[]);
        let dispatcher = installation.serve(Role::Dispatcher, &[]);
        let service = Processes::below(dispatcher.id());
        let mut before = None;
        let planned = planned(installation, recipients, || before = Some((service.micros(), used()))).await;
        self.per_second.push(planned.per_second);
        let (service_before, servers_before) = before.unwrap();
        let each = |before: u64, after: u64| (after - before) as f64 / f64::from(planned.recipients);
        let after = used();
        self.service_micros.push(each(service_before, service.micros()));
        self.nats_micros.push(each(servers_before[0], after[0]));
        self.postgres_micros.push(each(servers_before[1], after[1]));
        drop((inbox, dispatcher));

        installation.settle().await;
        self.bare_per_second.push(bare_inserts(installation, recipients).await);
    }
}

/// Removes all plans and inbox items, except those of old sends.
pub(crate) async fn clear(installation: &Installation) {
    if installation.has_old_sends {
        return old_sends::remove_newer(installation).await;
    }
    run(installation, "TRUNCATE plan, planned_recipient, request, inbox_item, inbox_counter").await;
}

/// Creates the users, and subscribes them to the topic.
pub(crate) async fn prepare(installation: &Installation, users: u32) {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    sqlx::query(
        "WITH people AS (
           INSERT INTO app_user (app_id, identifier) SELECT $1, 'user-' || n FROM generate_series(1, $2) n RETURNING number
         ), news AS (
           INSERT INTO topic (app_id, identifier, name) VALUES ($1, $3, $3) RETURNING id
         )
         INSERT INTO topic_subscription (app_id, topic_id, user_number, subscribed_at)
         SELECT $1, news.id, people.number, now() - interval '1 hour' FROM people, news",
    )
    .bind(installation.app.0)
    .bind(i64::from(users))
    .bind(TOPIC)
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::raw_sql("ANALYZE; CREATE TABLE bare_recipient (LIKE planned_recipient INCLUDING ALL)")
        .execute(&mut connection)
        .await
        .unwrap();
    connection.close().await.unwrap();
}

pub(crate) async fn publish(installation: &Installation, audience: Audience, recipients: u32) {
    let (sends, named) = match audience {
        Audience::Named(each) => (recipients / each, each),
        Audience::Topic => (1, 0),
    };
    let lane = if named == 1 { Lane::Transactional } else { Lane::Bulk };
    let message = |number: u32| {
        let named: Vec<_> = (1..=named).map(|place| format!("user-{}", number * named + place)).collect();
        let topics = if named.is_empty() { vec![TOPIC] } else { Vec::new() };
        let send = json!({
            "content": {"title": "Your order is on its way", "message": "It arrives tomorrow before noon."},
            "recipients": named, "topics": topics, "channels": ["inApp"], "lane": lane,
        });
        let send: SendRequest = serde_json::from_value(send).unwrap();
        let send_id = SendId(clock::new_id());
        let envelope = Envelope {
            id: send_id.0,
            app: installation.app,
            at: clock::now(),
            send_id: Some(send_id),
            caused_by: None,
            trace: None,
            event: Event::SendAccepted(Box::new(send)),
        };
        Message { stream: StreamName::Send(lane), id: None, payload: envelope.encode().unwrap().into() }
    };
    let messages = (0..sends).map(message).collect();
    for appended in installation.log.publish_all(messages).await {
        appended.unwrap();
    }
}

/// Recipients that were planned from the first that was visible in the database to the last.
pub(crate) struct Planned {
    pub(crate) recipients: u32,
    pub(crate) per_second: f64,
}

/// Waits until all recipients are planned. Calls `on_start` when the first is visible.
pub(crate) async fn planned(
    installation: &Installation,
    recipients: u32,
    on_start: impl FnOnce(),
) -> Planned {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    // The sum is over few rows: one for each new request.
    let (app, first) = (installation.app.0, old_sends::first_new_send());
    let mut planned_now = async || -> i64 {
        let sum =
            "SELECT coalesce(sum(recipients), 0)::bigint FROM request WHERE app_id = $1 AND send_id >= $2";
        sqlx::query_scalar(sum).bind(app).bind(first).fetch_one(&mut connection).await.unwrap()
    };
    let (seen, began) = eventually(LONG, "planning starts", async || {
        let seen = planned_now().await;
        (seen > 0).then(|| (seen, Instant::now()))
    })
    .await;
    on_start();
    let (mut done, mut look) = (seen, tokio::time::interval(LOOK_EVERY));
    while done < i64::from(recipients) {
        assert!(began.elapsed() < LONG, "{done} of {recipients} recipients are planned");
        look.tick().await;
        done = planned_now().await;
    }
    let counted = u32::try_from(done - seen).unwrap();
    let per_second = f64::from(counted) / began.elapsed().as_secs_f64();
    // All messages are published once the bodies of the sends are gone, which the next measurement relies on.
    eventually(LONG, "every send is dispatched", async || {
        let open: i64 = sqlx::query_scalar("SELECT count(*) FROM request WHERE body IS NOT NULL")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        (open == 0).then_some(())
    })
    .await;
    Planned { recipients: counted, per_second }
}

/// Inserts the rows of the plans alone, 500 per transaction, and returns the rows per second.
async fn bare_inserts(installation: &Installation, recipients: u32) -> f64 {
    run(installation, "TRUNCATE bare_recipient").await;
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    let begin = Instant::now();
    for chunk in 0..recipients / CHUNK {
        sqlx::query(
            "INSERT INTO bare_recipient (app_id, send_id, turn, recipient_index, identifier, user_number, in_app, skips)
             SELECT $1, $2, $3, n, 'user-' || n, n, true, '{}' FROM generate_series($3 * 500, $3 * 500 + 499) n",
        )
        .bind(installation.app.0)
        .bind(clock::new_id())
        .bind(i32::try_from(chunk).unwrap())
        .execute(&mut connection)
        .await
        .unwrap();
    }
    f64::from(recipients) / begin.elapsed().as_secs_f64()
}

async fn run(installation: &Installation, statements: &'static str) {
    let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
    sqlx::raw_sql(statements).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}
