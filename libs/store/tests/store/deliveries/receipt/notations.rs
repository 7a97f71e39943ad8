//! Receipts whose ids are written in another notation than those of the provider's answers.

use domain::receipt::{IdNotation, ReportedMessage};

use super::*;

fn reported(id: &str, notation: IdNotation, ends: &[&str]) -> ReceiptSubject {
    let number_ends = ends.iter().map(|end| (*end).to_owned()).collect();
    let (provider, id) = ("main".to_owned(), id.to_owned());
    ReceiptSubject::ReportedMessage(ReportedMessage { provider, id, notation, number_ends })
}

impl Fixture {
    /// Adds SMS deliveries that the provider has accepted with these ids.
    async fn answered(&self, app: AppId, answered: &[&str]) -> Vec<DeliveryId> {
        let ids = self.deliveries(app, i64::try_from(answered.len()).unwrap()).await;
        sqlx::query("UPDATE delivery SET channel = 'sms', target = '+4915112345678'")
            .execute(&self.pool)
            .await
            .unwrap();
        for (delivery, id) in ids.iter().zip(answered) {
            let sent = Outcome::Sent { provider_id: Some((*id).to_owned()) };
            self.settle_sms(app, *delivery, sent, RecordedStep::End(Status::Sent, None)).await;
        }
        ids
    }

    async fn report(&self, receipt: Receipt) -> ReceiptResult {
        self.store.deliveries().record_receipts(&[receipt], &policy()).await.unwrap()[0]
    }
}

#[tokio::test]
async fn a_receipt_finds_its_message_in_another_notation() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let answered = ["33E9517A", "870928763", "00bba622", " 7f ", "Text-Id", "0"];
    let ids = fixture.answered(app, &answered).await;
    let reports = ["0870928762", "33e9517b", "BBA622", "127", "Text-Id", "0"];
    for (number, (id, report)) in (1..).zip(ids.iter().zip(reports)) {
        let about = reported(report, IdNotation::Auto, &["5678", "0006"]);
        let recorded = fixture.report(receipt(app, number, about, arrived())).await;
        assert_eq!(recorded, ReceiptResult::Settled(Status::Delivered), "{report}");
        assert_eq!(fixture.state(app, *id).await.0, Status::Delivered, "{report}");
    }
}

#[tokio::test]
async fn a_receipt_that_could_be_about_two_messages_or_another_number_changes_none() {
    let fixture = fixture().await;
    let (app, bank) = (fixture.app("shop").await, fixture.app("bank").await);
    let ids = fixture.answered(app, &["AB", "0ab", "10", "CD"]).await;
    let of_bank = ReportedMessage {
        provider: "main".to_owned(),
        id: "CD".to_owned(),
        notation: IdNotation::Auto,
        number_ends: Vec::new(),
    };
    let other_provider = ReportedMessage { provider: "backup".to_owned(), ..of_bank.clone() };
    for (number, (app, about)) in (1..).zip([
        (app, reported("ab", IdNotation::Auto, &[])),
        (app, reported("16", IdNotation::Auto, &[])),
        (app, reported("CD", IdNotation::Auto, &["4321"])),
        (app, reported("cd", IdNotation::Same, &[])),
        (bank, ReceiptSubject::ReportedMessage(of_bank)),
        (app, ReceiptSubject::ReportedMessage(other_provider)),
    ]) {
        let recorded = fixture.report(receipt(app, number, about.clone(), arrived())).await;
        assert_eq!(recorded, ReceiptResult::Early, "{about:?}");
    }
    for id in ids {
        assert_eq!(fixture.state(app, id).await.0, Status::Sent);
    }
}

#[tokio::test]
async fn a_receipt_keeps_its_notation_until_its_message_is_settled() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let about = reported("16", IdNotation::Decimal, &["5678"]);
    assert_eq!(fixture.report(receipt(app, 1, about, arrived())).await, ReceiptResult::Early);
    let id = fixture.answered(app, &["0010"]).await[0];
    sqlx::query("UPDATE early_receipt SET next_look_at = now()").execute(&fixture.pool).await.unwrap();
    assert_eq!(fixture.store.deliveries().record_early_receipts(10, &policy(), 0.5).await.unwrap(), 1);
    assert_eq!(fixture.state(app, id).await.0, Status::Delivered);
}

#[tokio::test]
async fn a_missed_receipt_is_counted_once_and_shown() {
    let fixture = fixture().await;
    let app = fixture.app("shop").await;
    let delivery = fixture.deliveries(app, 1).await[0];
    fixture.claim_sms(app, delivery).await;
    fixture.report(receipt(app, 1, reported("a1", IdNotation::Auto, &[]), arrived())).await;
    // This receipt waits for the end of an attempt, not for an unknown message.
    fixture.report(receipt(app, 2, of(delivery), arrived())).await;
    let missed = async |after| fixture.store.deliveries().missed_receipts(after, 10).await.unwrap();
    assert_eq!(missed(LEASE).await, []);
    let found = missed(Duration::ZERO).await;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].app, found[0].provider.as_str(), found[0].id.as_str()), (app, "main", "a1"));
    assert_eq!(missed(Duration::ZERO).await, []);
    let shown = fixture.store.deliveries().unmatched_receipts(app, "main", 5).await.unwrap();
    assert_eq!(shown, ["a1"]);
    assert!(fixture.store.deliveries().unmatched_receipts(app, "backup", 5).await.unwrap().is_empty());
}
