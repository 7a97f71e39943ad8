//! `data.attachments`: limits, and storage outside of the log and of inboxes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::request::MAX_ATTACHED;
use domain::{Channel, SendId};
use serde_json::{Value, json};
use service_kit::clock;
use testkit::eventually;

use crate::sends::overrides::provider;
use crate::service::{App, Backing, SOON, Service, plain_send};

const SEND: &str = "POST /v3/notifications";
const FILES: &str = "SELECT count(*)::text FROM attachment";

fn with_file(content: &[u8]) -> Value {
    let mut send = plain_send(&["ada@example.com"]);
    let file =
        json!({"name": "a.pdf", "contentType": "application/pdf", "content": STANDARD.encode(content)});
    send["data"] = json!({"order": 7, "attachments": [file]});
    send
}

impl Service {
    async fn file(&self, app: &App, request: &str) -> Option<Vec<u8>> {
        let send_id: SendId = request.parse().unwrap();
        self.context.store.deliveries().attachment(app.id, send_id, 0).await.unwrap()
    }
}

#[tokio::test]
async fn a_file_is_stored_with_its_send_and_named_in_its_jobs() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    service.by(&shop, "PUT /v3/users/ada@example.com").json(&json!({})).send().await.is(200);
    let content: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let request = service.sent(&shop, &with_file(&content)).await;
    assert_eq!(service.file(&shop, &request).await.as_deref(), Some(&content[..]));

    let job = service.jobs(Channel::Email, 1).await.remove(0);
    let named = json!([{"number": 0, "name": "a.pdf", "contentType": "application/pdf", "size": 100_000}]);
    assert_eq!(json!(job.content)["email"]["options"]["attachments"], named);
    let list = eventually(SOON, "the item is listed", async || {
        let list = service.list(&shop, "ada@example.com", "").await;
        (list["unreadCount"] == 1).then_some(list)
    })
    .await;
    assert_eq!(list["data"][0]["data"], json!({"order": 7}));
    let held = service.everything_logged().await;
    assert!(!held.contains(&STANDARD.encode(&content[..300])) && held.contains("a.pdf"));
}

#[tokio::test]
async fn a_repeat_stores_no_second_file_and_a_different_file_is_a_different_body() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let send = |content: &[u8]| {
        service.by(&shop, SEND).header("Idempotency-Key", "k").json(&with_file(content)).send()
    };
    let first = send(b"one").await.is(202);
    assert_eq!(send(b"one").await.is(202), first);
    send(b"two").await.fails(409, "idempotency_key_reused");
    assert_eq!(service.one_text(FILES).await, "1");
    // Simulate a first call that stopped before it stored its files. A repeat must store them.
    service.run("DELETE FROM attachment").await;
    assert_eq!(send(b"one").await.is(202), first);
    let request = first["requestId"].as_str().unwrap();
    assert_eq!(service.file(&shop, request).await.as_deref(), Some(&b"one"[..]));
}

#[tokio::test]
async fn refused_sends_and_dry_runs_store_no_files() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let mut refused = with_file(b"x");
    refused["lane"] = json!("fast");
    service.by(&shop, SEND).json(&refused).send().await.has_problems(&[("lane", "unknown_value")]);
    let mut unknown = with_file(b"x");
    unknown["notification"] = json!({"templateIdentifier": "none"});
    service.by(&shop, SEND).json(&unknown).send().await.is(400);
    let tried = service.by(&shop, &format!("{SEND}?dryRun=true")).json(&with_file(b"x")).send().await.is(200);
    assert!(!tried.to_string().contains("attachments\":[{\"number"), "{tried}");
    assert_eq!(service.one_text(FILES).await, "0");
    assert_eq!(service.sends().await, 0);
}

#[tokio::test]
async fn a_dry_run_names_missing_content_ids_and_members_that_are_ignored() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    let user = json!({"email": "ada@example.com"});
    service.by(&shop, "PUT /v3/users/ada@example.com").json(&user).send().await.is(200);
    let mut send = with_file(b"x");
    let file = &mut send["data"]["attachments"][0];
    (file["contentId"], file["cid"]) = (json!("<logo>"), json!("logo"));
    send["override"] = json!({
        "channels": ["email"], "channel": {"email": {"html": "<img src='cid:logo'><img src='cid:other'>"}},
    });
    let tried = service.by(&shop, &format!("{SEND}?dryRun=true")).json(&send).send().await.is(200);
    assert_eq!(tried["ignored"], json!(["data.attachments[0].cid"]));
    let email = &tried["data"][0]["content"];
    assert_eq!(email["missingContentIds"], json!(["other"]), "{tried}");
    let file = json!({
        "name": "a.pdf", "contentType": "application/pdf", "size": 1, "contentId": "logo", "disposition": "inline",
    });
    assert_eq!(email["attachments"], json!([file]));
    let strict = service.by(&shop, SEND).header("Prefer", "handling=strict").json(&send).send().await;
    strict.has_problems(&[
        ("data.attachments[0].cid", "unknown_member"),
        ("override.channel.email.html", "unknown_content_id"),
    ]);
}

#[tokio::test]
async fn files_of_ten_mebibytes_are_accepted_and_larger_ones_refused() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let request = service.sent(&shop, &with_file(&vec![7; MAX_ATTACHED])).await;
    assert_eq!(service.file(&shop, &request).await.map(|file| file.len()), Some(MAX_ATTACHED));
    let over = service.by(&shop, SEND).json(&with_file(&vec![7; MAX_ATTACHED + 1])).send().await;
    over.has_problems(&[("data.attachments", "too_large")]);
    let far_over = service.by(&shop, SEND).json(&with_file(&vec![7; 12 * 1024 * 1024])).send().await;
    far_over.fails(413, "too_large");
}

#[tokio::test]
async fn only_files_raise_the_size_limit_of_a_body() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let large = "x".repeat(gateway::MAX_BODY);
    // Three bodies over the normal limit: of a call other than a send, of a send without files, and of a send with a small file.
    let user = json!({"identifier": "ada", "attachments": large});
    service.by(&shop, "POST /v3/users").json(&user).send().await.fails(413, "too_large");
    let mut send = plain_send(&["ada"]);
    send["unknown"] = json!(large);
    service.by(&shop, SEND).json(&send).send().await.fails(413, "too_large");
    let mut send = with_file(b"x");
    send["unknown"] = json!(large);
    service.by(&shop, SEND).json(&send).send().await.fails(413, "too_large");
    // The files may be the last member of the body.
    let mut text = serde_json::to_string(&plain_send(&["ada"])).unwrap();
    text.truncate(text.len() - 1);
    let filler = "x".repeat(gateway::MAX_BODY - 1_000);
    let content = STANDARD.encode(vec![7; 1024 * 1024]);
    let body = format!(
        "{text},\"unknown\":\"{filler}\",\"data\":{{\"attachments\":[{{\"name\":\"a\",\"content\":\"{content}\"}}]}}}}"
    );
    service.by(&shop, SEND).body(body, "application/json").send().await.is(202);
}

#[tokio::test]
async fn sends_beyond_the_memory_for_files_are_refused_with_retry_after() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    let body = serde_json::to_vec(&with_file(&vec![7; MAX_ATTACHED])).unwrap();
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..12 {
        sends.spawn(service.by(&shop, SEND).body(body.clone(), "application/json").send());
    }
    let answers = sends.join_all().await;
    for answer in &answers {
        match answer.status {
            202 => {}
            _ => {
                answer.fails(503, "unavailable");
                assert!(answer.header("retry-after").is_some());
            }
        }
    }
    assert!(answers.iter().any(|answer| answer.status == 202));
    // A send succeeds again, because the gateway has released the memory of the earlier files.
    service.by(&shop, SEND).body(body, "application/json").send().await.is(202);
}

#[tokio::test]
async fn a_scheduled_send_keeps_its_files_and_overrides_until_its_time() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    service.run(provider!("email", "smtp")).await;
    service.by(&shop, "PUT /v3/users/ada@example.com").json(&json!({})).send().await.is(200);
    let mut send = with_file(b"file");
    send["sendAt"] = json!(clock::now() + std::time::Duration::from_secs(86_400));
    send["override"] = json!({"channel": {"email": {"subject": "Later", "cc": "cyd@example.com"}}});
    let (request, cancelled) = (service.sent(&shop, &send).await, service.sent(&shop, &send).await);
    for request in [&request, &cancelled] {
        eventually(SOON, "the request is scheduled", async || {
            let path = format!("GET /v3/requests/{request}");
            (service.by(&shop, &path).send().await.body["status"] == "scheduled").then_some(())
        })
        .await;
    }
    let kept = "SELECT count(*)::text FROM attachment WHERE keep_until > now() + interval '8 days'";
    assert_eq!(service.one_text(kept).await, "2", "the files are kept long enough after the scheduled time");
    service.by(&shop, &format!("DELETE /v3/requests/{cancelled}")).send().await.is(200);
    service.run("UPDATE timer SET due_at = now()").await;

    let job = service.jobs(Channel::Email, 1).await.remove(0);
    let email = &json!(job.content)["email"];
    assert_eq!((&email["subject"], &email["options"]["cc"]), (&json!("Later"), &json!(["cyd@example.com"])));
    assert_eq!(email["options"]["attachments"][0]["name"], "a.pdf");
    assert_eq!(service.file(&shop, &request).await.as_deref(), Some(&b"file"[..]));
    eventually(SOON, "the cancelled send is completed", async || {
        let counts = service.request(&shop, &cancelled).await["counts"].clone();
        (counts["email"] == json!({"cancelled": 1}) && counts["inApp"] == json!({"cancelled": 1}))
            .then_some(())
    })
    .await;
    assert_eq!(service.jobs(Channel::Email, 1).await.len(), 1, "the cancelled send sent nothing");
}
