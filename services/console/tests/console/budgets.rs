//! Sizes of pages, and their times with many sends.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use domain::{AppId, Role};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, COOKIE};
use reqwest::{Method, StatusCode};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::fixture::TestConsole;

/// Sends in the database, with ten deliveries each: `TIDINGS_TEST_SENDS`, or this number.
const SENDS: i64 = 400;
/// Bytes of the first page with its files, and of a further page, as a browser receives them.
const MOST_BYTES: (usize, usize) = (40 * 1024, 15 * 1024);
const ROUNDS: usize = 40;

async fn fill(console: &TestConsole, app: AppId, sends: i64) {
    let statements = include_str!("many_sends.sql");
    let statements = statements.replace("{app}", &app.to_string()).replace("{sends}", &sends.to_string());
    let mut connection = PgConnection::connect(console.installation.servers.database_url()).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await.unwrap();
    sqlx::raw_sql("VACUUM ANALYZE").execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// Returns the bytes of an answer as a browser receives them.
async fn bytes(console: &TestConsole, path: &str, session: &str) -> usize {
    let call = console.call(Method::GET, path).header(COOKIE, format!("tidings-console={session}"));
    let answer = call.header(ACCEPT_ENCODING, "gzip").header("sec-fetch-site", "none").send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    let is_coded = answer.headers().contains_key(CONTENT_ENCODING);
    let body = answer.bytes().await.unwrap();
    assert!(is_coded || body.len() < 1_500, "{path} has {} bytes", body.len());
    body.len()
}

/// Returns the pages with their names, for a send and its first recipient.
async fn pages(console: &TestConsole, session: &str) -> Vec<(&'static str, String)> {
    let sends = console.page("/apps/shop/sends", session).await;
    let at = sends.find("/apps/shop/sends/0").expect("a send");
    let send = sends[at..].split('"').next().unwrap().to_owned();
    vec![
        ("Overview", "/apps/shop".to_owned()),
        ("Sends", "/apps/shop/sends".to_owned()),
        ("Sends of a category", "/apps/shop/sends?q=category:news".to_owned()),
        ("Sends, words that match none", "/apps/shop/sends?q=nothing".to_owned()),
        ("A send", send.clone()),
        ("A send, failed only", format!("{send}?q=status:failed")),
        ("Explanation", format!("{send}/explain?recipient=0")),
        ("People", "/apps/shop/people".to_owned()),
        ("People by beginning", "/apps/shop/people?q=user-1".to_owned()),
        ("A person", "/apps/shop/people/user-7".to_owned()),
        ("Waiting", "/apps/shop/waiting".to_owned()),
        ("Parked", "/apps/shop/parked".to_owned()),
        ("Preview of a redrive", "/apps/shop/parked/redrive?channel=email&cause=451".to_owned()),
        ("Refused", "/apps/shop/refused".to_owned()),
        ("Installation", "/installation".to_owned()),
    ]
}

/// Returns the median and the 95th percentile.
fn middle_and_most(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort();
    (times[times.len() / 2], times[times.len() * 95 / 100])
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_small_and_are_read_in_time() {
    let console = TestConsole::start(|_| {}).await;
    let app = console.installation.app("shop").await;
    let sends = std::env::var("TIDINGS_TEST_SENDS").map_or(SENDS, |sends| sends.parse().unwrap());
    fill(&console, app, sends).await;
    let session = console.operator(Role::Admin, None).await;

    let html = console.page("/apps/shop", &session).await;
    let files: BTreeSet<&str> = html
        .split(['"', '?'])
        .filter(|text| [".css", ".js", ".svg"].iter().any(|end| text.ends_with(end)))
        .collect();
    assert_eq!(files.len(), 3, "a page needs at most 4 requests: {files:?}");
    let mut first = bytes(&console, "/apps/shop", &session).await;
    for file in files {
        first += bytes(&console, file, &session).await;
    }
    println!("{sends} sends. The first page with its files: {first} bytes");
    assert!(first <= MOST_BYTES.0, "{first}");

    println!("| page | median | 95 of 100 | bytes |\n|---|---|---|---|");
    for (name, path) in pages(&console, &session).await {
        let size = bytes(&console, &path, &session).await;
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let began = Instant::now();
            console.page(&path, &session).await;
            times.push(began.elapsed());
        }
        let (middle, most) = middle_and_most(times);
        println!("| {name} | {middle:.1?} | {most:.1?} | {size} |");
        assert!(size <= MOST_BYTES.1, "{name}: {size} bytes");
    }
}
