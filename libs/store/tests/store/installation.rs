//! What belongs to the installation.

use domain::{StreamName, Timestamp};
use store::installation::KnownStream;

use crate::{NOW, fixture};

#[tokio::test]
async fn the_number_of_partitions_is_fixed_by_the_first() {
    let fixture = fixture().await;
    assert_eq!(fixture.store.partitions().await.unwrap(), None);
    let (one, other) = tokio::join!(fixture.store.fix_partitions(4), fixture.store.fix_partitions(2));
    assert_eq!(one.unwrap(), other.unwrap());
    let fixed = fixture.store.partitions().await.unwrap().unwrap();
    assert_eq!(fixture.store.fix_partitions(7).await.unwrap(), fixed);
}

#[tokio::test]
async fn a_stream_stays_as_it_was_recorded_first() {
    let fixture = fixture().await;
    let stream = |name, created_at| KnownStream { name, created_at };
    let (inbox, later) = (StreamName::Inbox(0), Timestamp::from_millis(NOW.millis() + 1));
    fixture.store.record_streams(&[stream(inbox, NOW)]).await.unwrap();
    fixture.store.record_streams(&[stream(inbox, later), stream(StreamName::Outcome, later)]).await.unwrap();
    let recorded = fixture.store.recorded_streams().await.unwrap();
    let expected = [("INBOX_0".to_owned(), NOW), ("OUTCOME".to_owned(), later)];
    assert_eq!(recorded, expected.into());
}
