//! Receipts and messages from people that arrive over SMPP.

use domain::{Actor, Channel};
use serde_json::{Value, json};
use stand_ins::outbox::Outbox;
use stand_ins::smsc::{Carrier, PersonMessage, ReceiptForm, ReceiptIds, SmscSettings, SmscStandIn};
use store::control::provider::{NewProvider, SecretChange};
use testkit::eventually;

use crate::service::{App, SOON, Service};

const ADA: &str = "+4915112345678";

async fn service() -> Service {
    let service = Box::pin(Service::start_configured(|config| {
        // The stand-in for the message centre runs on this machine.
        config.outbound.allow_private = true;
    }))
    .await;
    service.context.serve("sms", sms::run);
    service
}

/// Starts a message centre and adds it as a provider of the app.
async fn centre(service: &Service, app: &App, settings: SmscSettings) -> SmscStandIn {
    let centre = SmscStandIn::start(settings, Outbox::in_memory()).await.unwrap();
    let mut settings = centre.provider_settings();
    let password = settings.as_object_mut().unwrap().remove("password").unwrap();
    let secrets = json!({"password": password}).to_string();
    let context = format!("provider:{}:main", app.id);
    let sealed = service.context.master_key.seal(&context, secrets.as_bytes()).unwrap();
    let provider = NewProvider {
        identifier: "main",
        channel: Channel::Sms,
        kind: "smpp",
        priority: 1,
        enabled: true,
        max_per_second: None,
        settings: &settings,
        secret: SecretChange::Replace(&sealed),
    };
    service.context.store.control().put_provider(app.id, provider, &Actor::System).await.unwrap();
    centre
}

/// Makes a send to Ada, waits until its delivery has this status, and returns the delivery.
async fn send(service: &Service, app: &App, status: &str) -> Value {
    let body = json!({
        "notification": {"title": "Hello"},
        "sendTo": {"recipients": [{"identifier": ADA, "phoneNumber": ADA}]},
    });
    let sent = service.by(app, "POST /v3/notifications").json(&body).send().await.is(202);
    let path = format!("GET /v3/requests/{}/deliveries?channel=sms", sent["requestId"].as_str().unwrap());
    eventually(SOON, &format!("the message is {status}"), async || {
        let page = service.once_stored(app, &path).await;
        page["data"].as_array()?.first().filter(|one| one["status"] == status).cloned()
    })
    .await
}

#[tokio::test]
async fn a_receipt_settles_its_message_in_the_notations_of_message_centres() {
    let service = service().await;
    for (name, receipt_ids) in [
        ("same", ReceiptIds::Same),
        ("upper", ReceiptIds::Upper),
        ("zeros", ReceiptIds::Zeros),
        ("spaced", ReceiptIds::Spaced),
    ] {
        let app = service.app(name).await;
        let settings =
            SmscSettings { receipt_form: ReceiptForm::Text, receipt_ids, ..SmscSettings::default() };
        let _centre = centre(&service, &app, settings).await;
        send(&service, &app, "delivered").await;
    }
    let app = service.app("foreign").await;
    let settings = SmscSettings { receipt_ids: ReceiptIds::Foreign, ..SmscSettings::default() };
    let centre = centre(&service, &app, settings).await;
    let sent = send(&service, &app, "sent").await;
    let id = sent["attempts"][0]["providerId"].as_str().unwrap();
    eventually(SOON, "the receipt is kept", async || (centre.receipts_taken() == 1).then_some(())).await;
    let unmatched = service.context.store.deliveries().unmatched_receipts(app.id, "main", 5).await.unwrap();
    assert_eq!(unmatched, [format!("foreign-{id}")]);
}

#[tokio::test]
async fn stop_over_smpp_suppresses_the_number_until_start() {
    let service = service().await;
    let app = service.app("shop").await;
    let centre = centre(&service, &app, SmscSettings::default()).await;
    send(&service, &app, "delivered").await;
    let data_sm = PersonMessage { carrier: Carrier::DataSm, ..PersonMessage::new(ADA, "Opt-out") };
    let mut taken = 0;
    for (stop, start) in [
        (PersonMessage::new(ADA, "STOP"), PersonMessage::new(ADA, "start")),
        (PersonMessage::in_ucs2(ADA, "Stopp!"), PersonMessage::in_ucs2(ADA, "UNSTOP")),
        (data_sm, PersonMessage::new(ADA, "Yes.")),
    ] {
        for (message, status) in [(stop, "skipped"), (start, "delivered")] {
            centre.deliver(message);
            taken += 1;
            let is_taken = async || (centre.person_messages_taken() == taken).then_some(());
            eventually(SOON, "the message is confirmed", is_taken).await;
            let delivery = send(&service, &app, status).await;
            if status == "skipped" {
                assert_eq!(delivery["reason"], "suppressed");
            }
        }
    }
}
