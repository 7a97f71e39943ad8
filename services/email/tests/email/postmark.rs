use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::content::{Attachment, Content, EmailContent, EmailOptions};
use domain::{Answer, CategoryId, Outcome};
use email::postmark::answers::{PostmarkReply, TABLE, row};
use email::{EmailSender, PoolLimits, Sources};
use futures_util::FutureExt;
use serde_json::{Value, json};
use stand_ins::http::{Reaction, Rule};
use stand_ins::outbox::Outbox;
use stand_ins::postmark::{PostmarkSettings, PostmarkStandIn, refused};
use worker::{Outbound, Provider, Verdict};

use crate::fixture::{TO, assert_sent, attempt, attempt_job, job, limits, provider, sender, text};

const TOKEN: &str = "t0ken";

async fn start() -> (PostmarkStandIn, Provider) {
    let settings = PostmarkSettings { server_token: TOKEN.to_owned(), ..PostmarkSettings::default() };
    let server = PostmarkStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let settings = json!({
        "serverToken": TOKEN, "from": "news@example.com", "fromName": "News, daily", "replyTo": "help@example.com",
        "messageStream": "broadcast", "baseUrl": server.http().url(),
    });
    (server, provider("postmark", settings))
}

/// At least one case for each row of [`TABLE`]: the row, the status and code of the answer, and the outcome.
#[rustfmt::skip]
const CASES: &[(&str, u16, u32, Outcome)] = &[
    ("4xx 10", 422, 10, Outcome::PauseProvider),
    ("4xx 10", 401, 10, Outcome::PauseProvider),
    ("401", 401, 0, Outcome::PauseProvider),
    ("403", 403, 0, Outcome::PauseProvider),
    ("4xx 100", 422, 100, Outcome::RETRY),
    ("5xx 100", 500, 100, Outcome::RETRY),
    ("4xx 429", 429, 429, Outcome::RETRY),
    ("422 300", 422, 300, Outcome::Failed),
    ("422 402", 422, 402, Outcome::Failed),
    ("422 403", 422, 403, Outcome::Failed),
    ("422 409", 422, 409, Outcome::Failed),
    ("422 411", 422, 411, Outcome::Failed),
    ("422 400", 422, 400, Outcome::PauseProvider),
    ("422 401", 422, 401, Outcome::PauseProvider),
    ("422 405", 422, 405, Outcome::PauseProvider),
    ("422 412", 422, 412, Outcome::PauseProvider),
    ("422 413", 422, 413, Outcome::PauseProvider),
    ("422 422", 422, 422, Outcome::PauseProvider),
    ("422 1235", 422, 1235, Outcome::PauseProvider),
    ("422 1236", 422, 1236, Outcome::PauseProvider),
    ("422 1480", 422, 1480, Outcome::PauseProvider),
    ("422 406", 422, 406, Outcome::GONE),
    ("408", 408, 0, Outcome::RETRY),
    ("413", 413, 0, Outcome::Failed),
    ("429", 429, 0, Outcome::RETRY),
    ("3xx", 302, 0, Outcome::PauseProvider),
    ("404", 404, 0, Outcome::PauseProvider),
    ("4xx", 415, 0, Outcome::Failed),
    ("4xx", 422, 999, Outcome::Failed),
    ("503", 503, 0, Outcome::RETRY),
    ("5xx", 500, 0, Outcome::Unknown),
    ("5xx", 502, 0, Outcome::Unknown),
    ("5xx", 504, 0, Outcome::Unknown),
];

#[tokio::test]
async fn every_row_of_the_table_has_its_outcome() {
    let (server, provider) = start().await;
    let sender = sender(limits());
    for (pattern, status, code, outcome) in CASES {
        server.script(Rule::answer(refused(*status, *code, &format!("no {TO} here"))));
        let answer = attempt(&sender, &provider, TO, text("hello")).await;
        assert_eq!(&answer.outcome, outcome, "{status} {code}: {answer:?}");
        assert_eq!(answer.message, "no [recipient] here");
        let body = json!({"ErrorCode": code}).to_string();
        let reply = PostmarkReply::read(*status, None, body.as_bytes());
        assert_eq!(row(&reply).unwrap().0, *pattern, "first matching row for {status} {code}");
        assert_eq!(answer.code, reply.codes());
    }
    assert!(server.outbox().captures().is_empty());
    assert_sent(&attempt(&sender, &provider, TO, text("hello")).await);
    assert_eq!(row(&PostmarkReply::read(200, None, b"{}")).unwrap(), &("200 0", Verdict::Sent));
    for (pattern, verdict) in TABLE.iter().filter(|(_, verdict)| *verdict != Verdict::Sent) {
        assert!(CASES.iter().any(|case| case.0 == *pattern), "no case for {pattern} ({verdict:?})");
    }
}

#[tokio::test]
async fn a_requested_wait_is_honoured() {
    let (server, provider) = start().await;
    let mut busy = refused(429, 0, "slow down");
    busy.headers_mut().insert("retry-after", "70".parse().unwrap());
    server.script(Rule::answer(busy));
    let answer = attempt(&sender(limits()), &provider, TO, text("hello")).await;
    assert_eq!(answer.outcome, Outcome::Retry { after: Some(Duration::from_secs(70)), limit: None });
}

#[tokio::test]
async fn possibly_accepted_messages_are_unknown_and_certainly_unaccepted_ones_are_retried() {
    for (reaction, captured) in [(Reaction::CutBefore, 0), (Reaction::CutAfter, 1), (Reaction::Stall, 0)] {
        let (server, provider) = start().await;
        server.script(Rule::new(reaction.clone()));
        let short = PoolLimits { api: Duration::from_secs(1), ..limits() };
        let limits = if matches!(reaction, Reaction::Stall) { short } else { limits() };
        let answer = attempt(&sender(limits), &provider, TO, text("hello")).await;
        assert_eq!(answer.outcome, Outcome::Unknown, "{reaction:?}: {answer:?}");
        assert_eq!(server.outbox().captures().len(), captured, "{reaction:?}");
    }
    let (_server, mut nowhere) = start().await;
    nowhere.settings["baseUrl"] = json!(format!("http://127.0.0.1:{}", local_servers::port::free().unwrap()));
    let answer = attempt(&sender(limits()), &nowhere, TO, text("hello")).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::RETRY, "connect"));
}

/// Covers a 2xx whose body is not from the API, and a 2xx that lists the recipient as inactive.
#[tokio::test]
async fn a_success_counts_only_if_its_body_accepts_the_recipient() {
    let (server, provider) = start().await;
    let says = |body: Value| Rule::answer(stand_ins::http::json(200, &body));
    let inactive = |who: &str| {
        json!({"ErrorCode": 0, "MessageID": "m", "Message":
            format!("Message OK, but will not deliver to these inactive addresses: {who}, x@example.org.")})
    };
    server.script(says(inactive(TO)));
    server.script(says(inactive("other@example.org")));
    let sender = sender(limits());
    let answer = attempt(&sender, &provider, TO, text("hello")).await;
    assert_eq!(answer.outcome, Outcome::GONE, "{answer:?}");
    assert_sent(&attempt(&sender, &provider, TO, text("hello")).await);
    for status in [200, 204] {
        server.script(Rule::answer(stand_ins::http::status(status)));
        let answer = attempt(&sender, &provider, TO, text("hello")).await;
        assert_eq!(answer.outcome, Outcome::Unknown, "{answer:?}");
    }
}

fn with_everything() -> EmailSender {
    let sources = Sources::new(
        Box::new(|_, _, _| async { Ok(Some(vec![7; 200])) }.boxed()),
        Box::new(|_, _, _| async { Ok(Some("https://notify.example.com/u/abc".to_owned())) }.boxed()),
    );
    EmailSender::new(limits(), Outbound::new(true), sources).unwrap()
}

fn full(members: &Value) -> domain::event::DeliveryJob {
    let attachment = Attachment {
        number: 0,
        name: "Prüfung.pdf".to_owned(),
        content_type: "application/pdf".to_owned(),
        size: 200,
        ..Attachment::default()
    };
    let inline = Attachment {
        number: 1,
        name: "logo.png".to_owned(),
        content_type: "image/png".to_owned(),
        size: 200,
        content_id: Some("logo".to_owned()),
        inline: true,
    };
    let options = EmailOptions {
        cc: vec!["cc@example.org".to_owned()],
        bcc: vec!["bcc@example.org".to_owned()],
        headers: BTreeMap::from([("X-Campaign".to_owned(), "7".to_owned())]),
        attachments: vec![attachment, inline],
        ..EmailOptions::default()
    };
    let html = Some("<p>Grüße</p>".to_owned());
    let mut job =
        job(TO, EmailContent { subject: "Grüße".to_owned(), html, options, ..EmailContent::default() });
    job.category = Some(CategoryId(3));
    job.overrides = BTreeMap::from([("main".to_owned(), members.as_object().unwrap().clone())]);
    job
}

#[tokio::test]
async fn the_request_contains_everything_of_the_email() {
    let (server, provider) = start().await;
    let job = full(&json!({"_config": {"fromName": "Other"}, "Tag": "welcome", "TrackOpens": true,
        "MessageStream": "outbound", "Metadata": {"order": "12"}}));
    let answer = attempt_job(&with_everything(), &provider, &job).await;
    assert_sent(&answer);
    let captures = server.outbox().captures();
    assert_eq!(captures[0].to, [TO, "cc@example.org", "bcc@example.org"]);
    let body: Value = serde_json::from_slice(&captures[0].raw).unwrap();
    let delivery = job.delivery_id.to_string();
    let expected = json!({
        "From": "Other <news@example.com>", "To": TO, "Cc": "cc@example.org", "Bcc": "bcc@example.org",
        "ReplyTo": "help@example.com", "Subject": "Grüße", "TextBody": "Grüße\n", "HtmlBody": "<p>Grüße</p>",
        "Headers": [
            {"Name": "Message-ID", "Value": format!("<{delivery}@example.com>")},
            {"Name": "X-PM-KeepID", "Value": "true"},
            {"Name": "Auto-Submitted", "Value": "auto-generated"},
            {"Name": "X-Auto-Response-Suppress", "Value": "OOF, AutoReply"},
            {"Name": "X-Campaign", "Value": "7"},
        ],
        "Attachments": [
            {"Name": "Prüfung.pdf", "ContentType": "application/pdf", "Content": STANDARD.encode([7; 200])},
            {"Name": "logo.png", "ContentType": "image/png", "Content": STANDARD.encode([7; 200]), "ContentID": "cid:logo"},
        ],
        "MessageStream": "outbound", "Metadata": {"order": "12", "deliveryId": delivery},
        "Tag": "welcome", "TrackOpens": true,
    });
    assert_eq!(body, expected);
    let length = captures[0].raw.len().to_string();
    assert_eq!(
        captures[0].summary.headers["content-length"],
        [length],
        "files do not make the API guess the end"
    );

    let mut alone = job;
    let Content::Email(content) = &mut alone.content else { panic!("{alone:?}") };
    (content.options.cc, content.options.bcc) = (Vec::new(), Vec::new());
    assert_sent(&attempt_job(&with_everything(), &provider, &alone).await);
    let body: Value = serde_json::from_slice(&server.outbox().captures()[0].raw).unwrap();
    let link = json!({"Name": "List-Unsubscribe", "Value": "<https://notify.example.com/u/abc>"});
    let click = json!({"Name": "List-Unsubscribe-Post", "Value": "List-Unsubscribe=One-Click"});
    let headers = body["Headers"].as_array().unwrap();
    assert!(headers.contains(&link) && headers.contains(&click), "{body}");
}

#[tokio::test]
async fn provider_overrides_cannot_change_recipients_or_content() {
    let (server, provider) = start().await;
    for members in [
        json!({"To": "b@example.org"}),
        json!({"bcc": "b@example.org"}),
        json!({"Headers": []}),
        json!({"Metadata": 7}),
    ] {
        let answer = attempt_job(&with_everything(), &provider, &full(&members)).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "override"));
    }
    assert_eq!(server.http().requests(), 0);
}

async fn answer_with(change: impl FnOnce(&mut Value), outbound: Outbound) -> Answer {
    let (_server, mut provider) = start().await;
    change(&mut provider.settings);
    let nothing = Sources::new(
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
    );
    let sender = EmailSender::new(limits(), outbound, nothing).unwrap();
    attempt(&sender, &provider, TO, text("hello")).await
}

#[tokio::test]
async fn the_token_is_sent_only_to_the_api() {
    let wrong_token =
        answer_with(|settings| settings["serverToken"] = json!("guess"), Outbound::new(true)).await;
    assert_eq!((wrong_token.outcome, wrong_token.code.as_str()), (Outcome::PauseProvider, "401 10"));
    let unknown_stream =
        answer_with(|settings| settings["messageStream"] = json!("nowhere"), Outbound::new(true)).await;
    assert_eq!((unknown_stream.outcome, unknown_stream.code.as_str()), (Outcome::PauseProvider, "422 1235"));
    let in_the_clear = answer_with(
        |settings| settings["baseUrl"] = json!("http://postmark.example.com"),
        Outbound::new(false),
    );
    let in_the_clear = in_the_clear.await;
    assert_eq!((in_the_clear.outcome, in_the_clear.code.as_str()), (Outcome::PauseProvider, "insecure_url"));
    for url in ["https://127.0.0.1", "https://localhost"] {
        let private = answer_with(|settings| settings["baseUrl"] = json!(url), Outbound::new(false)).await;
        assert_eq!((private.outcome, private.code.as_str()), (Outcome::PauseProvider, "not_public"), "{url}");
    }
    let wrong =
        answer_with(|settings| settings["baseUrl"] = json!("ftp://example.com"), Outbound::new(true)).await;
    assert_eq!((wrong.outcome, wrong.code.as_str()), (Outcome::PauseProvider, "settings"));
}

#[tokio::test]
async fn text_of_the_subject_in_an_api_answer_is_not_recorded() {
    let (server, provider) = start().await;
    server.script(Rule::answer(refused(422, 300, "'Your code is 493817' looks odd")));
    let content = EmailContent { subject: "Your code is 493817".to_owned(), ..text("hello") };
    let answer = attempt(&sender(limits()), &provider, TO, content).await;
    assert_eq!(answer.message, "'[recipient]' looks odd");
}
