//! Status of requests.

use std::collections::BTreeMap;

use domain::{AppId, Channel, Reason, SendId, Status};
use store::sends::pairs::{PairFilter, PairStatus};
use uuid::Uuid;

use crate::{Fixture, fixture};

const SEND: SendId = SendId(Uuid::from_u128(1));

impl Fixture {
    async fn run_for(&self, app: AppId, statement: &'static str) {
        sqlx::query(statement).bind(app.0).bind(SEND.0).execute(&self.pool).await.unwrap();
    }

    /// Adds a request to four recipients. Ada's inbox item is projected; she has two phones and has turned off email. Bob's
    /// inbox item is not projected yet; his email was sent at the second attempt. Eve is unknown. Cy's inbox item could not
    /// be rendered.
    async fn add_request(&self, app: AppId) {
        self.run_for(
            app,
            "INSERT INTO request (app_id, send_id, accepted_at, lane, recipients)
             VALUES ($1, $2, now(), 'transactional', 5)",
        )
        .await;
        self.run_for(
            app,
            "INSERT INTO planned_recipient
                 (app_id, send_id, recipient_index, turn, identifier, user_number, in_app, skips)
             VALUES ($1, $2, 0, 0, 'ada', 1, true, '{email:preference_off}'),
                    ($1, $2, 1, 0, 'bob', 2, true, '{sms:no_provider}'),
                    ($1, $2, 2, 0, 'eve', NULL, false, '{inApp:recipient_unknown,email:recipient_unknown}'),
                    ($1, $2, 3, 0, 'cy', 3, false, '{inApp:template_error}')",
        )
        .await;
        self.run_for(
            app,
            "INSERT INTO inbox_item (app_id, user_number, id, send_id, created_at, content, event_id)
             VALUES ($1, 1, 10, $2, now(), '{}', gen_random_uuid())",
        )
        .await;
        self.run_for(
            app,
            "INSERT INTO delivery (app_id, id, send_id, recipient_index, user_number, channel, target, status, reason)
             VALUES ($1, '00000000-0000-0000-0000-0000000000a1', $2, 0, 1, 'mobilePush', 'fcm:x', 'queued', NULL),
                    ($1, '00000000-0000-0000-0000-0000000000a2', $2, 0, 1, 'mobilePush', 'fcm:y', 'failed', 'target_gone'),
                    ($1, '00000000-0000-0000-0000-0000000000b1', $2, 1, 2, 'email', 'bob@example.com', 'sent', NULL)",
        )
        .await;
        self.run_for(
            app,
            "INSERT INTO attempt (app_id, delivery_id, number, started_at, ended_at, outcome, provider_code,
                                  provider_message, provider_id)
             SELECT $1, '00000000-0000-0000-0000-0000000000b1', n, now(), now(), 'sent', '250', $2::text, 'p' || n
             FROM generate_series(1, 2) AS n",
        )
        .await;
    }

    async fn all_pages(&self, app: AppId, filter: PairFilter<'_>, limit: i64) -> Vec<PairStatus> {
        let mut all: Vec<PairStatus> = Vec::new();
        loop {
            let after = all.last().map(|last| last.position);
            let page = self.store.sends().list_pairs(app, SEND, filter, after, limit).await.unwrap();
            assert!(page.len() <= usize::try_from(limit).unwrap());
            if page.is_empty() {
                return all;
            }
            all.extend(page);
        }
    }
}

fn brief(deliveries: &[PairStatus]) -> Vec<(&str, Channel, Status, Option<Reason>)> {
    let brief = |one: &PairStatus| (one.position.channel, one.status, one.reason);
    deliveries
        .iter()
        .map(|one| {
            let (channel, status, reason) = brief(one);
            (one.recipient.as_deref().unwrap_or_default(), channel, status, reason)
        })
        .collect()
}

#[tokio::test]
async fn a_request_counts_every_channel_by_status() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    assert_eq!(fixture.store.sends().find_request(app, SEND).await.unwrap(), None);
    fixture.add_request(app).await;
    let request = fixture.store.sends().find_request(app, SEND).await.unwrap().unwrap();
    assert_eq!((request.recipients, request.planned, request.cancelled), (5, 4, false));
    let expected = BTreeMap::from([
        (
            Channel::InApp,
            BTreeMap::from([
                (Status::Queued, 1),
                (Status::Delivered, 1),
                (Status::Failed, 1),
                (Status::Skipped, 1),
            ]),
        ),
        (Channel::Email, BTreeMap::from([(Status::Sent, 1), (Status::Skipped, 2)])),
        (Channel::MobilePush, BTreeMap::from([(Status::Queued, 1), (Status::Failed, 1)])),
        (Channel::Sms, BTreeMap::from([(Status::Skipped, 1)])),
    ]);
    assert_eq!(request.counts, expected);
    assert_eq!(fixture.store.sends().find_acceptance(app, SEND).await.unwrap(), Some(request.accepted_at));
    assert_eq!(fixture.store.sends().find_acceptance(other, SEND).await.unwrap(), None);
    assert_eq!(fixture.store.sends().find_request(other, SEND).await.unwrap(), None);
}

#[tokio::test]
async fn deliveries_are_paged_in_the_order_of_the_recipients() {
    let fixture = fixture().await;
    let (app, other) = (fixture.app("shop").await, fixture.app("bank").await);
    fixture.add_request(app).await;
    let all = fixture.all_pages(app, PairFilter::default(), 100).await;
    use Channel::{Email, InApp, MobilePush, Sms};
    let expected = [
        ("ada", Email, Status::Skipped, Some(Reason::PreferenceOff)),
        ("ada", InApp, Status::Delivered, None),
        ("ada", MobilePush, Status::Queued, None),
        ("ada", MobilePush, Status::Failed, Some(Reason::TargetGone)),
        ("bob", Email, Status::Sent, None),
        ("bob", InApp, Status::Queued, None),
        ("bob", Sms, Status::Skipped, Some(Reason::NoProvider)),
        ("eve", Email, Status::Skipped, Some(Reason::RecipientUnknown)),
        ("eve", InApp, Status::Skipped, Some(Reason::RecipientUnknown)),
        ("cy", InApp, Status::Failed, Some(Reason::TemplateError)),
    ];
    assert_eq!(brief(&all), expected);
    for limit in 1..4 {
        assert_eq!(fixture.all_pages(app, PairFilter::default(), limit).await, all, "pages of {limit}");
    }
    let sent = &all[4];
    assert_eq!(sent.target.as_deref(), Some("bob@example.com"));
    let numbers: Vec<_> =
        sent.attempts.iter().map(|attempt| (attempt.number, attempt.provider_id.as_deref())).collect();
    assert_eq!(numbers, [(1, Some("p1")), (2, Some("p2"))]);
    assert!(all[3].attempts.is_empty());
    assert_eq!(fixture.all_pages(other, PairFilter::default(), 100).await, []);
}

#[tokio::test]
async fn an_inbox_item_that_may_have_been_removed_counts_as_delivered() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_request(app).await;
    fixture.store.database().fix_partitions(1).await.unwrap();
    let in_app = async || {
        let request = fixture.store.sends().find_request(app, SEND).await.unwrap().unwrap();
        let of_status = |status| request.counts[&Channel::InApp].get(&status).copied().unwrap_or(0);
        let counts = (of_status(Status::Queued), of_status(Status::Delivered));
        let filter = PairFilter { channel: Some(Channel::InApp), ..PairFilter::default() };
        let pairs = fixture.all_pages(app, filter, 100).await;
        let listed =
            |status| i64::try_from(pairs.iter().filter(|pair| pair.status == status).count()).unwrap();
        assert_eq!((listed(Status::Queued), listed(Status::Delivered)), counts);
        counts
    };
    let remove_before = async |request: &'static str| {
        fixture.run_for(app, "DELETE FROM inbox_item WHERE app_id = $1 AND send_id = $2").await;
        fixture.run_for(app, request).await;
        in_app().await
    };
    assert_eq!(in_app().await, (1, 1));
    // The items of this send are not old enough.
    let same = "UPDATE installation SET inbox_removed_before = accepted_at FROM request
                WHERE app_id = $1 AND send_id = $2";
    assert_eq!(remove_before(same).await, (2, 0));
    let later = "UPDATE installation SET inbox_removed_before = accepted_at + interval '1 ms' FROM request
                 WHERE app_id = $1 AND send_id = $2";
    assert_eq!(remove_before(later).await, (0, 2));
    // The items of a scheduled send are as old as its scheduled time.
    let scheduled =
        "UPDATE request SET send_at = accepted_at + interval '1 hour' WHERE app_id = $1 AND send_id = $2";
    assert_eq!(remove_before(scheduled).await, (2, 0));
}

#[tokio::test]
async fn deliveries_can_be_filtered() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.add_request(app).await;
    let none = PairFilter::default();
    let cases = [
        (PairFilter { recipient: Some("bob"), ..none }, 3),
        (PairFilter { channel: Some(Channel::MobilePush), ..none }, 2),
        (PairFilter { status: Some(Status::Failed), ..none }, 2),
        (PairFilter { status: Some(Status::Failed), channel: Some(Channel::InApp), ..none }, 1),
        (PairFilter { recipient: Some("nobody"), ..none }, 0),
    ];
    for (filter, expected) in cases {
        assert_eq!(fixture.all_pages(app, filter, 1).await.len(), expected, "{filter:?}");
    }
}
