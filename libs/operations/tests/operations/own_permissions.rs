//! Use cases about the data of one user, of links, of providers and of sends check the permission of their caller first.

use std::collections::{BTreeMap, BTreeSet};

use credentials::link::Purpose;
use domain::content::Object as ProfilePairs;
use domain::inbox::{AllChange, ItemChange};
use domain::profile::Change as ProfileChange;
use domain::retry::RetryPolicy;
use domain::send::TemplateRef;
use domain::sms::keyword::Keyword;
use domain::web_push::Subscription;
use domain::{CategoryId, DeliveryId, ItemId, Role, SendId, Timestamp};
use operations::connect::{self, NewDevice};
use operations::devices::{self, OwnDevice};
use operations::inbox::Change;
use operations::receipts::{self, Report};
use operations::{Caller, OperationError, categories, preferences, profile, topics};
use serde_json::json;
use store::inbox::list::{InboxFilter, PageStart};
use store::sends::pairs::PairFilter;
use uuid::Uuid;

use crate::system::{System, submission};

const OWN: [&str; 17] = [
    "find profile",
    "change profile",
    "list preferences",
    "check preferences",
    "set preferences",
    "subscribe to topic",
    "own subscription",
    "unsubscribe from topic",
    "set web push",
    "remove web push",
    "remove push token",
    "connect",
    "inbox counts",
    "list inbox",
    "change items",
    "mark page seen",
    "change all items",
];
const ITEMS: [&str; 5] = ["find item", "open item", "change item", "set state", "delete item"];
const BROWSE: [&str; 2] = ["list categories", "list topics"];
const UNSUBSCRIBE: [&str; 4] =
    ["linked subscription", "unsubscribe by link", "linked choices", "choose by link"];
const CLICK: [&str; 1] = ["report click"];
const PROVIDER: [&str; 2] = ["record receipt", "obey keyword"];
const SENDS: [&str; 6] = ["template of send", "accept", "dry run", "request", "deliveries", "cancel"];

/// Calls a use case, and notes its name if it was denied.
macro_rules! call {
    ($denied:ident, $name:literal, $call:expr) => {
        match $call.await.map(drop) {
            Err(OperationError::Denied(_)) => {
                $denied.insert($name);
            }
            Ok(()) | Err(OperationError::NotFound(_) | OperationError::Conflict(_)) => {}
            Err(OperationError::Profile(_)) => {}
            Err(error) => panic!("{}: {error}", $name),
        }
    };
}

/// Calls every use case as the caller, on objects that do not exist, and returns the names of those that were denied.
async fn denied(system: &System, caller: &Caller) -> BTreeSet<&'static str> {
    let (operations, app) = (&system.operations, system.shop.id);
    let mut denied = own_denied(system, caller).await;
    call!(denied, "list categories", categories::list(operations, caller, app, None, 1));
    call!(denied, "list topics", topics::list(operations, caller, app, None, 1));
    let (inboxes, item) = (&system.inboxes, ItemId(1));
    call!(denied, "find item", inboxes.find(caller, app, item));
    call!(denied, "open item", inboxes.open(caller, app, item));
    call!(denied, "change item", inboxes.change(caller, app, item, Change::Mark(ItemChange::Read)));
    call!(denied, "set state", inboxes.set_state(caller, app, item, None));
    call!(denied, "delete item", inboxes.delete(caller, app, item));
    call!(denied, "linked subscription", preferences::subscription_of_link(operations, caller));
    call!(denied, "unsubscribe by link", preferences::unsubscribe_by_link(operations, caller));
    call!(denied, "linked choices", preferences::choices_of_link(operations, caller));
    call!(denied, "choose by link", preferences::choose_by_link(operations, caller, &BTreeMap::new()));
    call!(denied, "report click", inboxes.report_click(caller));
    let report = Report { delivery: DeliveryId(Uuid::nil()), attempt: None, answer: None };
    let policy = RetryPolicy { schedule: Vec::new() };
    call!(denied, "record receipt", receipts::record(operations, caller, report, &policy));
    call!(
        denied,
        "obey keyword",
        receipts::obey_keyword(operations, caller, "+4915112345678", Keyword::Help)
    );
    let (sends, request) = (&system.sends, SendId(Uuid::nil()));
    let template = TemplateRef::Identifier("hi".to_owned());
    let body = || json!({"notification": {"title": "Hi"}, "sendTo": {"recipients": ["zoe"]}});
    call!(denied, "template of send", sends.unknown_template(caller, app, &template));
    call!(denied, "accept", sends.accept(caller, submission(app, body())));
    call!(denied, "dry run", sends.dry_run(caller, submission(app, body())));
    call!(denied, "request", sends.request(caller, app, request));
    let filter = PairFilter { recipient: None, channel: None, status: None, recipient_index: None };
    call!(denied, "deliveries", sends.deliveries(caller, (app, request), filter, None, 1));
    call!(denied, "cancel", sends.cancel(caller, app, request));
    denied
}

async fn own_denied(system: &System, caller: &Caller) -> BTreeSet<&'static str> {
    let operations = &system.operations;
    let mut denied = BTreeSet::new();
    call!(denied, "find profile", profile::find(operations, caller));
    let nothing = || ProfileChange::Merge(ProfilePairs::new());
    call!(denied, "change profile", profile::change(operations, caller, nothing()));
    call!(denied, "list preferences", preferences::list(operations, caller));
    let check = || preferences::check(operations, caller, BTreeSet::new(), BTreeMap::new());
    call!(denied, "check preferences", check());
    let ada = system.user("ada");
    let checked = preferences::check(operations, &ada, BTreeSet::new(), BTreeMap::new()).await.unwrap();
    call!(denied, "set preferences", preferences::set(operations, caller, &checked));
    call!(denied, "subscribe to topic", topics::subscribe(operations, caller, "none", None));
    call!(denied, "own subscription", topics::own_subscription(operations, caller, "none"));
    call!(denied, "unsubscribe from topic", topics::unsubscribe(operations, caller, "none"));
    let device = OwnDevice { id: "d1", secret: None };
    call!(denied, "set web push", devices::subscribe(operations, caller, device, &subscription()));
    call!(denied, "remove web push", devices::unsubscribe(operations, caller, device));
    call!(denied, "remove push token", devices::remove_push_token(operations, caller, device));
    let new = NewDevice { device, device_type: None, token: ProfilePairs::new() };
    call!(denied, "connect", connect::connect(operations, caller, new));
    let inboxes = &system.inboxes;
    let (all, newest) = (InboxFilter::default(), PageStart::Offset(0));
    call!(denied, "inbox counts", inboxes.counts(caller));
    call!(denied, "list inbox", inboxes.list(caller, all, newest, 1));
    call!(denied, "change items", inboxes.change_many(caller, &[ItemId(1)], Change::Unsnooze));
    call!(denied, "mark page seen", inboxes.mark_page_seen(caller, all, newest, 1));
    call!(denied, "change all items", inboxes.change_all(caller, AllChange::Read));
    denied
}

/// Returns a subscription whose keys have the right lengths.
pub(crate) fn subscription() -> Subscription {
    Subscription {
        endpoint: "https://push.example/1".to_owned(),
        p256dh: vec![4; 65],
        auth: vec![1; 16],
        expires_at: None::<Timestamp>,
    }
}

fn names(groups: &[&[&'static str]]) -> BTreeSet<&'static str> {
    groups.concat().into_iter().collect()
}

#[tokio::test]
async fn each_caller_is_denied_exactly_what_its_kind_may_not_do() {
    let system = System::without_services().await;
    system.create_user("ada").await;
    let unsubscribe = system.link_holder("ada", Purpose::Unsubscribe(CategoryId(1))).await;
    let click = system.link_holder("ada", Purpose::Click(SendId(Uuid::nil()))).await;
    let no_group: &[&[&str]] = &[&OWN, &ITEMS, &BROWSE, &UNSUBSCRIBE, &CLICK, &PROVIDER, &SENDS];
    let command = Caller::of_command("ada".to_owned());
    for (kind, caller, expected) in [
        ("owner", system.user("ada"), &[&UNSUBSCRIBE[..], &CLICK, &PROVIDER, &SENDS][..]),
        ("unproven owner", system.unproven("ada"), &[&UNSUBSCRIBE, &CLICK, &PROVIDER, &SENDS]),
        ("another user", system.user("eve"), &[&UNSUBSCRIBE, &CLICK, &PROVIDER, &SENDS]),
        (
            "user of another app",
            system.namesake("ada"),
            &[&ITEMS, &BROWSE, &UNSUBSCRIBE, &CLICK, &PROVIDER, &SENDS],
        ),
        ("backend", system.backend(), &[&OWN, &UNSUBSCRIBE, &CLICK, &PROVIDER]),
        ("backend for the user", system.backend_for("ada"), &[&UNSUBSCRIBE, &CLICK, &PROVIDER]),
        ("backend of another app", system.other_backend(), no_group),
        ("command", command, &[&OWN, &UNSUBSCRIBE, &CLICK, &PROVIDER]),
        ("holder of an unsubscribe link", unsubscribe, &[&OWN, &ITEMS, &BROWSE, &CLICK, &PROVIDER, &SENDS]),
        ("holder of a click link", click, &[&OWN, &ITEMS, &BROWSE, &UNSUBSCRIBE, &PROVIDER, &SENDS]),
        ("provider", system.provider(), &[&OWN, &ITEMS, &BROWSE, &UNSUBSCRIBE, &CLICK, &SENDS]),
    ] {
        assert_eq!(denied(&system, &caller).await, names(expected), "{kind}");
    }
}

#[tokio::test]
async fn operators_never_act_for_a_user_a_link_or_a_provider() {
    let system = System::without_services().await;
    let always = names(&[&OWN, &UNSUBSCRIBE, &CLICK, &PROVIDER]);
    for (role, expected) in [
        (Role::Viewer, &[&ITEMS[..], &["template of send", "accept", "dry run"], &["cancel"]][..]),
        (Role::Support, &[&ITEMS[1..], &["template of send", "accept", "dry run"], &["cancel"]]),
        (Role::Editor, &[&ITEMS[1..], &["cancel"]]),
        (Role::Operator, &[]),
        (Role::Admin, &[]),
    ] {
        let expected = always.union(&names(expected)).copied().collect::<BTreeSet<_>>();
        assert_eq!(denied(&system, &system.operator(role)).await, expected, "{role}");
    }
}
