//! Inboxes and requests as the API shows them at the end of a run.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::Value;
use suite::Api;
use uuid::Uuid;

use crate::journal::ShownItem;
use crate::record::{Record, ReportedSend, User};
use crate::scene::Scene;
use crate::workload::{Workload, identifier, read_page};

/// Number of concurrent calls.
const AT_ONCE: usize = 16;
/// Maximum number of sends whose reports are read over the API.
const ASKED: usize = 10_000;

/// Reads every inbox, page by page.
pub(super) async fn inboxes(scene: &Scene, workload: &Workload) -> BTreeMap<User, Vec<ShownItem>> {
    let apis = apis(scene);
    let of_user = |user: usize| {
        let app = workload.people.app_of(user);
        let (api, app) = (&apis[user % apis.len()][app], scene.apps[app].id);
        async move { ((app, identifier(user)), inbox(api, &identifier(user)).await) }
    };
    stream::iter(0..workload.size.users).map(of_user).buffer_unordered(AT_ONCE).collect().await
}

/// Creates API clients, by gateway and app.
fn apis(scene: &Scene) -> Vec<Vec<Api>> {
    let at = |gateway: &String| scene.apps.iter().map(|app| Api::new(gateway, app)).collect::<Vec<_>>();
    scene.gateways.iter().map(at).collect()
}

async fn inbox(api: &Api, user: &str) -> Vec<ShownItem> {
    let (mut items, mut cursor) = (Vec::new(), None);
    loop {
        let answer = api.inbox(user, cursor.as_deref()).await;
        items.extend(read_page(&answer).items);
        cursor = answer["pagination"]["nextCursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return items;
        }
    }
}

/// Reads the reports about all confirmed sends or, if there are more than [`ASKED`], about an evenly spaced sample of them.
pub(super) async fn requests(scene: &Scene, record: &Record) -> BTreeMap<Uuid, ReportedSend> {
    let apis = apis(scene);
    let confirmed: BTreeSet<(usize, Uuid)> = record.confirmed().collect();
    let share = confirmed.len().div_ceil(ASKED).max(1);
    let asked = confirmed.into_iter().step_by(share).map(|(notice, request)| {
        let app = record.asked[&notice].app;
        let index = scene.apps.iter().position(|known| known.id == app).unwrap();
        let api = &apis[notice / share % apis.len()][index];
        async move { (request, reported_send(api, request).await) }
    });
    stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

/// Reads the report about a send. The report is empty if the API does not know the send.
async fn reported_send(api: &Api, request: Uuid) -> ReportedSend {
    let path = format!("/v3/requests/{request}");
    let Some(answer) = api.find(&path).await else { return ReportedSend::default() };
    let mut reported =
        ReportedSend { status: answer["status"].as_str().unwrap().to_owned(), deliveries: Vec::new() };
    let mut next = Some(format!("{path}/deliveries"));
    while let Some(page) = next {
        let Some(answer) = api.find(&page).await else { return ReportedSend::default() };
        let rows = answer["data"].as_array().unwrap();
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = rows.iter().map(|row| (text(row, "recipient"), text(row, "channel"), text(row, "status")));
        reported.deliveries.extend(rows);
        next = answer["nextCursor"].as_str().map(|cursor| format!("{path}/deliveries?cursor={cursor}"));
    }
    reported
}
