//! Reports of providers about messages that they accepted, and messages that people sent to them.

use domain::receipt::{Receipt, ReceiptSubject};
use domain::retry::RetryPolicy;
use domain::sms::keyword::Keyword;
use domain::{Answer, DeliveryId};
use service_kit::{clock, metrics};

use crate::waiting::database;
use crate::{Caller, Object, OperationError, Operations};

/// A report of a provider about a message.
#[derive(Debug)]
pub struct Report {
    pub delivery: DeliveryId,
    /// Number of the attempt that sent the message, if the provider returned it.
    pub attempt: Option<u32>,
    /// None if the status of the message is not final.
    pub answer: Option<Answer>,
}

/// Records a report about a delivery of the calling provider.
///
/// # Errors
/// Returns [`Object::Delivery`] if the provider has no such delivery.
pub async fn record(
    operations: &Operations,
    caller: &Caller,
    report: Report,
    policy: &RetryPolicy,
) -> Result<(), OperationError> {
    let account = caller.reporting_provider()?;
    let Report { delivery, attempt, answer } = report;
    let deliveries = operations.store.deliveries();
    let states = database(deliveries.delivery_states(&[(account.app, delivery)])).await?;
    let is_theirs = states.first().is_some_and(|state| {
        state.channel == account.channel && state.provider.as_ref() == Some(&account.identifier)
    });
    if !is_theirs {
        return Err(OperationError::NotFound(Object::Delivery));
    }
    let Some(answer) = answer else { return Ok(()) };
    let receipt = Receipt {
        id: clock::new_id(),
        app: account.app,
        about: ReceiptSubject::Delivery(delivery, attempt),
        answer,
        at: clock::now(),
        random: clock::random(),
    };
    database(deliveries.record_receipts(&[receipt], policy)).await?;
    Ok(())
}

/// Obeys a keyword that a person sent from a number. After `STOP`, the app sends no SMS to the number until `START`.
pub async fn obey_keyword(
    operations: &Operations,
    caller: &Caller,
    number: &str,
    keyword: Keyword,
) -> Result<(), OperationError> {
    let app = caller.reporting_provider()?.app;
    ::metrics::counter!(metrics::SMS_KEYWORDS, "keyword" => keyword.as_str()).increment(1);
    let directory = operations.store.directory();
    match keyword {
        Keyword::Stop => {
            let is_new = database(directory.opt_out_of_sms(app, number)).await?;
            tracing::info!(%app, is_new, "a recipient opted out of SMS");
        }
        Keyword::Start => {
            let was_stopped = database(directory.opt_in_to_sms(app, number)).await?;
            tracing::info!(%app, was_stopped, "a recipient opted in to SMS");
        }
        Keyword::Help => {}
    }
    Ok(())
}
