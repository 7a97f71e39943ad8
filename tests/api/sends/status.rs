//! `/v3/requests`.

use serde_json::json;
use stand_ins::smtp::{Rule, Stage};

use crate::mailbox::Mailbox;
use crate::service::{Backing, SOON, Service, plain_send};

#[tokio::test]
async fn a_request_shows_the_outcome_of_its_send() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    // The gateway waits for a send to be planned, but not for a dispatcher to start.
    let earlier = service.sent(&shop, &plain_send(&["bob"])).await;
    service.request(&shop, &earlier).await;
    let body = json!({
        "notification": {"title": "Hello"},
        "sendTo": {"recipients": [{"identifier": "ada", "email": "ada@example.com"}, "eve"]},
    });
    let receipt = service.by(&shop, "POST /v3/notifications").json(&body).send().await.is(202);
    let id = receipt["requestId"].as_str().unwrap();
    // The request can be read right after the 202, even before it is planned.
    let first = service.by(&shop, &format!("GET /v3/requests/{id}")).send().await.is(200);
    assert_eq!(
        (&first["requestId"], &first["recipients"], &first["sendAt"]),
        (&json!(id), &json!(2), &json!(null))
    );
    let request = testkit::eventually(SOON, "the request is completed", async || {
        let request = service.request(&shop, id).await;
        (request["status"] == "completed").then_some(request)
    })
    .await;
    let skipped = json!({"skipped": 2});
    let expected = json!({
        "inApp": {"delivered": 1, "skipped": 1},
        "email": skipped, "webPush": skipped, "mobilePush": skipped, "sms": skipped,
    });
    assert_eq!(request["counts"], expected);

    let deliveries = format!("GET /v3/requests/{id}/deliveries");
    let all = service.by(&shop, &deliveries).send().await.is(200);
    assert_eq!(all["data"].as_array().unwrap().len(), 10);
    assert_eq!(all["nextCursor"], json!(null));
    let in_app = service.by(&shop, &format!("{deliveries}?channel=inApp&recipient=ada")).send().await.is(200);
    let planned_at = &in_app["data"][0]["plannedAt"];
    assert!(planned_at.as_str() >= in_app["acceptedAt"].as_str() && planned_at.is_string());
    let expected = json!({
        "id": null, "requestId": id, "recipient": "ada", "channel": "inApp", "target": null, "provider": null,
        "status": "delivered", "reason": null, "code": null, "nextAttemptAt": null, "plannedAt": planned_at, "settledAt": null, "attempts": [],
    });
    assert_eq!(in_app["data"], json!([expected]));
    let skipped =
        service.by(&shop, &format!("{deliveries}?status=skipped&channel=email")).send().await.is(200);
    assert_eq!(skipped["data"][0]["reason"], "no_provider");
    assert_eq!(skipped["data"][0]["settledAt"], *planned_at);
}

#[tokio::test]
async fn deliveries_are_paged_with_masked_targets() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .run(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             SELECT id, '018f0000-0000-7000-8000-000000000001', now(), 'bulk', 150 FROM app;
             INSERT INTO planned_recipient
                 (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
             SELECT app_id, send_id, n, 0, 'user-' || n, n, false, '{}' FROM request, generate_series(0, 149) AS n;
             INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
             SELECT app_id, gen_random_uuid(), send_id, recipient_index, user_number, 'email', identifier || '@example.com'
             FROM planned_recipient;
             INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, outcome, provider_code,
                                  provider_message)
             SELECT app_id, id, 1, now(), now(), 'retry', '451', 'later' FROM delivery",
        )
        .await;
    let deliveries = "GET /v3/requests/018f0000-0000-7000-8000-000000000001/deliveries";
    let first = service.by(&shop, deliveries).send().await.is(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = service.by(&shop, &format!("{deliveries}?cursor={cursor}")).send().await.is(200);
    assert_eq!(second["nextCursor"], json!(null));
    let both = [&first, &second].map(|page| page["data"].as_array().unwrap());
    let recipients: Vec<_> =
        both.into_iter().flatten().map(|one| one["recipient"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..150).map(|number| format!("user-{number}")).collect();
    assert_eq!(recipients, expected);
    let one = &second["data"][0];
    assert_eq!((&one["target"], &one["status"]), (&json!("u***@example.com"), &json!("queued")));
    assert!(one["id"].is_string());
    let attempt = &one["attempts"][0];
    assert_eq!((&attempt["number"], &attempt["providerCode"]), (&json!(1), &json!("451")));
    let id = "018f0000-0000-7000-8000-000000000001";
    for (limit, pages) in [(7, 22), (40, 4), (100, 2)] {
        let mut recipients = Vec::new();
        let mut cursor = String::new();
        for page in 1..=pages {
            let query = format!("channel=email&status=queued&limit={limit}{cursor}");
            let answer = service.by(&shop, &format!("{deliveries}?{query}")).send().await.is(200);
            let data = answer["data"].as_array().unwrap();
            assert_eq!(data.len(), if page < pages { limit } else { 150 - (pages - 1) * limit });
            recipients.extend(data.iter().map(|one| one["recipient"].as_str().unwrap().to_owned()));
            cursor = answer["nextCursor"].as_str().map(|next| format!("&cursor={next}")).unwrap_or_default();
        }
        assert_eq!((recipients, cursor), (expected.clone(), String::new()), "pages of {limit}");
    }
    for (query, found) in
        [("recipient=user-7&channel=email", 1), ("recipient=nobody", 0), ("channel=inApp", 0)]
    {
        assert_eq!(service.deliveries(&shop, id, query).await.len(), found, "{query}");
    }
    for limit in ["0", "101", "x"] {
        let answer = service.by(&shop, &format!("{deliveries}?limit={limit}")).send().await;
        answer.has_problems(&[("limit", "invalid_number")]);
    }
    let processing = service.request(&shop, id).await;
    assert_eq!(processing["status"], "processing");
}

#[tokio::test]
async fn an_unknown_or_foreign_request_is_a_404() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    // The third id contains the current time, so the gateway waits for the send to be planned before it answers 404.
    let fresh = service_kit::clock::new_id().to_string();
    for id in ["abc", "018f0000-0000-7000-8000-000000000002", &fresh, "%FF"] {
        service.by(&shop, &format!("GET /v3/requests/{id}")).send().await.fails(404, "not_found");
        service.by(&shop, &format!("GET /v3/requests/{id}/deliveries")).send().await.fails(404, "not_found");
        service.by(&shop, &format!("DELETE /v3/requests/{id}")).send().await.fails(404, "not_found");
    }
    let query = "?channel=pigeon&status=lost&cursor=x&recipient=%00";
    let answer = service.by(&shop, &format!("GET /v3/requests/{fresh}/deliveries{query}")).send().await;
    answer.has_problems(&[
        ("recipient", "invalid_character"),
        ("channel", "unknown_value"),
        ("status", "unknown_value"),
        ("cursor", "invalid_cursor"),
    ]);
}

#[tokio::test]
async fn a_recipients_history_covers_acceptance_to_the_last_attempt() {
    let service = Service::start().await;
    let shop = service.app("shop").await;
    let mailbox = Mailbox::start(&service, &shop).await;
    mailbox.server.script(Rule::answer(Stage::Rcpt, "450 4.2.0 later").to("ada@example.com"));
    let recipients = json!([{"identifier": "ada", "email": "ada@example.com"}, {"identifier": "bob"}]);
    let send = json!({"notification": {"title": "Hello"}, "sendTo": {"recipients": recipients}});
    let id = service.sent(&shop, &send).await;
    let story = testkit::eventually(SOON, "the second attempt is made", async || {
        let path = format!("GET /v3/requests/{id}/deliveries?recipient=ada");
        let story = service.once_stored(&shop, &path).await;
        (story["data"][0]["status"] == "sent").then_some(story)
    })
    .await;
    let data = story["data"].as_array().unwrap();
    let decided: Vec<_> = data.iter().map(|row| (row["channel"].as_str().unwrap(), &row["reason"])).collect();
    let reason = json!("no_provider");
    let none = json!(null);
    let expected =
        [("email", &none), ("inApp", &none), ("mobilePush", &reason), ("sms", &reason), ("webPush", &reason)];
    assert_eq!(decided, expected);
    let email = &data[0];
    let attempts = email["attempts"].as_array().unwrap();
    let answers: Vec<_> = attempts
        .iter()
        .map(|attempt| (attempt["number"].as_i64().unwrap(), &attempt["provider"], &attempt["outcome"]))
        .collect();
    let main = json!("main");
    assert_eq!(answers, [(1, &main, &json!("retry")), (2, &main, &json!("sent"))]);
    assert!(attempts[0]["providerMessage"].as_str().unwrap().contains("later"));
    let times = [
        &story["acceptedAt"],
        &email["plannedAt"],
        &attempts[0]["startedAt"],
        &attempts[0]["endedAt"],
        &attempts[1]["startedAt"],
        &attempts[1]["endedAt"],
        &email["settledAt"],
    ];
    let times: Vec<_> = times.iter().map(|time| time.as_str().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert!(data.iter().all(|row| row["plannedAt"] == email["plannedAt"]));
}

#[tokio::test]
async fn a_row_that_only_a_newer_gateway_can_read_is_a_503() {
    let service = Service::start_with(Backing::Nothing).await;
    let shop = service.app("shop").await;
    service
        .run(
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
               SELECT id, 'aaaaaaaa-0000-7000-8000-000000000000', now(), 'transactional', 1 FROM app;
             INSERT INTO planned_recipient (app_id, send_id, recipient_index, turn, identifier, in_app, skips)
               SELECT id, 'aaaaaaaa-0000-7000-8000-000000000000', 0, 0, 'ada', false, '{}' FROM app;
             INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target)
               SELECT id, 'bbbbbbbb-0000-5000-8000-000000000000', 'aaaaaaaa-0000-7000-8000-000000000000', 0, 1, 'email',
                 'ada@example.com' FROM app;",
        )
        .await;
    let request = "/v3/requests/aaaaaaaa-0000-7000-8000-000000000000";
    for (alter, part) in [
        ("UPDATE delivery SET status = 'failed', reason = 'of_the_future'", "/deliveries"),
        (
            "ALTER TABLE delivery DROP CONSTRAINT delivery_status;
             UPDATE delivery SET status = 'of_the_future', reason = NULL",
            "",
        ),
        ("UPDATE delivery SET status = 'queued', channel = 'ofTheFuture'", "/deliveries"),
        ("DELETE FROM delivery; UPDATE planned_recipient SET skips = '{email:of_the_future}'", "/deliveries"),
    ] {
        service.run(alter).await;
        let answer = service.by(&shop, &format!("GET {request}{part}")).send().await;
        answer.fails(503, "unavailable");
        assert_eq!(answer.header("retry-after"), Some("1"), "{alter}");
        assert!(answer.body["message"].as_str().unwrap().contains("newer release"), "{alter}");
    }
    service.run("UPDATE planned_recipient SET skips = '{email:no_address}'").await;
    service.by(&shop, &format!("GET {request}/deliveries")).send().await.is(200);
}
