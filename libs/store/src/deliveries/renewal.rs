//! Renewal of claims during calls that last longer than a lease.

use std::collections::HashSet;
use std::time::Duration;

use uuid::Uuid;

use super::ledger::HeldClaim;

use crate::database::columns::columns;
use crate::{Deliveries, Error};

impl Deliveries<'_> {
    /// Extends leases to `lease` from now. Returns false for a claim that is no longer valid. A lease that has ended is extended too, if no
    /// other worker has claimed the delivery since. Safe to repeat.
    pub async fn renew(self, claims: &[HeldClaim], lease: Duration) -> Result<Vec<bool>, Error> {
        columns! { claim in claims =>
            app_id = claim.app.0,
            id = claim.delivery.0,
            token = claim.token,
        }
        let renewed = sqlx::query_scalar!(
            r#"WITH held AS (
               SELECT d.app_id, d.id, claim.token
               FROM delivery d JOIN unnest($1::bigint[], $2::uuid[], $3::uuid[]) AS claim (app_id, id, token)
                 USING (app_id, id)
               ORDER BY d.app_id, d.id FOR UPDATE OF d
             )
             UPDATE delivery d SET lease_until = clock_timestamp() + $4::float8 * interval '1 second'
             FROM held WHERE (d.app_id, d.id) = (held.app_id, held.id) AND d.token = held.token AND d.status = 'sending'
             RETURNING d.token AS "token!""#,
            &app_id,
            &id,
            &token,
            lease.as_secs_f64()
        )
        .fetch_all(&self.0.pool)
        .await?;
        let renewed: HashSet<Uuid> = renewed.into_iter().collect();
        Ok(claims.iter().map(|claim| renewed.contains(&claim.token)).collect())
    }
}
