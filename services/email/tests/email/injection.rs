//! Property tests against header injection. Whatever a send contains, the mail server receives either one email with
//! only the allowed headers and recipients, or none.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use domain::content::{Attachment, Content, EmailContent, EmailOptions};
use domain::event::DeliveryJob;
use domain::{CategoryId, EmailAddress, Outcome};
use email::{EmailSender, Sources};
use futures_util::FutureExt;
use mail_parser::{HeaderName, Message, MessageParser};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};
use stand_ins::outbox::Capture;
use tokio::runtime::Runtime;
use worker::Outbound;

use crate::fixture::{Mailer, attempt_job, job, limits};

/// Headers that Tidings may write, in lower case. Each may occur at most once.
const OURS: [&str; 16] = [
    "auto-submitted",
    "cc",
    "content-id",
    "content-transfer-encoding",
    "content-type",
    "date",
    "dkim-signature",
    "from",
    "list-unsubscribe",
    "list-unsubscribe-post",
    "message-id",
    "mime-version",
    "reply-to",
    "subject",
    "to",
    "x-auto-response-suppress",
];

/// Texts that attackers have used to make other programs add a header, a recipient or an email.
const TRICKS: [&str; 26] = [
    ".",
    "..",
    "\r\n.\r\n",
    "\n.\n",
    "\r.\r",
    "\r\n.\r\nMAIL FROM:<evil@example.net>\r\nRCPT TO:<evil@example.net>\r\nDATA\r\n",
    "\r\nBcc: evil@example.net",
    "\nBcc: evil@example.net",
    "\rBcc: evil@example.net",
    "\r\n\r\nbody",
    "\u{0}",
    "\u{b}\u{c}",
    "\u{85}Bcc: evil@example.net",
    "\u{2028}.\u{2028}",
    "\u{10a}Bcc: evil@example.net\u{d0a}",
    ", evil@example.net",
    "; evil@example.net",
    "> <evil@example.net",
    "\"><evil@example.net>\"",
    "\\\"",
    "(comment",
    "=?utf-8?b?DQpCY2M6IGV2aWxAZXhhbXBsZS5uZXQ=?=",
    "=?utf-8?q?=0D=0ABcc:_evil@example.net?=",
    "%0d%0aBcc: evil@example.net",
    "--=_m\r\nContent-Type: text/html\r\n\r\n",
    "\" boundary=\"x",
];
const NAMES: [&str; 14] = [
    "From",
    "Sender",
    "Bcc",
    "To",
    "Subject",
    "X-SMTPAPI",
    "List-Unsubscribe",
    "Message-ID",
    "Content-Type",
    "X-Campaign",
    "X-PM-KeepID",
    "Resent-To",
    "Date",
    "X-Mailer",
];

/// Generates arbitrary text, sometimes with one of [`TRICKS`].
fn anything() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => prop::sample::select(&TRICKS[..]).prop_map(str::to_owned),
        3 => "[a-zA-Z0-9 .]{0,12}",
        1 => any::<String>(),
        1 => "[a-z]{900,1100}",
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z.\"'+]{1,8}@(example\\.com|EXAMPLE\\.com|münchen\\.example|\\[127\\.0\\.0\\.1\\])",
        1 => ("[a-z]{1,4}", anything()).prop_map(|(local, rest)| format!("{local}@example.com{rest}")),
        1 => (anything(), "[a-z]{1,4}").prop_map(|(local, host)| format!("{local}@{host}.example")),
        1 => anything(),
    ]
}

fn header_name() -> impl Strategy<Value = String> {
    let name = prop::sample::select(&NAMES[..]);
    prop_oneof![
        2 => name.clone().prop_map(str::to_owned),
        4 => ("[.\t -:]{0,2}", name.clone()).prop_map(|(before, name)| format!("{before}{name}")),
        1 => (name, anything()).prop_map(|(name, after)| format!("{name}{after}")),
        1 => anything(),
    ]
}

/// Generates a list that is usually empty, because an email with arbitrary text in every field is nearly always refused.
fn few<T: std::fmt::Debug + Clone>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(one, 1..3)]
}

fn rarely<T: std::fmt::Debug>(one: impl Strategy<Value = T>) -> impl Strategy<Value = Option<T>> {
    prop::option::weighted(0.25, one)
}

fn options() -> impl Strategy<Value = EmailOptions> {
    let media_type = prop_oneof![
        Just("text/plain".to_owned()),
        Just("text/calendar; method=REQUEST".to_owned()),
        anything(),
    ];
    let content_id = rarely(prop_oneof![3 => "[a-z]{1,4}", 1 => anything()]);
    let files = few((anything(), media_type, content_id, any::<bool>()));
    let names = (rarely(address()), rarely(anything()), rarely(address()));
    let headers = prop_oneof![
        1 => Just(BTreeMap::new()),
        1 => prop::collection::btree_map(header_name(), anything(), 1..4),
    ];
    (names, few(address()), few(address()), headers, files).prop_map(
        |((from, from_name, reply_to), cc, bcc, headers, files)| {
            let attachment = |(number, (name, content_type, content_id, inline))| Attachment {
                number,
                name,
                content_type,
                size: 5,
                content_id,
                inline,
            };
            let attachments = (0..).zip(files).map(attachment).collect();
            EmailOptions { from, from_name, reply_to, cc, bcc, headers, attachments }
        },
    )
}

/// Generates a job. Every text can be arbitrary, but most are harmless, because otherwise every email would be refused.
fn any_job() -> impl Strategy<Value = DeliveryJob> {
    let plain = Just(EmailOptions::default());
    let target = prop_oneof![3 => Just("ada@example.org".to_owned()), 1 => address()];
    let texts = (anything(), prop::option::of(anything()), prop::option::of(anything()));
    let config = rarely((address(), anything(), address()));
    let options = prop_oneof![1 => plain, 3 => options()];
    (target, texts, options, config, any::<bool>()).prop_map(
        |(target, (subject, text, html), options, config, is_of_category)| {
            let mut job =
                job(&target, EmailContent { subject, text, html, options, ..EmailContent::default() });
            job.category = is_of_category.then_some(CategoryId(3));
            if let Some((from, name, reply_to)) = config {
                let Value::Object(members) =
                    json!({"_config": {"from": from, "fromName": name, "replyTo": reply_to}})
                else {
                    unreachable!("it is an object")
                };
                job.overrides = BTreeMap::from([("main".to_owned(), members)]);
            }
            job
        },
    )
}

/// Creates a sender for which every attachment exists and the unsubscribe link is always `link`.
fn sender(link: String) -> EmailSender {
    let sources = Sources::new(
        Box::new(|_, _, _| async { Ok(Some(b".\r\n.\n".to_vec())) }.boxed()),
        Box::new(move |_, _, _| {
            let link = link.clone();
            async move { Ok(Some(link)) }.boxed()
        }),
    );
    EmailSender::new(limits(), Outbound::new(true), sources).unwrap()
}

fn names_of(message: &Message<'_>, part: usize) -> Vec<String> {
    message.parts[part].headers.iter().map(|header| header.name().to_ascii_lowercase()).collect()
}

fn check(job: &DeliveryJob, captures: &[Capture]) {
    let Content::Email(content) = &job.content else { unreachable!("it is an email") };
    let options = &content.options;
    let [capture] = captures else { panic!("one email became {} messages", captures.len()) };
    assert_eq!(capture.to.len(), 1 + options.cc.len() + options.bcc.len(), "{:?}", capture.to);
    let wanted = [&job.target].into_iter().chain(&options.cc).chain(&options.bcc);
    for (to, wanted) in capture.to.iter().zip(wanted) {
        assert_eq!(to, EmailAddress::parse(wanted).unwrap().as_str());
    }
    let message = MessageParser::default().parse(&capture.raw).unwrap();
    let names = names_of(&message, 0);
    let distinct: BTreeSet<&String> = names.iter().collect();
    assert_eq!(distinct.len(), names.len(), "{names:?}");
    let theirs: Vec<String> = options.headers.keys().map(|name| name.to_ascii_lowercase()).collect();
    for name in &names {
        assert!(OURS.contains(&name.as_str()) || theirs.contains(name), "{name} in {names:?}");
    }
    let count = |header: HeaderName<'static>| {
        message.header(header).and_then(|value| value.as_address()).map_or(0, |list| list.iter().count())
    };
    assert_eq!((count(HeaderName::From), count(HeaderName::To)), (1, 1));
    assert_eq!(count(HeaderName::Cc), options.cc.len());
    let is_file = |part: &usize| names_of(&message, *part).iter().any(|name| name == "content-disposition");
    assert_eq!((1..message.parts.len()).filter(is_file).count(), options.attachments.len());
    for part in 1..message.parts.len() {
        for name in names_of(&message, part) {
            assert!(name.starts_with("content-"), "{name} in part {part}");
        }
    }
}

/// Sends `cases` jobs to a stand-in that refuses emails that violate the RFCs. The stand-in accepts about one job in
/// ten.
fn holds(cases: u32, jobs: impl Strategy<Value = (DeliveryJob, String)>) {
    let runtime = Runtime::new().unwrap();
    let sent = Cell::new(0);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = TestRunner::new(config).run(&jobs, |(job, link)| {
        let (answer, captures) = runtime.block_on(async {
            let mut mailer = Mailer::start().await;
            mailer.provider.settings["allowedFrom"] = json!(["*"]);
            let answer = attempt_job(&sender(link), &mailer.provider, &job).await;
            (answer, mailer.captures())
        });
        match answer.outcome {
            Outcome::Sent { .. } => {
                sent.set(sent.get() + 1);
                check(&job, &captures);
            }
            // The email was refused before the server was called, or the local part of the recipient was a reply code
            // such as `5.1.1`: the stand-in refuses such a recipient with this code.
            Outcome::Failed => {
                assert!(!answer.code.starts_with("554"), "the server refused the content: {answer:?}");
                assert!(captures.is_empty());
            }
            _ => assert!(captures.is_empty(), "{answer:?}"),
        }
        Ok(())
    });
    run.unwrap();
    let sent = sent.get();
    assert!(sent * 40 > cases, "too few emails were sent: {sent} of {cases}");
}

#[test]
fn no_text_of_a_send_adds_a_header_a_recipient_or_a_message() {
    let link = prop_oneof![
        Just("https://notify.example.com/v3/unsubscribe/abc".to_owned()),
        anything().prop_map(|text| format!("https://notify.example.com/{text}")),
    ];
    holds(400, (any_job(), link));
}

#[test]
fn a_header_name_with_a_leading_dot_never_controls_the_relay() {
    let headers = (header_name(), "[a-z<>@:/.,{}\" ]{0,30}").prop_map(|(name, value)| {
        let options = EmailOptions { headers: BTreeMap::from([(name, value)]), ..EmailOptions::default() };
        let text = Some("hello".to_owned());
        let content =
            EmailContent { subject: "Subject".to_owned(), text, options, ..EmailContent::default() };
        (job("ada@example.org", content), "https://notify.example.com/".to_owned())
    });
    holds(400, headers);
}
