//! Runs: redrives that the dispatcher makes page by page, at a rate.
//!
//! One transaction redrives the messages of a page, counts them and moves the position, so a process that dies leaves a page done or
//! untouched. The dispatcher that holds the lease of a run makes its pages. A page checks the lease again under the lock of the row.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use domain::redrive::{Pause, RunState};
use domain::{Action, Actor, ActorKind, AppId, Channel, DeliveryId, Timestamp};
use sqlx::types::Json;
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::{Author, ParkedFilter, ParkedPosition, Redriven, examine, redrive_among};
use crate::database::audit::AuditEntry;
use crate::database::instant::instant;
use crate::sends::status::parse;
use crate::{Deliveries, Error};

/// Latest redriven deliveries by which a run judges whether it helps.
pub const WATCHED: usize = 100;
/// Number of them that have failed or are parked again at which a run pauses itself.
const MOST_FAILED: i64 = 20;
/// Messages that one page redrives at most, and messages that it reads to find them.
const PAGE: usize = 100;
const EXAMINED: i64 = 500;

/// A run that is to be created.
#[derive(Clone, Debug)]
pub struct NewRun<'a> {
    pub app: AppId,
    pub filter: &'a ParkedFilter,
    /// Takes no message that was parked at this time or later.
    pub before: Timestamp,
    /// Messages that the filter selects, and those that would be redriven.
    pub selected: u64,
    pub expected: u64,
    pub per_second: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedriveRun {
    pub app: AppId,
    pub id: i64,
    pub filter: ParkedFilter,
    pub selected: i64,
    pub expected: i64,
    pub per_second: i32,
    pub state: RunState,
    /// Reason why the run paused itself, and the provider or number that it names.
    pub pause: Option<(Pause, String)>,
    pub redriven: i64,
    /// Numbers of messages that stay parked, by reason.
    pub skipped: BTreeMap<String, i64>,
    /// Author in the form of the audit log.
    pub created_by: String,
    /// Email of the author, if it is an operator.
    pub email: Option<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl RedriveRun {
    /// Returns the number of messages that stay parked.
    #[must_use]
    pub fn kept(&self) -> i64 {
        self.skipped.values().sum()
    }
}

/// A run whose next page a process may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedRun {
    pub app: AppId,
    pub id: i64,
}

/// Result of one page of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunPage {
    /// The lease was lost, or the run was paused or stopped.
    NotHeld,
    Paused(Pause),
    Made {
        redriven: u64,
        /// True if no further message is left.
        is_last: bool,
    },
}

struct RunRow {
    app_id: i64,
    id: i64,
    channel: Option<String>,
    provider: Option<String>,
    cause: Option<String>,
    category: Option<String>,
    delivery_id: Option<Uuid>,
    parked_since: Option<DateTime<Utc>>,
    parked_before: DateTime<Utc>,
    selected: i64,
    expected: i64,
    per_second: i32,
    state: String,
    pause: Option<String>,
    pause_detail: Option<String>,
    redriven: i64,
    skipped: Json<BTreeMap<String, i64>>,
    created_by: String,
    email: Option<String>,
    created_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
}

impl Deliveries<'_> {
    /// Returns the database's time, in milliseconds. A preview made now selects what was parked before it.
    pub async fn time(self) -> Result<Timestamp, Error> {
        let now = sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(&self.0.pool).await?;
        Ok(now.into())
    }

    /// Creates a run. Returns None if an unfinished run of the app may select the same messages.
    pub async fn start_run(self, new: &NewRun<'_>, actor: &Actor) -> Result<Option<i64>, Error> {
        let mut transaction = self.0.begin().await?;
        let app = new.app;
        sqlx::query!("SELECT pg_advisory_xact_lock(hashtextextended('redrive run', $1))", app.0)
            .execute(&mut *transaction)
            .await?;
        if overlaps(&mut transaction, new).await? {
            return Ok(None);
        }
        let filter = new.filter;
        let id = sqlx::query_scalar!(
            "INSERT INTO redrive_run (app_id, channel, provider, cause, category, delivery_id, parked_since, parked_before,
               selected, expected, per_second, created_by)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id",
            app.0,
            filter.channel.map(Channel::as_str),
            filter.provider,
            filter.cause,
            filter.category,
            filter.delivery.map(|delivery| delivery.0),
            filter.since.map(instant),
            instant(new.before),
            new.selected.cast_signed(),
            new.expected.cast_signed(),
            i32::try_from(new.per_second).unwrap_or(i32::MAX),
            actor.to_string()
        )
        .fetch_one(&mut *transaction)
        .await?;
        let subject = format!("redrive {id}");
        AuditEntry::new(app, actor, Action::RedriveStart, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(Some(id))
    }

    /// Lists at most `limit` runs of an app, latest first.
    pub async fn list_runs(self, app: AppId, limit: i64) -> Result<Vec<RedriveRun>, Error> {
        self.runs(app, None, limit).await
    }

    pub async fn find_run(self, app: AppId, id: i64) -> Result<Option<RedriveRun>, Error> {
        Ok(self.runs(app, Some(id), 1).await?.pop())
    }

    async fn runs(self, app: AppId, id: Option<i64>, limit: i64) -> Result<Vec<RedriveRun>, Error> {
        let rows = sqlx::query_as!(
            RunRow,
            r#"SELECT r.app_id, r.id, channel, provider, cause, category, delivery_id, parked_since, parked_before, selected,
                 expected, per_second, state, pause, pause_detail, redriven,
                 skipped AS "skipped: Json<BTreeMap<String, i64>>", created_by, o.email AS "email?", r.created_at, ended_at
               FROM redrive_run r LEFT JOIN operator o ON r.created_by = 'operator:' || o.id
               WHERE r.app_id = $1 AND ($2::bigint IS NULL OR r.id = $2) ORDER BY r.id DESC LIMIT $3"#,
            app.0,
            id,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(RedriveRun::try_from).collect()
    }

    /// Moves a run to another state. Returns false if it does not exist, or is in none of the states `from`.
    pub async fn change_run(
        self,
        LeasedRun { app, id }: LeasedRun,
        from: &[RunState],
        to: RunState,
        action: Action,
        actor: &Actor,
    ) -> Result<bool, Error> {
        let mut transaction = self.0.begin().await?;
        let from: Vec<&str> = from.iter().map(|state| state.as_str()).collect();
        // A run that continues is judged by what it redrives from now on.
        let changed = sqlx::query!(
            "UPDATE redrive_run SET state = $4, pause = NULL, pause_detail = NULL, latest = '{}', leased_by = NULL,
               leased_until = NULL, next_at = now(), ended_at = CASE WHEN $5 THEN now() END
             WHERE app_id = $1 AND id = $2 AND state = ANY($3)",
            app.0,
            id,
            &from as &[&str],
            to.as_str(),
            to.is_end()
        )
        .execute(&mut *transaction)
        .await?;
        if changed.rows_affected() == 0 {
            return Ok(false);
        }
        let subject = format!("redrive {id}");
        AuditEntry::new(app, actor, action, &subject).write(&mut transaction).await?;
        transaction.commit().await?;
        Ok(true)
    }

    /// Leases the run whose next page is due first to a process.
    pub async fn lease_run(self, process: Uuid, lease: Duration) -> Result<Option<LeasedRun>, Error> {
        let row = sqlx::query!(
            "UPDATE redrive_run SET leased_by = $1, leased_until = now() + make_interval(secs => $2)
             WHERE (app_id, id) = (
               SELECT app_id, id FROM redrive_run
               WHERE state = 'running' AND next_at <= now() AND (leased_by IS NULL OR leased_by = $1 OR leased_until <= now())
               ORDER BY next_at LIMIT 1 FOR UPDATE SKIP LOCKED
             ) RETURNING app_id, id",
            process,
            lease.as_secs_f64()
        )
        .fetch_optional(&self.0.pool)
        .await?;
        Ok(row.map(|row| LeasedRun { app: AppId(row.app_id), id: row.id }))
    }

    /// Returns the time until the next page of a run is due, or its lease can be acquired.
    pub async fn next_page_in(self, process: Uuid) -> Result<Option<Duration>, Error> {
        let seconds = sqlx::query_scalar!(
            "SELECT extract(epoch FROM min(greatest(next_at, CASE WHEN leased_by <> $1 THEN leased_until END)) - now())::float8
             FROM redrive_run WHERE state = 'running'",
            process
        )
        .fetch_one(&self.0.pool)
        .await?;
        Ok(seconds.map(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()))
    }

    /// Makes the next page of a leased run, or pauses the run if what it redrove before fails again.
    pub async fn make_run_page(
        self,
        run: LeasedRun,
        process: Uuid,
        now: Timestamp,
    ) -> Result<RunPage, Error> {
        let mut transaction = self.0.begin().await?;
        let Some(held) = hold_run(&mut transaction, run, process).await? else { return Ok(RunPage::NotHeld) };
        if let Some((pause, detail)) = trouble(&mut transaction, run.app, &held.latest).await? {
            pause_run(&mut transaction, run, pause, &detail).await?;
            transaction.commit().await?;
            return Ok(RunPage::Paused(pause));
        }
        let most = usize::try_from(held.per_second).unwrap_or(1).clamp(1, PAGE);
        // A pinned plan has to allow for every filter, and would read all parked messages.
        sqlx::raw_sql("SET LOCAL plan_cache_mode = force_custom_plan").execute(&mut *transaction).await?;
        let found = examine(&mut transaction, &held.filter, held.position, EXAMINED, most).await?;
        let author = Author { text: &held.created_by, kind: held.author_kind() };
        let made = redrive_among(&mut transaction, &found.ids, now, author).await?;
        let (redriven, is_last) = (made.timers as u64, found.is_end);
        advance(transaction, run, held, &made, found.position, is_last).await?;
        Ok(RunPage::Made { redriven, is_last })
    }

    /// Removes runs that ended before a time, or before the retention of their app's sends. Returns their number.
    pub async fn remove_old_runs(self, age: Duration, limit: u32) -> Result<u64, Error> {
        let removed = sqlx::query!(
            "DELETE FROM redrive_run WHERE (app_id, id) IN (
               SELECT r.app_id, r.id FROM redrive_run r JOIN app a ON a.id = r.app_id
               WHERE r.ended_at < now() - least($1::float8, a.keep_sends * 86400.0) * interval '1 second' LIMIT $2
             )",
            age.as_secs_f64(),
            i64::from(limit)
        )
        .execute(&self.0.pool)
        .await?;
        Ok(removed.rows_affected())
    }
}

/// A run whose row is locked.
struct HeldRun {
    filter: ParkedFilter,
    per_second: i32,
    position: Option<ParkedPosition>,
    redriven: i64,
    skipped: BTreeMap<String, i64>,
    latest: Vec<Uuid>,
    created_by: String,
}

impl HeldRun {
    /// Returns the kind of the author in the audit log.
    fn author_kind(&self) -> ActorKind {
        match self.created_by.split(':').next() {
            Some("operator") => ActorKind::Operator,
            Some("token") => ActorKind::Token,
            Some("cli") => ActorKind::Cli,
            _ => ActorKind::System,
        }
    }
}

async fn overlaps(connection: &mut PgConnection, new: &NewRun<'_>) -> Result<bool, Error> {
    let filter = new.filter;
    let overlaps = sqlx::query_scalar!(
        r#"SELECT EXISTS (
             SELECT FROM redrive_run WHERE app_id = $1 AND state IN ('running', 'paused')
               AND ($2::text IS NULL OR channel IS NULL OR channel = $2)
               AND ($3::text IS NULL OR provider IS NULL OR provider = $3)
               AND ($4::text IS NULL OR cause IS NULL OR cause = $4)
               AND ($5::text IS NULL OR category IS NULL OR category = $5)
               AND ($6::uuid IS NULL OR delivery_id IS NULL OR delivery_id = $6)
               AND (parked_since IS NULL OR parked_since < $8)
               AND ($7::timestamptz IS NULL OR parked_before > $7)
           ) AS "exists!""#,
        new.app.0,
        filter.channel.map(Channel::as_str),
        filter.provider,
        filter.cause,
        filter.category,
        filter.delivery.map(|delivery| delivery.0),
        filter.since.map(instant),
        instant(new.before)
    );
    Ok(overlaps.fetch_one(connection).await?)
}

/// Locks a run if the process still has its lease and a page is due.
async fn hold_run(
    connection: &mut PgConnection,
    run: LeasedRun,
    process: Uuid,
) -> Result<Option<HeldRun>, Error> {
    let row = sqlx::query!(
        r#"SELECT channel, provider, cause, category, delivery_id, parked_since, parked_before, per_second, after_at, after_id,
             redriven, skipped AS "skipped: Json<BTreeMap<String, i64>>", latest, created_by
           FROM redrive_run WHERE app_id = $1 AND id = $2 AND state = 'running' AND leased_by = $3 AND leased_until > now()
           FOR UPDATE"#,
        run.app.0,
        run.id,
        process
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let filter = ParkedFilter {
        app: Some(run.app),
        channel: row.channel.as_deref().map(parse).transpose()?,
        provider: row.provider,
        cause: row.cause,
        category: row.category,
        delivery: row.delivery_id.map(DeliveryId),
        since: row.parked_since.map(Into::into),
        before: Some(row.parked_before.into()),
        id: None,
    };
    Ok(Some(HeldRun {
        filter,
        per_second: row.per_second,
        position: row.after_at.zip(row.after_id).map(|(at, id)| ParkedPosition { at, id }),
        redriven: row.redriven,
        skipped: row.skipped.0,
        latest: row.latest,
        created_by: row.created_by,
    }))
}

/// Returns the reason to pause a run whose latest deliveries are these.
async fn trouble(
    connection: &mut PgConnection,
    app: AppId,
    latest: &[Uuid],
) -> Result<Option<(Pause, String)>, Error> {
    if latest.is_empty() {
        return Ok(None);
    }
    let failed = sqlx::query_scalar!(
        r#"SELECT count(*) AS "failed!" FROM delivery
           WHERE app_id = $1 AND id = ANY($2) AND status IN ('parked', 'failed')"#,
        app.0,
        latest
    );
    let failed = failed.fetch_one(&mut *connection).await?;
    if failed >= MOST_FAILED {
        return Ok(Some((Pause::Failing, failed.to_string())));
    }
    // The breaker itself is in the memory of the workers. A delivery that waits for it shows that it is open.
    let waiting = sqlx::query_scalar!(
        r#"SELECT coalesce(provider, '') AS "provider!" FROM timer
           WHERE delivery_id = ANY($2) AND app_id = $1 AND wait_reason = 'breaker_open' LIMIT 1"#,
        app.0,
        latest
    );
    let waiting = waiting.fetch_optional(connection).await?;
    Ok(waiting.map(|provider| (Pause::BreakerOpen, provider)))
}

async fn pause_run(
    connection: &mut PgConnection,
    run: LeasedRun,
    pause: Pause,
    detail: &str,
) -> Result<(), Error> {
    sqlx::query!(
        "UPDATE redrive_run SET state = 'paused', pause = $3, pause_detail = $4, leased_by = NULL, leased_until = NULL
         WHERE app_id = $1 AND id = $2",
        run.app.0,
        run.id,
        pause.as_str(),
        detail
    )
    .execute(&mut *connection)
    .await?;
    let subject = format!("redrive {}", run.id);
    AuditEntry::new(run.app, &Actor::System, Action::RedrivePause, &subject).write(connection).await
}

/// Stores the result of a page, and commits.
async fn advance(
    mut transaction: Transaction<'static, Postgres>,
    run: LeasedRun,
    held: HeldRun,
    made: &Redriven,
    position: Option<ParkedPosition>,
    is_last: bool,
) -> Result<(), Error> {
    let mut skipped = held.skipped;
    for skip in made.page.iter().filter_map(|parked| parked.skip) {
        *skipped.entry(skip.as_str().to_owned()).or_default() += 1;
    }
    let redriven = made.page.iter().filter(|parked| parked.skip.is_none());
    let ids = redriven.filter_map(|parked| parked.delivery).map(|delivery| delivery.0);
    let mut latest: Vec<Uuid> = held.latest.into_iter().chain(ids).collect();
    latest.drain(..latest.len().saturating_sub(WATCHED));
    let number = i64::try_from(made.timers).unwrap_or(i64::MAX);
    let position = position.or(held.position);
    sqlx::query!(
        "UPDATE redrive_run SET redriven = $3, skipped = $4, latest = $5, after_at = $6, after_id = $7,
           next_at = greatest(next_at, clock_timestamp() - interval '1 second') + $8::float8 * interval '1 second' / per_second,
           state = CASE WHEN $9 THEN 'done' ELSE state END, ended_at = CASE WHEN $9 THEN now() END
         WHERE app_id = $1 AND id = $2",
        run.app.0,
        run.id,
        held.redriven.saturating_add(number),
        Json(&skipped) as _,
        &latest,
        position.map(|position| position.at),
        position.map(|position| position.id),
        number as f64,
        is_last
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await?;
    Ok(())
}

impl TryFrom<RunRow> for RedriveRun {
    type Error = Error;

    fn try_from(row: RunRow) -> Result<RedriveRun, Error> {
        let pause = row.pause.as_deref().map(parse).transpose()?;
        Ok(RedriveRun {
            app: AppId(row.app_id),
            id: row.id,
            filter: ParkedFilter {
                app: Some(AppId(row.app_id)),
                channel: row.channel.as_deref().map(parse).transpose()?,
                provider: row.provider,
                cause: row.cause,
                category: row.category,
                delivery: row.delivery_id.map(DeliveryId),
                since: row.parked_since.map(Into::into),
                before: Some(row.parked_before.into()),
                id: None,
            },
            selected: row.selected,
            expected: row.expected,
            per_second: row.per_second,
            state: parse(&row.state)?,
            pause: pause.zip(Some(row.pause_detail.unwrap_or_default())),
            redriven: row.redriven,
            skipped: row.skipped.0,
            created_by: row.created_by,
            email: row.email,
            created_at: row.created_at.into(),
            ended_at: row.ended_at.map(Into::into),
        })
    }
}
