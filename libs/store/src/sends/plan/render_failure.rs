use domain::{AppId, Channel, Reason, SendId, Status};

use crate::database::columns::{columns, integer};
use crate::deliveries::ledger::{DeliveryState, StateRow};
use crate::{Error, Sends};

/// Rendering failed after the chunk was frozen.
#[derive(Clone, Copy, Debug)]
pub struct RenderFailure {
    pub app: AppId,
    pub send_id: SendId,
    pub recipient_index: u32,
    pub channel: Channel,
}

impl Sends<'_> {
    /// Records rendering failures. Of the deliveries that `failures` names, returns those that failed to render, in this call or an earlier
    /// one, and those that were cancelled. The caller must publish the outcomes of the returned deliveries, because no worker receives a
    /// job for them. Safe to repeat: the call then returns the same deliveries.
    pub async fn record_render_failures(
        self,
        failures: &[RenderFailure],
    ) -> Result<Vec<DeliveryState>, Error> {
        if failures.is_empty() {
            return Ok(Vec::new());
        }
        self.end_unrendered(failures).await?;
        // Read the rows in a separate statement: its snapshot also includes changes for which the first statement had to
        // wait.
        columns! { failure in failures =>
            apps = failure.app.0,
            sends = failure.send_id.0,
            recipients = integer(failure.recipient_index),
            channels = failure.channel.as_str(),
        }
        let rows = sqlx::query_as!(
            StateRow,
            "SELECT app_id, id, send_id, user_number, channel, status,
               reason || coalesce(':' || detail, '') AS reason, attempt, provider
             FROM delivery d
             WHERE (d.app_id, d.send_id, d.recipient_index, d.channel) IN (
                 SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[])
               ) AND d.attempt = 1 AND (d.status = $5 OR d.status = $6 AND d.reason = $7)
             ORDER BY d.app_id, d.id",
            &apps,
            &sends,
            &recipients,
            &channels as &[&str],
            Status::Cancelled.as_str(),
            Status::Failed.as_str(),
            Reason::TemplateError.as_str()
        )
        .fetch_all(&self.0.pool)
        .await?;
        rows.into_iter().map(DeliveryState::try_from).collect()
    }

    async fn end_unrendered(self, failures: &[RenderFailure]) -> Result<(), Error> {
        columns! { failure in failures =>
            apps = failure.app.0,
            sends = failure.send_id.0,
            recipients = integer(failure.recipient_index),
            channels = failure.channel.as_str(),
        }
        sqlx::query!(
            "WITH failure AS (
               SELECT * FROM unnest($1::bigint[], $2::uuid[], $3::int[], $4::text[])
                 AS failure (app_id, send_id, recipient_index, channel)
             ), inbox AS (
               UPDATE planned_recipient r SET in_app = false, skips = r.skips || (failure.channel || ':' || $5)
               FROM failure WHERE failure.channel = $6 AND r.in_app AND (r.app_id, r.send_id, r.recipient_index)
                 = (failure.app_id, failure.send_id, failure.recipient_index)
             )
             UPDATE delivery d SET status = $7, reason = $5, settled_at = now()
             FROM failure WHERE d.status = $8 AND (d.app_id, d.send_id, d.recipient_index, d.channel)
               = (failure.app_id, failure.send_id, failure.recipient_index, failure.channel)",
            &apps,
            &sends,
            &recipients,
            &channels as &[&str],
            Reason::TemplateError.as_str(),
            Channel::InApp.as_str(),
            Status::Failed.as_str(),
            Status::Queued.as_str()
        )
        .execute(&self.0.pool)
        .await?;
        Ok(())
    }
}
