//! Flood of sends. The email worker does not run at first, so sends fill the streams until the dispatcher pauses and the gateway
//! refuses more sends. Then a generator offers ten times the accepted load. A third of the way through, the email worker starts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use domain::Lane;
use reqwest::Client;
use suite::{Role, pace};
use testkit::eventually;
use uuid::Uuid;

use crate::generator::{
    Accepted, OfferedLoad, PEOPLE, Request, body, fill, offer, person, recipients, title,
};
use crate::scale::Scale;
use crate::system::System;

/// Memory limit of every process in MiB, in release and debug builds.
const MOST_MEMORY: u64 = 256;
/// Maximum number of messages of a stream: the smallest that can be configured.
const STREAM: &str = "1000";
/// Maximum number of concurrently waiting requests.
const WAITING_ROOM: &str = "16";
/// Percentage of the planned requests that the generator must manage to make; the machine may be too slow for all of them.
const MADE: usize = 90;
const SOON: Duration = Duration::from_secs(60);
/// Rate limits that no load generator reaches.
const UNLIMITED: [&str; 2] = ["rate-limit=100000", "transactional-rate=100000"];
const LIMITED: [&str; 2] = ["rate-limit=default", "transactional-rate=default"];
/// Time limit without progress while deliveries are settled. It is longer than the lease of 90 s, for which a delivery waits whose
/// claim was committed after the worker had stopped waiting for it.
const STALLED_AFTER: Duration = Duration::from_secs(120);

pub(crate) struct Report {
    /// Sends that filled the streams.
    filled: OfferedLoad,
    offered: OfferedLoad,
    scale: Scale,
    memory: BTreeMap<&'static str, u64>,
}

/// Floods a system, and checks the results.
pub(crate) async fn run(scale: &Scale) -> Report {
    let rate_limit = scale.rate_limit.to_string();
    let limits = [
        ("TIDINGS_NATS__MAX_MESSAGES", STREAM),
        ("TIDINGS_GATEWAY__WAITING_ROOM", WAITING_ROOM),
        ("TIDINGS_GATEWAY__RATE_LIMIT", &rate_limit),
        ("TIDINGS_GATEWAY__TRANSACTIONAL_RATE", &rate_limit),
        ("TIDINGS_DATABASE__MAX_CONNECTIONS", "4"),
    ];
    let mut system = System::start(&[Role::Gateway, Role::Dispatcher, Role::Inbox], &limits).await;
    system.set_app(&UNLIMITED);
    system.create_people(&(0..PEOPLE).map(person).collect::<Vec<_>>()).await;
    let filled = fill(system.request()).await;
    eventually(SOON, "the dispatcher pauses the lane", async || {
        system.is_dispatch_paused(Lane::Transactional).await.then_some(())
    })
    .await;
    limit(&system, scale.rate_limit).await;
    let flood = tokio::spawn(offer(system.request(), *scale));
    let mut third = pace(scale.span / 3);
    third.tick().await;
    third.tick().await;
    system.start(&[Role::Email]);
    let offered = flood.await.unwrap();
    let accepted = filled.accepted.iter().chain(&offered.accepted);
    let accepted = accepted.map(|(send, request)| (*send, request.clone())).collect();
    let doubtful = filled.doubtful.iter().chain(&offered.doubtful).map(|&send| title(send)).collect();
    everything_is_settled(&system, &accepted).await;
    every_recipient_has_it_once(&system, &accepted, &doubtful).await;
    log_accepts_sends_again(&system).await;
    let report = Report { filled, offered, scale: *scale, memory: system.most_memory() };
    report.check();
    report
}

/// Waits until the gateway applies the configured rate.
async fn limit(system: &System, rate_limit: u32) {
    system.set_app(&LIMITED);
    let (client, request, limit) = (Client::new(), system.request(), rate_limit.to_string());
    let trying = Request { url: format!("{}?dryRun=true", request.url), ..request };
    eventually(SOON, "the gateway applies the rate limit", async || {
        let answer = trying.send(&client, &body(0)).await;
        (answer.headers().get("ratelimit-limit")?.to_str().unwrap() == limit).then_some(())
    })
    .await;
}

impl Report {
    fn check(&self) {
        let Report { filled, offered, scale, memory } = self;
        let wanted = usize::try_from(scale.span.as_secs()).unwrap() * scale.offered_per_second as usize;
        assert!(offered.made() * 100 >= wanted * MADE, "too few of the planned requests were made: {self}");
        // The rate limit also admits a burst of one second's requests.
        let taken = (offered.took + Duration::from_secs(1)).as_secs_f64() * f64::from(scale.rate_limit);
        assert!(f64::from(u32::try_from(offered.accepted.len()).unwrap()) <= taken, "{self}");
        assert!(
            filled.refused.keys().eq([&503]),
            "sends were refused for another reason than full streams: {self}"
        );
        assert!(offered.refused.contains_key(&429), "{self}");
        assert!(memory.values().all(|most| *most <= MOST_MEMORY), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { filled, offered, scale, memory } = self;
        let OfferedLoad { accepted, refused, not_made, took, .. } = offered;
        writeln!(
            f,
            "flood: streams full after {} sends, {:?}; {} requests within {took:?} over {} connections \
             ({not_made} more were dropped, because no connection was free), {} of them accepted and delivered; \
             refused by status: {refused:?}",
            filled.accepted.len(),
            filled.refused,
            offered.made(),
            scale.connections,
            accepted.len(),
        )?;
        write!(f, "peak memory in MiB, limit {MOST_MEMORY}: {memory:?}")
    }
}

async fn everything_is_settled(system: &System, accepted: &Accepted) {
    let wanted: i64 =
        i64::try_from(accepted.keys().map(|&send| recipients(send).count()).sum::<usize>()).unwrap();
    let sends: Vec<Uuid> = accepted.values().map(|id| id.parse().unwrap()).collect();
    let count = async |query: &'static str| -> i64 {
        sqlx::query_scalar(query).bind(&sends).fetch_one(&system.database).await.unwrap()
    };
    let mut last = (-1, -1);
    loop {
        let now = eventually(
            STALLED_AFTER,
            &format!("the counts of items and deliveries exceed {last:?} of {wanted}"),
            async || {
                let items = count("SELECT count(*) FROM inbox_item WHERE send_id = ANY($1)").await;
                let sent = "SELECT count(*) FROM delivery WHERE status = 'sent' AND send_id = ANY($1)";
                let sent = count(sent).await;
                ((items, sent) != last).then_some((items, sent))
            },
        )
        .await;
        if now == (wanted, wanted) {
            return;
        }
        last = now;
    }
}

/// Checks that recipients have every accepted send exactly once, and no send with a title in `doubtful` twice.
async fn every_recipient_has_it_once(system: &System, accepted: &Accepted, doubtful: &BTreeSet<String>) {
    let shown: Vec<(String, String, String)> = sqlx::query_as(
        "SELECT identifier, content->>'title', send_id::text FROM inbox_item
         JOIN app_user ON (app_user.app_id, number) = (inbox_item.app_id, user_number)",
    )
    .fetch_all(&system.database)
    .await
    .unwrap();
    let promised: BTreeSet<(String, String, String)> = accepted
        .iter()
        .flat_map(|(&send, request)| recipients(send).map(move |name| (name, title(send), request.clone())))
        .collect();
    let (late, shown): (Vec<_>, Vec<_>) =
        shown.into_iter().partition(|(_, title, _)| doubtful.contains(title));
    assert_eq!(shown.len(), promised.len(), "number of items in inboxes");
    assert_eq!(shown.into_iter().collect::<BTreeSet<_>>(), promised);
    let distinct: BTreeSet<_> = late.iter().map(|(name, title, _)| (name, title)).collect();
    assert_eq!(distinct.len(), late.len(), "an item of a refused send is shown twice: {late:?}");

    let mut sent: BTreeMap<(String, String), usize> = BTreeMap::new();
    for email in system.outbox.captures() {
        let text = String::from_utf8_lossy(&email.raw).into_owned();
        let subject = text.lines().find_map(|line| line.strip_prefix("Subject: ")).unwrap().to_owned();
        *sent.entry((email.to[0].clone(), subject)).or_default() += 1;
    }
    let promised = accepted.keys().flat_map(|&send| {
        recipients(send).map(move |name| ((format!("{name}@example.com"), title(send)), 1))
    });
    let (late, sent): (BTreeMap<(String, String), usize>, BTreeMap<_, _>) =
        sent.into_iter().partition(|((_, subject), _)| doubtful.contains(subject));
    assert!(sent == promised.collect(), "some emails were not sent exactly once");
    assert!(late.values().all(|&times| times == 1), "emails of refused sends were sent twice: {late:?}");
}

async fn log_accepts_sends_again(system: &System) {
    let (request, client) = (system.request(), Client::new());
    eventually(SOON, "a send is accepted again", async || {
        (request.send(&client, &body(0)).await.status() == 202).then_some(())
    })
    .await;
}
