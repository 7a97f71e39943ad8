//! The calls of an app that the API refused.

use actix_web::http::StatusCode;
use askama::Template;
use operations::refused_calls::{self, RefusedCalls};

use super::sends::PAGE;
use super::shell::Visit;
use crate::answer::{Answer, Part, page, part};
use crate::console::Console;
use crate::query::{Pairs, Search};
use crate::route::encoded;
use crate::text;

const QUALIFIERS: &[&str] = &["status", "code", "client"];
const STATUSES: [(&str, u16); 7] =
    [("400", 400), ("401", 401), ("403", 403), ("409", 409), ("413", 413), ("422", 422), ("429", 429)];

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusedPage {
    visit: Visit,
    search: Search,
    rows: Part<Vec<RefusedCalls>>,
    next: Option<String>,
}

pub(crate) async fn list(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let mut search = Search::read(query, QUALIFIERS);
    let status = search.one_of("status", &STATUSES);
    let (code, client) = (search.value("code").map(str::to_owned), search.value("client").map(str::to_owned));
    let words: Vec<String> = search.words.iter().map(|word| word.to_lowercase()).collect();
    let before = query.text("before").and_then(|text| text.parse().ok());
    let is_wanted = |row: &RefusedCalls| {
        let call = &row.call;
        let text = format!("{} {} {}", call.method, call.route, call.fields.join(" ")).to_lowercase();
        status.is_none_or(|wanted| call.status == wanted)
            && code.as_deref().is_none_or(|wanted| call.code == wanted)
            && client.as_deref().is_none_or(|wanted| call.client == wanted)
            && words.iter().all(|word| text.contains(word))
    };
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    let read = refused_calls::page(&console.operations, caller, app, before, PAGE, is_wanted).await;
    let read = part(read)?;
    let next = read.as_ref().ok().and_then(|page| page.next);
    let next =
        next.map(|next| visit.path(&format!("/refused?q={}&before={next}", encoded(&search.written()))));
    page(StatusCode::OK, &RefusedPage { visit, search, rows: read.map(|page| page.calls), next })
}
