//! Call slots that take several messages, and the heads of subjects whose messages are settled in batches.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{Actor, AppId};
use store::webhooks::{AttemptResult, Depths, DueMessage, Settlement};
use uuid::Uuid;

use super::webhook::PACE;
use crate::{Fixture, RandomNumbers, fixture};

/// Number of random changes.
const STEPS: u32 = 400;

impl Fixture {
    async fn attempts(&self) -> i64 {
        self.count("SELECT sum(attempts)::bigint FROM webhook_message").await
    }
}

fn tokens(messages: &[Vec<DueMessage>]) -> BTreeSet<Uuid> {
    messages.iter().flatten().map(|due| due.token).collect()
}

#[tokio::test]
async fn a_slot_takes_several_messages_and_is_one_call() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    fixture.messages(app, endpoint, 1..=100, 100).await;
    let depths = Depths::from([((app, endpoint), 4), ((AppId(app.0 + 1), endpoint), 9)]);

    let slots = fixture.take(100, &depths).await;
    assert_eq!(
        slots.iter().map(Vec::len).collect::<Vec<_>>(),
        [4; 8],
        "one slot for each call to the endpoint"
    );
    assert_eq!(tokens(&slots).len(), 8);
    let ids: Vec<_> = slots.iter().flatten().map(|due| due.id.as_u128()).collect();
    assert_eq!(ids.iter().copied().collect::<BTreeSet<_>>(), (1..=32).collect(), "the oldest messages");
    assert!(fixture.take(100, &depths).await.is_empty(), "the endpoint has no room for a call");

    fixture.end(&slots[0][..3], AttemptResult::Accepted).await;
    assert!(fixture.take(100, &depths).await.is_empty(), "the slot still has a message");
    fixture.end(&slots[0][3..], AttemptResult::Accepted).await;
    let freed = fixture.take(100, &depths).await;
    assert_eq!(freed.iter().map(Vec::len).collect::<Vec<_>>(), [4]);

    for slot in slots[1..].iter().chain(&freed) {
        fixture.end(slot, AttemptResult::Accepted).await;
    }
    let deeper = fixture.take(3, &Depths::from([((app, endpoint), 1_000)])).await;
    assert_eq!(deeper.iter().map(Vec::len).collect::<Vec<_>>(), [16; 3], "no slot takes more than the limit");
}

#[tokio::test]
async fn a_message_that_was_not_sent_is_due_again_and_has_lost_no_attempt() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    fixture.messages(app, endpoint, 1..=4, 4).await;
    let depths = Depths::from([((app, endpoint), 4)]);
    let slots = fixture.take(1, &depths).await;
    let retry = AttemptResult::Retry { after: Duration::ZERO, pause: None };
    fixture.end(&slots[0][..1], retry).await;
    fixture.end(&slots[0][1..], AttemptResult::NotSent).await;
    assert_eq!(fixture.attempts().await, 1, "only the message that was sent has an attempt");
    assert_eq!(fixture.count("SELECT sum(failures)::bigint FROM webhook_endpoint").await, 1);
    assert_eq!(
        fixture.count("SELECT count(*) FROM webhook_message WHERE last_answer IS NOT NULL").await,
        1,
        "a message that was not sent has no answer"
    );
    fixture.messages(app, endpoint, 5..=9, 100).await;
    let again = fixture.take(1, &Depths::from([((app, endpoint), 5)])).await;
    let attempts: Vec<_> = again[0].iter().map(|due| (due.id.as_u128(), due.attempt)).collect();
    assert_eq!(attempts, [(1, 2), (2, 1), (3, 1), (4, 1), (5, 1)], "before messages that were added later");
}

/// Random inserts, claims, settlements, redeliveries and removals. After each, every subject with pending messages has one head. It
/// is the earliest pending message, unless an earlier one was added again while the head was under way.
#[tokio::test]
async fn every_subject_has_one_head_after_any_change() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let endpoint = fixture.endpoint(app).await;
    let mut random = RandomNumbers(41);
    let mut taken: Vec<DueMessage> = Vec::new();
    for step in 0..STEPS {
        match random.below(12) {
            0 | 1 => {
                let (first, more) = (100 * i64::from(step), random.below(6).cast_signed());
                fixture.messages(app, endpoint, first..=first + more, 3).await;
            }
            2..=5 => {
                let depth = 1 + u32::try_from(random.below(4)).unwrap();
                let depths = Depths::from([((app, endpoint), depth)]);
                taken.extend(fixture.take(2, &depths).await.concat());
            }
            6..=9 => {
                let number = usize::try_from(random.below(taken.len() as u64 + 1)).unwrap();
                let ended: Vec<_> = taken.drain(..number).map(|due| (due, result(&mut random))).collect();
                let settlements: Vec<_> = ended
                    .iter()
                    .map(|(due, settled)| Settlement { due, settled: *settled, answer: "200" })
                    .collect();
                let locked = fixture.store.webhooks().settle_webhooks(&settlements, PACE).await.unwrap();
                assert!(locked.is_empty());
            }
            10 => {
                fixture.store.webhooks().redeliver_webhooks(app, None, None, &Actor::System).await.unwrap();
            }
            _ => fixture.set_up("DELETE FROM webhook_message WHERE number % 17 = 3 AND token IS NULL").await,
        }
        fixture.set_up("UPDATE webhook_endpoint SET failures = 0, paused_until = NULL").await;
        assert_eq!(fixture.count(WRONG_SUBJECTS).await, 0, "step {step}");
    }
}

fn result(random: &mut RandomNumbers) -> AttemptResult {
    match random.below(5) {
        0 => AttemptResult::Retry { after: Duration::ZERO, pause: None },
        1 => AttemptResult::GivenUp,
        2 => AttemptResult::NotSent,
        _ => AttemptResult::Accepted,
    }
}

const WRONG_SUBJECTS: &str = "
    SELECT count(*) FROM (
      SELECT subject FROM webhook_message GROUP BY subject HAVING
        count(*) FILTER (WHERE head) <> (count(*) FILTER (WHERE settled_at IS NULL) > 0)::int
        OR count(*) FILTER (WHERE head AND settled_at IS NOT NULL) > 0
        OR min(number) FILTER (WHERE head AND token IS NULL) <> min(number) FILTER (WHERE settled_at IS NULL)
    ) AS wrong";
