//! Mail servers as they are: every manner of replies and every interruption, at every stage.

use std::time::Duration;

use domain::{Answer, Outcome};
use futures_util::future::join_all;
use serde_json::json;
use stand_ins::smtp::{Manner, Rule, SmtpSettings, SmtpTls, Stage};
use stand_ins::tls::Authority;
use worker::{Lease, Outbound};

use crate::fixture::{LIMIT, Mailer, TO, assert_sent, attempt_within, job, limits, limits_each, probe, text};
use crate::pool::{SHORT, limits_at};

const RETRY: Outcome = Outcome::RETRY;
const GREYLISTED: Outcome = Outcome::Retry { after: Some(Duration::from_secs(300)), limit: None };

const MANNERS: [Manner; 14] = [
    Manner::Usual,
    Manner::OneByteAtATime,
    Manner::Latin1,
    Manner::Gbk,
    Manner::BareCodes,
    Manner::BareLineFeeds,
    Manner::NoSpace,
    Manner::LongLines,
    Manner::ManyLines,
    Manner::ChangingCodes,
    Manner::EmptyLines,
    Manner::LowerCase,
    Manner::NoEhlo,
    Manner::EhloOnce,
];

async fn mailer(manner: Manner, pipelining: bool) -> Mailer {
    Mailer::with(SmtpSettings { manner, pipelining, ..SmtpSettings::default() }, limits()).await
}

#[tokio::test]
async fn servers_of_every_manner_accept_one_copy_and_are_refused_nothing() {
    for manner in MANNERS {
        for pipelining in [true, false] {
            let mailer = mailer(manner, pipelining).await;
            for _ in 0..2 {
                assert_sent(&mailer.send(TO).await);
            }
            let found = (mailer.captures().len(), mailer.server.connections());
            assert_eq!(found, (2, 1), "{manner:?}");
            let proved = probe(Outbound::new(true), &mailer.provider).await;
            assert!(proved.is_ok(), "{manner:?}: {proved:?}");
        }
    }
}

#[tokio::test]
async fn the_code_of_a_refusal_decides_in_every_manner() {
    for manner in MANNERS {
        for (stage, says, outcome) in [
            (Stage::Rcpt, "550 5.1.1 no such user", Outcome::GONE),
            (Stage::Dot, "550 5.1.1 no such user", Outcome::GONE),
            (Stage::Rcpt, "450 4.7.1 greylisted", GREYLISTED),
            (Stage::Mail, "530 5.7.0 log in first", Outcome::PauseProvider),
            (Stage::Dot, "554 5.6.0 refused", Outcome::Failed),
            (Stage::Data, "451 4.3.0 later", RETRY),
        ] {
            let mailer = mailer(manner, true).await;
            mailer.server.script(Rule::answer(stage, says));
            let answer = mailer.send(TO).await;
            // Without a text there is no enhanced code, so only the basic one decides.
            let expected = match (manner, says.split_at(3).0) {
                (Manner::BareCodes, "550") => Outcome::Failed,
                (Manner::BareCodes, "450") => RETRY,
                _ => outcome,
            };
            assert_eq!(answer.outcome, expected, "{manner:?}, {says} at {stage:?}: {answer:?}");
            assert!(mailer.captures().is_empty());
            assert_sent(&mailer.send(TO).await);
            assert_eq!(mailer.captures().len(), 1, "{manner:?}, after {says} at {stage:?}");
        }
    }
}

#[tokio::test]
async fn logins_work_and_fail_by_their_codes_in_every_manner() {
    let authority = Authority::new().unwrap();
    let protections: [(&str, Option<SmtpTls>); 3] = [
        ("none", None),
        ("starttls", Some(SmtpTls::StartTls(authority.server(&[])))),
        ("tls", Some(SmtpTls::Implicit(authority.server(&[])))),
    ];
    for manner in MANNERS {
        for (security, tls) in &protections {
            let asks_twice = manner == Manner::EhloOnce && *security == "starttls";
            if manner == Manner::NoEhlo || asks_twice {
                // Without EHLO, a server offers neither AUTH nor STARTTLS.
                continue;
            }
            for (mechanism, password) in [("plain", "secret"), ("login", "secret"), ("plain", "guess")] {
                let login = Some(("user".to_owned(), "secret".to_owned()));
                let settings = SmtpSettings { login, manner, tls: tls.clone(), ..SmtpSettings::default() };
                let mut mailer = Mailer::with(settings, limits()).await;
                let changes = json!({
                    "host": "localhost", "security": security, "caCertificate": authority.pem(), "username": "user",
                    "password": password, "auth": mechanism,
                });
                for (name, value) in changes.as_object().unwrap() {
                    mailer.provider.settings[name] = value.clone();
                }
                let answer = mailer.send(TO).await;
                if password == "secret" {
                    assert_sent(&answer);
                } else {
                    assert_eq!(answer.outcome, Outcome::PauseProvider, "{manner:?} {security}: {answer:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_server_that_hears_one_ehlo_is_used_over_starttls_without_extensions() {
    let authority = Authority::new().unwrap();
    let tls = Some(SmtpTls::StartTls(authority.server(&[])));
    let settings = SmtpSettings { tls, manner: Manner::EhloOnce, ..SmtpSettings::default() };
    let mut mailer = Mailer::with(settings, limits()).await;
    mailer.provider.settings["host"] = json!("localhost");
    mailer.provider.settings["security"] = json!("starttls");
    mailer.provider.settings["caCertificate"] = json!(authority.pem());
    assert_sent(&mailer.send(TO).await);
}

#[tokio::test]
async fn ehlo_is_sent_once_with_the_name_of_the_settings() {
    let mut mailer = Mailer::start().await;
    mailer.provider.settings["ehloName"] = json!("mail.example.net");
    for _ in 0..2 {
        assert_sent(&mailer.send(TO).await);
    }
    assert_eq!(mailer.server.hellos(), ["EHLO mail.example.net"]);
    let old = self::mailer(Manner::NoEhlo, true).await;
    assert_sent(&old.send(TO).await);
    let names: Vec<_> = old.server.hellos().iter().map(|hello| hello[5..].to_owned()).collect();
    assert_eq!(names.len(), 2);
    assert!(!names[0].starts_with('[') && names[0].contains('.'), "{names:?}");
}

const STAGES: [Stage; 7] =
    [Stage::Connect, Stage::Hello, Stage::Mail, Stage::Rcpt, Stage::Data, Stage::Content, Stage::Dot];

/// Sends an email to a server that interrupts it once at `stage`, and then a second one. Returns the first answer, and the number of
/// captured copies of the first email.
async fn interrupted(stage: Stage, rule: &Rule, pipelining: bool) -> (Answer, usize) {
    let settings = SmtpSettings { pipelining, ..SmtpSettings::default() };
    let mailer = Mailer::with(settings, limits_at(stage, pipelining, SHORT)).await;
    mailer.server.script(rule.clone());
    let answer = mailer.send("first@example.org").await;
    assert_sent(&mailer.send("second@example.org").await);
    let to = |name: &str| mailer.captures().iter().filter(|capture| capture.to == [name]).count();
    assert_eq!(to("second@example.org"), 1, "{rule:?}");
    (answer, to("first@example.org"))
}

#[tokio::test]
async fn an_interruption_is_in_doubt_only_after_the_final_dot() {
    for pipelining in [true, false] {
        // Most rules stall, so all stages wait for their limits at the same time.
        join_all(STAGES.map(|stage| assert_interruptions(stage, pipelining))).await;
    }
}

async fn assert_interruptions(stage: Stage, pipelining: bool) {
    let is_sent = matches!(stage, Stage::Content | Stage::Dot);
    let in_doubt = if is_sent { Outcome::Unknown } else { RETRY };
    let told = |code: u16| Rule::answer(stage, format!("{code} 4.3.2 closing"));
    for (rule, outcome) in [
        (told(421), RETRY),
        (Rule::cut(stage), in_doubt.clone()),
        (Rule::stall(stage), in_doubt.clone()),
        // The code arrives, but the line never ends, or is longer than any reply may be.
        (Rule::raw(stage, "421 closing"), RETRY),
        (Rule::raw(stage, [&b"451-"[..], &[b'x'; 100_000]].concat()), RETRY),
        (Rule::raw(stage, vec![b'x'; 100_000]), in_doubt.clone()),
        (Rule::raw(stage, "42"), in_doubt.clone()),
    ] {
        let (answer, copies) = interrupted(stage, &rule, pipelining).await;
        assert_eq!(answer.outcome, outcome, "{rule:?}, pipelining {pipelining}: {answer:?}");
        assert!(copies <= usize::from(stage == Stage::Dot), "{rule:?}");
    }
}

#[tokio::test]
async fn a_reply_after_the_dot_counts_although_its_line_never_ends() {
    for octets in [
        b"250 kept".to_vec(),
        b"250".to_vec(),
        b"250-\r\n".to_vec(),
        [&b"250 "[..], &[0xFC; 200_000]].concat(),
        [b"250-kept\r\n".repeat(20_000)].concat(),
    ] {
        let (answer, copies) = interrupted(Stage::Dot, &Rule::raw(Stage::Dot, octets), true).await;
        assert_sent(&answer);
        assert_eq!(copies, 1);
    }
}

#[tokio::test]
async fn a_greylisted_recipient_gets_one_copy_at_the_second_attempt() {
    for says in ["450 4.7.1 come back", "451", "450-4.7.1 come\n450 back"] {
        let mailer = Mailer::start().await;
        mailer.server.script(Rule::answer(Stage::Rcpt, says));
        assert!(matches!(mailer.send(TO).await.outcome, Outcome::Retry { .. }));
        assert_sent(&mailer.send(TO).await);
        assert_eq!(mailer.captures().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_no_command_asked_for_is_never_taken_for_that_to_the_email() {
    for (stage, says) in [
        (Stage::Connect, "220 one\r\n220 two"),
        (Stage::Hello, "250 one\r\n250 two"),
        (Stage::Mail, "250 one\r\n250 two"),
        (Stage::Rcpt, "250 one\r\n250 two"),
        (Stage::Data, "354 go on\r\n250 accepted"),
        (Stage::Data, "354 go on\r\n354 go on"),
    ] {
        let mailer =
            Mailer::with(SmtpSettings { pipelining: false, ..SmtpSettings::default() }, limits_each(LIMIT))
                .await;
        mailer.server.script(Rule::answer(stage, says));
        let answer = mailer.send(TO).await;
        assert!(matches!(answer.outcome, Outcome::Retry { .. }), "{says}: {answer:?}");
        assert!(mailer.captures().is_empty(), "{says}");
        assert_sent(&mailer.send(TO).await);
    }
}

#[tokio::test]
async fn content_that_is_refused_or_cut_off_before_its_end_is_not_in_doubt() {
    let large = "x".repeat(16 << 20);
    for (rule, outcome) in [
        (Rule::raw(Stage::Content, "552 5.3.4 too big\r\n"), Outcome::Failed),
        (Rule::raw(Stage::Data, "354 go on\r\n552 5.3.4 too big\r\n"), Outcome::Failed),
        (Rule::raw(Stage::Data, "354 go on\r\n421 4.3.2 closing\r\n"), RETRY),
        (Rule::cut(Stage::Content), RETRY),
    ] {
        let mailer = Mailer::with(SmtpSettings::default(), limits_each(LIMIT)).await;
        mailer.server.script(rule.clone());
        let answer = mailer.send_content(TO, text(&large)).await;
        assert_eq!(answer.outcome, outcome, "{rule:?}: {answer:?}");
    }
}

#[tokio::test]
async fn an_email_is_abandoned_when_its_claim_ends_unless_the_final_dot_was_sent() {
    for (stage, ends) in [(Stage::Mail, true), (Stage::Data, true), (Stage::Dot, false)] {
        let mailer = Mailer::with(SmtpSettings::default(), limits_each(Duration::from_secs(3))).await;
        mailer.server.script(Rule::stall(stage));
        let lease = Lease::lasting(Duration::from_secs(1));
        let job = job(TO, text("hello"));
        let answer = attempt_within(&lease, &mailer.sender, &mailer.provider, &job).await;
        let (outcome, code) = if ends { (RETRY, "abandoned") } else { (Outcome::Unknown, "timeout") };
        assert_eq!((answer.outcome, answer.code.as_str()), (outcome, code), "{stage:?}");
    }
    let mailer = Mailer::start().await;
    let ended = Lease::lasting(Duration::ZERO);
    let answer = attempt_within(&ended, &mailer.sender, &mailer.provider, &job(TO, text("hello"))).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (RETRY, "abandoned"));
    assert!(mailer.captures().is_empty());
}
