//! Passes that remove the remaining data of erased users. The first runs soon after the erasure, the last when all work that started before
//! the erasure must have ended.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::{AppId, Timestamp, UserNumber};

use crate::database::columns::columns;
use crate::erasure::messages::{clear_dead_events, dead_events};
use crate::erasure::{messages, remains, shadows};
use crate::{Erasures, Error};

/// Time after an erasure at which all transactions and acknowledgement waits from before the erasure must have ended. A claim may last
/// longer, because a worker renews it during a call: an erasure is not complete while a delivery of the user is claimed.
const SETTLED_AFTER: Duration = Duration::from_secs(15 * 60);
/// If a reserved pass has not ended after this time, another instance of the service may start it again.
const TAKEN_FOR: Duration = Duration::from_secs(5 * 60);
const USERS: i64 = 100;

#[derive(Debug, Default)]
pub struct Pass {
    users: Vec<(AppId, UserNumber)>,
    /// Users for whom this pass can be the last, each with the time of the erasure, which is at least 15 minutes old.
    settled: Vec<(AppId, UserNumber, Timestamp)>,
}

impl Pass {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Time of the latest erasure among the users for whom this pass can be the last.
    #[must_use]
    pub fn settled_since(&self) -> Option<Timestamp> {
        self.settled.iter().map(|(.., erased_at)| *erased_at).max()
    }
}

impl Erasures<'_> {
    /// Reserves up to 100 erased users whose next pass is due. For five minutes, no other instance of the service starts a pass for these
    /// users.
    pub async fn take_erased(self) -> Result<Pass, Error> {
        let rows = sqlx::query!(
            r#"UPDATE erased e SET next_pass_at = now() + $1::float8 * interval '1 second'
             WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM erased WHERE done_at IS NULL AND next_pass_at <= now()
               ORDER BY next_pass_at LIMIT $2 FOR UPDATE SKIP LOCKED
             ))
             RETURNING e.app_id, e.user_number, e.erased_at,
               e.erased_at <= now() - $3::float8 * interval '1 second' AS "is_settled!""#,
            TAKEN_FOR.as_secs_f64(),
            USERS,
            SETTLED_AFTER.as_secs_f64()
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut pass = Pass::default();
        for row in rows {
            let (app, user) = (AppId(row.app_id), UserNumber(row.user_number));
            pass.users.push((app, user));
            if row.is_settled {
                pass.settled.push((app, user, row.erased_at.into()));
            }
        }
        Ok(pass)
    }

    /// Returns false if the shadow tables could not be searched, because an inbox rebuild or verification is running. This pass must then
    /// not be the last. After an error, data that was already removed stays removed.
    pub async fn clear_erased(self, pass: &Pass) -> Result<bool, Error> {
        remains::clear(&self.0.pool, &pass.users).await?;
        let apps: BTreeSet<AppId> = pass.users.iter().map(|(app, _)| *app).collect();
        for app in apps {
            messages::clear_stored_sends(&self.0.pool, app).await?;
            messages::clear_parked(&self.0.pool, app).await?;
            messages::clear_timers(&self.0.pool, app).await?;
        }
        clear_dead_events(&self.0.pool, &dead_events!("", "dead_event")).await?;
        shadows::clear(&self.0.pool, &pass.users).await
    }

    /// Ends a pass. `is_last` may be true only if the log has no unprocessed message from before the erasures. If it is true, erasures that
    /// are at least 15 minutes old are marked as done, and their digests are removed. All other users get another pass, no sooner than
    /// `again_after` from now; after an error, all users do.
    pub async fn end_pass(self, pass: &Pass, is_last: bool, again_after: Duration) -> Result<(), Error> {
        let is_done = |user: &(AppId, UserNumber)| {
            is_last && pass.settled.iter().any(|(app, number, _)| (*app, *number) == *user)
        };
        columns! { user in pass.users =>
            app_id = user.0.0,
            user_number = user.1.0,
            done = is_done(user),
        }
        sqlx::query!(
            "UPDATE erased e SET done_at = CASE WHEN ended.done AND NOT claimed.exists THEN now() END,
               digest = CASE WHEN ended.done AND NOT claimed.exists THEN NULL ELSE e.digest END,
               next_pass_at = greatest(e.erased_at + $4::float8 * interval '1 second',
                                       now() + $5::float8 * interval '1 second')
             FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS ended (app_id, user_number, done)
             CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM delivery d
               WHERE (d.app_id, d.user_number) = (ended.app_id, ended.user_number) AND d.status = 'sending')) AS claimed
             WHERE (e.app_id, e.user_number) = (ended.app_id, ended.user_number)",
            &app_id,
            &user_number,
            &done,
            SETTLED_AFTER.as_secs_f64(),
            again_after.as_secs_f64()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }
}
