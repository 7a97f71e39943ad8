use std::time::Duration;

use domain::Outcome;
use domain::content::EmailContent;
use domain::outcome::{Blame, RetryLimit};
use email::smtp::answers::{SmtpVerdict, TABLE, answer, is_alarming, row};
use email::{Failure, Reply, Stage as At};
use serde_json::json;
use stand_ins::smtp::{Rule, SmtpSettings, Stage};

use crate::fixture::{Mailer, TO, assert_sent, limits, text};
use crate::pool::limits_at;

const RETRY: Outcome = Outcome::Retry { after: None, limit: None };
const GREYLISTED: Outcome = Outcome::Retry { after: Some(Duration::from_secs(300)), limit: None };
const FULL: Outcome =
    Outcome::Retry { after: None, limit: Some(RetryLimit { retries: 3, over: Duration::from_secs(86_400) }) };

/// At least one case for each row of [`TABLE`]: the row, the stage and text of the server's reply, the outcome, and the
/// recorded code.
#[rustfmt::skip]
const CASES: &[(&str, Stage, &str, Outcome, &str)] = &[
    ("530", Stage::Mail, "530 5.7.0 log in first", Outcome::PauseProvider, "530 5.7.0"),
    ("534", Stage::Auth, "534 5.7.9 too weak", Outcome::PauseProvider, "534 5.7.9"),
    ("535", Stage::Auth, "535 5.7.8 wrong", Outcome::PauseProvider, "535 5.7.8"),
    ("5.1.1", Stage::Rcpt, "550 5.1.1 no such user", Outcome::GONE, "550 5.1.1"),
    ("5.1.1", Stage::Dot, "550 5.1.1 no such user", Outcome::GONE, "550 5.1.1"),
    ("5.1.1", Stage::Mail, "550 5.1.1 who are you", Outcome::Failed, "550 5.1.1"),
    ("5.1.2", Stage::Rcpt, "550 5.1.2 no such host", Outcome::GONE, "550 5.1.2"),
    ("5.1.3", Stage::Rcpt, "501 5.1.3 bad syntax", Outcome::GONE, "501 5.1.3"),
    ("5.1.6", Stage::Rcpt, "550 5.1.6 moved", Outcome::GONE, "550 5.1.6"),
    ("5.2.1", Stage::Rcpt, "550 5.2.1 disabled", Outcome::GONE, "550 5.2.1"),
    ("5.2.2", Stage::Rcpt, "552 5.2.2 mailbox full", FULL, "552 5.2.2"),
    ("5.3.4", Stage::Dot, "552 5.3.4 too big", Outcome::Failed, "552 5.3.4"),
    ("5.5.x", Stage::Rcpt, "501 5.5.4 parameters", Outcome::Failed, "501 5.5.4"),
    ("5.6.x", Stage::Dot, "554 5.6.1 media not supported", Outcome::Failed, "554 5.6.1"),
    ("5.7.x", Stage::Dot, "550 5.7.26 unauthenticated", Outcome::Failed, "550 5.7.26"),
    ("5.7.x", Stage::Auth, "554 5.7.1 blocked", Outcome::PauseProvider, "554 5.7.1"),
    ("4.7.x", Stage::Rcpt, "450 4.7.1 greylisted", GREYLISTED, "450 4.7.1"),
    ("4.7.x", Stage::Auth, "454 4.7.0 temporary", GREYLISTED, "454 4.7.0"),
    ("4.x.x", Stage::Rcpt, "450 4.2.1 busy", RETRY, "450 4.2.1"),
    ("421", Stage::Rcpt, "421 going down", RETRY, "421"),
    ("450", Stage::Rcpt, "450 later", RETRY, "450"),
    ("450", Stage::Rcpt, "450 5.7.1 class does not agree", RETRY, "450"),
    ("451", Stage::Data, "451 local error", RETRY, "451"),
    ("452", Stage::Mail, "452 no space", RETRY, "452"),
    ("552", Stage::Dot, "552 too much", Outcome::Failed, "552"),
    ("4xx", Stage::Dot, "432 odd", RETRY, "432"),
    ("5xx", Stage::Rcpt, "550 no", Outcome::Failed, "550"),
    ("5xx", Stage::Rcpt, "550 5.1.8 no row of its own", Outcome::Failed, "550 5.1.8"),
    ("5xx", Stage::Connect, "554 not you", RETRY, "554"),
    ("5.7.x", Stage::Hello, "550 5.7.1 not you", RETRY, "550 5.7.1"),
];

async fn with_login() -> Mailer {
    let login = Some(("user".to_owned(), "secret".to_owned()));
    let mut mailer = Mailer::with(SmtpSettings { login, ..SmtpSettings::default() }, limits()).await;
    mailer.provider.settings["username"] = json!("user");
    mailer.provider.settings["password"] = json!("secret");
    mailer
}

#[tokio::test]
async fn every_row_of_the_table_has_its_outcome() {
    for (pattern, stage, says, outcome, code) in CASES {
        let mailer = if *stage == Stage::Auth { with_login().await } else { Mailer::start().await };
        mailer.server.script(Rule::answer(*stage, *says));
        let answer = mailer.send(TO).await;
        assert_eq!(
            (&answer.outcome, answer.code.as_str()),
            (outcome, *code),
            "{says} at {stage:?}: {answer:?}"
        );
        let reply = Reply { code: says[..3].parse().unwrap(), text: says[4..].to_owned() };
        assert_eq!(row(&reply).unwrap().0, *pattern, "first matching row for {says}");
        assert!(mailer.captures().is_empty());
        // A 421 and a refused login or greeting end the connection. After any other reply, the next email uses the same
        // connection.
        let ended = says.starts_with("421") || matches!(stage, Stage::Auth | Stage::Connect | Stage::Hello);
        assert_sent(&mailer.send(TO).await);
        assert_eq!(mailer.server.connections(), if ended { 2 } else { 1 }, "after {says} at {stage:?}");
    }
    for (pattern, verdict) in TABLE {
        assert!(CASES.iter().any(|case| case.0 == *pattern), "no case for {pattern} ({verdict:?})");
    }
}

#[tokio::test]
async fn answers_without_pipelining_have_the_same_outcomes() {
    for (_, stage, says, outcome, code) in CASES {
        let settings = SmtpSettings { pipelining: false, ..SmtpSettings::default() };
        if *stage == Stage::Auth {
            continue;
        }
        let mailer = Mailer::with(settings, limits()).await;
        mailer.server.script(Rule::answer(*stage, *says));
        let answer = mailer.send(TO).await;
        assert_eq!(
            (&answer.outcome, answer.code.as_str()),
            (outcome, *code),
            "{says} at {stage:?}: {answer:?}"
        );
        assert_sent(&mailer.send(TO).await);
        assert_eq!(mailer.captures().len(), 1);
    }
}

#[tokio::test]
async fn lost_connections_are_unknown_only_once_content_was_sent() {
    for (stage, outcome, code) in [
        (Stage::Connect, RETRY, "connect"),
        (Stage::Hello, RETRY, "connect"),
        (Stage::Mail, RETRY, "connection_lost"),
        (Stage::Rcpt, RETRY, "connection_lost"),
        (Stage::Data, RETRY, "connection_lost"),
        (Stage::Content, Outcome::Unknown, "connection_lost"),
        (Stage::Dot, Outcome::Unknown, "connection_lost"),
    ] {
        for pipelining in [true, false] {
            let settings = SmtpSettings { pipelining, ..SmtpSettings::default() };
            let mailer = Mailer::with(settings, limits()).await;
            mailer.server.script(Rule::cut(stage));
            let answer = mailer.send(TO).await;
            assert_eq!((&answer.outcome, answer.code.as_str()), (&outcome, code), "{stage:?}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn a_timeout_is_unknown_only_after_the_final_dot_and_names_the_awaited_reply() {
    for (stage, outcome, message) in [
        (Stage::Connect, RETRY, "no answer to the connection in time"),
        (Stage::Hello, RETRY, "no answer to the connection in time"),
        (Stage::Mail, RETRY, "no answer to MAIL in time"),
        (Stage::Rcpt, RETRY, "no answer to RCPT in time"),
        (Stage::Data, RETRY, "no answer to DATA in time"),
        (Stage::Content, Outcome::Unknown, "no answer to the final dot in time"),
        (Stage::Dot, Outcome::Unknown, "no answer to the final dot in time"),
    ] {
        for pipelining in [true, false] {
            let settings = SmtpSettings { pipelining, ..SmtpSettings::default() };
            let short = limits_at(stage, pipelining, Duration::from_millis(300));
            let mailer = Mailer::with(settings, short).await;
            mailer.server.script(Rule::stall(stage));
            let answer = mailer.send(TO).await;
            let found = (&answer.outcome, answer.code.as_str(), answer.message.as_str());
            // If a pipelining server stalls, it keeps back the replies to earlier commands too.
            let message = if pipelining && outcome == RETRY && message.ends_with("A in time") {
                "no answer to MAIL in time"
            } else {
                message
            };
            let message =
                if pipelining && stage == Stage::Rcpt { "no answer to MAIL in time" } else { message };
            assert_eq!(found, (&outcome, "timeout", message), "{stage:?}, pipelining {pipelining}");
        }
    }
}

#[tokio::test]
async fn an_exchange_that_cannot_start_has_its_own_code() {
    let mut mailer = Mailer::start().await;
    mailer.provider.settings["username"] = json!("user");
    mailer.provider.settings["password"] = json!("secret");
    let answer = mailer.send(TO).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "auth"));

    let mut wrong = with_login().await;
    wrong.provider.settings["password"] = json!("guess");
    let answer = wrong.send(TO).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "535 5.7.8"));
    assert!(!answer.message.contains("guess"));

    let mut bad = Mailer::start().await;
    bad.provider.settings["port"] = json!("smtp");
    let answer = bad.send(TO).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::PauseProvider, "settings"));

    let mut other = Mailer::start().await;
    other.provider.kind = "pigeon".to_owned();
    assert_eq!(other.send(TO).await.code, "settings");

    let mut gone = Mailer::start().await;
    gone.provider.settings["port"] = json!(local_servers::port::free().unwrap());
    let answer = gone.send(TO).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "connect"));

    let mut encrypted = Mailer::start().await;
    for security in ["starttls", "tls"] {
        encrypted.provider.settings["security"] = json!(security);
        encrypted.provider.version += 1;
        let answer = encrypted.send(TO).await;
        assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "connect"), "{security}");
    }
}

#[tokio::test]
async fn plain_and_login_authentication_work() {
    let mailer = with_login().await;
    assert_sent(&mailer.send(TO).await);
    assert_eq!(mailer.captures().len(), 1);
}

#[tokio::test]
async fn refusals_of_the_sender_are_counted_for_operators() {
    service_kit::metrics::install().unwrap();
    let mailer = Mailer::start().await;
    mailer.server.script(Rule::answer(Stage::Dot, "550 5.7.1 on a block list"));
    assert_eq!(mailer.send(TO).await.outcome, Outcome::Failed);
    let rendered = service_kit::metrics::render();
    assert!(rendered.contains(r#"tidings_provider_alerts_total{channel="email"}"#), "{rendered}");
    for (pattern, verdict) in TABLE {
        let enhanced = pattern.replace('x', "9");
        let (code, text) = if pattern.contains('.') {
            (if pattern.starts_with('4') { 450 } else { 550 }, format!("{enhanced} no"))
        } else {
            (enhanced.parse().unwrap(), "no".to_owned())
        };
        let refused = Err(Failure::Refused { stage: At::Dot, reply: Reply { code, text } });
        assert_eq!(is_alarming(&refused), *verdict == SmtpVerdict::Blocked, "{pattern}");
    }
}

#[test]
fn messages_are_bounded_and_do_not_name_the_recipient() {
    let words = format!("5.1.1 <Ada@Example.ORG>: unknown,\r\n ada@example.org {}", "x".repeat(2_000));
    let refused = Err(Failure::Refused { stage: At::Rcpt, reply: Reply { code: 550, text: words } });
    let message = answer(&refused, &[TO]).message;
    assert!(message.starts_with("5.1.1 <[recipient]>: unknown, [recipient] xxx"), "{message}");
    assert!(message.len() <= 500 && message.ends_with("xxx…"), "{message}");
}

#[test]
fn the_servers_id_of_a_message_is_recorded() {
    for (text, id) in [
        ("2.0.0 Ok: queued as 4XyZ", Some("4XyZ")),
        ("OK id=1rAbC-0001", Some("1rAbC-0001")),
        ("2.0.0 kept", None),
        ("queued as ", None),
    ] {
        let taken = Ok(Reply { code: 250, text: text.to_owned() });
        let outcome = answer(&taken, &[TO]).outcome;
        assert_eq!(outcome, Outcome::Sent { provider_id: id.map(str::to_owned) }, "{text}");
    }
}

#[tokio::test]
async fn text_of_the_subject_in_a_reply_is_not_recorded() {
    let mailer = Mailer::start().await;
    mailer.server.script(Rule::answer(Stage::Dot, "554 5.6.0 'Your code is 493817' looks odd"));
    let content = EmailContent { subject: "Your code is 493817".to_owned(), ..text("hello") };
    let answer = mailer.send_content(TO, content).await;
    assert_eq!(answer.message, "5.6.0 '[recipient]' looks odd");
}

#[tokio::test]
async fn refusals_of_a_recipient_do_not_count_against_the_server() {
    for (stage, says, blame) in [
        (Stage::Rcpt, "450 4.2.0 later", Blame::None),
        (Stage::Rcpt, "535 5.7.8 not for you", Blame::None),
        (Stage::Dot, "451 4.7.1 greylisted", Blame::None),
        (Stage::Rcpt, "421 4.3.2 going down", Blame::Usual),
        (Stage::Mail, "451 4.3.0 no room", Blame::Usual),
        (Stage::Hello, "451 4.3.0 no room", Blame::Provider),
    ] {
        let mailer = Mailer::start().await;
        mailer.server.script(Rule::answer(stage, says));
        let answer = mailer.send(TO).await;
        assert_eq!(answer.blame, blame, "{says}: {answer:?}");
    }
}
