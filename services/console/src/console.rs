//! From a request to its page.

use actix_web::http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use anyhow::Context as _;
use operations::installation::Installations;
use operations::operators::SignIns;
use operations::overview::Overviews;
use operations::templates::TestSends;
use operations::{MasterKeySource, Operations, apps};
use service_kit::{Context, Network};
use store::control::app::App;

use crate::answer::{Answer, Refusal, RefusalPage, page, see_other};
use crate::changes::change;
use crate::files::Files;
use crate::pages::shell::{Api, Visit, done};
use crate::pages::{
    cancel, erase, explain, find, installation, lift, overview, parked, people, redrive, refused, release,
    sends, sign_in, templates, waiting,
};
use crate::query::Pairs;
use crate::route::{encoded, segments};
use crate::session;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// Header with which the script of the console asks for one part of a page.
const PART: HeaderName = HeaderName::from_static("x-part");
const FOREIGN: &str = "The form was sent from another site, so nothing was changed. If the console runs behind a proxy, set \
     console.public_url to the address in your browser.";

/// State that all requests share.
pub(crate) struct Console {
    pub(crate) operations: Operations,
    pub(crate) sign_ins: SignIns,
    pub(crate) overviews: Overviews,
    pub(crate) installations: Installations,
    pub(crate) test_sends: TestSends,
    pub(crate) files: Files,
    /// Number of the inbox partitions of the installation.
    pub(crate) partitions: u32,
    /// Path before all paths of the console, without a trailing slash.
    pub(crate) base: String,
    api: Api,
    public_origin: Option<String>,
    proxy_header: Option<String>,
    pub(crate) proxies: Vec<Network>,
}

impl Console {
    pub(crate) fn new(context: &Context) -> anyhow::Result<Console> {
        let master_key = MasterKeySource::Loaded(context.master_key.clone());
        let allow_private = context.config.outbound.allow_private;
        let settings = &context.config.console;
        let operations = Operations::new(context.store.clone(), master_key, allow_private);
        Ok(Console {
            installations: Installations::new(operations.clone(), context.log.clone()),
            operations,
            sign_ins: SignIns::new(context.store.clone())?,
            overviews: Overviews::new(context.store.clone()),
            test_sends: TestSends::start(context),
            files: Files::new()?,
            partitions: context.partitions,
            base: settings.base_path.clone(),
            api: api(context)?,
            public_origin: settings.public_url.as_ref().map(|url| origin(url.expose())),
            proxy_header: settings.proxy_header.clone(),
            proxies: settings.proxy_from.clone(),
        })
    }

    /// Prints a link with which the first operator is created, while there is none.
    pub(crate) async fn report_first_link(&self, url: &str) {
        match self.sign_ins.first_code().await {
            Ok(Some(code)) => tracing::warn!(
                link = welcome_link(url, &code),
                "the console has no operator; open the link within an hour to become its administrator"
            ),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(%error, "cannot create a link for the first operator; restart to try again");
            }
        }
    }

    /// Returns the email that a trusted proxy sent.
    pub(crate) fn named_by_proxy(&self, request: &HttpRequest) -> Option<String> {
        let header = self.proxy_header.as_ref()?;
        let peer = request.peer_addr()?.ip();
        if !self.proxies.iter().any(|network| network.contains(peer)) {
            return None;
        }
        let value = request.headers().get(header)?.to_str().ok()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// Returns true if an operator sends the texts of a template.
    pub(crate) async fn has_texts(&self, request: &HttpRequest) -> bool {
        let path = segments(request.uri().path(), &self.base).unwrap_or_default();
        let is_template = matches!(
            path.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
            ["apps", _, "templates", ..]
        );
        is_template && request.method() == Method::POST && session::operator(self, request).await.is_ok()
    }

    pub(crate) async fn answer(&self, request: &HttpRequest, body: &[u8]) -> HttpResponse {
        let answer = match session::check_site(request, self.public_origin.as_deref()) {
            Ok(()) => Box::pin(self.route(request, body)).await,
            Err(refusal) => Err(refusal),
        };
        let mut response = match answer {
            Ok(response) => response,
            Err(refusal) => self.refuse(request, refusal),
        };
        for (name, value) in HEADERS {
            // The content of an email has a stricter policy of its own.
            if !response.headers().contains_key(&name) {
                response.headers_mut().insert(name, HeaderValue::from_static(value));
            }
        }
        response
    }

    async fn route(&self, request: &HttpRequest, body: &[u8]) -> Answer {
        const MISSING: Refusal = Refusal::NotFound("There is no page at this address.");
        let path = segments(request.uri().path(), &self.base).ok_or(MISSING)?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query = Pairs::parse(request.query_string());
        let form = || Pairs::parse(&String::from_utf8_lossy(body));
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        match (method.as_str(), path.as_slice()) {
            ("GET", ["healthz"]) => Ok(HttpResponse::Ok().body("ok\n")),
            ("GET", ["sign-in"]) => sign_in::ask(self, &query),
            ("POST", ["sign-in"]) => sign_in::sign_in(self, request, &form()).await,
            ("GET", ["welcome"]) => sign_in::welcome(self, &query).await,
            ("POST", ["welcome"]) => sign_in::redeem(self, request, &form()).await,
            ("POST", ["sign-out"]) => sign_in::sign_out(self, request).await,
            ("GET", [name]) if self.files.answer(name, request).is_some() => {
                self.files.answer(name, request).ok_or(MISSING)
            }
            ("GET", []) => self.home(request).await,
            ("GET", ["apps"]) => overview::apps(self, self.visit(request, None, &query, "").await?),
            ("GET", ["installation"]) => {
                installation::show(self, self.visit(request, None, &query, "").await?).await
            }
            ("GET", ["apps", app, rest @ ..]) => {
                let visit = self.visit(request, Some(app), &query, rest.first().unwrap_or(&"")).await?;
                match rest {
                    [] => overview::overview(self, visit).await,
                    ["sends"] => sends::list(self, visit, &query).await,
                    ["sends", id] => sends::send(self, visit, id, &query).await,
                    ["sends", id, "explain"] => explain::explain(self, visit, id, &query).await,
                    ["sends", id, "cancel"] => cancel::ask(self, visit, id).await,
                    ["suppressions", "lift"] => lift::ask(self, visit, &query).await,
                    ["people"] => people::list(self, visit, &query).await,
                    ["people", identifier] => people::person(self, visit, identifier).await,
                    ["people", identifier, "erase"] => erase::ask(self, visit, request, identifier).await,
                    ["people", "number", number] => people::numbered(self, visit, number).await,
                    ["waiting", "release"] => release::ask(self, visit, &query).await,
                    ["waiting"] => waiting::list(self, visit).await,
                    ["parked"] => parked::list(self, visit, &query).await,
                    ["parked", "redrive"] => redrive::ask(self, visit, request, &query).await,
                    ["parked", "redrive.csv"] => redrive::csv(self, visit, &query).await,
                    ["parked", "runs", id] => redrive::run(self, visit, id).await,
                    ["templates" | "new-template", ..] => templates::open(self, visit, rest, &query).await,
                    ["refused"] => refused::list(self, visit, &query).await,
                    ["find"] => find::find(self, visit, &query).await,
                    _ => Err(MISSING),
                }
            }
            ("POST", ["apps", app, rest @ ..]) => {
                let visit = self.visit(request, Some(app), &query, rest.first().unwrap_or(&"")).await?;
                change(self, request, (visit, rest), &query, body).await
            }
            _ => Err(MISSING),
        }
    }

    /// Finds the operator who asks, and the app of the page among those that the operator may see.
    async fn visit(
        &self,
        request: &HttpRequest,
        app: Option<&str>,
        query: &Pairs,
        tab: &str,
    ) -> Result<Visit, Refusal> {
        let operator = session::operator(self, request).await?;
        let apps = apps::list(&self.operations, &operator.caller).await?;
        let app = match app {
            None => None,
            Some(name) => {
                let is_named = |app: &&App| app.name == name;
                let found =
                    apps.iter().find(is_named).or_else(|| apps.iter().find(|app| app.id.to_string() == name));
                Some(
                    found
                        .cloned()
                        .ok_or(Refusal::NotFound("There is no such app, or you have no role in it."))?,
                )
            }
        };
        let by_proxy = self.named_by_proxy(request).is_some();
        Ok(Visit {
            base: self.base.clone(),
            version: self.files.version.clone(),
            api: self.api.clone(),
            operator,
            apps,
            app,
            tab: match tab {
                "suppressions" => "people",
                "new-template" => "templates",
                tab => tab,
            }
            .to_owned(),
            by_proxy,
            done: query.text("done").and_then(done),
            part: request.headers().get(PART).and_then(|part| part.to_str().ok()).map(str::to_owned),
        })
    }

    async fn home(&self, request: &HttpRequest) -> Answer {
        let visit = self.visit(request, None, &Pairs::default(), "").await?;
        Ok(see_other(match visit.apps.as_slice() {
            [only] => visit.app_path(only),
            _ => format!("{}/apps", self.base),
        }))
    }

    fn refuse(&self, request: &HttpRequest, refusal: Refusal) -> HttpResponse {
        let named;
        let (status, title, text) = match refusal {
            Refusal::SignIn => {
                let wanted = request.uri().path_and_query().map_or("", |path| path.as_str());
                return see_other(format!("{}/sign-in?next={}", self.base, encoded(wanted)));
            }
            Refusal::NotFound(text) => (StatusCode::NOT_FOUND, "Nothing here", text),
            Refusal::Denied(role) => {
                named = match role {
                    Some(role) => format!(
                        "This page needs the role {role} or a higher one. An administrator can grant it."
                    ),
                    None => "No role may see this page.".to_owned(),
                };
                (StatusCode::FORBIDDEN, "Not for your role", named.as_str())
            }
            Refusal::NoOperator(email) => {
                named = format!(
                    "You are signed in as {email}, who is not an operator here. An administrator can run: \
                     tidings operator create {email}"
                );
                (StatusCode::FORBIDDEN, "Not an operator", named.as_str())
            }
            Refusal::Invalid(problems) => {
                named = problems;
                (StatusCode::BAD_REQUEST, "Not accepted", named.as_str())
            }
            Refusal::Stale(text) => {
                named = text;
                (StatusCode::CONFLICT, "Nothing was changed", named.as_str())
            }
            Refusal::ForeignForm => (StatusCode::FORBIDDEN, "Form refused", FOREIGN),
            Refusal::Failed(cause) => {
                tracing::warn!(cause, path = request.path(), "cannot read a page");
                named = format!("The console could not read what this page shows. {cause}");
                (StatusCode::SERVICE_UNAVAILABLE, "Not readable now", named.as_str())
            }
            Refusal::Defect(cause) => {
                tracing::error!(cause, path = request.path(), "a page failed");
                let text = "An internal error. The log of the console has the cause.";
                (StatusCode::INTERNAL_SERVER_ERROR, "Something broke", text)
            }
        };
        let retry = status.is_server_error();
        let number = status.as_u16();
        let template =
            RefusalPage { base: &self.base, version: &self.files.version, number, title, text, retry };
        page(status, &template).unwrap_or_else(|_| HttpResponse::build(status).body(title.to_owned()))
    }
}

/// Returns the address of the API as apps reach it.
fn api(context: &Context) -> anyhow::Result<Api> {
    let header_prefix =
        context.config.header_prefixes.first().cloned().context("header_prefixes is empty")?;
    let listen = context.config.gateway.listen;
    let own = || {
        let host =
            if listen.ip().is_unspecified() { "localhost".to_owned() } else { listen.ip().to_string() };
        format!("http://{host}:{}", listen.port())
    };
    let url = context.public_url().map_or_else(own, |url| url.trim_end_matches('/').to_owned());
    Ok(Api { url, header_prefix })
}

/// Returns scheme and host of a URL.
fn origin(url: &str) -> String {
    let end = url.find("://").map_or(0, |at| at + 3);
    let rest = url.get(end..).unwrap_or_default();
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    format!("{}{host}", url.get(..end).unwrap_or_default())
}

/// Returns the link with a one-time code.
#[must_use]
pub fn welcome_link(url: &str, code: &str) -> String {
    format!("{url}/welcome?code={code}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_of_a_url_has_no_path() {
        assert_eq!(origin("https://ops.example.com/console"), "https://ops.example.com");
        assert_eq!(origin("http://127.0.0.1:8090"), "http://127.0.0.1:8090");
    }
}
