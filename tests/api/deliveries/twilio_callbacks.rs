//! `/v3/callbacks/twilio/…`: signed reports about sent messages, and messages that users send.

use domain::{Actor, Channel};
use serde_json::{Value, json};
use stand_ins::outbox::Outbox;
use stand_ins::twilio::{TwilioSettings, TwilioStandIn, params, signature};
use store::control::provider::{NewProvider, SecretChange};
use testkit::eventually;
use url::form_urlencoded::Serializer;
use uuid::Uuid;

use crate::attacker::{Attacker, unfinished};
use crate::client::Answer;
use crate::service::{App, SOON, Service};

const PUBLIC_URL: &str = "https://notify.example.com";
const ADA: &str = "+4915112345678";
const EVE: &str = "+4915187654321";
/// A well-formed signature: 20 bytes in base64.
const SHAPED: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAA=";

/// An app that sends SMS through Twilio.
struct Line {
    service: Service,
    shop: App,
    twilio: TwilioStandIn,
}

impl Line {
    async fn start() -> Line {
        let service = Box::pin(Service::start_configured(|config| {
            config.gateway.public_url = Some(PUBLIC_URL.parse().unwrap());
            config.gateway.peer_rate_limit = 500;
            // Twilio's stand-in runs on this machine.
            config.outbound.allow_private = true;
        }))
        .await;
        let shop = service.app("shop").await;
        let settings = TwilioSettings { reports: false, ..TwilioSettings::default() };
        let twilio = TwilioStandIn::start(settings, Outbox::in_memory()).await.unwrap();
        service.twilio(&shop, "main", twilio.provider_settings()).await;
        service.context.serve("sms", sms::run);
        Line { service, shop, twilio }
    }

    /// Makes a send to a number, waits until its delivery has this status, and returns the delivery.
    async fn send(&self, to: &str, status: &str) -> Value {
        let body = json!({
            "notification": {"title": "Hello"},
            "sendTo": {"recipients": [{"identifier": to, "phoneNumber": to}]},
        });
        let sent = self.service.by(&self.shop, "POST /v3/notifications").json(&body).send().await.is(202);
        self.delivery(sent["requestId"].as_str().unwrap(), status).await
    }

    /// Waits until the SMS delivery of a request has this status, and returns the delivery.
    async fn delivery(&self, request: &str, status: &str) -> Value {
        let path = format!("GET /v3/requests/{request}/deliveries?channel=sms");
        let mut delivery = eventually(SOON, &format!("the message is {status}"), async || {
            let page = self.service.once_stored(&self.shop, &path).await;
            page["data"].as_array()?.first().filter(|one| one["status"] == status).cloned()
        })
        .await;
        delivery["request"] = json!(request);
        delivery
    }

    /// Posts fields to a callback URL, signed with this token as Twilio does.
    async fn post(&self, url: &str, token: &str, fields: &[(&str, &str)]) -> Answer {
        let fields = params(fields);
        let path = url.strip_prefix(PUBLIC_URL).unwrap();
        let form = Serializer::new(String::new()).extend_pairs(&fields).finish();
        let call = self.service.call(&format!("POST {path}"));
        let call = call.header("x-twilio-signature", &signature(token, url, &fields));
        call.body(form, "application/x-www-form-urlencoded").send().await
    }

    async fn report(&self, delivery: &Value, status: &str, code: Option<&str>) -> Answer {
        let sid = delivery["attempts"].as_array().unwrap().last().unwrap()["providerId"].as_str().unwrap();
        let url = self.twilio.callback_of(sid).unwrap();
        let mut fields = vec![("MessageSid", sid), ("MessageStatus", status), ("To", "+49 & more")];
        fields.extend(code.map(|code| ("ErrorCode", code)));
        self.post(&url, &self.twilio.settings().auth_token, &fields).await
    }

    /// Calls the callback as Twilio does when `from` sends a message to the account's number.
    async fn writes(&self, from: &str, fields: &[(&str, &str)]) {
        let url = format!("{PUBLIC_URL}/v3/callbacks/twilio/{}/main/messages", self.shop.id);
        let fields = [&[("From", from)], fields].concat();
        let answer = self.post(&url, &self.twilio.settings().auth_token, &fields).await;
        assert_eq!(answer.status, 204, "{}", answer.body);
    }
}

impl Service {
    async fn twilio(&self, app: &App, identifier: &str, mut settings: Value) {
        let token = settings.as_object_mut().unwrap().remove("authToken").unwrap();
        let secrets = json!({"authToken": token}).to_string();
        let context = format!("provider:{}:{identifier}", app.id);
        let sealed = self.context.master_key.seal(&context, secrets.as_bytes()).unwrap();
        let provider = NewProvider {
            identifier,
            channel: Channel::Sms,
            kind: "twilio",
            priority: 1,
            enabled: true,
            max_per_second: None,
            settings: &settings,
            secret: SecretChange::Replace(&sealed),
        };
        self.context.store.control().put_provider(app.id, provider, &Actor::System).await.unwrap();
    }
}

#[tokio::test]
async fn repeated_reports_of_delivery_mark_the_message_delivered() {
    let line = Line::start().await;
    let sent = line.send(ADA, "sent").await;
    assert_eq!(sent["attempts"][0]["segments"], 1);
    let request = sent["request"].as_str().unwrap();
    line.report(&sent, "sent", None).await.is(204);
    line.delivery(request, "sent").await;
    line.report(&sent, "delivered", None).await.is(204);
    let delivered = line.delivery(request, "delivered").await;
    let receipt = &delivered["attempts"][0]["receipt"];
    assert_eq!((&receipt["outcome"], &receipt["providerCode"]), (&json!("delivered"), &json!("delivered")));
    for status in ["delivered", "sent", "queued"] {
        line.report(&sent, status, None).await.is(204);
    }
    assert_eq!(line.delivery(request, "delivered").await, delivered, "the repeated report changes nothing");
}

#[tokio::test]
async fn a_report_of_a_dead_number_ends_the_delivery_and_suppresses_the_number() {
    let line = Line::start().await;
    let sent = line.send(ADA, "sent").await;
    line.report(&sent, "undelivered", Some("30005")).await.is(204);
    let failed = line.delivery(sent["request"].as_str().unwrap(), "failed").await;
    assert_eq!(failed["reason"], "target_gone");
    assert_eq!(failed["attempts"][0]["receipt"]["providerCode"], "30005");
    assert_eq!(line.send(ADA, "skipped").await["reason"], "suppressed");
    line.send(EVE, "sent").await;
}

#[tokio::test]
async fn a_report_of_a_temporary_failure_retries_the_message() {
    let line = Line::start().await;
    let sent = line.send(ADA, "sent").await;
    line.report(&sent, "undelivered", Some("30008")).await.is(204);
    let again = line.delivery(sent["request"].as_str().unwrap(), "waiting").await;
    assert_eq!(again["attempts"][0]["receipt"]["providerCode"], "30008");
    for code in [Some("30007"), None, Some("99999")] {
        let sent = line.send(EVE, "sent").await;
        line.report(&sent, "failed", code).await.is(204);
        let failed = line.delivery(sent["request"].as_str().unwrap(), "failed").await;
        assert_eq!(failed["reason"], "provider_refused");
    }
}

#[tokio::test]
async fn only_the_provider_of_a_message_can_report_on_it() {
    let line = Line::start().await;
    let bank = line.service.app("bank").await;
    let mut settings = line.twilio.provider_settings();
    settings["authToken"] = json!("token of the bank");
    line.service.twilio(&bank, "main", settings.clone()).await;
    line.service.twilio(&line.shop, "other & more/", settings).await;
    let sent = line.send(ADA, "sent").await;
    let (id, token) = (sent["id"].as_str().unwrap(), line.twilio.settings().auth_token.clone());
    let at = |app: &str, provider: &str, id: &str| {
        format!("{PUBLIC_URL}/v3/callbacks/twilio/{app}/{provider}/{id}?attempt=1")
    };
    let (shop, bank) = (line.shop.id.to_string(), bank.id.to_string());
    let fields = [("MessageStatus", "failed"), ("ErrorCode", "30005")];

    let url = at(&shop, "main", id);
    for (url, token) in [
        (url.clone(), "token of the bank"),
        (url.clone(), ""),
        (at(&bank, "main", id), &*token),
        (at("4711", "main", id), &*token),
        (at("x", "main", id), &*token),
        (at(&shop, "nobody", id), &*token),
        (at(&shop, "main%FF", id), &*token),
    ] {
        line.post(&url, token, &fields).await.fails(403, "invalid_signature");
    }
    // Signed for another URL, for other fields, or not at all.
    let path = url.strip_prefix(PUBLIC_URL).unwrap();
    let form = "MessageStatus=failed&ErrorCode=30005";
    for signed in [
        signature(&token, &url.replace("attempt=1", "attempt=2"), &params(&fields)),
        signature(&token, &url, &params(&fields[..1])),
        String::new(),
    ] {
        let call = line.service.call(&format!("POST {path}")).header("x-twilio-signature", &signed);
        call.body(form, "application/x-www-form-urlencoded").send().await.fails(403, "invalid_signature");
    }
    let call = line.service.call(&format!("POST {path}"));
    call.body(form, "application/x-www-form-urlencoded").send().await.fails(403, "invalid_signature");

    // Valid signatures, but for deliveries that do not exist, or belong to another app or provider.
    let nobodys = Uuid::from_u128(7).to_string();
    for (url, token) in [
        (at(&shop, "main", &nobodys), &*token),
        (at(&shop, "main", "x"), &*token),
        (at(&bank, "main", id), "token of the bank"),
        (at(&shop, "other%20%26%20more%2F", id), "token of the bank"),
    ] {
        line.post(&url, token, &fields).await.fails(404, "not_found");
    }
    let call = line.service.call(&format!("POST {path}")).header("x-twilio-signature", SHAPED);
    call.body("{}", "application/json").send().await.fails(403, "invalid_signature");
    let unchanged = line.delivery(sent["request"].as_str().unwrap(), "sent").await;
    assert_eq!(unchanged, sent);
}

#[tokio::test]
async fn a_callback_is_read_only_if_it_has_the_form_of_a_signed_one_and_within_limits() {
    let line = Line::start().await;
    let token = line.twilio.settings().auth_token.clone();
    let messages = |provider: &str| format!("/v3/callbacks/twilio/{}/{provider}/messages", line.shop.id);
    // If the signature cannot be valid, the gateway answers before the body arrives.
    for (provider, signature) in [("main", ""), ("main", "X-Twilio-Signature: AAAA\r\n"), ("nobody", "")] {
        let path = messages(provider);
        let answer = line.service.raw(format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\
             Content-Type: application/x-www-form-urlencoded\r\n{signature}\r\n"
        ));
        let answer = answer.await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{provider}: {answer}");
    }
    let fields = params(&[("a", ""); 200]);
    let path = messages("main");
    let signed = signature(&token, &format!("{PUBLIC_URL}{path}"), &fields);
    let call = line.service.call(&format!("POST {path}")).header("x-twilio-signature", &signed);
    call.body("a&".repeat(200), "application/x-www-form-urlencoded").send().await.is(204);
}

#[tokio::test]
async fn a_callback_without_a_valid_signature_never_tells_whether_its_provider_exists() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let line = Line::start().await;
    let bodies = [
        (String::new(), FORM),
        ("a=b".to_owned(), FORM),
        ("a".repeat(gateway::MAX_CALLBACK), FORM),
        ("a".repeat(gateway::MAX_CALLBACK + 1), FORM),
        ("a".repeat(4 * gateway::MAX_BODY), FORM),
        ("a&".repeat(201), FORM),
        ("a=%ff".to_owned(), FORM),
        ("{}".to_owned(), "application/json"),
        ("a=b".to_owned(), "application/x-www-form-urlencoded; charset=latin1"),
    ];
    let (app, subject) = (line.shop.id.to_string(), Uuid::from_u128(7).to_string());
    let too_long = "x".repeat(300);
    for (body, media) in &bodies {
        for subject in ["messages", &subject] {
            let mut answers = Vec::new();
            for (app, provider) in [(&*app, "main"), (&app, "nobody"), (&app, &too_long), ("999999", "main")]
            {
                let call =
                    line.service.call(&format!("POST /v3/callbacks/twilio/{app}/{provider}/{subject}"));
                let call = call.header("x-twilio-signature", SHAPED).body(body.clone(), media);
                let answer = call.send().await;
                answers.push((answer.status, answer.body));
            }
            assert_eq!(answers[0].0, 403, "{media}: {} bytes", body.len());
            assert!(answers.iter().all(|answer| *answer == answers[0]), "{media}: {answers:?}");
        }
    }
    // A caller that does not accept JSON, and one that names a content coding.
    for (name, value) in [("Accept", "text/html"), ("Content-Encoding", "gzip")] {
        for provider in ["main", "nobody"] {
            let call = line.service.call(&format!("POST /v3/callbacks/twilio/{app}/{provider}/messages"));
            let call = call.header("x-twilio-signature", SHAPED).header(name, value).body("a=b", FORM);
            call.send().await.fails(403, "invalid_signature");
        }
    }
    // The body is read in both cases: a caller that sends none waits for the same answer.
    let stalled = async |provider: &str| {
        let request = format!(
            "POST /v3/callbacks/twilio/{app}/{provider}/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Length: 1000\r\nContent-Type: {FORM}\r\nX-Twilio-Signature: {SHAPED}\r\n\r\n"
        );
        let answer = line.service.raw(request).await;
        answer.lines().next().unwrap_or_default().to_owned()
    };
    assert_eq!(stalled("main").await, stalled("nobody").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_callbacks_of_a_stranger_never_refuse_the_callback_of_a_provider() {
    let line = Line::start().await;
    let attacker = Attacker::new(1, line.service.address);
    let head = format!(
        "POST /v3/callbacks/twilio/{}/main/messages HTTP/1.1\r\nX-Twilio-Signature: {SHAPED}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n",
        line.shop.id
    );
    let large = unfinished(&head, "a", 63 * 1024, 64 * 1024);
    let fitting = unfinished(&head, "a", gateway::MAX_CALLBACK - 1, gateway::MAX_CALLBACK);
    let small = unfinished(&head, "a", 1, 64);
    let _attacks = [attacker.stall(70, &large), attacker.stall(140, &fitting), attacker.stall(60, &small)];
    eventually(SOON, "the attacker is refused", async || {
        matches!(attacker.status(&fitting).await, Some(429 | 503)).then_some(())
    })
    .await;
    for _ in 0..5 {
        line.writes(ADA, &[("Body", "STOP")]).await;
        line.writes(ADA, &[("Body", "START")]).await;
    }
}

#[tokio::test]
async fn after_stop_a_number_gets_no_messages_until_start() {
    let line = Line::start().await;
    line.send(ADA, "sent").await;
    for (stop, start) in [
        (&[("Body", "anything"), ("OptOutType", "STOP")][..], &[("OptOutType", "START")][..]),
        (&[("Body", " stop\n")], &[("Body", "Unstop")]),
    ] {
        line.writes(ADA, stop).await;
        line.writes(ADA, stop).await;
        assert_eq!(line.send(ADA, "skipped").await["reason"], "suppressed");
        for other in [&[("Body", "please stop")][..], &[("Body", "start"), ("OptOutType", "HELP")], &[]] {
            line.writes(ADA, other).await;
        }
        assert_eq!(line.send(ADA, "skipped").await["reason"], "suppressed");
        line.writes(ADA, start).await;
        line.writes(ADA, start).await;
        line.send(ADA, "sent").await;
    }
    // STOP from a number that never got a message, and STOP from an invalid number.
    line.writes(EVE, &[("Body", "STOP")]).await;
    assert_eq!(line.send(EVE, "skipped").await["reason"], "suppressed");
    line.writes("anonymous", &[("Body", "STOP")]).await;
    let url = format!("{PUBLIC_URL}/v3/callbacks/twilio/{}/main/messages", line.shop.id);
    let answer = line.post(&url, "wrong", &[("From", EVE), ("Body", "START")]).await;
    answer.fails(403, "invalid_signature");
    assert_eq!(line.send(EVE, "skipped").await["reason"], "suppressed");
}
