//! Number of webhooks sent per second: by the webhook service, compared with a bare client that signs the same bodies and posts
//! them to the same receiver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use credentials::secrets::webhook_secret_context;
use domain::event::DeliverySettled;
use domain::webhook::WebhookEvent;
use domain::{Actor, AppId, Channel, DeliveryId, Envelope, Event, SendId, Status, StreamName, UserNumber};
use event_log::Message;
use reqwest::Client;
use reqwest::header::CONTENT_TYPE;
use secrecy::ExposeSecret;
use service_kit::clock;
use sqlx::{Connection, PgConnection};
use stand_ins::webhook::WebhookReceiver;
use suite::cpu::Processes;
use testkit::eventually;
use webhooks::Secret;
use webhooks::signature::signatures;

use crate::deliver::{DeliveryReport, server_micros};
use crate::installation::Installation;
use crate::role::Role;

/// Concurrent calls of the bare client: as many as the service makes for one app.
const AT_ONCE: usize = 32;
/// Endpoints of the app. The service makes up to eight concurrent calls to each, which is `AT_ONCE` calls in total.
const ENDPOINTS: usize = 4;
/// Events that are published together.
const CHUNK: usize = 2_000;
const LONG: Duration = Duration::from_secs(300);
/// Poll interval of the receiver; short in comparison with the measured time.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// An app's backend with its endpoints.
pub(crate) struct Backend {
    receiver: WebhookReceiver,
    secret: Secret,
    endpoints: Vec<i64>,
}

/// Measures the sending of `webhooks` webhooks twice: alone, and with `backlog` additional webhooks in the queue.
pub(crate) async fn measure(
    installation: &Installation,
    rounds: u32,
    webhooks: usize,
    backlog: u32,
) -> Vec<DeliveryReport> {
    service_kit::install_crypto_provider();
    let backend = Backend::start(installation, ENDPOINTS).await;
    let mut results = Vec::new();
    for waiting in [0, backlog] {
        let mut result = DeliveryReport::new(&format!("{waiting} waiting"));
        backend.refill(installation, waiting).await;
        for round in 1..=rounds {
            eprintln!("webhooks: round {round} of {rounds}, {waiting} waiting");
            if waiting == 0 {
                publish(installation, webhooks / ENDPOINTS).await;
            }
            backend.measure(installation, webhooks, &mut result).await;
        }
        results.push(result);
    }
    backend.receiver.stop().await;
    results
}

impl Backend {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(&self, installation: &Installation, webhooks: usize, result: &mut DeliveryReport) {
        self.receiver.clear();
        installation.settle().await;
        let before = server_micros();
        let (rate, service) = self.send(installation, webhooks).await;
        result.add_micros(webhooks, service, before, server_micros());
        result.per_second.push(rate);

        let bodies = self.receiver.received().into_iter().map(|call| (call.path, call.body.to_string()));
        let bodies: Vec<_> = bodies.take(webhooks).collect();
        self.receiver.clear();
        let elapsed = self.send_bare(bodies).await;
        assert_eq!(self.receiver.count(), webhooks, "all webhooks are received once");
        result.bare_per_second.push(webhooks as f64 / elapsed.as_secs_f64());
    }

    pub(crate) async fn start(installation: &Installation, endpoints: usize) -> Backend {
        let (store, app) = (&installation.store, installation.app);
        let receiver = WebhookReceiver::start().await.unwrap();
        let secret = Secret::generate().unwrap();
        let text = secret.text();
        receiver.trust(&[text.expose_secret()]);
        let mut ids = Vec::new();
        for number in 1..=endpoints {
            let url = receiver.url(&format!("/hooks/{number}"));
            let draft = store.webhooks().put_endpoint(app, &url, WebhookEvent::ALL).await.unwrap().unwrap();
            let context = webhook_secret_context(app, draft.id());
            let sealed = installation.servers.master_key.seal(&context, text.expose_secret().as_bytes());
            ids.push(draft.id());
            draft.commit(Some(&sealed.unwrap()), &Actor::System).await.unwrap();
        }
        let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
        sqlx::query(
            "INSERT INTO app_user (app_id, number, identifier) OVERRIDING SYSTEM VALUE VALUES ($1, 1, 'user-1')
             ON CONFLICT DO NOTHING",
        )
        .bind(app.0)
        .execute(&mut connection)
        .await
        .unwrap();
        connection.close().await.unwrap();
        Backend { receiver, secret, endpoints: ids }
    }

    /// Returns the ids of the webhooks that were called for since the last time, and forgets them.
    pub(crate) fn take_ids(&self) -> Vec<String> {
        self.receiver.drain()
    }

    /// Empties the queue, and inserts `waiting` webhooks that are due now.
    async fn refill(&self, installation: &Installation, waiting: u32) {
        let mut connection = PgConnection::connect(installation.database_url()).await.unwrap();
        sqlx::raw_sql("TRUNCATE webhook_message, webhook_wake").execute(&mut connection).await.unwrap();
        sqlx::query(
            "INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, user_number, body)
             SELECT $1, $2[1 + number % array_length($2, 1)], gen_random_uuid(), gen_random_uuid(), 'delivery.sent', 1,
               format('{\"type\": \"delivery.sent\", \"data\": {\"recipient\": \"user-1\", \"number\": %s}}', number)
             FROM generate_series(1, $3::int) AS number",
        )
        .bind(installation.app.0)
        .bind(&self.endpoints)
        .bind(i32::try_from(waiting).unwrap())
        .execute(&mut connection)
        .await
        .unwrap();
        sqlx::raw_sql("ANALYZE webhook_message").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Runs the service until the receiver has `webhooks` messages. Returns the messages per second, and the processor time of
    /// the service in microseconds. The rate is measured from the first message to the last, so it does not include the start of
    /// the process.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn send(&self, installation: &Installation, webhooks: usize) -> (f64, u64) {
        let service = installation.serve(Role::Webhooks, &[("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")]);
        let (first, began) = eventually(LONG, "the first webhook arrives", async || {
            let first = self.receiver.count();
            (first > 0).then(|| (first, Instant::now()))
        })
        .await;
        let mut look = tokio::time::interval(LOOK_EVERY);
        while self.receiver.count() < webhooks {
            assert!(began.elapsed() < LONG, "{} of {webhooks} webhooks arrived", self.receiver.count());
            look.tick().await;
        }
        let (last, elapsed) = (self.receiver.count(), began.elapsed());
        ((last - first) as f64 / elapsed.as_secs_f64(), Processes::below(service.id()).micros())
    }

    async fn send_bare(&self, bodies: Vec<(String, String)>) -> Duration {
        let client = Client::new();
        let secret = Arc::new(Secret::parse(self.secret.text().expose_secret()).unwrap());
        let mut shares = vec![Vec::new(); AT_ONCE];
        for (index, (path, body)) in bodies.into_iter().enumerate() {
            shares[index % AT_ONCE].push((self.receiver.url(&path), body));
        }
        let began = Instant::now();
        let mut running = tokio::task::JoinSet::new();
        for share in shares {
            running.spawn(post_all(client.clone(), Arc::clone(&secret), share));
        }
        running.join_all().await;
        began.elapsed()
    }
}

async fn post_all(client: Client, secret: Arc<Secret>, messages: Vec<(String, String)>) {
    for (url, body) in messages {
        let (id, seconds) = (clock::new_id().to_string(), clock::now().millis() / 1_000);
        let signature = signatures(std::slice::from_ref(&secret), &id, seconds, &body);
        let request = client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-signature", signature)
            .header("webhook-id", id)
            .header("webhook-timestamp", seconds.to_string())
            .body(body);
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{}", answer.status());
    }
}

/// Publishes the outcomes of `count` deliveries. Each outcome produces one webhook per endpoint.
async fn publish(installation: &Installation, count: usize) {
    let outcomes: Vec<_> = (0..count).map(|_| outcome(installation.app)).collect();
    for chunk in outcomes.chunks(CHUNK) {
        for appended in installation.log.publish_all(chunk.to_vec()).await {
            appended.unwrap();
        }
    }
}

fn outcome(app: AppId) -> Message {
    let settled = DeliverySettled {
        delivery_id: DeliveryId(clock::new_id()),
        channel: Channel::Email,
        user: UserNumber(1),
        attempt: 1,
        status: Status::Sent,
        reason: None,
        provider: Some("main".to_owned()),
    };
    let envelope = Envelope {
        id: clock::new_id(),
        app,
        at: clock::now(),
        send_id: Some(SendId(clock::new_id())),
        caused_by: None,
        trace: None,
        event: Event::DeliverySettled(settled),
    };
    Message { stream: StreamName::Outcome, id: None, payload: envelope.encode().unwrap().into() }
}
