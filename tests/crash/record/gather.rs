//! Assembly of the record of a run, after all work is done.

use std::collections::BTreeMap;

use domain::Channel;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use crate::conditions::Conditions;
use crate::journal::{Journal, Line};
use crate::record::{IntendedSend, Record, Suppression, Targets, User, api, database, log, webhooks};
use crate::scene::{Accepted, Fault, Scene};
use crate::workload::{Observations, Workload, email, identifier};

pub(crate) async fn gather(
    scene: &Scene,
    workload: &Workload,
    observed: Observations,
    faults: Vec<Fault>,
    conditions: Conditions,
) -> Record {
    let (database, event_log) =
        (PgPool::connect(&scene.database_url).await.unwrap(), scene.event_log().await);
    let before = log::written(&event_log, scene.partitions).await;
    // Read the accepted messages before the ledger, so that the ledger has all of them.
    let accepted = accepted(scene);
    let mut tables = database::read(&database).await;
    let log = log::read(&event_log, scene.partitions).await;
    for delivery in log.suppressed.iter().filter_map(|delivery| tables.deliveries.get(delivery)) {
        let key = (delivery.app, delivery.channel.to_string(), delivery.target.clone());
        tables
            .suppressions
            .entry(key)
            .and_modify(|suppression| *suppression = Suppression { is_in_log: true });
    }
    let journal = Journal::read(&scene.journals);
    let mut record = Record {
        asked: (0..workload.size.notices).map(|number| (number, asked(scene, workload, number))).collect(),
        targets: targets(scene, workload, &journal),
        journal,
        faults,
        conditions,
        tables,
        log,
        accepted,
        provider_faults: provider_faults(scene),
        samples: observed.samples,
        visible: observed.visible,
        redeliveries: observed.redeliveries,
        poison: observed.poison,
        ..Record::default()
    };
    record.inboxes = api::inboxes(scene, workload).await;
    record.reported = api::requests(scene, &record).await;
    record.webhooks = webhooks::read(&scene.webhooks);
    record.parked = tokio::task::block_in_place(|| parked(scene));
    record.verified = tokio::task::block_in_place(|| verified(scene));
    record.meanwhile = log::written(&event_log, scene.partitions).await - before;
    record
}

/// Runs `tidings verify --json`, which replays the log into new tables, and returns its output.
fn verified(scene: &Scene) -> Value {
    let output = scene.environment.run("tidings", &["verify", "--json"]);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Reads the parked messages that belong to no delivery from `tidings parked list --json`.
fn parked(scene: &Scene) -> Vec<(Option<Uuid>, String)> {
    let listed = scene.environment.tidings(&["parked", "list", "--limit", "10000", "--json"]);
    let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
    let of_no_delivery = listed.iter().filter(|parked| parked["deliveryId"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    of_no_delivery.map(|parked| (text(&parked["requestId"]).parse().ok(), text(&parked["cause"]))).collect()
}

fn asked(scene: &Scene, workload: &Workload, number: usize) -> IntendedSend {
    let notice = workload.notice(number);
    IntendedSend {
        app: scene.apps[notice.app].id,
        title: notice.title(),
        recipients: notice.recipients.iter().map(|user| identifier(*user)).collect(),
        to_topic: notice.topic.is_some(),
        is_small: notice.app > 0,
        channels: notice.channels,
    }
}

/// Targets of all users: the targets at the start, and every new email address that a client tried to set.
fn targets(scene: &Scene, workload: &Workload, journal: &[Line]) -> BTreeMap<User, Targets> {
    let user = |user: usize| (scene.apps[workload.people.app_of(user)].id, identifier(user));
    let mut targets: BTreeMap<User, Targets> =
        (0..workload.size.users).map(|number| (user(number), workload.targets(number))).collect();
    for line in journal {
        if let Line::Moved { user: number, changes, .. } = line {
            let of_user = targets.entry(user(*number)).or_default();
            of_user.entry(Channel::Email).or_default().insert(email(*number, *changes));
        }
    }
    targets
}

fn accepted(scene: &Scene) -> Vec<Accepted> {
    let text = std::fs::read_to_string(&scene.accepted).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn provider_faults(scene: &Scene) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(&scene.provider_faults).unwrap();
    let mut times = BTreeMap::new();
    text.lines().for_each(|fault| *times.entry(fault.to_owned()).or_default() += 1);
    times
}
