//! Figures, processes, the audit log and refused calls.

use domain::{ActorKind, Channel, Timestamp};
use operations::audit::NamedRow;
use operations::installation::Work;
use operations::overview::{Count as Counted, Overview};
use operations::refused_calls::RefusedCalls;
use operations::{audit, refused_calls};
use serde::Serialize;
use serde_json::{Map, Value};
use store::database::audit::AuditRow;
use utoipa::ToSchema;
use uuid::Uuid;
use web::cursor;
use web::vocabulary::{self, Count, FreeObject, Time};

use super::call::{Answer, Call, limit, time};
use super::shape::Page;

/// Figures of an app for the last hour. Numbers stop at 10,000. All callers see the same figures for ten seconds.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Overview)]
pub(super) struct OverviewBody {
    #[schema(value_type = Time)]
    at: Timestamp,
    accepted: CountBody,
    /// Number of sends in each of the last 60 minutes, earliest first.
    per_minute: Vec<u32>,
    deliveries: CountBody,
    /// Numbers of deliveries by channel and status.
    #[schema(value_type = FreeObject)]
    states: Value,
    parked: CountBody,
    parked_causes: Vec<ParkedCauseBody>,
}

/// A number that stops at 10,000.
#[derive(Serialize, ToSchema)]
#[schema(as = LimitedCount)]
struct CountBody {
    #[schema(value_type = Count)]
    number: usize,
    /// True if there are more.
    more: bool,
}

/// Parked messages with the same cause.
#[derive(Serialize, ToSchema)]
#[schema(as = ParkedCause)]
struct ParkedCauseBody {
    /// Null if the messages are sends that could not be planned.
    #[schema(value_type = Option<vocabulary::Channel>)]
    channel: Option<Channel>,
    cause: String,
    #[schema(value_type = Count)]
    number: usize,
    #[schema(value_type = Time)]
    oldest: Timestamp,
}

/// Processes that run, and the work that waits for them.
#[derive(Serialize, ToSchema)]
#[schema(as = Processes)]
pub(super) struct ProcessesBody {
    #[schema(value_type = Time)]
    at: Timestamp,
    processes: Vec<ProcessBody>,
    /// Services that the installation needs, and of which no process answered.
    missing: Vec<&'static str>,
    backlogs: Vec<BacklogBody>,
}

/// A process.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Process)]
struct ProcessBody {
    instance: String,
    host: String,
    services: Vec<String>,
    version: String,
    #[schema(value_type = Time)]
    started_at: Timestamp,
}

/// Work that waits.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Backlog)]
struct BacklogBody {
    work: String,
    /// Service whose processes do the work.
    service: &'static str,
    #[schema(value_type = Count)]
    waiting: u64,
    oldest_seconds: f64,
    /// Share of the streams' capacity that is used; null if there is no limit.
    fill: Option<f64>,
    late: bool,
}

/// A row of the audit log.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AuditRow)]
pub(super) struct AuditBody {
    /// Null if the row is about the installation.
    app_id: Option<String>,
    #[schema(value_type = Time)]
    at: Timestamp,
    actor: String,
    /// Null if release 0.5.0 or earlier wrote the row.
    actor_kind: Option<&'static str>,
    action: String,
    subject: String,
    #[schema(value_type = Option<FreeObject>)]
    before: Option<Value>,
    #[schema(value_type = Option<FreeObject>)]
    after: Option<Value>,
    /// Address of the caller; null for commands.
    ip: Option<String>,
    /// Request of the console or of this API that made the change.
    #[schema(value_type = Option<vocabulary::Uuid>)]
    request_id: Option<Uuid>,
}

/// Equal calls of the API that were refused.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RefusedCalls)]
pub(super) struct RefusedBody {
    /// Time of the latest of them.
    #[schema(value_type = Time)]
    at: Timestamp,
    times: u32,
    status: u16,
    method: String,
    route: String,
    code: String,
    fields: Vec<String>,
    /// Start of the API key.
    api_key_start: String,
    /// Network of the client.
    client: String,
    /// False if the caller's secret, token or signature was missing or wrong.
    proven: bool,
}

fn count(count: Counted) -> CountBody {
    CountBody { number: count.number, more: count.more }
}

impl From<&Overview> for OverviewBody {
    fn from(overview: &Overview) -> OverviewBody {
        let states = overview.states.iter().map(|(channel, counts)| {
            let counts = counts.iter().map(|(status, number)| (status.to_string(), Value::from(*number)));
            (channel.to_string(), Value::Object(counts.collect()))
        });
        let causes = overview.parked_causes.iter().map(|cause| ParkedCauseBody {
            channel: cause.channel,
            cause: cause.cause.clone(),
            number: cause.number,
            oldest: cause.oldest,
        });
        OverviewBody {
            at: overview.at,
            accepted: count(overview.accepted),
            per_minute: overview.per_minute.clone(),
            deliveries: count(overview.deliveries),
            states: Value::Object(states.collect::<Map<_, _>>()),
            parked: count(overview.parked),
            parked_causes: causes.collect(),
        }
    }
}

pub(super) async fn overview(call: &Call<'_>) -> Answer<OverviewBody> {
    let app = call.app()?.id;
    Ok(OverviewBody::from(&*call.console.overviews.of_app(&call.caller, app).await?))
}

pub(super) async fn processes(call: &Call<'_>) -> Answer<ProcessesBody> {
    let found = call.console.installations.read(&call.caller).await?;
    let processes = found.processes.iter().map(|process| ProcessBody {
        instance: process.instance.clone(),
        host: process.host.clone(),
        services: process.services.iter().cloned().collect(),
        version: process.version.clone(),
        started_at: process.started_at,
    });
    let backlogs = found.backlogs.iter().map(|waiting| BacklogBody {
        work: work(waiting.work),
        service: waiting.work.service(),
        waiting: waiting.number,
        oldest_seconds: waiting.oldest.as_secs_f64(),
        fill: waiting.fill,
        late: waiting.is_late(),
    });
    Ok(ProcessesBody {
        at: found.at,
        processes: processes.collect(),
        missing: found.missing.iter().copied().collect(),
        backlogs: backlogs.collect(),
    })
}

fn work(work: Work) -> String {
    match work {
        Work::Planning => "planning".to_owned(),
        Work::Delivery(channel) => format!("delivery {channel}"),
        Work::Inboxes => "inboxes".to_owned(),
        Work::Outcomes => "outcomes".to_owned(),
        Work::Timers => "timers".to_owned(),
        Work::Webhooks => "webhooks".to_owned(),
    }
}

impl From<AuditRow> for AuditBody {
    fn from(row: AuditRow) -> AuditBody {
        AuditBody {
            app_id: row.app.map(|app| app.to_string()),
            at: row.at,
            actor: row.actor,
            actor_kind: row.actor_kind.map(ActorKind::as_str),
            action: row.action,
            subject: row.subject,
            before: row.before,
            after: row.after,
            ip: row.ip,
            request_id: row.request,
        }
    }
}

pub(super) async fn list_audit(call: &Call<'_>) -> Answer<Page<AuditBody>> {
    let app = call.app_of_query().await?;
    let (since, kind, before, limit) = call.query(|query, problems| {
        let kinds: Vec<_> = ActorKind::ALL.iter().map(|kind| (kind.as_str(), *kind)).collect();
        let kind = query.one_of("actorKind", &kinds, problems);
        let before = cursor::read(query, |text| text.parse().ok(), problems);
        (time(query, "since", problems), kind, before, limit(query, problems))
    })?;
    let is_wanted = |named: &NamedRow| kind.is_none() || named.row.actor_kind == kind;
    let read = audit::page(call.operations(), &call.caller, app, (before, since), limit, is_wanted).await?;
    Ok(Page::new(read.rows.into_iter().map(|named| named.row), read.next))
}

impl From<RefusedCalls> for RefusedBody {
    fn from(row: RefusedCalls) -> RefusedBody {
        let refused = row.call;
        RefusedBody {
            at: row.at,
            times: row.times,
            status: refused.status,
            method: refused.method,
            route: refused.route,
            code: refused.code,
            fields: refused.fields,
            api_key_start: refused.api_key,
            client: refused.client,
            proven: refused.proven,
        }
    }
}

pub(super) async fn refused(call: &Call<'_>) -> Answer<Page<RefusedBody>> {
    let app = call.app()?.id;
    let (status, code, before, limit) = call.query(|query, problems| {
        let status = query.number("status", 400..=499, problems);
        let before = cursor::read(query, |text| text.parse().ok(), problems);
        (status, query.filter("code", problems), before, limit(query, problems))
    })?;
    let is_wanted = |row: &RefusedCalls| {
        status.is_none_or(|status| i64::from(row.call.status) == status)
            && code.as_ref().is_none_or(|code| row.call.code == *code)
    };
    let page = refused_calls::page(call.operations(), &call.caller, app, before, limit, is_wanted).await?;
    Ok(Page::new(page.calls, page.next))
}
