//! Changes of users to their own data. No caller reaches the data of another user.

use std::collections::{BTreeMap, BTreeSet};

use credentials::link::Purpose;
use domain::content::Object as ProfilePairs;
use domain::inbox::{AllChange, Counts, ItemChange};
use domain::profile::{Change as ProfileChange, Refusal};
use domain::topic::TopicChannels;
use domain::{CategoryId, Channel, ItemId};
use operations::connect::{self, NewDevice};
use operations::devices::{self, OwnDevice};
use operations::inbox::{Change, Recency};
use operations::preferences::{self, Unsubscription};
use operations::{Caller, Conflict, Object, OperationError, categories, profile, topics, users};
use serde_json::json;
use store::directory::category::NewCategory;
use store::directory::topic::Topic;
use store::inbox::list::{InboxFilter, PageStart, Place};

use crate::own_permissions::subscription;
use crate::system::System;

fn pairs(value: &serde_json::Value) -> ProfilePairs {
    value.as_object().unwrap().clone()
}

fn category(identifier: &str, critical: bool) -> NewCategory<'_> {
    NewCategory { identifier, name: "Orders", critical, ..NewCategory::default() }
}

async fn titles(system: &System, caller: &Caller, filter: InboxFilter<'_>) -> (Vec<String>, i64) {
    let listed = system.inboxes.list(caller, filter, PageStart::Offset(0), 10).await.unwrap();
    let title = |content: &str| {
        serde_json::from_str::<serde_json::Value>(content).unwrap()["title"].as_str().unwrap().to_owned()
    };
    (listed.page.items.iter().map(|item| title(&item.content)).collect(), listed.total)
}

#[tokio::test]
async fn a_profile_belongs_to_the_callers_user() {
    let system = System::without_services().await;
    let operations = &system.operations;
    let change = |pairs| ProfileChange::Merge(pairs);
    let name = pairs(&json!({"name": "Ada", "email": "ada@example.com"}));
    let changed = profile::change(operations, &system.user("ada"), change(name.clone())).await.unwrap();
    assert_eq!(changed, name);
    for stranger in [system.user("eve"), system.namesake("ada")] {
        assert_eq!(profile::find(operations, &stranger).await.unwrap(), ProfilePairs::new());
    }
    let by_backend = profile::find(operations, &system.backend_for("ada")).await.unwrap();
    assert_eq!(by_backend, name);
    let unproven = profile::find(operations, &system.unproven("ada")).await.unwrap();
    assert_eq!(unproven, pairs(&json!({"name": "Ada"})), "an unproven caller sees no addresses");
    let address = pairs(&json!({"email": "eve@example.com"}));
    let refused = profile::change(operations, &system.unproven("ada"), change(address)).await.unwrap_err();
    assert!(matches!(refused, OperationError::Profile(Refusal::AddressGuarded)), "{refused}");
    let of_app = pairs(&json!({"app": {"plan": "pro"}}));
    let refused = profile::change(operations, &system.user("ada"), change(of_app.clone())).await.unwrap_err();
    assert!(matches!(refused, OperationError::Profile(Refusal::AppOnly)), "{refused}");
    let changed = profile::change(operations, &system.backend_for("ada"), change(of_app)).await.unwrap();
    assert_eq!(changed["app"]["plan"], "pro");
}

#[tokio::test]
async fn preferences_are_set_for_known_categories_of_the_own_app_only() {
    let system = System::without_services().await;
    let operations = &system.operations;
    let (shop, backend) = (system.shop.id, system.backend());
    let orders = categories::create(operations, &backend, shop, category("orders", false)).await.unwrap().id;
    let choices = |category| BTreeMap::from([((category, Channel::Email), false)]);
    let (ada, namesake) = (system.user("ada"), system.namesake("ada"));
    let foreign = preferences::check(operations, &namesake, BTreeSet::new(), choices(orders)).await.unwrap();
    assert_eq!(foreign.unknown(), &BTreeSet::from([orders]));
    let refused = preferences::set(operations, &namesake, &foreign).await.unwrap_err();
    assert!(matches!(refused, OperationError::NotFound(Object::Category)), "{refused}");
    let named = BTreeSet::from([orders, CategoryId(999)]);
    let unknown = preferences::check(operations, &ada, named, BTreeMap::new()).await.unwrap();
    assert_eq!(unknown.unknown(), &BTreeSet::from([CategoryId(999)]));

    let checked = preferences::check(operations, &ada, BTreeSet::new(), choices(orders)).await.unwrap();
    let set = preferences::set(operations, &ada, &checked).await.unwrap();
    assert_eq!((set.len(), set[0].channels.clone()), (1, BTreeMap::from([(Channel::Email, false)])));
    assert_eq!(preferences::list(operations, &system.backend_for("ada")).await.unwrap(), set);
    for stranger in [system.user("eve"), namesake] {
        assert_eq!(preferences::list(operations, &stranger).await.unwrap(), []);
    }
}

#[tokio::test]
async fn a_link_turns_off_its_own_category_unless_it_is_critical() {
    let system = System::without_services().await;
    let (operations, shop) = (&system.operations, system.shop.id);
    let mut created = Vec::new();
    for (identifier, critical) in [("orders", false), ("alarms", true)] {
        let category = category(identifier, critical);
        created.push(categories::create(operations, &system.backend(), shop, category).await.unwrap().id);
    }
    system.create_user("ada").await;
    let orders = system.link_holder("ada", Purpose::Unsubscribe(created[0])).await;
    let subscription = preferences::subscription_of_link(operations, &orders).await.unwrap();
    assert_eq!((subscription.app.as_str(), subscription.critical), ("shop", false));
    let ada = system.user("ada");
    assert_eq!(preferences::list(operations, &ada).await.unwrap(), [], "asking changes nothing");
    let done = preferences::unsubscribe_by_link(operations, &orders).await.unwrap();
    assert!(matches!(done, Unsubscription::Done(_)), "{done:?}");
    let alarms = system.link_holder("ada", Purpose::Unsubscribe(created[1])).await;
    let critical = preferences::unsubscribe_by_link(operations, &alarms).await.unwrap();
    assert!(matches!(critical, Unsubscription::Critical(_)), "{critical:?}");
    let preferences = preferences::list(operations, &ada).await.unwrap();
    assert_eq!(preferences.iter().map(|preference| preference.category).collect::<Vec<_>>(), [created[0]]);
    let gone = system.link_holder("ada", Purpose::Unsubscribe(CategoryId(999))).await;
    let unknown = preferences::unsubscribe_by_link(operations, &gone).await.unwrap_err();
    assert!(matches!(unknown, OperationError::NotFound(Object::Link)), "{unknown}");
}

#[tokio::test]
async fn users_subscribe_themselves_to_open_topics_and_learn_nothing_of_others() {
    let system = System::without_services().await;
    let (operations, backend, shop) = (&system.operations, system.backend(), system.shop.id);
    for (topic, open) in [("news", true), ("staff", false)] {
        topics::put(operations, &backend, shop, topic, None, Some(open)).await.unwrap();
    }
    let (ada, for_ada) = (system.user("ada"), system.backend_for("ada"));
    topics::subscribe(operations, &ada, "news", None).await.unwrap();
    for topic in ["staff", "none"] {
        let refused = topics::subscribe(operations, &ada, topic, None).await.unwrap_err();
        assert!(matches!(refused, OperationError::NotFound(Object::OpenTopic)), "{topic}: {refused}");
        topics::unsubscribe(operations, &ada, topic).await.unwrap();
    }
    let refused = topics::subscribe(operations, &for_ada, "staff", None).await.unwrap_err();
    assert!(matches!(refused, OperationError::Conflict(Conflict::TopicClosed)), "{refused}");
    for refused in [
        topics::subscribe(operations, &for_ada, "none", None).await,
        topics::unsubscribe(operations, &for_ada, "none").await,
    ] {
        assert!(matches!(refused, Err(OperationError::NotFound(Object::Topic))), "{refused:?}");
    }
    let listed = async |caller: &Caller| {
        let topics = topics::list(operations, caller, shop, None, 10).await.unwrap();
        let subscribed = |(topic, own): (Topic, Option<Option<TopicChannels>>)| {
            (topic.identifier, own.as_ref().map(Option::is_some))
        };
        topics.into_iter().map(subscribed).collect::<Vec<_>>()
    };
    assert_eq!(listed(&ada).await, [("news".to_owned(), Some(true))]);
    assert_eq!(listed(&system.user("eve")).await, [("news".to_owned(), Some(false))]);
    assert_eq!(listed(&backend).await, [("news".to_owned(), None), ("staff".to_owned(), None)]);
}

#[tokio::test]
async fn an_unproven_caller_needs_the_secret_that_created_its_user() {
    let system = System::without_services().await;
    let operations = &system.operations;
    let token = || pairs(&json!({"fcm": {"tokens": ["t1"]}}));
    let device = |secret| OwnDevice { id: "d1", secret };
    let new = |secret, token| NewDevice { device: device(secret), device_type: None, token };
    let unproven = system.unproven("ada");
    let connected = connect::connect(operations, &unproven, new(None, token())).await.unwrap();
    let secret = connected.device_secret.expect("the call created the user");
    assert_eq!((connected.channels, connected.counts), (vec![Channel::InApp], Counts::default()));
    let secret = Some(secret.as_str());
    let again = connect::connect(operations, &unproven, new(secret, token())).await.unwrap();
    assert_eq!(again.device_secret, None);
    devices::subscribe(operations, &unproven, device(secret), &subscription()).await.unwrap();
    for stranger in [&unproven, &system.unproven("eve")] {
        let refused = devices::unsubscribe(operations, stranger, device(None)).await.unwrap_err();
        assert!(matches!(refused, OperationError::Profile(Refusal::AddressGuarded)), "{refused}");
        let refused = devices::unsubscribe(operations, stranger, device(Some("ds_wrong"))).await.unwrap_err();
        assert!(matches!(refused, OperationError::WrongDeviceSecret), "{refused}");
    }
    let refused =
        devices::unsubscribe(operations, &system.unproven("eve"), device(secret)).await.unwrap_err();
    assert!(matches!(refused, OperationError::WrongDeviceSecret), "the secret is of one user: {refused}");
    devices::unsubscribe(operations, &unproven, device(secret)).await.unwrap();
    devices::remove_push_token(operations, &unproven, device(secret)).await.unwrap();
    let none = devices::remove_push_token(operations, &unproven, device(secret)).await.unwrap_err();
    assert!(matches!(none, OperationError::NotFound(Object::PushToken)), "{none}");
}

#[tokio::test]
async fn devices_belong_to_the_callers_user() {
    let system = System::without_services().await;
    let operations = &system.operations;
    let device = OwnDevice { id: "d1", secret: None };
    let ada = system.user("ada");
    devices::subscribe(operations, &ada, device, &subscription()).await.unwrap();
    for stranger in [system.user("eve"), system.namesake("ada")] {
        let refused = devices::unsubscribe(operations, &stranger, device).await.unwrap_err();
        assert!(matches!(refused, OperationError::NotFound(Object::Subscription)), "{refused}");
    }
    let found = users::find(operations, &system.backend(), system.shop.id, "ada").await.unwrap();
    assert!(found.1[0].web_push, "{found:?}");
    devices::unsubscribe(operations, &system.backend_for("ada"), device).await.unwrap();
}

#[tokio::test]
async fn items_are_changed_by_their_owner_and_the_backend_only() {
    let system = System::start().await;
    let (inboxes, shop) = (&system.inboxes, system.shop.id);
    let (_, item) = system.deliver("ada", "first").await;
    let (ada, eve) = (system.user("ada"), system.user("eve"));
    system.create_user("eve").await;
    let read = Change::Mark(ItemChange::Read);
    for (kind, refused) in [
        ("find", inboxes.find(&eve, shop, item).await.map(drop)),
        ("open", inboxes.open(&eve, shop, item).await.map(drop)),
        ("change", inboxes.change(&eve, shop, item, read.clone()).await.map(drop)),
        ("set state", inboxes.set_state(&eve, shop, item, Some("done".to_owned())).await.map(drop)),
        ("delete", inboxes.delete(&eve, shop, item).await.map(drop)),
    ] {
        assert!(
            matches!(refused, Err(OperationError::NotFound(Object::Notification))),
            "{kind}: {refused:?}"
        );
    }
    let namesake = inboxes.find(&system.namesake("ada"), system.other.id, item).await.unwrap_err();
    assert!(matches!(namesake, OperationError::NotFound(Object::Notification)), "{namesake}");
    for stranger in [&eve, &system.namesake("ada")] {
        let changed = inboxes.change_many(stranger, &[item], read.clone()).await.unwrap();
        assert_eq!(changed, Recency::Shown(0));
        assert_eq!(inboxes.change_all(stranger, AllChange::Deleted).await.unwrap(), Recency::Shown(0));
        assert_eq!(inboxes.counts(stranger).await.unwrap(), Counts::default());
    }
    let untouched = inboxes.find(&system.backend(), shop, item).await.unwrap();
    assert_eq!((untouched.state.seen_at, untouched.state.app_state), (None, None));

    assert!(inboxes.open(&ada, shop, item).await.unwrap().state.seen_at.is_some());
    let changed = inboxes.set_state(&system.backend_for("ada"), shop, item, Some("done".to_owned())).await;
    let Recency::Shown(changed) = changed.unwrap() else { panic!("not shown in time") };
    assert_eq!(changed.state.app_state.as_deref(), Some("done"));
    let Recency::Shown(changed) = inboxes.change(&system.backend(), shop, item, read).await.unwrap() else {
        panic!("not shown in time")
    };
    assert!(changed.state.clicked_at.is_some());
    assert_eq!(inboxes.delete(&ada, shop, item).await.unwrap(), Recency::Shown(()));
    assert_eq!(inboxes.counts(&ada).await.unwrap(), Counts::default());
}

#[tokio::test]
async fn an_inbox_is_listed_counted_and_changed_as_a_whole() {
    let system = System::start().await;
    let inboxes = &system.inboxes;
    let ada = system.user("ada");
    let mut items = Vec::new();
    for title in ["first", "second", "third"] {
        items.push(system.deliver("ada", title).await.1);
    }
    let page = inboxes.list(&ada, InboxFilter::default(), PageStart::Offset(0), 2).await.unwrap();
    assert_eq!((page.page.items.len(), page.has_more, page.total), (2, true, 3));
    let rest = inboxes.list(&ada, InboxFilter::default(), PageStart::Offset(2), 2).await.unwrap();
    assert_eq!((rest.page.items.len(), rest.has_more, rest.total), (1, false, 3));
    let newest = PageStart::Offset(0);
    let seen = inboxes.mark_page_seen(&ada, InboxFilter::default(), newest, 1).await.unwrap();
    assert_eq!(seen, Recency::Shown(1));
    let archived = Change::Mark(ItemChange::Archived);
    let ids = [items[0], ItemId(12)];
    assert_eq!(inboxes.change_many(&ada, &ids, archived).await.unwrap(), Recency::Shown(1));
    let unseen = InboxFilter { seen: Some(false), ..InboxFilter::default() };
    assert_eq!(titles(&system, &ada, unseen).await, (vec!["second".to_owned()], 1));
    let seen = InboxFilter { seen: Some(true), ..InboxFilter::default() };
    assert_eq!(titles(&system, &ada, seen).await, (vec!["third".to_owned()], 1));
    let archive = InboxFilter { place: Place::Archive, ..InboxFilter::default() };
    assert_eq!(titles(&system, &ada, archive).await, (vec!["first".to_owned()], 1));
    assert_eq!(inboxes.change_all(&ada, AllChange::Read).await.unwrap(), Recency::Shown(2));
    let counts = inboxes.counts(&ada).await.unwrap();
    assert_eq!((counts.total, counts.unread, counts.unseen), (2, 0, 0));
    assert_eq!(inboxes.change_all(&ada, AllChange::Read).await.unwrap(), Recency::Shown(0));
}

#[tokio::test]
async fn a_click_link_reads_the_item_of_its_own_send_and_user() {
    let system = System::start().await;
    let (send, item) = system.deliver("ada", "first").await;
    system.deliver("eve", "hers").await;
    let of_eve = system.link_holder("eve", Purpose::Click(send)).await;
    system.inboxes.report_click(&of_eve).await.unwrap();
    let ada = system.user("ada");
    assert_eq!(system.inboxes.counts(&ada).await.unwrap().unread, 1, "the link is of another user");
    let of_ada = system.link_holder("ada", Purpose::Click(send)).await;
    system.inboxes.report_click(&of_ada).await.unwrap();
    let read = system.inboxes.find(&ada, system.shop.id, item).await.unwrap();
    assert!(read.state.clicked_at.is_some());
}
