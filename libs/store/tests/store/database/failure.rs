//! Failure counts of messages.

use domain::{Lane, StreamName};
use store::database::failure::{MAX_FAILURES, ParkRequest};
use uuid::Uuid;

use crate::{fixture, send_id};

const STREAM: StreamName = StreamName::Send(Lane::Bulk);

#[tokio::test]
async fn failures_are_counted_per_message() {
    let fixture = fixture().await;
    for expected in 1..=MAX_FAILURES {
        assert_eq!(fixture.store.database().count_failure(STREAM, 7, "broken").await.unwrap(), expected);
    }
    let other_stream = StreamName::Send(Lane::Transactional);
    assert_eq!(fixture.store.database().count_failure(STREAM, 8, "broken").await.unwrap(), 1);
    assert_eq!(fixture.store.database().count_failure(other_stream, 7, "broken").await.unwrap(), 1);
}

#[tokio::test]
async fn a_processed_message_loses_its_failure_count() {
    let fixture = fixture().await;
    for seq in [7, 8] {
        fixture.store.database().count_failure(STREAM, seq, "broken").await.unwrap();
    }
    fixture.store.database().forget_failure(STREAM, 7).await.unwrap();
    assert_eq!(fixture.store.database().count_failure(STREAM, 7, "broken").await.unwrap(), 1);
    assert_eq!(fixture.store.database().count_failure(STREAM, 8, "broken").await.unwrap(), 2);
}

#[tokio::test]
async fn parking_a_message_removes_its_failure_count() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    fixture.store.database().count_failure(STREAM, 7, "broken").await.unwrap();
    fixture.store.database().count_failure(STREAM, 8, "broken").await.unwrap();
    let message = ParkRequest {
        id: Uuid::from_u128(1),
        app: Some(app),
        send_id: Some(send_id(1)),
        stream: STREAM,
        seq: 7,
        message: &[0, 255],
        cause: "broken",
    };
    fixture.store.database().park_message(&message).await.unwrap();
    let parked = "SELECT count(*) FROM parked WHERE app_id IS NOT NULL AND stream = 'SEND_bulk'
                  AND message = '\\x00ff' AND cause = 'broken'";
    assert_eq!(fixture.count(parked).await, 1);
    assert_eq!(fixture.store.database().count_failure(STREAM, 7, "broken").await.unwrap(), 1);
    assert_eq!(fixture.store.database().count_failure(STREAM, 8, "broken").await.unwrap(), 2);
}
