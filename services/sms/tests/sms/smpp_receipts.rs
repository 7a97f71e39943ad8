use domain::{Answer, Outcome};
use sms::smpp::receipt::{State, TABLE};
use sms::{Receipt, RecordResult};
use stand_ins::smsc::{ReceiptForm, SmscSettings};
use testkit::eventually;
use tokio::time::timeout;

use crate::fixture::{LIMIT, Line, TO, assert_sent, limits, smsc_with};

async fn next(line: &mut Line) -> Receipt {
    timeout(LIMIT, line.receipts.recv()).await.expect("a receipt").unwrap()
}

fn id_of(answer: &Answer) -> String {
    match &answer.outcome {
        Outcome::Sent { provider_id: Some(id) } => id.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn receipts_in_every_form_name_the_message_and_its_state() {
    for receipt_form in [ReceiptForm::Text, ReceiptForm::Parameters, ReceiptForm::TextAndParameters] {
        let settings = SmscSettings { receipt_form, ..SmscSettings::default() };
        let (server, mut line) = smsc_with(settings, limits()).await;
        for (to, outcome, code, words) in [
            (TO, None, "DELIVRD", "err:000"),
            ("+15005550003", Some(Outcome::Failed), "EXPIRED", "err:000"),
            ("+15005550005", Some(Outcome::Failed), "UNDELIV", "err:001"),
            ("+15005550008", Some(Outcome::Failed), "REJECTD", "err:069"),
        ] {
            let id = id_of(&line.send(to, "Hello").await);
            let receipt = next(&mut line).await;
            assert_eq!((receipt.app.0, &*receipt.provider, &receipt.provider_id), (1, "main", &id));
            let outcome = outcome.unwrap_or(Outcome::Sent { provider_id: Some(id) });
            assert_eq!((receipt.answer.outcome, receipt.answer.code.as_str()), (outcome, code));
            let words = if receipt_form == ReceiptForm::Parameters { "" } else { words };
            assert_eq!(receipt.answer.message, words);
            receipt.recorded.send(RecordResult::Done).unwrap();
        }
        eventually(LIMIT, "all are confirmed", async || (server.receipts_taken() == 4).then_some(())).await;
        assert_eq!(server.receipts_left(), 0);
    }
}

#[tokio::test]
async fn every_receipt_state_of_the_table_has_its_outcome() {
    let settings = SmscSettings { receipts: false, ..SmscSettings::default() };
    let (server, mut line) = smsc_with(settings, limits()).await;
    for (number, (_, name, state)) in TABLE.iter().enumerate() {
        let id = id_of(&line.send(TO, "Hello").await);
        assert!(server.report(&id, name, "000"));
        let expected = match name {
            &"DELIVRD" => State::Delivered,
            &"EXPIRED" | &"DELETED" | &"UNDELIV" | &"REJECTD" | &"SKIPPED" => State::Lost,
            _ => State::Pending,
        };
        assert_eq!(*state, expected, "{name}");
        if expected != State::Pending {
            let receipt = next(&mut line).await;
            assert_eq!(receipt.answer.code, *name);
            let is_sent = matches!(receipt.answer.outcome, Outcome::Sent { .. });
            assert_eq!(is_sent, expected == State::Delivered, "{name}");
            receipt.recorded.send(RecordResult::Done).unwrap();
        }
        let taken = async || (server.receipts_taken() == number + 1).then_some(());
        eventually(LIMIT, "the receipt is confirmed", taken).await;
    }
    assert!(line.receipts.try_recv().is_err(), "a receipt without a final state is not recorded");
}

#[tokio::test]
async fn a_receipt_that_could_not_be_recorded_is_redelivered() {
    let (server, mut line) = smsc_with(SmscSettings::default(), limits()).await;
    let id = id_of(&line.send(TO, "Hello").await);
    for recorded in [Some(RecordResult::Later), None, Some(RecordResult::Done)] {
        let receipt = next(&mut line).await;
        assert_eq!(receipt.provider_id, id);
        assert_eq!(server.receipts_taken(), 0, "a receipt is not confirmed before it is recorded");
        match recorded {
            Some(recorded) => receipt.recorded.send(recorded).unwrap(),
            None => drop(receipt),
        }
    }
    eventually(LIMIT, "the receipt is confirmed", async || (server.receipts_taken() == 1).then_some(()))
        .await;
}

#[tokio::test]
async fn the_receipt_of_the_last_part_decides_for_the_message() {
    let (server, mut line) = smsc_with(SmscSettings::default(), limits()).await;
    let id = id_of(&line.send(TO, &"a".repeat(400)).await);
    let receipt = next(&mut line).await;
    assert_eq!(receipt.provider_id, id);
    receipt.recorded.send(RecordResult::Done).unwrap();
    eventually(LIMIT, "the receipt is confirmed", async || (server.receipts_taken() == 1).then_some(()))
        .await;
    assert_eq!((server.submissions(), server.receipts_left()), (3, 0), "three parts get one receipt");
}

#[tokio::test]
async fn no_receipt_is_requested_if_none_is_wanted() {
    let (server, mut line) = smsc_with(SmscSettings::default(), limits()).await;
    line.provider.settings["receipts"] = serde_json::json!(false);
    assert_sent(&line.send(TO, "Hello").await);
    assert_eq!((server.receipts_left(), server.receipts_taken()), (0, 0));
}
