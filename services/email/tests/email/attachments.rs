use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use domain::content::{Attachment, EmailContent, EmailOptions};
use domain::{AppId, Outcome, SendId};
use email::{EmailSender, PoolLimits, Sources};
use futures_util::FutureExt;
use mail_parser::{MessageParser, MimeHeaders};
use stand_ins::smtp::{Rule, SmtpSettings, Stage};
use testkit::eventually;
use tokio::task::JoinSet;
use uuid::Uuid;
use worker::Outbound;

use crate::fixture::{LIMIT, Mailer, SEND, TO, assert_sent, attempt, attempt_of, limits, text};

const NAME: &str = "Prüfung \"2026\" – a name long enough to be continued on another line of the header.pdf";

/// Creates a sender for a send with three files. File 0 contains every byte value, file 1 has 512 KiB, and file 2 cannot
/// be read.
fn sender(reads: &Arc<AtomicUsize>) -> EmailSender {
    let reads = Arc::clone(reads);
    let sources = Sources::new(
        Box::new(move |_, send, number| {
            reads.fetch_add(1, Ordering::Relaxed);
            async move {
                match (send, number) {
                    (SEND, 0) => Ok(Some((0..=255).cycle().take(1_000).collect())),
                    (SEND, 1) => Ok(Some(vec![b'.'; 512 << 10])),
                    (SEND, 2) => Err("the database is away".to_owned()),
                    _ => Ok(None),
                }
            }
            .boxed()
        }),
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
    );
    // The limit must be long enough for a busy machine.
    let limits = PoolLimits { preparing: LIMIT * 3, ..limits() };
    EmailSender::new(limits, Outbound::new(true), sources).unwrap()
}

fn with_files(files: &[(u32, &str, &str, u64)]) -> EmailContent {
    let attachments = files.iter().map(|&(number, name, content_type, size)| Attachment {
        number,
        name: name.to_owned(),
        content_type: content_type.to_owned(),
        size,
        ..Attachment::default()
    });
    let options = EmailOptions { attachments: attachments.collect(), ..EmailOptions::default() };
    EmailContent { html: Some("<p>hello</p>".to_owned()), options, ..text("hello") }
}

#[tokio::test]
async fn an_attachment_that_needs_an_overlong_line_fails_before_sending() {
    let mailer = Mailer::start().await;
    let content = with_files(&[(0, "a", &format!("application/{}", "x".repeat(1_000)), 1_000)]);
    let answer = attempt(&sender(&Arc::default()), &mailer.provider, TO, content).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "content"));
    assert_eq!(mailer.server.connections(), 0);
}

#[tokio::test]
async fn files_arrive_byte_for_byte_with_their_names() {
    let mailer = Mailer::start().await;
    let content = with_files(&[
        (0, NAME, "application/pdf", 1_000),
        (0, "a.eml", "message/rfc822", 1_000),
        (0, "b", "no kind", 1_000),
    ]);
    assert_sent(&attempt(&sender(&Arc::default()), &mailer.provider, TO, content).await);
    let captures = mailer.captures();
    let message = MessageParser::default().parse(&captures[0].raw).unwrap();
    let files: Vec<_> = message.attachments().collect();
    let kind = |at: usize| {
        let kind = files[at].content_type().unwrap();
        format!("{}/{}", kind.ctype(), kind.subtype().unwrap())
    };
    assert_eq!(files[0].attachment_name(), Some(NAME));
    assert_eq!(
        (kind(0), kind(1), kind(2)),
        (
            "application/pdf".to_owned(),
            "application/octet-stream".to_owned(),
            "application/octet-stream".to_owned()
        )
    );
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    assert!(files.iter().all(|file| file.contents() == bytes));
    assert_eq!(message.body_text(0).as_deref(), Some("hello"));
    assert_eq!(message.body_html(0).as_deref(), Some("<p>hello</p>"));
}

#[tokio::test]
async fn a_file_is_read_and_encoded_once_for_500_recipients_of_its_send() {
    let counting = SmtpSettings { counts_only: true, ..SmtpSettings::default() };
    let mailer = Mailer::with(counting, PoolLimits { queueing: LIMIT * 3, ..limits() }).await;
    let reads = Arc::default();
    let sender = sender(&reads);
    let mut sends = JoinSet::new();
    for _ in 0..500 {
        let (sender, provider) = (sender.clone(), mailer.provider.clone());
        let content = with_files(&[(1, "big.txt", "text/plain", 512 << 10)]);
        sends.spawn(async move { attempt(&sender, &provider, TO, content).await });
    }
    sends.join_all().await.iter().for_each(assert_sent);
    assert_eq!((reads.load(Ordering::Relaxed), mailer.server.counted().0), (1, 500));
}

#[tokio::test]
async fn large_emails_that_wait_for_a_slow_server_delay_no_other_large_email() {
    let mailer = Mailer::with(SmtpSettings::default(), limits()).await;
    let sender = sender(&Arc::default());
    mailer.server.script(Rule::stall(Stage::Dot).to("slow@example.org").times(4));
    let mut slow = JoinSet::new();
    let large = || with_files(&[(1, "big.txt", "text/plain", 512 << 10)]);
    for _ in 0..4 {
        let (sender, provider, content) = (sender.clone(), mailer.provider.clone(), large());
        slow.spawn(async move { attempt(&sender, &provider, "slow@example.org", content).await });
    }
    let stalled = async || (mailer.server.rules_left() == 0).then_some(());
    eventually(LIMIT, "the server stalls", stalled).await;
    assert_sent(&attempt(&sender, &mailer.provider, TO, large()).await);
}

#[tokio::test]
async fn a_slow_server_of_one_app_leaves_room_for_the_large_emails_of_another() {
    const LARGEST: usize = 11 << 20;
    let sources = Sources::new(
        Box::new(|_, _, _| async { Ok(Some(vec![b'.'; LARGEST])) }.boxed()),
        Box::new(|_, _, _| async { Ok(None) }.boxed()),
    );
    let preparing = LIMIT * 3;
    let sender =
        EmailSender::new(PoolLimits { preparing, ..limits() }, Outbound::new(true), sources).unwrap();
    let mailer = Mailer::with(SmtpSettings::default(), limits()).await;
    mailer.server.script(Rule::stall(Stage::Rcpt).to("slow@example.org").times(3));
    let large = || with_files(&[(1, "big.txt", "text/plain", LARGEST as u64)]);
    let mut slow = JoinSet::new();
    // Emails of the same send would share the room.
    for number in 1..=6 {
        let (sender, provider, content) = (sender.clone(), mailer.provider.clone(), large());
        let send = SendId(Uuid::from_u128(number));
        slow.spawn(async move { attempt_of(send, &sender, &provider, "slow@example.org", content).await });
    }
    let stalled = async || (mailer.server.rules_left() == 0).then_some(());
    eventually(LIMIT, "the server stalls", stalled).await;
    let mut other = mailer.provider.clone();
    other.app = AppId(other.app.0 + 1);
    assert_sent(&attempt(&sender, &other, TO, large()).await);
    assert_eq!(
        mailer.server.connections(),
        4,
        "three emails of the first app wait for the server, and three for room"
    );
}

#[tokio::test]
async fn a_missing_file_fails_the_delivery_and_an_unreadable_one_retries_it() {
    let mailer = Mailer::start().await;
    let sender = sender(&Arc::default());
    for (number, outcome, code) in
        [(3, Outcome::Failed, "attachment_gone"), (2, Outcome::RETRY, "attachment")]
    {
        for _ in 0..2 {
            let content = with_files(&[(0, "a", "text/plain", 1), (number, "b", "text/plain", 1)]);
            let answer = attempt(&sender, &mailer.provider, TO, content).await;
            assert_eq!((&answer.outcome, answer.code.as_str()), (&outcome, code));
        }
    }
    let injecting = with_files(&[(0, "a\r\nBcc: b@example.com", "text/plain", 1)]);
    assert_eq!(attempt(&sender, &mailer.provider, TO, injecting).await.code, "content");
    assert_eq!(mailer.server.connections(), 0);
}

#[tokio::test]
async fn a_message_beyond_the_servers_size_is_refused_before_it_is_sent() {
    let mailer = Mailer::with(SmtpSettings { max_size: 100_000, ..SmtpSettings::default() }, limits()).await;
    let content = with_files(&[(1, "big.txt", "text/plain", 512 << 10)]);
    mailer.server.script(Rule::cut(Stage::Content));
    let answer = attempt(&sender(&Arc::default()), &mailer.provider, TO, content).await;
    assert_eq!((answer.outcome, answer.code.as_str()), (Outcome::Failed, "552 5.3.4"));
    assert_eq!(mailer.server.rules_left(), 1, "no content was sent");
}
