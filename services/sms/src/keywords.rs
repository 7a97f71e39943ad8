//! Records keywords that people send over SMPP, such as STOP.

use std::sync::Arc;

use domain::AppId;
use domain::sms::keyword::Keyword;
use service_kit::{Context, metrics};
use tokio::sync::{mpsc, oneshot};

use crate::recorder::RecordResult;

const QUEUE: usize = 256;

#[derive(Debug)]
pub struct KeywordMessage {
    pub app: AppId,
    pub provider: Arc<str>,
    /// Sender's number in E.164 form.
    pub number: String,
    pub keyword: Keyword,
    /// Receives the result when the keyword is recorded or recording has failed.
    pub recorded: oneshot::Sender<RecordResult>,
}

pub(crate) fn channel() -> (mpsc::Sender<KeywordMessage>, mpsc::Receiver<KeywordMessage>) {
    mpsc::channel(QUEUE)
}

/// Records keywords until all senders of the queue are dropped. A number that sends STOP is suppressed in the app until it
/// sends START. The message centre repeats a message that could not be recorded.
pub(crate) async fn record(
    context: Context,
    mut messages: mpsc::Receiver<KeywordMessage>,
) -> anyhow::Result<()> {
    while let Some(KeywordMessage { app, provider, number, keyword, recorded }) = messages.recv().await {
        let directory = context.store.directory();
        let changed = match keyword {
            Keyword::Stop => directory.opt_out_of_sms(app, &number).await,
            Keyword::Start => directory.opt_in_to_sms(app, &number).await,
            Keyword::Help => Ok(false),
        };
        let result = match changed {
            Ok(is_change) => {
                ::metrics::counter!(metrics::SMS_KEYWORDS, "keyword" => keyword.as_str()).increment(1);
                let keyword = keyword.as_str();
                tracing::info!(%app, provider = &*provider, keyword, is_change, "a recipient sent a keyword");
                RecordResult::Done
            }
            Err(error) if error.is_refused_data() => {
                tracing::error!(%error, %app, provider = &*provider, "PostgreSQL rejected a keyword; dropping it");
                RecordResult::Done
            }
            Err(error) => {
                tracing::warn!(%error, %app, provider = &*provider, "cannot record a keyword; the message centre will send it again");
                RecordResult::Later
            }
        };
        // Sending fails if the connection has ended. The message centre then delivers the message again.
        recorded.send(result).ok();
    }
    Ok(())
}
