//! From a request to its page.

use std::sync::Arc;

use actix_web::http::header::{CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use actix_web::http::{Method, StatusCode};
use actix_web::{HttpRequest, HttpResponse};
use anyhow::Context as _;
use domain::Origin;
use operations::installation::Installations;
use operations::operators::SignIns;
use operations::overview::Overviews;
use operations::providers::{KnownKind, ProviderTests};
use operations::templates::TestSends;
use operations::{MasterKeySource, Operations, Permission, Publisher, Sends, apps};
use service_kit::{Context, Network};
use store::control::app::App;
use uuid::Uuid;
use web::file::compress;

use crate::admin::AdminApi;
use crate::answer::{Answer, Refusal, RefusalPage, page, see_other};
use crate::changes::{change, change_installation};
use crate::client::client;
use crate::console_url;
use crate::files::Files;
use crate::kept_text::KeptText;
use crate::oidc::Oidc;
use crate::pages::shell::{Api, Visit, done};
use crate::pages::{
    account, audit, cancel, categories, credentials, erase, explain, find, installation, lift, operator,
    operators, overview, parked, people, provider_change, provider_form, provider_sign_in, providers,
    redrive, refused, release, reveal, sends, settings, setup, sign_in, templates, tokens, topics, waiting,
    webhooks,
};
use crate::query::Pairs;
use crate::route::{encoded, segments};
use crate::session::{self, Cookies};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
     connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
pub(crate) const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];
/// Header with which the script of the console asks for one part of a page.
const PART: HeaderName = HeaderName::from_static("x-part");

const MISSING: Refusal = Refusal::NotFound("There is no page at this address.");

/// State that all requests share.
pub(crate) struct Console {
    pub(crate) operations: Operations,
    pub(crate) sign_ins: SignIns,
    pub(crate) overviews: Overviews,
    pub(crate) installations: Installations,
    pub(crate) test_sends: TestSends,
    pub(crate) provider_tests: ProviderTests,
    /// Sends that operators make.
    pub(crate) sends: Arc<Sends>,
    pub(crate) files: Files,
    /// Number of the inbox partitions of the installation.
    pub(crate) partitions: u32,
    /// Path before all paths of the console, without a trailing slash.
    pub(crate) base: String,
    /// URL of the console, as operators reach it.
    pub(crate) url: String,
    pub(crate) admin: AdminApi,
    /// Kinds of providers that the workers of this release know.
    pub(crate) kinds: &'static [KnownKind],
    /// None if no OpenID provider is configured.
    pub(crate) oidc: Option<Oidc>,
    api: Api,
    public_origin: Option<String>,
    /// True if the public URL has the scheme https.
    has_tls: bool,
    proxy_header: Option<String>,
    pub(crate) proxies: Vec<Network>,
}

impl Console {
    pub(crate) fn new(context: &Context, kinds: &'static [KnownKind]) -> anyhow::Result<Console> {
        let master_key = MasterKeySource::Loaded(context.master_key.clone());
        let allow_private = context.config.outbound.allow_private;
        let settings = &context.config.console;
        let operations = Operations::new(context.store.clone(), master_key, allow_private);
        let (url, files) = (console_url(&context.config), Files::new()?);
        let oidc = settings.oidc.as_ref().map(|oidc| Oidc::new(oidc, &url)).transpose()?;
        let publisher = Arc::new(Publisher::start(context, context.tasks.token()));
        let sends = Arc::new(Sends::start(context, publisher));
        Ok(Console {
            installations: Installations::new(operations.clone(), context.log.clone()),
            provider_tests: ProviderTests::new(operations.clone(), context.log.clone()),
            operations,
            sign_ins: SignIns::new(context.store.clone())?.with_passwords(settings.passwords),
            overviews: Overviews::new(context.store.clone()),
            admin: AdminApi::new(context, &url, &settings.base_path, &files.version)?,
            url,
            kinds,
            files,
            test_sends: TestSends::new(Arc::clone(&sends)),
            sends,
            partitions: context.partitions,
            base: settings.base_path.clone(),
            oidc,
            api: api(context)?,
            public_origin: settings.public_url.as_ref().map(|url| origin(url.expose())),
            has_tls: settings.public_url.as_ref().is_some_and(|url| url.scheme() == "https"),
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

    pub(crate) fn cookies<'a>(&self, request: &'a HttpRequest) -> Cookies<'a> {
        Cookies::of(request, self.has_tls)
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
            Err(refusal) => self.refuse(request, refusal, body),
        };
        add_headers(&mut response);
        // The length of a compressed page could tell another site that opens chosen addresses what the page contains (BREACH).
        let site = request.headers().get("sec-fetch-site");
        let is_own = site.is_some_and(|site| site == "same-origin" || site == "none");
        if is_own { compress(request, response) } else { response }
    }

    async fn route(&self, request: &HttpRequest, body: &[u8]) -> Answer {
        let path = segments(request.uri().path(), &self.base).ok_or(MISSING)?;
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let query = Pairs::parse(request.query_string());
        let form = || Pairs::parse(&String::from_utf8_lossy(body));
        let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
        match (method.as_str(), path.as_slice()) {
            ("GET", ["healthz"]) => Ok(HttpResponse::Ok().body("ok\n")),
            ("GET", ["sign-in"]) => sign_in::ask(self, &query),
            ("GET", ["sign-in", "oidc"]) => provider_sign_in::depart(self, request, &query).await,
            ("GET", ["sign-in", "oidc", "callback"]) => provider_sign_in::arrive(self, request, &query).await,
            ("POST", ["sign-in"]) => sign_in::sign_in(self, request, &form()).await,
            ("GET", ["welcome"]) => sign_in::welcome(self, &query).await,
            ("POST", ["welcome"]) => sign_in::redeem(self, request, &form()).await,
            ("POST", ["sign-out"]) => sign_in::sign_out(self, request).await,
            ("GET", [name]) if self.files.answer(name, request).is_some() => {
                self.files.answer(name, request).ok_or(MISSING)
            }
            ("GET", []) => self.home(request).await,
            (
                "GET",
                ["apps"] | ["setup" | "installation" | "operators" | "tokens" | "account" | "audit", ..],
            ) => {
                let visit = self.visit(request, None, &query, "").await?;
                Box::pin(self.page_beside_apps(request, visit, &path, &query)).await
            }
            ("POST", ["operators" | "tokens" | "account", ..]) => {
                let visit = self.visit(request, None, &query, "").await?;
                Box::pin(change_installation(self, request, (visit, &path), &query, body)).await
            }
            ("POST", ["setup"]) => {
                setup::create_app(self, self.visit(request, None, &query, "").await?, &form()).await
            }
            ("GET", ["apps", app, rest @ ..]) => {
                let visit = self.visit(request, Some(app), &query, rest.first().unwrap_or(&"")).await?;
                Box::pin(self.of_app(request, visit, rest, &query)).await
            }
            ("POST", ["apps", app, rest @ ..]) => {
                let visit = self.visit(request, Some(app), &query, rest.first().unwrap_or(&"")).await?;
                Box::pin(change(self, request, (visit, rest), &query, body)).await
            }
            _ => Err(MISSING),
        }
    }

    /// Shows a page that belongs to no app.
    async fn page_beside_apps(
        &self,
        request: &HttpRequest,
        visit: Visit,
        path: &[&str],
        query: &Pairs,
    ) -> Answer {
        match path {
            ["apps"] => overview::apps(self, visit),
            ["setup"] => setup::ask_app(self, visit),
            ["installation"] => installation::show(self, visit).await,
            ["operators"] => operators::list(self, visit).await,
            ["operators", "new"] => operators::ask(self, visit, request).await,
            ["operators", email] => operator::show(self, visit, email).await,
            ["operators", email, step] => operator::ask(self, visit, request, (email, step), query).await,
            ["tokens"] => tokens::list(self, visit).await,
            ["tokens", "new"] => tokens::ask_new(self, visit, request).await,
            ["tokens", number, "revoke"] => tokens::ask_revoke(self, visit, request, number).await,
            ["account"] | ["account", "password" | "sessions"] => account::show(self, visit, request).await,
            ["audit"] => audit::list(self, visit, query).await,
            _ => Err(MISSING),
        }
    }

    /// Shows a page of an app, by the segments of the path below the app.
    async fn of_app(&self, request: &HttpRequest, visit: Visit, below: &[&str], query: &Pairs) -> Answer {
        match below {
            [] => overview::overview(self, visit).await,
            ["sends"] => sends::list(self, visit, query).await,
            ["sends", id] => sends::send(self, visit, id, query).await,
            ["sends", id, "explain"] => explain::explain(self, visit, id, query).await,
            ["sends", id, "cancel"] => cancel::ask(self, visit, id).await,
            ["suppressions", "lift"] => lift::ask(self, visit, query).await,
            ["people"] => people::list(self, visit, query).await,
            ["people", identifier] => people::person(self, visit, identifier).await,
            ["people", identifier, "erase"] => erase::ask(self, visit, request, identifier).await,
            ["people", identifier, "reveal"] => reveal::ask(self, visit, identifier, query).await,
            ["audit"] => audit::list(self, visit, query).await,
            ["people", "number", number] => people::numbered(self, visit, number).await,
            ["waiting", "release"] => release::ask(self, visit, query).await,
            ["waiting"] => waiting::list(self, visit).await,
            ["parked"] => parked::list(self, visit, query).await,
            ["parked", "redrive"] => redrive::ask(self, visit, request, query).await,
            ["parked", "redrive.csv"] => redrive::csv(self, visit, query).await,
            ["parked", "runs", id] => redrive::run(self, visit, id).await,
            ["templates" | "new-template", ..] => templates::open(self, visit, below, query).await,
            ["providers"] => providers::list(self, visit).await,
            ["providers", "new"] => provider_form::new(self, visit, query),
            ["provider", id] => providers::show(self, visit, id).await,
            // The result of a test has the address of its form. Opened again, it is the page of the provider.
            ["provider", id, "test" | "move"] => Ok(see_other(providers::path(&visit, id, ""))),
            ["provider", id, "edit"] => provider_form::edit(self, visit, id).await,
            ["provider", id, "switch"] => provider_change::ask_switch(self, visit, id).await,
            ["provider", id, "remove"] => provider_change::ask_remove(self, visit, id).await,
            ["setup"] => setup::show(self, visit, query).await,
            [
                "settings" | "credentials" | "webhooks" | "webhook" | "categories" | "category" | "topics"
                | "topic",
                ..,
            ] => self.of_settings(request, visit, below, query).await,
            ["refused"] => refused::list(self, visit, query).await,
            ["find"] => find::find(self, visit, query).await,
            _ => Err(MISSING),
        }
    }

    /// Shows a page about the settings of an app.
    async fn of_settings(
        &self,
        request: &HttpRequest,
        visit: Visit,
        below: &[&str],
        query: &Pairs,
    ) -> Answer {
        match below {
            ["settings"] => settings::show(visit),
            ["credentials"] => credentials::show(visit),
            ["credentials", rest @ ..] => credentials::ask(self, visit, request, rest).await,
            ["webhooks"] => webhooks::list(self, visit).await,
            ["webhooks", "new"] => webhooks::new(visit),
            ["webhook", id] => webhooks::show(self, visit, id).await,
            ["webhook", id, "edit"] => webhooks::edit(self, visit, id).await,
            ["webhook", id, step] => webhooks::ask(self, visit, request, (id, step)).await,
            ["categories"] => categories::list(self, visit, query).await,
            ["categories", "new"] => categories::new(visit),
            ["category", id] => categories::edit(self, visit, id).await,
            ["category", id, "delete"] => categories::ask_delete(self, visit, request, id).await,
            ["topics"] => topics::list(self, visit, query).await,
            ["topics", "new"] => topics::new(visit),
            ["topic", id] => topics::edit(self, visit, id).await,
            ["topic", id, "delete"] => topics::ask_delete(self, visit, request, id).await,
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
        let mut operator = session::operator(self, request).await?;
        let origin = Origin { ip: client(self, request).address.address(), request: request_id() };
        operator.caller = operator.caller.sending(origin);
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
                // Suppressions are reached from people.
                "suppressions" => "people",
                "new-template" => "templates",
                "provider" => "providers",
                "webhook" => "webhooks",
                "category" => "categories",
                "topic" => "topics",
                tab => tab,
            }
            .to_owned(),
            by_proxy,
            here: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
            done: query.text("done").and_then(done),
            part: request.headers().get(PART).and_then(|part| part.to_str().ok()).map(str::to_owned),
        })
    }

    async fn home(&self, request: &HttpRequest) -> Answer {
        let visit = self.visit(request, None, &Pairs::default(), "").await?;
        Ok(see_other(match visit.apps.as_slice() {
            [only] => visit.app_path(only),
            [] if visit.operator.caller.may(Permission::ManageApps, None).is_ok() => {
                format!("{}/setup", self.base)
            }
            _ => format!("{}/apps", self.base),
        }))
    }

    fn refuse(&self, request: &HttpRequest, refusal: Refusal, body: &[u8]) -> HttpResponse {
        let is_part = request.headers().contains_key(PART);
        // A page of the console must not show what another site has sent.
        let is_own = !is_part && !matches!(refusal, Refusal::ForeignForm);
        let kept = is_own.then(|| KeptText::of(request, &self.base, body)).flatten();
        if matches!(refusal, Refusal::SignIn) && kept.is_none() && !is_part {
            let wanted = request.uri().path_and_query().map_or("", |path| path.as_str());
            return see_other(format!("{}/sign-in?next={}", self.base, encoded(wanted)));
        }
        let is_signed_out = matches!(refusal, Refusal::SignIn);
        let (status, title, text) = refusal.described(request.path());
        let sign_in = is_signed_out.then(|| format!("{}/sign-in", self.base));
        self.refusal_page(status, (title, &text), sign_in, kept)
    }

    /// Refuses a form that was not read, because it is too large.
    pub(crate) fn refuse_large_form(&self, most: usize) -> HttpResponse {
        let text = format!(
            "The form has more than {} KB, so it was not read, and nothing was changed. If your session has ended, the limit is lower: \
             sign in again in another tab. Then go back in this one, and copy your text before you send it again.",
            most / 1024
        );
        let mut response = self.refusal_page(StatusCode::PAYLOAD_TOO_LARGE, ("Too large", &text), None, None);
        add_headers(&mut response);
        response
    }

    fn refusal_page(
        &self,
        status: StatusCode,
        (title, text): (&str, &str),
        sign_in: Option<String>,
        kept: Option<KeptText>,
    ) -> HttpResponse {
        let (base, version) = (self.base.as_str(), self.files.version.as_str());
        let (number, retry) = (status.as_u16(), status.is_server_error() && kept.is_none());
        let template = RefusalPage { base, version, number, title, text, retry, sign_in, kept };
        page(status, &template).unwrap_or_else(|_| HttpResponse::build(status).body(title.to_owned()))
    }
}

fn add_headers(response: &mut HttpResponse) {
    for (name, value) in HEADERS {
        // The content of an email has a stricter policy of its own.
        if !response.headers().contains_key(&name) {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the edge names the request")]
fn request_id() -> Uuid {
    Uuid::now_v7()
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
