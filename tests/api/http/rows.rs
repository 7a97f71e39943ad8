//! Every endpoint of the API under each of its paths, with the errors that every call can get.

mod fixtures;
mod table;

use serde_json::{Value, json};
use testkit::eventually;

use crate::client::{Answer, Call};
use crate::service::{App, SOON, Service};
use fixtures::Fixtures;
use table::{PermittedCallers, ROWS, Row};

/// Numbers of calls of each kind, which the test prints.
#[derive(Default)]
struct CallCounts {
    calls: usize,
    refusals: usize,
    errors: usize,
}

#[tokio::test]
async fn every_endpoint_answers_under_every_alias_to_the_right_callers() {
    let service = Service::start().await;
    let mut rows = Rows { fixtures: Fixtures::new(&service).await, tried: CallCounts::default() };
    for row in ROWS {
        for call in row.calls {
            rows.succeeds(row, call).await;
            rows.succeeds(row, &with_trailing_slash(call)).await;
            rows.refuses_others(row, call).await;
            rows.reports_unknown_parameters(row, call).await;
            rows.has_its_methods(call).await;
            rows.hides_foreign_resources(row, call).await;
        }
        if let Some(body) = row.body {
            rows.refuses_invalid_bodies(row, &body()).await;
        }
    }
    let CallCounts { calls, refusals, errors } = rows.tried;
    let names: usize = ROWS.iter().map(|row| row.calls.len()).sum();
    println!(
        "{} rows under {names} names: {calls} answers, {refusals} refusals of callers, {errors} error cases",
        ROWS.len()
    );
}

struct Rows<'a> {
    fixtures: Fixtures<'a>,
    tried: CallCounts,
}

impl Rows<'_> {
    /// Makes the call as every permitted caller: the app, the user, and the app for a user whom a header or the query names.
    async fn succeeds(&mut self, row: &Row, call: &str) {
        for by in row.by {
            let answer = eventually(SOON, call, async || {
                let answer = self.request(row, call, *by).await.send().await;
                (!is_late(row, &answer)).then_some(answer)
            })
            .await;
            let body = answer.is(row.status);
            if !row.members.is_empty() {
                assert_eq!(members(&body), row.members, "{call}: {body}");
            }
            self.tried.calls += 1;
        }
    }

    /// Builds the call with new resources.
    async fn request(&mut self, row: &Row, call: &str, by: PermittedCallers) -> Call {
        let path = self.fixtures.fill(call).await;
        let mut request = self.fixtures.call(by, &path);
        if let Some(body) = row.body {
            request = request.json(&self.fixtures.fill_body(body()).await);
        }
        for (name, value) in row.headers {
            request = request.header(name, value);
        }
        request
    }

    /// Asserts that the endpoint refuses calls without credentials, or with a wrong secret or an unknown key. An endpoint for the
    /// app only must also refuse users, and an endpoint for users only must refuse the app if it names no user.
    async fn refuses_others(&mut self, row: &Row, call: &str) {
        if row.by == [PermittedCallers::Anybody] {
            return;
        }
        let path = self.fixtures.fill(call).await;
        let App { key, secret, .. } = self.fixtures.shop.clone();
        let service = self.fixtures.service;
        let mut refused: Vec<(Call, &str)> = vec![
            (service.call(&path), "no_credentials"),
            (service.call(&path).header("X-SERVICE-USER-ID", "ada"), "no_credentials"),
            (service.call(&path).header("X-SERVICE-API-KEY", &format!("{key}x")), "invalid_credentials"),
            (
                service
                    .call(&path)
                    .header("X-SERVICE-API-KEY", &key)
                    .header("X-SERVICE-API-SECRET", &format!("{secret}x")),
                "invalid_credentials",
            ),
            (
                service
                    .call(&path)
                    .header("X-SERVICE-API-KEY", &key)
                    .header("X-SERVICE-API-SECRET", &secret)
                    .header("X-SERVICE-SECRET-KEY", "another"),
                "conflicting_credentials",
            ),
            (
                service.call(&path).header("X-SERVICE-API-KEY", &key).header("X-ACME-API-KEY", "other"),
                "conflicting_credentials",
            ),
        ];
        if !row.by.contains(&PermittedCallers::User) {
            refused.push((service.of(&self.fixtures.shop, "ada", &path), "secret_required"));
        }
        if !row.by.contains(&PermittedCallers::App) {
            refused.push((service.by(&self.fixtures.shop, &path), "user_required"));
        }
        for (call, code) in refused {
            call.send().await.fails(401, code);
            self.tried.refusals += 1;
        }
    }

    /// Asserts that a parameter that the call does not have is refused with strict handling, before anything else is done, and is named
    /// in a header otherwise. A link in a message may have any parameters.
    async fn reports_unknown_parameters(&mut self, row: &Row, call: &str) {
        let by = row.by[0];
        let path = self.fixtures.fill(call).await;
        let path = format!("{path}{}nonsense=1", if path.contains('?') { '&' } else { '?' });
        let body = match row.body {
            Some(body) => Some(self.fixtures.fill_body(body()).await),
            None => None,
        };
        let request = || {
            let request = self.fixtures.call(by, &path);
            let request =
                row.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            body.iter().fold(request, |request, body| request.json(body))
        };
        if by != PermittedCallers::Anybody {
            let strict = request().header("Prefer", "handling=strict").send().await;
            strict.has_problems(&[("nonsense", "unknown_parameter")]);
            self.tried.errors += 1;
        }
        let answer = request().send().await;
        assert!(answer.status == row.status || is_late(row, &answer), "{call}: {answer:?}");
        let warning = answer.header("warning").unwrap_or_default();
        let expected = by != PermittedCallers::Anybody;
        assert_eq!(
            warning.starts_with("299 - \"nonsense is not a parameter"),
            expected,
            "{call}: {warning:?}"
        );
        self.tried.calls += 1;
    }

    /// Asserts that an unsupported method is answered with a 405 that lists the supported methods, even without credentials.
    async fn has_its_methods(&mut self, call: &str) {
        let (method, path) = call.split_once(' ').unwrap();
        let path = self.fixtures.fill(path).await;
        let answer = self.fixtures.service.call(&format!("PROPFIND {path}")).send().await;
        answer.fails(405, "method_not_allowed");
        let allow: Vec<_> = answer.header("allow").unwrap().split(", ").collect();
        assert!(allow.contains(&method), "{call}: {allow:?}");
        self.tried.errors += 1;
    }

    /// Asserts that calls with an unknown id, or the id of a resource of another app or user, all get the same 404.
    async fn hides_foreign_resources(&mut self, row: &Row, call: &str) {
        if !row.names_a_resource() {
            return;
        }
        let body = row.body.map(|body| body());
        for foreign in self.fixtures.foreign(row, call).await {
            let request = match &body {
                Some(body) => foreign.json(body),
                None => foreign,
            };
            request.send().await.fails(404, "not_found");
            self.tried.errors += 1;
        }
    }

    /// Asserts that bodies are refused if they are not JSON, have the wrong media type, are too large, or have an unknown
    /// member under strict handling.
    async fn refuses_invalid_bodies(&mut self, row: &Row, sound: &Value) {
        let by = row.by[0];
        let path = self.fixtures.fill(row.calls[0]).await;
        let mut strict = self.fixtures.fill_body(sound.clone()).await;
        let call = || {
            let call = self.fixtures.call(by, &path);
            row.headers.iter().fold(call, |call, (name, value)| call.header(name, value))
        };
        let broken = call().body("{\"a\":", "application/json").send().await;
        broken.has_problems(&[("", "malformed_json")]);
        call().body("{}", "text/plain").send().await.fails(415, "unsupported_media_type");
        let large = format!("{{\"x\":\"{}\"}}", "x".repeat(gateway::MAX_BODY));
        call().body(large, "application/json").send().await.fails(413, "too_large");
        invalid(&call().json(&json!(7)).send().await);
        invalid(&call().body("{\"x\":\"\\u0000\"}", "application/json").send().await);
        invalid(&call().body("{\"x\":9007199254740993}", "application/json").send().await);
        let deep = format!("{}{}", "{\"x\":".repeat(40), "0".to_owned() + &"}".repeat(40));
        invalid(&call().body(deep, "application/json").send().await);
        self.tried.errors += 7;
        if row.has_fixed_members {
            strict["unknownMember"] = json!(1);
            let answer = call().header("Prefer", "handling=strict").json(&strict).send().await;
            assert_eq!(answer.status, 400, "{}", answer.body);
            assert!(
                answer.body["errors"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|error| error["field"] == "unknownMember")
            );
            self.tried.errors += 1;
        }
    }
}

/// Returns true if the answer is the 202 to a change that an inbox does not show in time. The OpenAPI document, with which every
/// answer is compared, declares it only for such changes.
fn is_late(row: &Row, answer: &Answer) -> bool {
    (row.status, answer.status) == (200, 202)
}

fn with_trailing_slash(call: &str) -> String {
    match call.split_once('?') {
        Some((path, query)) => format!("{path}/?{query}"),
        None => format!("{call}/"),
    }
}

fn invalid(answer: &Answer) {
    assert_eq!(answer.status, 400, "{}", answer.body);
    assert!(!answer.body["errors"].as_array().unwrap().is_empty(), "{}", answer.body);
}

fn members(body: &Value) -> Vec<&str> {
    let one = body.as_array().map_or(Some(body), |items| items.first());
    one.and_then(Value::as_object)
        .map(|members| members.keys().map(String::as_str).collect())
        .unwrap_or_default()
}
