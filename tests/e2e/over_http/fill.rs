//! Equal data for both apps.

use std::time::Duration;

use domain::{Lane, SendId, StreamName};
use serde_json::{Value, json};
use sqlx::PgPool;
use store::database::failure::ParkRequest;
use store::{Settings, Store};
use testkit::eventually;
use uuid::Uuid;

use super::{Twins, Way};

const SOON: Duration = Duration::from_secs(60);

/// Stores a send to Ada, whose email waits for the provider `main`, and what else lists show.
const ROWS: &str = "
    INSERT INTO category (app_id, identifier, name) SELECT id, 'orders', 'Orders' FROM app;
    INSERT INTO app_user (app_id, identifier, profile)
      SELECT id, 'ada', '{\"name\": \"Ada\", \"email\": \"ada@example.com\", \"phoneNumber\": \"+49 151 12345678\"}' FROM app;
    INSERT INTO app_user (app_id, identifier, profile) SELECT id, 'bob@example.com', '{\"phone\": \"+4915111\"}' FROM app;
    INSERT INTO app_user (app_id, identifier, profile) SELECT id, person, '{\"email\": \"same@example.com\"}'
      FROM app, (VALUES ('cyd'), ('dan')) AS people (person);
    INSERT INTO device (app_id, user_number, device_id) SELECT app_id, number, 'phone' FROM app_user WHERE identifier = 'ada';
    INSERT INTO request (app_id, send_id, accepted_at, lane, title, category_id, recipients)
      SELECT app_id, ('018f0000-0000-7000-8000-0000000001' || lpad(app_id::text, 2, '0'))::uuid, '2026-11-29T10:02:03.120Z', 'transactional',
        'Order 7 shipped', id, 1
      FROM category;
    INSERT INTO request (app_id, send_id, accepted_at, lane, title, recipients)
      SELECT id, ('018f0000-0000-7000-8000-0000000002' || lpad(id::text, 2, '0'))::uuid, '2026-11-29T10:03:03.120Z', 'bulk', 'News', 0 FROM app;
    INSERT INTO plan (app_id, send_id, turn, planned_at) SELECT app_id, send_id, 0, '2026-11-29T10:02:03.128Z' FROM request;
    INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
      SELECT r.app_id, send_id, 0, 0, 'ada', number, true, '{sms:preference_off,webPush:no_address}'
      FROM request r JOIN app_user u ON u.app_id = r.app_id AND u.identifier = 'ada' WHERE title <> 'News';
    INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, seen_at, clicked_at, content, event_id)
      SELECT app_id, user_number, app_id, send_id, '2026-11-29T10:02:03.130Z', '2026-11-29T10:03:00Z', '2026-11-29T10:04:12Z', '{}',
        gen_random_uuid()
      FROM planned_recipient;
    INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
      SELECT app_id, ('00000000-0000-0000-0000-0000000000' || lpad(app_id::text, 2, '0'))::uuid, send_id, 0, user_number, 'email', 'ada@example.com'
      FROM planned_recipient;
    INSERT INTO timer (id, due_at, stream, message, app_id, send_id, user_number, delivery_id, wait_reason, provider, code)
      SELECT gen_random_uuid(), '2026-11-29T10:07:00Z', 'JOB_email_transactional', '', app_id, send_id, user_number, id,
        'breaker_open', 'main', '535 5.7.8'
      FROM delivery;
    INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
      SELECT id, '2026-11-29T10:02:03Z', v.* FROM app, (VALUES
        (1, 400, 'POST', '/v3/notifications', 'required', ARRAY['notification.title'], 'pk_12345', '192.0.2.x', true),
        (9, 401, 'GET', '/v3/users/{id}', 'invalid_credentials', ARRAY[]::text[], 'pk_12345', '198.51.100.x', false)) AS v;
    INSERT INTO suppression (app_id, channel, target, delivery_id, code, created_at)
      SELECT id, v.channel, v.target, v.delivery::uuid, '550', '2026-11-29T10:02:03Z' FROM app, (VALUES
        ('email', 'ada@example.com', '00000000-0000-0000-0000-00000000000a'),
        ('sms', '+4915112345678', '00000000-0000-0000-0000-00000000000b'),
        ('mobilePush', 'fcm:abcdef', '00000000-0000-0000-0000-00000000000c')) AS v (channel, target, delivery);
    INSERT INTO webhook_message (app_id, endpoint_id, id, subject, event, body, status, attempts, last_answer, settled_at)
      SELECT app_id, id, ('0197b5a2-0000-7000-8000-00000000000' || v.n)::uuid, gen_random_uuid(), 'delivery.failed', '{}', 'failed', 9, '500',
        '2026-11-29T10:02:03Z'
      FROM webhook_endpoint, (VALUES (1), (2)) AS v (n)";

impl Twins {
    pub(super) async fn fill(&mut self) {
        let url =
            self.environment.iter().find(|(name, _)| name == "TIDINGS_DATABASE__URL").unwrap().1.clone();
        for twin in ["shop", "twin-a", "twin-b"] {
            let created = self.do_now(&["app", "create", twin, "--json"], "");
            for values in &mut self.values {
                if twin == "shop" || values["twin"] == twin {
                    let (name, id) =
                        (if twin == "shop" { "shop" } else { "app" }, created["id"].as_str().unwrap());
                    values.insert(name.to_owned(), id.to_owned());
                    if twin != "shop" {
                        values.insert(
                            "request".to_owned(),
                            format!("018f0000-0000-7000-8000-0000000001{id:0>2}"),
                        );
                    }
                }
            }
            self.set_up(twin);
        }
        let pool = PgPool::connect(&url).await.unwrap();
        sqlx::raw_sql(ROWS).execute(&pool).await.unwrap();
        pool.close().await;
        let store = Store::connect(&Settings { url, max_connections: 2 }).await.unwrap();
        for (number, twin) in ["shop", "twin-a", "twin-b"].into_iter().enumerate() {
            let app = store.control().app_by_name_or_id(twin).await.unwrap().unwrap().id;
            let parked = ParkRequest {
                id: Uuid::from_u128(5 + number as u128),
                app: Some(app),
                send_id: Some(SendId(Uuid::from_u128(7))),
                stream: StreamName::Send(Lane::Bulk),
                seq: 1 + number as u64,
                message: b"{",
                cause: "malformed",
            };
            store.database().park_message(&parked).await.unwrap();
        }
        let token = self.do_now(&["token", "create", "admin", "--role", "admin", "--json"], "");
        self.token = token["token"].as_str().unwrap().to_owned();
        let client = reqwest::Client::new();
        let health = format!("{}/healthz", self.url);
        eventually(SOON, "the console serves", async || {
            client.get(&health).send().await.ok().filter(|answer| answer.status().is_success()).map(|_| ())
        })
        .await;
        self.directory_files();
    }

    /// Creates a provider, a template with two versions, and an endpoint.
    fn set_up(&self, app: &str) {
        let provider = json!({
            "identifier": "main", "channel": "email", "kind": "smtp", "enabled": false,
            "settings": {"host": "127.0.0.1", "port": 9, "security": "none", "from": "shop@example.com"},
        });
        self.do_now(&["provider", "set", app, "--json"], &provider.to_string());
        for text in ["Hi {{ name }}", "Hello {{ name }}"] {
            let template = json!({"identifier": "welcome", "channels": {"inApp": {"title": text}, "sms": {"text": text}}});
            self.do_now(&["template", "put", app, "--json"], &template.to_string());
        }
        self.do_now(&["webhook", "set", app, "https://shop.example.com/hook", "--json"], "");
    }

    fn directory_files(&self) {
        let provider = json!({
            "identifier": "second", "channel": "email", "kind": "smtp", "priority": 20,
            "settings": {"host": "127.0.0.1", "port": 9, "security": "none", "from": "shop@example.com", "username": "u", "password": "p"},
        });
        let mut invalid = provider.clone();
        invalid["settings"]["port"] = json!(0);
        let template = json!({"identifier": "hi", "channels": {
            "email": {"subject": "Order {{ order }}", "text": "Dear {{ recipient.name }}", "html": "<p>Dear</p>"},
            "inApp": {"title": "Hi"},
        }});
        for (name, document) in [
            ("provider.json", provider),
            ("invalid.json", invalid),
            ("template.json", template),
            ("bad-template.json", json!({"identifier": "hi", "channels": {"sms": {"text": "{{"}}})),
            ("data.json", json!({"name": "Ada", "order": 7})),
        ] {
            std::fs::write(self.directory.path().join(name), document.to_string()).unwrap();
        }
        std::fs::write(self.directory.path().join("token"), format!("{}\n", self.token)).unwrap();
    }

    /// Runs a command on the database, which has to succeed.
    pub(super) fn do_now(&self, arguments: &[&str], input: &str) -> Value {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.run(Way::Database, &arguments, input).json()
    }
}
