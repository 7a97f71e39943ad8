//! The latest calls of each app that the API refused.

use std::time::Duration;

use domain::{AppId, Timestamp};

use crate::database::columns::{columns, integer};
use crate::database::instant::instant;
use crate::{Control, Error};

/// Maximum number of rows that an app keeps.
pub const KEPT: i64 = 1_000;

/// Equal calls that the API refused. Contains no body and no personal data beyond the network of the client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RefusedCall {
    pub app: AppId,
    pub status: u16,
    pub method: String,
    /// Pattern of the path, without ids.
    pub route: String,
    pub code: String,
    /// Members and parameters with problems.
    pub fields: Vec<String>,
    /// Start of the API key.
    pub api_key: String,
    /// Network of the client.
    pub client: String,
    /// True if the caller proved who it is: by the API secret, a token or a signature.
    pub proven: bool,
}

/// A row: equal calls with their number and the time of the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCalls {
    pub id: i64,
    pub at: Timestamp,
    pub times: u32,
    pub call: RefusedCall,
}

impl Control<'_> {
    /// Adds rows, each with the number of calls and the time of the latest.
    pub async fn add_refused_calls(self, calls: &[(RefusedCall, u32, Timestamp)]) -> Result<(), Error> {
        columns! { (call, number, latest) in calls =>
            apps = call.app.0,
            ats = instant(*latest),
            times = integer(*number),
            statuses = i32::from(call.status),
            methods = call.method.as_str(),
            routes = call.route.as_str(),
            codes = call.code.as_str(),
            fields = call.fields.join(","),
            keys = call.api_key.as_str(),
            clients = call.client.as_str(),
            proven = call.proven,
        }
        sqlx::query!(
            "INSERT INTO refused_call (app_id, at, times, status, method, route, code, fields, api_key, client, proven)
             SELECT app_id, at, times, status, method, route, code, string_to_array(fields, ','), api_key, client, proven
             FROM unnest($1::bigint[], $2::timestamptz[], $3::integer[], $4::integer[], $5::text[], $6::text[], $7::text[],
                 $8::text[], $9::text[], $10::text[], $11::boolean[])
               AS t (app_id, at, times, status, method, route, code, fields, api_key, client, proven) ORDER BY at",
            &apps,
            &ats,
            &times,
            &statuses,
            &methods as &[&str],
            &routes as &[&str],
            &codes as &[&str],
            &fields,
            &keys as &[&str],
            &clients as &[&str],
            &proven
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }

    /// Lists at most `limit` rows of an app, latest first.
    pub async fn refused_calls(self, app: AppId, limit: i64) -> Result<Vec<RefusedCalls>, Error> {
        let rows = sqlx::query!(
            "SELECT id, at, times, status, method, route, code, fields, api_key, client, proven FROM refused_call
             WHERE app_id = $1 ORDER BY id DESC LIMIT $2",
            app.0,
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        let rows = rows.into_iter().map(|row| RefusedCalls {
            id: row.id,
            at: row.at.into(),
            times: u32::try_from(row.times).unwrap_or_default(),
            call: RefusedCall {
                app,
                status: u16::try_from(row.status).unwrap_or_default(),
                method: row.method,
                route: row.route,
                code: row.code,
                fields: row.fields,
                api_key: row.api_key,
                client: row.client,
                proven: row.proven,
            },
        });
        Ok(rows.collect())
    }

    /// Returns the apps with more than `kept` rows.
    pub async fn apps_with_surplus_refused_calls(self, kept: i64) -> Result<Vec<AppId>, Error> {
        let rows = sqlx::query_scalar!(
            "SELECT app.id FROM app
             WHERE EXISTS (SELECT FROM refused_call WHERE app_id = app.id ORDER BY id DESC OFFSET $1 LIMIT 1)",
            kept
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(AppId).collect())
    }

    /// Removes rows of an app until `kept` are left. Proven callers and others have equal shares, and so have the clients among
    /// each of them; what one does not need goes to the others. Each loses its earliest rows.
    pub async fn remove_surplus_refused_calls(self, app: AppId, kept: i64) -> Result<u64, Error> {
        let removed = sqlx::query!(
            "DELETE FROM refused_call WHERE app_id = $1 AND id IN (
               SELECT id FROM (
                 SELECT id, proven, row_number() OVER (PARTITION BY proven ORDER BY turn, id DESC) AS turn FROM (
                   SELECT id, proven, row_number() OVER (PARTITION BY proven, client ORDER BY id DESC) AS turn
                   FROM refused_call WHERE app_id = $1
                 ) AS of_client
               ) AS of_proof ORDER BY turn, proven DESC, id DESC OFFSET $2)",
            app.0,
            kept
        )
        .execute(&self.0.pool)
        .await?;
        Ok(removed.rows_affected())
    }

    /// Removes at most `most` rows that are older than `age`.
    pub async fn remove_old_refused_calls(self, age: Duration, most: u32) -> Result<u64, Error> {
        let removed = sqlx::query!(
            "DELETE FROM refused_call WHERE ctid = ANY(ARRAY(
               SELECT ctid FROM refused_call WHERE at < now() - make_interval(secs => $1)
               ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))",
            age.as_secs_f64(),
            i64::from(most)
        )
        .execute(&self.0.pool)
        .await?;
        Ok(removed.rows_affected())
    }
}
