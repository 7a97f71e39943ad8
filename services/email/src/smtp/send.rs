use std::time::Duration;

use domain::{Answer, Channel, Outcome, Problem};
use metrics::counter;
use reqwest::Client;
use serde_json::Value;
use service_kit::metrics::PROVIDER_ALERTS;
use worker::{Attempt, Call, Outbound, Probe, ProviderKind, ProviderVersion};

use super::answers::{self, is_alarming};
use super::limits::{LONGEST_CALL, PoolLimits};
use super::pool::Pool;
use super::probe;
use super::settings::SmtpSettings;
use crate::connections::Connections;
use crate::letter::{Enclosures, Letter};
use crate::letter_error::LetterError;
use crate::message::OutgoingMail;

pub struct Smtp;

impl ProviderKind for Smtp {
    type Resources = Connections;
    type Settings = SmtpSettings;

    const NAME: &'static str = "smtp";
    const SECRETS: &'static [&'static str] =
        &["password", "accessToken", "clientSecret", "refreshToken", "dkim.privateKey"];
    const EXAMPLE: &'static str = r#"{
      "host": "mail.example.com",
      "port": 587,
      "security": "starttls",      none, starttls or tls
      "caCertificate": "-----BEGIN CERTIFICATE-----\n...",   optional: authority of the server's certificate, as PEM; default: those of the system
      "auth": "auto",              optional: auto, plain, login or xoauth2
      "username": "shop",          with a password or a token, if the server needs a login
      "password": "...",           stored encrypted; if absent, the old one stays
      "accessToken": "...",        for xoauth2: a token, stored encrypted; or instead these four, to request tokens:
      "tokenUrl": "https://login.example.com/token",
      "clientId": "...",
      "clientSecret": "...",       stored encrypted; optional
      "refreshToken": "...",       stored encrypted
      "from": "shop@example.com",
      "fromName": "The shop",      optional
      "ehloName": "shop.example.com",   optional: name of the client in EHLO; default: the public name of the machine, or else the domain of from
      "replyTo": "help@example.com",   optional
      "allowedFrom": ["@example.com", "ceo@example.org"],   optional: senders that a send may use; default: every sender in the domain of from
      "dkim": {                    optional: signs every email
        "domain": "example.com",
        "selector": "tidings",     the public key is in the DNS at tidings._domainkey.example.com
        "privateKey": "-----BEGIN PRIVATE KEY-----\n..."   stored encrypted; RSA (2048 bits or more) or Ed25519
      }
    }"#;

    const LONGEST_CALL: Option<Duration> = Some(LONGEST_CALL);

    fn parse(settings: &Value) -> Result<SmtpSettings, Vec<Problem>> {
        SmtpSettings::parse(settings)
    }

    async fn send(attempt: Attempt<'_, Connections>, settings: &SmtpSettings) -> Answer {
        let Attempt { resources: connections, call, input: enclosed } = attempt;
        send(connections, settings, call, enclosed).await.unwrap_or_else(Answer::from)
    }

    async fn probe(settings: &SmtpSettings, probe: &Probe<'_>) -> Result<String, Answer> {
        let client = probe.caller(probe::TOKEN_LIMIT)?.client().clone();
        let pool = pool(settings, PoolLimits::default(), probe.outbound, &client)?;
        probe::probe(&pool).await.map_err(|failure| answers::answer(&Err(failure), &[]))
    }
}

async fn send(
    connections: &Connections,
    settings: &SmtpSettings,
    call: &Call<'_>,
    enclosed: Enclosures,
) -> Result<Answer, LetterError> {
    let Connections { pools, client, outbound, .. } = connections;
    let create = |limits| pool(settings, limits, *outbound, client);
    let pool = match pools.get(ProviderVersion::of(call.provider), create) {
        Ok(pool) => pool,
        Err(unusable) => return Ok(unusable),
    };
    let mut letter = Letter::of(call, &settings.identity, enclosed)?;
    let mut mail = OutgoingMail::build(&letter, settings.signer.as_deref())?;
    mail.room = letter.room.take();
    // The server's message may repeat the subject, which may contain a one-time code.
    let subject = letter.subject;
    drop(letter);
    let recipients: Vec<String> =
        std::iter::once(&mail.to).chain(&mail.others).map(ToString::to_string).collect();
    let result = pool.send(mail, call.lease).await;
    let mut hidden = vec![call.job.target.as_str(), subject];
    hidden.extend(recipients.iter().map(String::as_str));
    let answer = answers::answer(&result, &hidden);
    if is_alarming(&result) {
        counter!(PROVIDER_ALERTS, "channel" => Channel::Email.as_str()).increment(1);
        let code = &answer.code;
        let provider = &call.provider.identifier;
        tracing::error!(app = %call.app, provider, code, "the mail server blocks the provider's sender; the delivery fails");
    }
    Ok(answer)
}

fn pool(
    settings: &SmtpSettings,
    limits: PoolLimits,
    outbound: Outbound,
    client: &Client,
) -> Result<Pool, Answer> {
    if settings.exposes_login() && !outbound.allows_private() {
        let message = "a login needs security starttls or tls, unless private addresses are allowed \
                       (outbound.allow_private)";
        return Err(Answer::new(Outcome::PauseProvider, "insecure_login", message));
    }
    Pool::new(settings.clone(), limits, outbound, client)
        .map_err(|error| Answer::new(Outcome::PauseProvider, "settings", error.to_string()))
}
