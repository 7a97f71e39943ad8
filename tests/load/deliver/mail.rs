//! Large emails over SMTP: bodies of 100 KB, and files of 10 MiB for 500 recipients. The mail server counts emails and drops their content.
//! The bare client sends the same bytes over as many connections, and records nothing.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::content::{Attachment, Content, EmailContent, EmailOptions};
use domain::event::DeliveryJob;
use domain::{Channel, DeliveryIds, SendId, Timestamp, UserNumber};
use serde::Serialize;
use serde_json::json;
use service_kit::clock;
use sqlx::PgConnection;
use stand_ins::outbox::Outbox;
use stand_ins::smtp::{SmtpSettings, SmtpStandIn};
use suite::cpu::Processes;
use testkit::eventually;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{AT_ONCE, LONG, jobs, server_micros};
use crate::installation::Installation;
use crate::live::resident;
use crate::role::Role;
use crate::series::Series;

/// Size of the HTML of a large body, in bytes.
const BODY: usize = 100_000;
/// Files of a send: 10 MiB in all, the limit.
const FILES: usize = 4;
const FILE: usize = (10 << 20) / FILES;
/// Recipients of the send with files.
const RECIPIENTS: usize = 500;
/// Emails that the bare client sends with files, because it would send 500 for many seconds.
const BARE_WITH_FILES: usize = 100;
const USERS: usize = 1_000;

/// Results of one kind of emails, by round.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MailReport {
    name: String,
    per_second: Series,
    /// 10^6 bytes per second on the wire.
    megabytes: Series,
    bare_per_second: Series,
    /// Processor time for one email.
    service_micros: Series,
    nats_micros: Series,
    postgres_micros: Series,
    /// Most resident memory of the worker in MiB.
    peak: Series,
    /// Number of reads of files from PostgreSQL.
    reads: Series,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same body for every recipient.
    Same,
    /// A separate body for each recipient.
    Own,
    WithFiles,
}

/// A mail server that counts, and one email as it would be sent there.
struct Bench<'a> {
    installation: &'a Installation,
    counting: SmtpStandIn,
    strict: SmtpStandIn,
}

pub(crate) async fn measure(installation: &Installation, rounds: u32, emails: usize) -> Vec<MailReport> {
    service_kit::install_crypto_provider();
    let start = async |counts_only| {
        let settings = SmtpSettings { counts_only, ..SmtpSettings::default() };
        SmtpStandIn::start(settings, Outbox::in_memory()).await.unwrap()
    };
    let bench = Bench { installation, counting: start(true).await, strict: start(false).await };
    let kinds = [
        ("a body of 100 KB, the same", Kind::Same, emails),
        ("a body of 100 KB for each", Kind::Own, emails),
        ("  four times as many", Kind::Own, emails * 4),
        ("files of 10 MiB", Kind::WithFiles, RECIPIENTS),
    ];
    let mut reports: Vec<MailReport> = kinds
        .iter()
        .map(|(name, ..)| MailReport { name: (*name).to_owned(), ..MailReport::default() })
        .collect();
    for round in 1..=rounds {
        for ((name, kind, emails), report) in kinds.iter().zip(&mut reports) {
            eprintln!("mail: round {round} of {rounds}, {emails} emails with {}", name.trim());
            bench.measure(*kind, *emails, report).await;
        }
    }
    reports
}

impl Bench<'_> {
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    async fn measure(&self, kind: Kind, emails: usize, report: &mut MailReport) {
        let raw = self.raw(kind).await;
        self.choose(&self.counting).await;
        self.put(kind, emails).await;
        self.installation.settle().await;
        let (counted_before, bytes_before) = self.counting.counted();
        let (before, reads_before) = (server_micros(), self.reads().await);
        let began = clock::now();
        let (service, peak) = self.work(emails).await;
        let after = server_micros();
        let rate = jobs::settled_per_second(self.installation, emails, began).await;
        let (counted, bytes) = self.counting.counted();
        assert_eq!(counted - counted_before, emails, "emails that the server counted");
        let bytes = bytes - bytes_before;
        let each = |micros: u64| micros as f64 / emails as f64;
        report.per_second.push(rate);
        report.megabytes.push(rate * bytes as f64 / emails as f64 / 1e6);
        report.service_micros.push(each(service));
        report.nats_micros.push(each(after[0] - before[0]));
        report.postgres_micros.push(each(after[1] - before[1]));
        report.peak.push(peak / 1_024.0);
        if kind == Kind::WithFiles {
            self.worker_left(began).await;
            let reads = self.reads().await - reads_before;
            assert!(reads > 0, "PostgreSQL counted no reads of files");
            report.reads.push(reads as f64);
        }
        let emails = if kind == Kind::WithFiles { BARE_WITH_FILES } else { emails };
        report.bare_per_second.push(emails as f64 / self.send_bare(raw, emails).await.as_secs_f64());
    }

    async fn choose(&self, server: &SmtpStandIn) {
        let settings = json!({
            "host": "127.0.0.1", "port": server.address().port(), "security": "none", "from": "shop@example.com",
        });
        self.installation.provider(Channel::Email, "smtp", &settings, &json!({})).await;
    }

    /// Returns the content of one email as the worker sends it, with its final dot. The strict server checks it.
    async fn raw(&self, kind: Kind) -> Arc<[u8]> {
        self.choose(&self.strict).await;
        self.put(kind, 1).await;
        self.work(1).await;
        let captures = self.strict.outbox().captures();
        let [capture] = &captures[..] else { panic!("{} emails instead of one", captures.len()) };
        let mut raw = Vec::with_capacity(capture.raw.len() + 1_024);
        for line in capture.raw.split_inclusive(|byte| *byte == b'\n') {
            raw.extend(line.starts_with(b".").then_some(b'.'));
            raw.extend_from_slice(line);
        }
        raw.extend_from_slice(b".\r\n");
        self.strict.outbox().clear().unwrap();
        raw.into()
    }

    /// Runs the worker until all jobs are done. Returns its processor time in microseconds, and its peak memory in KiB.
    async fn work(&self, emails: usize) -> (u64, f64) {
        let worker = self.installation.serve(Role::Email, &[("TIDINGS_OUTBOUND__ALLOW_PRIVATE", "true")]);
        let what = format!("{emails} emails are sent");
        eventually(LONG, &what, async || {
            jobs::all_done(self.installation, Channel::Email).await.then_some(())
        })
        .await;
        (Processes::below(worker.id()).micros(), resident(&worker, "VmHWM:"))
    }

    async fn put(&self, kind: Kind, emails: usize) {
        let mut connection = jobs::clear(self.installation).await;
        let of_send = if kind == Kind::WithFiles { RECIPIENTS } else { 100 };
        let mut next = 0;
        while next < emails {
            let numbers = next..emails.min(next + of_send);
            next = numbers.end;
            self.put_send(&mut connection, kind, numbers).await;
        }
        sqlx::Connection::close(connection).await.unwrap();
    }

    async fn put_send(&self, connection: &mut PgConnection, kind: Kind, numbers: std::ops::Range<usize>) {
        let send_id = SendId(clock::new_id());
        let mut options = EmailOptions::default();
        if kind == Kind::WithFiles {
            let contents: Vec<Vec<u8>> = (0..FILES).map(file).collect();
            let (store, app) = (&self.installation.store, self.installation.app);
            let retention = Duration::from_secs(3_600);
            let kept = store.deliveries().keep_attachments(app, send_id, &contents, clock::now(), retention);
            kept.await.unwrap();
            options.attachments = (0..).take(FILES).map(attachment).collect();
        }
        let jobs: Vec<_> = numbers
            .map(|number| {
                let html = match kind {
                    Kind::Same => body(0),
                    Kind::Own => body(number),
                    Kind::WithFiles => "<p>Your documents are attached.</p>".to_owned(),
                };
                let content = Content::Email(EmailContent {
                    subject: "News of the week".to_owned(),
                    html: Some(html),
                    options: options.clone(),
                    ..EmailContent::default()
                });
                let user = UserNumber(i64::try_from(number % USERS + 1).unwrap());
                let target = format!("u{}@example.com", user.0);
                let id = DeliveryIds::TimeOrdered.derive(send_id, user, Channel::Email, &target);
                (send_id, DeliveryJob::first(id, Channel::Email, user, target, content))
            })
            .collect();
        jobs::insert(connection, self.installation, &jobs).await;
        jobs::publish(self.installation, Channel::Email, &jobs).await;
    }

    /// Waits until PostgreSQL has ended the sessions of the worker that started after `began`. A session adds the last of its reads to
    /// the statistics before it disappears from `pg_stat_activity`.
    async fn worker_left(&self, began: Timestamp) {
        let url = self.installation.database_url();
        let mut connection = <PgConnection as sqlx::Connection>::connect(url).await.unwrap();
        let left = "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
            AND application_name = 'tidings' AND backend_start >= to_timestamp($1::bigint / 1000.0))";
        eventually(LONG, "the sessions of the worker have ended", async || {
            let left = sqlx::query_scalar::<_, bool>(left).bind(began.millis());
            left.fetch_one(&mut connection).await.unwrap().then_some(())
        })
        .await;
        sqlx::Connection::close(connection).await.unwrap();
    }

    /// Number of times that files were read, as far as PostgreSQL has counted them.
    async fn reads(&self) -> i64 {
        let mut connection =
            <PgConnection as sqlx::Connection>::connect(self.installation.database_url()).await.unwrap();
        let counted = "SELECT (seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint FROM pg_stat_user_tables
            WHERE relname = 'attachment'";
        let reads = sqlx::query_scalar(counted).fetch_one(&mut connection).await.unwrap();
        sqlx::Connection::close(connection).await.unwrap();
        reads
    }

    async fn send_bare(&self, raw: Arc<[u8]>, emails: usize) -> Duration {
        let before = self.counting.counted().0;
        let mut connections = Vec::new();
        for _ in 0..AT_ONCE {
            connections.push(BareConnection::open(&self.counting).await);
        }
        let began = Instant::now();
        let mut running = tokio::task::JoinSet::new();
        for (number, mut connection) in connections.into_iter().enumerate() {
            let raw = Arc::clone(&raw);
            let share = (number..emails).step_by(AT_ONCE).count();
            running.spawn(async move {
                for _ in 0..share {
                    connection.send(&raw).await;
                }
            });
        }
        running.join_all().await;
        let elapsed = began.elapsed();
        assert_eq!(self.counting.counted().0 - before, emails, "emails of the bare client");
        elapsed
    }
}

struct BareConnection {
    stream: BufReader<TcpStream>,
    line: String,
}

impl BareConnection {
    async fn open(server: &SmtpStandIn) -> BareConnection {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let mut connection = BareConnection { stream: BufReader::new(stream), line: String::new() };
        connection.expect("220").await;
        connection.stream.write_all(b"HELO localhost\r\n").await.unwrap();
        connection.expect("250").await;
        connection
    }

    async fn send(&mut self, raw: &[u8]) {
        let commands = b"MAIL FROM:<shop@example.com>\r\nRCPT TO:<u1@example.com>\r\nDATA\r\n";
        self.stream.write_all(commands).await.unwrap();
        for code in ["250", "250", "354"] {
            self.expect(code).await;
        }
        self.stream.write_all(raw).await.unwrap();
        self.expect("250").await;
    }

    async fn expect(&mut self, code: &str) {
        self.line.clear();
        self.stream.read_line(&mut self.line).await.unwrap();
        assert!(self.line.starts_with(code), "{}", self.line);
    }
}

/// Returns a newsletter of [`BODY`] bytes, as HTML with inline styles and a few characters beyond ASCII.
fn body(recipient: usize) -> String {
    let mut html = String::with_capacity(BODY + 1_024);
    html.push_str("<!doctype html>\n<html lang=\"de\"><head><meta charset=\"utf-8\"><title>Neuigkeiten</title></head>\n<body><table role=\"presentation\" width=\"600\">\n");
    let mut row = 0;
    while html.len() < BODY {
        row += 1;
        html.push_str(&format!(
            "<tr><td style=\"padding: 12px 24px; font-family: Arial, sans-serif; font-size: 14px; color: #333333\">\n\
             <p>Guten Tag Nr. {recipient}, Ihre Bestellung {row} für {}, 90 € ist unterwegs. Sie können die Lieferung \
             jederzeit verfolgen, ändern oder bis zum Abend zurückgeben – größere Stücke holen wir auch ab.</p>\n\
             <p><a href=\"https://shop.example.com/orders/{recipient}/{row}?utm_source=mail&amp;utm_medium=email\" \
             style=\"background: #0a7a5a; color: #ffffff; padding: 8px 16px\">Lieferung ansehen</a></p>\n</td></tr>\n",
            row * 7 % 100,
        ));
    }
    html.push_str("</table></body></html>\n");
    html
}

fn file(number: usize) -> Vec<u8> {
    (0..FILE).map(|at| u8::try_from((at * 7 + at / 256 + number) % 256).unwrap()).collect()
}

fn attachment(number: u32) -> Attachment {
    Attachment {
        number,
        name: format!("report-{number}.pdf"),
        content_type: "application/pdf".to_owned(),
        size: FILE as u64,
        ..Attachment::default()
    }
}

pub(crate) fn show_mail(f: &mut fmt::Formatter<'_>, reports: &[MailReport]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<32}{:>10}{:>9}{:>10}{:>10}{:>24}{:>10}{:>8}",
        "mail, one worker",
        "emails/s",
        "MB/s",
        "of bare",
        "bare/s",
        "µs own/nats/postgres",
        "peak MiB",
        "reads"
    )?;
    for mail in reports {
        let micros = [&mail.service_micros, &mail.nats_micros, &mail.postgres_micros];
        writeln!(
            f,
            "  {:<30}{:>10.0}{:>9.0}{:>10.2}{:>10.0}{:>24}{:>10.0}{:>8}",
            mail.name,
            mail.per_second.median(),
            mail.megabytes.median(),
            mail.per_second.of(&mail.bare_per_second),
            mail.bare_per_second.median(),
            micros.map(|micros| format!("{:.0}", micros.median())).join("/"),
            mail.peak.median(),
            if mail.reads.is_empty() { "–".to_owned() } else { format!("{:.0}", mail.reads.median()) },
        )?;
    }
    Ok(())
}
