//! Texts and parameters of receipts, as message centres write them.

use domain::receipt::IdNotation;
use proptest::prelude::*;
use sms::RecordResult;
use sms::smpp::incoming::IncomingMessage;
use sms::smpp::receipt::DeliveryReceipt;
use stand_ins::smsc::{ReceiptForm, ReceiptIds, SmscSettings};
use tokio::time::timeout;

use crate::fixture::{LIMIT, TO, assert_sent, limits, smsc_with};

fn receipt(text: &str) -> IncomingMessage {
    IncomingMessage {
        source: "4915112345678".to_owned(),
        destination: "15005550006".to_owned(),
        esm_class: 4,
        octets: text.as_bytes().to_vec(),
        ..IncomingMessage::default()
    }
}

fn read(message: &IncomingMessage) -> Option<(String, &'static str)> {
    DeliveryReceipt::read(message).map(|receipt| (receipt.message_id, receipt.state))
}

#[test]
fn receipts_are_read_in_the_forms_that_message_centres_use() {
    let rest = "sub:001 dlvrd:001 submit date:2601020304 done date:2601020305";
    for (text, expected) in [
        (format!("id:a1 {rest} stat:DELIVRD err:000 text:Hello"), Some(("a1", "DELIVRD"))),
        (format!("id: 1 {rest} stat: UNDELIV err: 001 text:"), Some(("1", "UNDELIV"))),
        (format!("ID:0001\0 {rest} Stat:delivrd Err:0"), Some(("0001", "DELIVRD"))),
        ("id:1\tstat:DELIVERED\r\n".to_owned(), Some(("1", "DELIVRD"))),
        ("id:1 stat:REJECTED".to_owned(), Some(("1", "REJECTD"))),
        ("id:1 stat:Undeliverable".to_owned(), Some(("1", "UNDELIV"))),
        // The text quotes the message, which may look like a receipt.
        ("id:1 sub:001 text:stat:DELIVRD".to_owned(), None),
        ("id:1 text:x stat:DELIVRD".to_owned(), None),
        ("id: stat:DELIVRD".to_owned(), None),
        ("stat:DELIVRD".to_owned(), None),
        ("id:1 stat:NONSENSE".to_owned(), None),
        (format!("id:{} stat:DELIVRD", "1".repeat(65)), None),
        (String::new(), None),
    ] {
        let expected = expected.map(|(id, state)| (id.to_owned(), state));
        assert_eq!(read(&receipt(&text)), expected, "{text:?}");
    }
}

#[test]
fn parameters_and_encodings_of_receipts_are_read() {
    let text = "id:1 stat:DELIVRD";
    let ucs2: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
    let in_ucs2 = IncomingMessage { data_coding: 8, octets: ucs2, ..receipt("") };
    assert_eq!(read(&in_ucs2), Some(("1".to_owned(), "DELIVRD")));
    let parameters = IncomingMessage { receipted_id: Some("A2".to_owned()), state: Some(5), ..receipt(text) };
    assert_eq!(read(&parameters), Some(("A2".to_owned(), "UNDELIV")));
    // Not marked as a receipt: only the message centre can set the parameters, but a person can write the text.
    let unmarked = IncomingMessage { esm_class: 0, ..parameters };
    assert_eq!(read(&unmarked), Some(("A2".to_owned(), "UNDELIV")));
    assert_eq!(read(&IncomingMessage { esm_class: 0, ..receipt(text) }), None);
    let ends = DeliveryReceipt::read(&receipt(text)).unwrap().number_ends;
    assert_eq!(ends, ["5678", "0006"]);
}

#[tokio::test]
async fn a_receipt_names_its_notation_and_the_ends_of_its_numbers() {
    let settings = SmscSettings {
        receipt_form: ReceiptForm::Text,
        receipt_ids: ReceiptIds::Spaced,
        ..SmscSettings::default()
    };
    let (_server, mut line) = smsc_with(settings, limits()).await;
    line.provider.settings["receiptIds"] = serde_json::json!("decimal");
    assert_sent(&line.send(TO, "Hello").await);
    let receipt = timeout(LIMIT, line.receipts.recv()).await.expect("a receipt").unwrap();
    assert_eq!(receipt.notation, IdNotation::Decimal);
    assert_eq!(receipt.provider_id, receipt.provider_id.trim());
    assert_eq!(receipt.number_ends, ["5678", "0006"]);
    receipt.recorded.send(RecordResult::Done).unwrap();
}

proptest! {
    #[test]
    fn any_octets_can_be_read(
        octets in proptest::collection::vec(any::<u8>(), 0..200), esm_class: u8, data_coding: u8, source in "\\PC{0,21}",
        source_ton: u8, state in proptest::option::of(any::<u8>()), receipted_id in proptest::option::of("\\PC{0,70}"),
    ) {
        let destination = String::new();
        let message =
            IncomingMessage { source, source_ton, destination, esm_class, data_coding, octets, receipted_id, state };
        let is_readable = DeliveryReceipt::read(&message).is_some();
        prop_assert!(!is_readable || DeliveryReceipt::is_receipt(&message));
        prop_assert!(message.texts().len() <= 3);
        let number = message.sender(Some("49"));
        prop_assert!(number.is_none_or(|number| domain::sms::number::is_e164(&number)));
    }

    #[test]
    fn a_receipt_of_any_text_is_read(text in "((id|stat|err|text|sub):? ?[a-zA-Z0-9é]{0,9}[ \t\0]){0,9}") {
        if let Some(receipt) = DeliveryReceipt::read(&receipt(&text)) {
            prop_assert!(!receipt.message_id.is_empty() && !receipt.message_id.contains(char::is_whitespace));
        }
    }
}
