//! Reports of providers, and keywords that people send to them.

use std::sync::LazyLock;

use domain::retry::RetryPolicy;
use domain::sms::keyword::Keyword;
use domain::{Answer, Channel, DeliveryId, Outcome};
use operations::providers::{self, Draft, KnownKind};
use operations::receipts::{self, Report};
use operations::{Caller, Object, OperationError, ProviderAccount, suppressions, users};
use serde_json::json;
use store::deliveries::suppression::SuppressionFilter;
use store::sends::pairs::PairFilter;
use testkit::eventually;
use uuid::Uuid;

use crate::system::{SOON, System};

fn provider(system: &System, channel: Channel, identifier: &str) -> Caller {
    let identifier = identifier.to_owned();
    Caller::provider(ProviderAccount { app: system.shop.id, channel, identifier })
}

#[tokio::test]
async fn a_provider_reports_about_its_own_deliveries_only() {
    let system = System::start().await;
    let (shop, sms) = (system.shop.id, Channel::Sms);
    set_provider(&system).await;
    let profile = json!({"phoneNumber": "+4915112345678"}).as_object().unwrap().clone();
    users::create(&system.operations, &system.backend(), shop, "ada", profile).await.unwrap();
    let content = json!({"title": "Hello", "message": "Hi"});
    let body = json!({"notification": content, "sendTo": {"recipients": ["ada"]}, "channels": ["sms"]});
    let send = system.accept(body).await;
    let delivery = eventually(SOON, "the SMS is planned", async || {
        let filter = PairFilter { recipient: None, channel: Some(sms), status: None, recipient_index: None };
        let planned = system.sends.deliveries(&system.backend(), (shop, send), filter, None, 1).await.ok()?.1;
        planned.first().map(|pair| pair.id.unwrap())
    });
    let delivery = delivery.await;
    system.installation.run("UPDATE delivery SET provider = 'main', attempt = 1, status = 'sending'").await;
    let policy = RetryPolicy { schedule: Vec::new() };
    let report = |answer| Report { delivery, attempt: Some(1), answer };
    let sent = || Some(Answer::new(Outcome::Sent { provider_id: None }, "delivered", "delivered"));
    let foreign = ProviderAccount { app: system.other.id, channel: sms, identifier: "main".to_owned() };
    for (kind, stranger) in [
        ("another provider", provider(&system, sms, "second")),
        ("another channel", provider(&system, Channel::Email, "main")),
        ("another app", Caller::provider(foreign)),
    ] {
        let refused = receipts::record(&system.operations, &stranger, report(sent()), &policy).await;
        assert!(matches!(refused, Err(OperationError::NotFound(Object::Delivery))), "{kind}: {refused:?}");
    }
    let main = provider(&system, sms, "main");
    let receipts = "SELECT (SELECT count(*) FROM early_receipt) + (SELECT count(*) FROM attempt)";
    receipts::record(&system.operations, &main, report(None), &policy).await.unwrap();
    assert_eq!(system.installation.count(receipts).await, 0, "the status was not final");
    receipts::record(&system.operations, &main, report(sent()), &policy).await.unwrap();
    assert_eq!(system.installation.count(receipts).await, 1);
    let unknown = Report { delivery: DeliveryId(Uuid::nil()), ..report(sent()) };
    let refused = receipts::record(&system.operations, &main, unknown, &policy).await;
    assert!(matches!(refused, Err(OperationError::NotFound(Object::Delivery))), "{refused:?}");
}

#[tokio::test]
async fn stop_and_start_hold_in_the_app_of_the_provider() {
    let system = System::without_services().await;
    let main = provider(&system, Channel::Sms, "main");
    let number = "+4915112345678";
    let stopped = async || {
        let filter = SuppressionFilter { channel: Some(Channel::Sms), ..SuppressionFilter::default() };
        let admin = Caller::of_command("ada".to_owned());
        let suppressed = suppressions::list(&system.operations, &admin, filter, 10, true).await.unwrap();
        suppressed.into_iter().map(|found| (found.app, found.target)).collect::<Vec<_>>()
    };
    receipts::obey_keyword(&system.operations, &main, number, Keyword::Help).await.unwrap();
    assert_eq!(stopped().await, []);
    receipts::obey_keyword(&system.operations, &main, number, Keyword::Stop).await.unwrap();
    assert_eq!(stopped().await, [(system.shop.id, number.to_owned())]);
    let identifier = "main".to_owned();
    let of_other = ProviderAccount { app: system.other.id, channel: Channel::Sms, identifier };
    receipts::obey_keyword(&system.operations, &Caller::provider(of_other), number, Keyword::Start)
        .await
        .unwrap();
    assert_eq!(stopped().await.len(), 1);
    receipts::obey_keyword(&system.operations, &main, number, Keyword::Start).await.unwrap();
    assert_eq!(stopped().await, []);
}

/// Gives the shop an SMS provider of a kind for tests.
async fn set_provider(system: &System) {
    static KINDS: LazyLock<[KnownKind; 1]> = LazyLock::new(|| {
        [KnownKind {
            channel: Channel::Sms,
            name: "pigeon",
            example: "{}",
            secrets: &[],
            check: Box::new(|_| Ok(())),
        }]
    });
    let document = json!({"identifier": "main", "channel": "sms", "kind": "pigeon", "settings": {}});
    let draft = Draft::read(&*KINDS, document).unwrap();
    let admin = Caller::of_command("ada".to_owned());
    providers::set(&system.operations, &admin, system.shop.id, &draft).await.unwrap();
}
