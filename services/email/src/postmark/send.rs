use std::time::Duration;

use domain::content::Object;
use domain::{Answer, Outcome, Problem, Timestamp};
use reqwest::RequestBuilder;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use secrecy::ExposeSecret;
use serde_json::Value;
use worker::exchange::{Caller, NoReply};
use worker::verdict::presentable;
use worker::{Attempt, Call, Probe, ProviderKind};

use super::answers::{PostmarkReply, answer};
use super::settings::PostmarkSettings;
use super::{body, request};
use crate::connections::Connections;
use crate::letter::Letter;
use crate::letter_error::LetterError;

const TOKEN: &str = "X-Postmark-Server-Token";
const PROBE_LIMIT: Duration = Duration::from_secs(30);

pub struct Postmark;

impl ProviderKind for Postmark {
    type Resources = Connections;
    type Settings = PostmarkSettings;

    const NAME: &'static str = "postmark";
    const SECRETS: &'static [&'static str] = &["serverToken"];
    const EXAMPLE: &'static str = r#"{
      "serverToken": "...",        stored encrypted; if absent, the old one stays
      "messageStream": "outbound",   optional
      "from": "shop@example.com",
      "fromName": "The shop",      optional
      "replyTo": "help@example.com",   optional
      "allowedFrom": ["@example.com"],   optional: senders that a send may use; default: every sender in the domain of from
      "baseUrl": "https://api.postmarkapp.com"   optional
    }"#;

    fn parse(settings: &Value) -> Result<PostmarkSettings, Vec<Problem>> {
        PostmarkSettings::parse(settings)
    }

    async fn send(attempt: Attempt<'_, Connections>, settings: &PostmarkSettings) -> Answer {
        let Attempt { resources: connections, call, input: enclosed } = attempt;
        match Letter::of(call, &settings.identity, enclosed) {
            Ok(letter) => {
                send(&connections.caller, settings, &letter, call).await.unwrap_or_else(Answer::from)
            }
            Err(unsendable) => unsendable.into(),
        }
    }

    /// Reads the name of the Postmark server that the token belongs to. Sends no email.
    async fn probe(settings: &PostmarkSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        let caller = probe.caller(PROBE_LIMIT)?;
        let call = caller.client().get(url(settings, "server"));
        let reply = ask(&caller, call, settings, probe.now).await?;
        let answer = answer(&reply, &[]);
        match answer.outcome {
            Outcome::Sent { .. } => {
                let name = presentable(reply.name(), &[]);
                Ok(format!("The token belongs to the server {name:?}; no email was sent."))
            }
            _ => Err(answer),
        }
    }
}

async fn send(
    caller: &Caller,
    settings: &PostmarkSettings,
    letter: &Letter<'_>,
    call: &Call<'_>,
) -> Result<Answer, LetterError> {
    let overrides = call.job.overrides.get(&call.provider.identifier);
    let body = body::of_json(request::of(settings, letter, overrides)?);
    let others = letter.cc.iter().chain(&letter.bcc).map(ToString::to_string);
    let others = others.chain([call.job.target.clone()]);
    let recipients: Vec<String> = std::iter::once(letter.to.to_string()).chain(others).collect();
    let request = caller.client().post(url(settings, "email"));
    let request = request.header(CONTENT_TYPE, "application/json").body(body);
    Ok(match ask(caller, request, settings, call.now).await {
        Ok(reply) => {
            let answer = answer(&reply, &recipients);
            // Postmark's message may repeat the subject, which may contain a one-time code.
            let answer = Answer { message: presentable(&answer.message, &[letter.subject]), ..answer };
            // If Postmark refuses the sender or stream that the send chose, other sends still work: do not pause the
            // provider.
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

async fn ask(
    caller: &Caller,
    request: RequestBuilder,
    settings: &PostmarkSettings,
    now: Timestamp,
) -> Result<PostmarkReply, Answer> {
    let mut token = HeaderValue::from_str(settings.token.expose_secret()).map_err(|_| {
        Answer::new(Outcome::PauseProvider, "settings", "the token is not a valid header value")
    })?;
    token.set_sensitive(true);
    let request = request.header(TOKEN, token).header(ACCEPT, "application/json");
    let reply = caller.call(request, now).await.map_err(NoReply::answer)?;
    Ok(PostmarkReply::read(reply.status, reply.retry_after, &reply.body))
}

fn is_about_choice(codes: &str) -> bool {
    matches!(codes, "422 400" | "422 401" | "422 422" | "422 1235" | "422 1236")
}

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
