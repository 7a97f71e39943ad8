//! Publishing a text as a new version, after a page that shows the difference.

use actix_web::http::StatusCode;
use askama::Template;
use domain::Channel;
use operations::overview::Count;
use operations::templates::{self, Compared, TemplateDocument};
use operations::{Caller, Conflict, OperationError, Permission};
use store::control::app::App;
use store::control::template::TemplateVersion;

use super::form::TemplateForm;
use super::version_number;
use crate::answer::{Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::pages::shell::Visit;
use crate::text;

/// Maximum number of lines of a comparison that a page shows.
const MOST_LINES: usize = 5_000;

/// A line of a comparison.
struct Line {
    /// Class in the stylesheet.
    tone: &'static str,
    sign: &'static str,
    text: String,
}

/// Returns the first lines of a unified diff, without its header. The last one has the number of those that are left out.
fn lines(diff: &str) -> Vec<Line> {
    let line = |line: &str| {
        let (tone, sign) = match line.chars().next() {
            Some('+') => ("added", "+"),
            Some('-') => ("removed", "−"),
            Some('@') => ("gap", "…"),
            _ if is_head(line) => ("part", ""),
            _ => ("same", ""),
        };
        let text = if tone == "gap" { "" } else { line.get(1..).unwrap_or_default() };
        Line { tone, sign, text: text.to_owned() }
    };
    let mut all = diff.lines().skip(2);
    let mut shown: Vec<_> = all.by_ref().take(MOST_LINES).map(line).collect();
    let number = all.count();
    if number > 0 {
        let further = text::counted(Count { number, more: false }, "further line", "further lines");
        shown.push(Line { tone: "gap", sign: "…", text: format!("and {further}") });
    }
    shown
}

/// Returns true for a line such as ` [email.subject]`, which names the field that follows.
fn is_head(line: &str) -> bool {
    let name = line.strip_prefix(" [").and_then(|line| line.strip_suffix(']'));
    let channel = name.and_then(|name| name.split_once('.')).map(|(channel, _)| channel.parse::<Channel>());
    matches!(channel, Some(Ok(_)))
}

#[derive(Template)]
#[template(path = "template_review.html")]
struct ReviewPage {
    visit: Visit,
    form: TemplateForm,
    /// Number of the newest version; 0 if there is none.
    live: i32,
    /// True if another version was published since the form was opened.
    is_overtaken: bool,
    lines: Vec<Line>,
    problems: Vec<String>,
    warnings: Vec<String>,
}

pub(crate) async fn review(change: Change<'_>, identifier: &str) -> Answer {
    change.visit.operator.caller.may(Permission::EditTemplates, change.visit.app()?.id)?;
    let form = TemplateForm::read(identifier, &change.form)?;
    show(change.console, change.visit, form).await
}

async fn newest(
    console: &Console,
    caller: &Caller,
    app: &App,
    identifier: &str,
) -> Result<Option<TemplateVersion>, Refusal> {
    match templates::find(&console.operations, caller, app.id, identifier, None).await {
        Ok(newest) => Ok(Some(newest)),
        Err(OperationError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Shows the difference to the newest version. A form that another version has overtaken is shown with 409, and is based on that version
/// from then on.
async fn show(console: &Console, visit: Visit, mut form: TemplateForm) -> Answer {
    let (app, caller) = (visit.app()?, &visit.operator.caller);
    let newest = newest(console, caller, app, &form.identifier).await?;
    let live = newest.as_ref().map_or(0, |newest| newest.version);
    let is_overtaken = form.base != live;
    form.base = live;
    let (mut shown, mut problems, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    match form.document(app).await {
        Ok(document) => {
            let found = templates::warnings(&document, app.settings.template_profile, None);
            warnings = found.into_iter().map(|warning| warning.message).collect();
            shown =
                lines(&templates::diff(newest.as_ref().map(Compared::from).as_ref(), &(&document).into()));
        }
        Err(found) => problems = found.into_iter().map(|problem| problem.message).collect(),
    }
    let status = if is_overtaken {
        StatusCode::CONFLICT
    } else if problems.is_empty() {
        StatusCode::OK
    } else {
        StatusCode::BAD_REQUEST
    };
    page(status, &ReviewPage { visit, form, live, is_overtaken, lines: shown, problems, warnings })
}

pub(crate) async fn publish(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?, &change.visit.operator.caller);
    caller.may(Permission::EditTemplates, app.id)?;
    let form = TemplateForm::read(identifier, &change.form)?;
    let operations = &change.console.operations;
    let document: TemplateDocument = match form.document(app).await {
        Ok(document) => document,
        Err(_) => return show(change.console, change.visit, form).await,
    };
    match templates::publish(operations, caller, app.id, &document, form.base).await {
        Ok(_) => Ok(see_other(format!("{}?done=published", change.visit.template_path(identifier)))),
        Err(OperationError::Conflict(Conflict::TemplateChanged)) => {
            show(change.console, change.visit, form).await
        }
        Err(error) => Err(error.into()),
    }
}

#[derive(Template)]
#[template(path = "template_restore.html")]
struct RestorePage {
    visit: Visit,
    version: TemplateVersion,
    live: i32,
    lines: Vec<Line>,
}

/// Asks whether to publish the text of an earlier version again.
pub(crate) async fn ask_restore(console: &Console, visit: Visit, identifier: &str, number: &str) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::EditTemplates, app)?;
    let number = version_number(number)?;
    let newest = templates::find(&console.operations, caller, app, identifier, None).await?;
    let version = templates::find(&console.operations, caller, app, identifier, Some(number)).await?;
    let lines = lines(&templates::diff(Some(&(&newest).into()), &(&version).into()));
    page(StatusCode::OK, &RestorePage { visit, version, live: newest.version, lines })
}

pub(crate) async fn restore(change: Change<'_>, identifier: &str, number: &str) -> Answer {
    let (app, caller) = (change.visit.app()?.id, &change.visit.operator.caller);
    caller.may(Permission::EditTemplates, app)?;
    let number = version_number(number)?;
    let bad = || Refusal::Invalid("The form is incomplete. Open the version again.".to_owned());
    let newest = change.form.text("base").and_then(|text| text.parse().ok()).ok_or_else(bad)?;
    let operations = &change.console.operations;
    templates::restore(operations, caller, app, identifier, number, Some(newest)).await?;
    Ok(see_other(format!("{}?done=published", change.visit.template_path(identifier))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_comparison_is_cut_and_says_so() {
        let diff = |number: usize| format!("--- a\n+++ b\n@@ -0,0 +1 @@\n{}", "+x\n".repeat(number));
        let whole = lines(&diff(MOST_LINES - 1));
        assert_eq!((whole.len(), whole[0].sign, whole[MOST_LINES - 1].text.as_str()), (MOST_LINES, "…", "x"));
        let cut = lines(&diff(1_000_000));
        let last = &cut[MOST_LINES];
        assert_eq!((cut.len(), last.tone, last.sign), (MOST_LINES + 1, "gap", "…"));
        assert_eq!(last.text, "and 995,001 further lines");
        assert!(lines("").is_empty());
    }

    #[test]
    fn names_of_fields_stand_out() {
        let shown = lines("--- a\n+++ b\n [email.subject]\n [1.2]\n-[sms.text]\n");
        assert_eq!(shown.iter().map(|line| line.tone).collect::<Vec<_>>(), ["part", "same", "removed"]);
    }
}
