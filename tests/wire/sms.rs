use domain::content::{Content, SmsContent};
use domain::event::DeliveryJob;
use domain::sms::gsm7;
use domain::sms::keyword::Keyword;
use domain::{AppId, Channel, DeliveryId, Lane, Outcome, Timestamp, UserNumber};
use serde_json::{Value, json};
use service_kit::Tasks;
use sms::{Limits, RecordResult, SmsSender};
use stand_ins::outbox::Outbox;
use stand_ins::smsc::{SmscSettings, SmscStandIn};
use testkit::eventually;
use uuid::Uuid;
use worker::{Call, Lease, Outbound, Provider};

use crate::python::ask;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(40);
const LEASE: std::time::Duration = std::time::Duration::from_secs(90);
const TO: &str = "+4915112345678";

fn provider(settings: Value) -> Provider {
    Provider { app: AppId(1), identifier: "main".to_owned(), kind: "smpp".to_owned(), settings, version: 1 }
}

async fn outcome(sender: &SmsSender, provider: &Provider, text: &str) -> Outcome {
    let content = Content::Sms(SmsContent { text: text.to_owned(), from: None });
    let id = DeliveryId(Uuid::from_u128(7));
    let now = Timestamp::from_millis(1_767_323_045_000);
    let job = DeliveryJob {
        expires_at: Some(now + LEASE),
        ..DeliveryJob::first(id, Channel::Sms, UserNumber(1), TO.to_owned(), content)
    };
    let lane = Lane::Transactional;
    let (app, lease) = (AppId(1), &Lease::lasting(LEASE));
    sender.attempt(&Call { app, send_id: None, lane, provider, job: &job, now, lease }).await.outcome
}

/// Sends texts to the message centre at this port, receives the receipt of the first text, and unbinds.
async fn talk(port: u16, texts: &[&str], payload: bool) {
    let tasks = Tasks::new();
    let limits = Limits::for_lease(LEASE);
    let (sender, mut receipts) = SmsSender::start(Outbound::new(true), None, limits, tasks.clone()).unwrap();
    let concatenation = if payload { "payload" } else { "udh" };
    let provider = provider(json!({
        "host": "127.0.0.1", "port": port, "systemId": "shop", "password": "secret", "from": "Shop",
        "concatenation": concatenation,
    }));
    let mut keywords = sender.keywords().unwrap();
    for text in texts {
        let id = eventually(LIMIT, "the message centre accepts the message", async || {
            match outcome(&sender, &provider, text).await {
                Outcome::Sent { provider_id } => provider_id,
                Outcome::Retry { .. } => None,
                other => panic!("{other:?}"),
            }
        })
        .await;
        let receipt = tokio::time::timeout(LIMIT, receipts.recv()).await.unwrap().unwrap();
        let arrived = Outcome::Sent { provider_id: Some(id.clone()) };
        assert_eq!((receipt.provider_id, receipt.answer.outcome), (id, arrived));
        receipt.recorded.send(RecordResult::Done).unwrap();
    }
    let stop = tokio::time::timeout(LIMIT, keywords.recv()).await.unwrap().unwrap();
    assert_eq!((stop.number.as_str(), stop.keyword), (TO, Keyword::Stop));
    stop.recorded.send(RecordResult::Done).unwrap();
    drop(sender);
    tasks.stop();
    tasks.finish().await.unwrap();
}

fn of<'a>(seen: &'a Value, command: &str) -> Vec<&'a Value> {
    seen.as_array().unwrap().iter().filter(|pdu| pdu["command"] == command).collect()
}

#[tokio::test]
async fn a_message_centre_of_another_library_reads_our_messages() {
    let (cyrillic, long) = (format!("Привет 😀 {}", "ж".repeat(61)), "€ 0123456789 {ß}".repeat(12));
    let texts = ["Grüße, 5 € [~]", cyrillic.as_str(), long.as_str()];
    for payload in [false, true] {
        let port = local_servers::port::free().unwrap();
        let question = json!({"role": "centre", "port": port});
        let (seen, ()) = tokio::join!(ask("sms.py", &question), talk(port, &texts, payload));
        let bind = &of(&seen, "bind_transceiver")[0];
        assert_eq!(
            (&bind["system_id"], &bind["password"], &bind["interface_version"]),
            (&json!("shop"), &json!("secret"), &json!(0x34))
        );
        let submissions = of(&seen, "submit_sm");
        let said: String = submissions.iter().map(|pdu| pdu["text"].as_str().unwrap()).collect();
        assert_eq!(said, texts.concat());
        assert_eq!(submissions.len(), if payload { 3 } else { 5 });
        for pdu in &submissions {
            assert_eq!((&pdu["source_addr"], &pdu["source_addr_ton"]), (&json!("Shop"), &json!(5)));
            let to = (&pdu["destination_addr"], &pdu["dest_addr_ton"], &pdu["dest_addr_npi"]);
            assert_eq!(to, (&json!("4915112345678"), &json!(1), &json!(1)));
            assert_eq!(pdu["validity_period"], "260102030535000+");
        }
        let headers: Vec<_> = submissions.iter().map(|pdu| pdu["header"].clone()).collect();
        let esm_classes: Vec<_> = submissions.iter().map(|pdu| pdu["esm_class"].clone()).collect();
        let receipts: Vec<_> = submissions.iter().map(|pdu| pdu["registered_delivery"].clone()).collect();
        if payload {
            assert_eq!(headers, vec![json!([]); 3]);
            assert_eq!(esm_classes, vec![Value::Null; 3]);
            assert_eq!(receipts, vec![json!(1); 3]);
        } else {
            let part = |total, number| json!([5, 0, 3, 7, total, number]);
            assert_eq!(headers, [json!([]), part(2, 1), part(2, 2), part(2, 1), part(2, 2)]);
            assert_eq!(esm_classes, [Value::Null, json!(64), json!(64), json!(64), json!(64)]);
            assert_eq!(receipts, [json!(1), Value::Null, json!(1), Value::Null, json!(1)]);
        }
        assert_eq!(of(&seen, "enquire_link_resp").len(), 1);
        assert_eq!(of(&seen, "deliver_sm_resp").len(), 4);
        assert_eq!(of(&seen, "unbind").len(), 1);
    }
}

#[tokio::test]
async fn a_client_of_another_library_works_with_the_stand_in() {
    let server = SmscStandIn::start(SmscSettings::default(), Outbox::in_memory()).await.unwrap();
    let long = "abc ".repeat(90);
    let texts = ["Hello", "Привет", long.trim_end()];
    let question = json!({
        "role": "client", "port": server.address().port(), "login": ["shop", "secret"], "texts": texts,
    });
    let seen = ask("sms.py", &question).await;
    let mut captured: Vec<_> =
        server.outbox().captures().iter().map(|one| one.summary.text.clone().unwrap()).collect();
    captured.reverse();
    assert_eq!(captured, texts);
    let (ids, receipts) = (seen["ids"].as_array().unwrap(), seen["receipts"].as_array().unwrap());
    assert_eq!((ids.len(), receipts.len()), (5, 5));
    for (id, receipt) in ids.iter().zip(receipts) {
        assert_eq!((&receipt["receipted_message_id"], &receipt["message_state"]), (id, &json!(2)));
        let text = receipt["short_message"].as_str().unwrap();
        assert!(text.starts_with(&format!("id:{} ", id.as_str().unwrap())), "{text}");
    }
    assert_eq!((server.binds(), server.unbinds()), (1, 1));
}

#[tokio::test]
async fn our_gsm7_alphabet_equals_that_of_another_library() {
    let texts: Vec<String> =
        (1..=0xffff_u32).filter_map(char::from_u32).filter(|c| *c != '\u{1b}').map(String::from).collect();
    let theirs = ask("sms.py", &json!({"role": "alphabet", "texts": texts})).await;
    let hex = |octets: Vec<u8>| octets.iter().map(|octet| format!("{octet:02x}")).collect::<String>();
    let differing: Vec<_> = texts
        .iter()
        .zip(theirs.as_array().unwrap())
        .filter(|(text, theirs)| gsm7::encode(text).map(hex).as_deref() != theirs.as_str())
        .collect();
    assert!(differing.is_empty(), "{differing:?}");
}
