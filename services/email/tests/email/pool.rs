use std::time::{Duration, Instant};

use domain::Outcome;
use email::{PoolLimits, Times};
use serde_json::json;
use stand_ins::smtp::{Rule, SmtpSettings, Stage};
use testkit::eventually;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::fixture::{LIMIT, Mailer, TO, assert_sent, attempt, limits, limits_each, provider, sender, text};

pub(crate) const SHORT: Duration = Duration::from_millis(1_500);

fn with_times(mut limits: PoolLimits, change: impl FnOnce(&mut Times)) -> PoolLimits {
    change(&mut limits.times);
    limits
}

/// Creates limits of which only those for the replies that a server withholds if it stalls at `stage` are short.
pub(crate) fn limits_at(stage: Stage, pipelining: bool, short: Duration) -> PoolLimits {
    with_times(limits_each(LIMIT), |times| match stage {
        Stage::Connect => times.greeting = short,
        Stage::Hello | Stage::StartTls => times.hello = short,
        Stage::Auth => times.login = short,
        // The commands are sent together. If the reply to one of them is missing, the client may wait for the others too.
        Stage::Mail | Stage::Rcpt | Stage::Data if pipelining => {
            (times.mail, times.rcpt, times.data) = (short, short, short);
        }
        Stage::Mail => times.mail = short,
        Stage::Rcpt => times.rcpt = short,
        Stage::Data => times.data = short,
        // The client sends a short content and its final dot together.
        Stage::Content | Stage::Dot => times.dot = short,
    })
}

#[tokio::test]
async fn one_connection_carries_many_messages() {
    let mailer = Mailer::start().await;
    for _ in 0..50 {
        assert_sent(&mailer.send(TO).await);
    }
    assert_eq!((mailer.server.connections(), mailer.captures().len()), (1, 50));
}

#[tokio::test]
async fn a_connection_is_replaced_after_its_share_of_messages() {
    let limits = PoolLimits { messages_per_connection: 10, ..limits() };
    let mailer = Mailer::with(SmtpSettings::default(), limits).await;
    for _ in 0..50 {
        assert_sent(&mailer.send(TO).await);
    }
    assert_eq!((mailer.server.connections(), mailer.captures().len()), (5, 50));
}

#[tokio::test]
async fn connections_stay_within_the_limit_while_some_are_refused() {
    let limits = PoolLimits { connections: 4, ..limits() };
    let mailer = Mailer::with(SmtpSettings::default(), limits).await;
    let mut sends = JoinSet::new();
    for number in 0..200 {
        let (sender, provider) = (mailer.sender.clone(), mailer.provider.clone());
        let to = if number % 4 == 0 { "5.1.1@example.org" } else { TO };
        sends.spawn(async move { attempt(&sender, &provider, to, text("hello")).await });
    }
    let answers = sends.join_all().await;
    let sent = answers.iter().filter(|answer| matches!(answer.outcome, Outcome::Sent { .. })).count();
    let gone = answers.iter().filter(|answer| answer.outcome == Outcome::GONE).count();
    assert_eq!((sent, gone, mailer.captures().len()), (150, 50, 150));
    assert!(mailer.server.connections() <= 4, "{} connections", mailer.server.connections());
}

#[tokio::test]
async fn waiting_for_a_connection_does_not_shorten_the_time_for_content() {
    let limits = with_times(PoolLimits { connections: 1, ..limits_each(LIMIT) }, |times| times.dot = SHORT);
    let mailer = Mailer::with(SmtpSettings::default(), limits).await;
    mailer.server.script(Rule::stall(Stage::Dot).to("first@example.org"));
    // `join!` polls the first call first. So that call takes the only connection, and keeps it until sending the content
    // times out.
    let (first, second) = tokio::join!(mailer.send("first@example.org"), mailer.send("second@example.org"));
    assert_eq!(first.outcome, Outcome::Unknown, "{first:?}");
    assert_sent(&second);
    let recipients = mailer.captures().into_iter().map(|capture| capture.to).collect::<Vec<_>>();
    assert_eq!(recipients, [["second@example.org"], ["first@example.org"]]);
}

#[tokio::test]
async fn a_message_without_a_free_connection_in_time_was_certainly_not_sent() {
    let limits = PoolLimits { connections: 1, queueing: SHORT, ..limits_each(LIMIT) };
    let mailer = Mailer::with(SmtpSettings::default(), limits).await;
    mailer.server.script(Rule::stall(Stage::Dot).to("first@example.org"));
    tokio::select! {
        biased;
        answer = mailer.send("first@example.org") => panic!("{answer:?}"),
        answer = mailer.send("second@example.org") => {
            let retry = Outcome::Retry { after: None, limit: None };
            assert_eq!((answer.outcome, answer.code.as_str()), (retry, "busy"));
        }
    }
    assert_eq!(mailer.server.connections(), 1);
    assert_sent(&mailer.send("second@example.org").await);
    let recipients = mailer.captures().into_iter().map(|capture| capture.to).collect::<Vec<_>>();
    assert_eq!(recipients, [["second@example.org"], ["first@example.org"]]);
}

#[tokio::test]
async fn a_process_that_was_paused_during_the_commands_does_not_send_the_content() {
    let limits = with_times(limits_each(LIMIT), |times| times.data = SHORT);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let settings = json!({"host": "127.0.0.1", "port": port, "security": "none", "from": "news@example.com"});
    let (sender, provider) = (sender(limits.clone()), provider("smtp", settings));
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufStream::new(stream);
        reply(&mut stream, "220 ready").await;
        let mut command = String::new();
        while command != "DATA\r\n" {
            command.clear();
            assert_ne!(stream.read_line(&mut command).await.unwrap(), 0, "the client closed the connection");
            reply(&mut stream, if command == "DATA\r\n" { "354 content" } else { "250 ok" }).await;
        }
        // The only thread is busy, so the client cannot read the last reply before its time is over.
        let began = Instant::now();
        while began.elapsed() <= limits.times.data {
            std::hint::spin_loop();
        }
        let mut content = Vec::new();
        // The client closes the connection without reading the last reply, so reading may end with a reset.
        stream.read_to_end(&mut content).await.ok();
        content
    };
    let (answer, content) = tokio::join!(attempt(&sender, &provider, TO, text("hello")), serving);
    assert_eq!(String::from_utf8_lossy(&content), "");
    let retry = Outcome::Retry { after: None, limit: None };
    assert_eq!((answer.outcome, answer.code.as_str()), (retry, "timeout"));
}

async fn reply(stream: &mut BufStream<TcpStream>, text: &str) {
    stream.write_all(format!("{text}\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
}

#[tokio::test]
async fn a_connection_is_not_reused_after_a_broken_exchange() {
    let stalls = [Stage::Mail, Stage::Data, Stage::Content]
        .map(|stage| (Rule::stall(stage), limits_at(stage, true, SHORT)));
    let others = [
        Rule::cut(Stage::Rcpt),
        Rule::cut(Stage::Data),
        Rule::cut(Stage::Content),
        Rule::answer(Stage::Rcpt, "421 4.3.2 going down"),
        Rule::answer(Stage::Data, "250 this is not how it goes"),
        Rule::answer(Stage::Rcpt, "gibberish"),
    ]
    .map(|rule| (rule, limits_each(LIMIT)));
    for (rule, limits) in stalls.into_iter().chain(others) {
        let mailer = Mailer::with(SmtpSettings::default(), limits).await;
        mailer.server.script(rule.clone());
        let answer = mailer.send("first@example.org").await;
        assert!(!matches!(answer.outcome, Outcome::Sent { .. }), "{rule:?}: {answer:?}");
        assert_sent(&mailer.send("second@example.org").await);
        let recipients = mailer.captures().into_iter().map(|capture| capture.to).collect::<Vec<_>>();
        assert_eq!(recipients, [["second@example.org"]], "{rule:?}");
        assert_eq!(mailer.server.connections(), 2, "{rule:?}");
    }
}

#[tokio::test]
async fn a_connection_is_not_reused_after_a_cancelled_exchange() {
    for (stage, captured) in [
        (Stage::Connect, 0),
        (Stage::Mail, 0),
        (Stage::Rcpt, 0),
        (Stage::Data, 0),
        (Stage::Content, 0),
        (Stage::Dot, 1),
    ] {
        let mailer = Mailer::start().await;
        mailer.server.script(Rule::stall(stage));
        let stalled = async || (mailer.server.rules_left() == 0).then_some(());
        tokio::select! {
            answer = mailer.send("first@example.org") => panic!("{stage:?}: {answer:?}"),
            () = eventually(LIMIT, "the stand-in stalls", stalled) => {}
        }
        assert_sent(&mailer.send("second@example.org").await);
        let captures = mailer.captures();
        assert_eq!(captures.len(), captured + 1, "{stage:?}");
        assert_eq!(captures[0].to, ["second@example.org"], "{stage:?}");
        assert_eq!(mailer.server.connections(), 2, "{stage:?}");
    }
}

#[tokio::test]
async fn a_refusal_does_not_affect_the_next_message() {
    for pipelining in [true, false] {
        let settings = SmtpSettings { pipelining, ..SmtpSettings::default() };
        let mailer = Mailer::with(settings, limits()).await;
        assert_eq!(mailer.send("5.1.1@example.org").await.outcome, Outcome::GONE);
        if pipelining {
            // The server accepts DATA although it refused RCPT, and waits for content.
            mailer.server.script(Rule::answer(Stage::Data, "354 go on"));
            assert_eq!(mailer.send("5.1.1@example.org").await.outcome, Outcome::GONE);
        }
        assert_sent(&mailer.send(TO).await);
        assert_eq!(mailer.captures().len(), 1);
        assert_eq!(mailer.captures()[0].to, [TO]);
        assert_eq!(mailer.server.connections(), 1);
    }
}

#[tokio::test]
async fn a_connection_closed_by_the_server_while_idle_is_replaced_within_the_attempt() {
    let settings = SmtpSettings { idle: Duration::from_millis(600), ..SmtpSettings::default() };
    let mailer = Mailer::with(settings, limits()).await;
    for round in 1..=3 {
        assert_sent(&mailer.send(TO).await);
        let closed = async || (mailer.server.open_connections() == 0).then_some(());
        eventually(LIMIT, "the server closes the idle connection", closed).await;
        assert_eq!((mailer.server.connections(), mailer.captures().len()), (round, round));
    }
    mailer.server.script(Rule::cut(Stage::Connect));
    assert_eq!(mailer.send(TO).await.code, "connect", "the sender must not open a third connection");
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let limits = PoolLimits { idle: Duration::from_millis(50), ..limits() };
    let mailer = Mailer::with(SmtpSettings::default(), limits).await;
    assert_sent(&mailer.send(TO).await);
    let closed = async || (mailer.server.open_connections() == 0).then_some(());
    tokio::select! {
        never = mailer.sender.reap() => match never {},
        () = eventually(LIMIT, "the pool closes its idle connection", closed) => {}
    }
    assert_sent(&mailer.send(TO).await);
    assert_eq!(mailer.server.connections(), 2);
}

#[tokio::test]
async fn changed_settings_open_new_connections() {
    let mut mailer = Mailer::start().await;
    assert_sent(&mailer.send(TO).await);
    mailer.provider.settings["from"] = json!("other@example.com");
    mailer.provider.version = 2;
    assert_sent(&mailer.send(TO).await);
    assert_eq!(mailer.server.connections(), 2);
    assert_eq!(mailer.captures()[0].from, "other@example.com");
}
