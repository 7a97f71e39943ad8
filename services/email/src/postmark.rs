//! Providers of kind `postmark`: an HTTP API that accepts emails as JSON.

pub mod answers;
mod request;
pub mod settings;

use std::time::Duration;

use domain::content::Object;
use domain::{Answer, Outcome, Timestamp};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Client, RequestBuilder};
use secrecy::ExposeSecret;
use worker::exchange::{Caller, Silence};
use worker::verdict::presentable;
use worker::{Call, Outbound};

use crate::letter::Letter;
use crate::letter_error::LetterError;
use answers::{PostmarkReply, answer};
use settings::PostmarkSettings;

const TOKEN: &str = "X-Postmark-Server-Token";

/// Client of the API.
#[derive(Clone)]
pub(crate) struct Postmark {
    caller: Caller,
}

impl Postmark {
    /// Creates an API client whose calls through `client` take at most `limit`.
    pub(crate) fn new(client: Client, outbound: Outbound, limit: Duration) -> Self {
        Postmark { caller: Caller::new(client, outbound, limit) }
    }

    /// Sends one email.
    pub(crate) async fn send(
        &self,
        settings: &PostmarkSettings,
        letter: &Letter<'_>,
        call: &Call<'_>,
    ) -> Result<Answer, LetterError> {
        let overrides = call.job.overrides.get(&call.provider.identifier);
        let body = request::of(settings, letter, overrides)?;
        let others = letter.cc.iter().chain(&letter.bcc).map(ToString::to_string);
        let others = others.chain([call.job.target.clone()]);
        let recipients: Vec<String> = std::iter::once(letter.to.to_string()).chain(others).collect();
        let request = self.caller.client().post(url(settings, "email")).json(&body);
        Ok(match self.ask(request, settings, call.now).await {
            Ok(reply) => {
                let answer = answer(&reply, &recipients);
                // The subject is hidden too: it may contain a one-time code.
                let answer = Answer { message: presentable(&answer.message, &[letter.subject]), ..answer };
                // A refusal caused by a send's own sender or stream must not pause the provider.
                match answer.outcome {
                    Outcome::PauseProvider
                        if is_about_choice(&answer.code) && chose(settings, letter, overrides) =>
                    {
                        Answer { outcome: Outcome::Failed, ..answer }
                    }
                    _ => answer,
                }
            }
            Err(lost) => lost,
        })
    }

    /// Checks the token by requesting the Postmark server that it belongs to. Returns one sentence that describes the
    /// successful check.
    pub(crate) async fn probe(&self, settings: &PostmarkSettings, now: Timestamp) -> Result<String, Answer> {
        let call = self.caller.client().get(url(settings, "server"));
        let reply = self.ask(call, settings, now).await?;
        let answer = answer(&reply, &[]);
        match answer.outcome {
            Outcome::Sent { .. } => {
                let name = presentable(reply.name(), &[]);
                Ok(format!("The token belongs to the server {name:?}; no email was sent."))
            }
            _ => Err(answer),
        }
    }

    async fn ask(
        &self,
        request: RequestBuilder,
        settings: &PostmarkSettings,
        now: Timestamp,
    ) -> Result<PostmarkReply, Answer> {
        let mut token = HeaderValue::from_str(settings.token.expose_secret()).map_err(|_| {
            Answer::new(Outcome::PauseProvider, "settings", "the token is not a valid header value")
        })?;
        token.set_sensitive(true);
        let request = request.header(TOKEN, token).header(ACCEPT, "application/json");
        let reply = self.caller.call(request, now).await.map_err(Silence::answer)?;
        Ok(PostmarkReply::read(reply.status, reply.retry_after, &reply.body))
    }
}

/// Returns true if a code may be about the sender or the stream.
fn is_about_choice(codes: &str) -> bool {
    matches!(codes, "422 400" | "422 401" | "422 422" | "422 1235" | "422 1236")
}

/// Returns true if the send sets another sender or stream than the settings.
fn chose(settings: &PostmarkSettings, letter: &Letter<'_>, overrides: Option<&Object>) -> bool {
    let is_stream = |name: &String| name.eq_ignore_ascii_case("MessageStream");
    letter.identity.from.email != settings.identity.from.email
        || overrides.is_some_and(|members| members.keys().any(is_stream))
}

fn url(settings: &PostmarkSettings, path: &str) -> reqwest::Url {
    let mut url = settings.base_url.clone();
    url.set_path(&format!("{}/{path}", url.path().trim_end_matches('/')));
    url
}
