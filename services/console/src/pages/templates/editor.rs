//! Writing a template, with a preview. The text stays in the form: the console stores none before it is published.

use std::ops::Deref;

use actix_web::http::StatusCode;
use askama::Template;
use domain::fields::check_identifier;
use domain::{Channel, SendId};
use operations::templates::{self, EXAMPLES, Example, TestRecipient, TestSendError, TestText};
use operations::{Caller, Object, OperationError, Permission};
use store::control::app::App;

use super::fields::Remark;
use super::form::{TemplateForm, WIDTHS};
use super::preview::{self, ShownContent};
use crate::answer::{self, Answer, Refusal, page, see_other};
use crate::changes::Change;
use crate::console::Console;
use crate::pages::shell::Visit;
use crate::query::Pairs;
use crate::route::encoded;
use crate::text;

/// Content of the preview of a text.
#[derive(Default)]
pub(crate) struct Shown {
    /// Reasons why the text cannot be published or rendered.
    pub(crate) problems: Vec<Remark>,
    pub(crate) warnings: Vec<Remark>,
    pub(crate) contents: Vec<ShownContent>,
}

#[derive(Template)]
#[template(path = "template_edit.html")]
pub(crate) struct EditorPage {
    pub(crate) visit: Visit,
    pub(crate) form: TemplateForm,
    pub(crate) shown: Shown,
    /// Test sends that the page reports, by the name of the channel, with the paths of their explanations.
    sent: Vec<(&'static str, String)>,
    /// Reason why no test was sent.
    problem: Option<String>,
}

/// The preview alone.
#[derive(Template)]
#[template(path = "template_edit.html", block = "preview")]
struct PreviewPart<'a>(&'a EditorPage);

impl Deref for PreviewPart<'_> {
    type Target = EditorPage;

    fn deref(&self) -> &EditorPage {
        self.0
    }
}

pub(crate) async fn edit(console: &Console, visit: Visit, identifier: &str, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::EditTemplates, app)?;
    let form = match templates::find(&console.operations, caller, app, identifier, None).await {
        Ok(newest) => TemplateForm::of_version(&newest),
        Err(OperationError::NotFound(_)) if query.text("from").is_some() => {
            let example = query.text("from").and_then(example);
            TemplateForm::of_example(identifier, example)
        }
        Err(error) => return Err(error.into()),
    };
    show(console, visit, form, Ok(Vec::new())).await
}

/// Renders the text of the form.
pub(crate) async fn render(change: Change<'_>, identifier: &str) -> Answer {
    let app = change.visit.app()?.id;
    change.visit.operator.caller.may(Permission::EditTemplates, app)?;
    let form = TemplateForm::read(identifier, &change.form)?;
    show(change.console, change.visit, form, Ok(Vec::new())).await
}

/// Sends that were made, or the status and the reason why there are none.
type Tested = Result<Vec<(Channel, SendId)>, (StatusCode, String)>;

async fn show(console: &Console, visit: Visit, form: TemplateForm, tested: Tested) -> Answer {
    let shown = shown(console, &visit.operator.caller, visit.app()?, &form).await?;
    let (status, sent, problem) = match tested {
        Ok(sent) => (StatusCode::OK, sent, None),
        Err((status, problem)) => (status, Vec::new(), Some(problem)),
    };
    let sent =
        sent.iter().map(|(channel, send)| (text::channel(*channel), visit.explain_path(send, 0))).collect();
    let editor = EditorPage { visit, form, shown, sent, problem };
    match editor.visit.part.as_deref() {
        Some("preview") => page(status, &PreviewPart(&editor)),
        _ => page(status, &editor),
    }
}

/// Sends the text of the form as a test.
pub(crate) async fn test_send(change: Change<'_>, identifier: &str) -> Answer {
    let (app, operator) = (change.visit.app()?, &change.visit.operator);
    operator.caller.may(Permission::EditTemplates, app.id)?;
    let form = TemplateForm::read(identifier, &change.form)?;
    let console = change.console;
    let (sample, problems) = form.sample(console, &operator.caller, app).await?;
    let channel = change.form.text("testChannel").map(str::parse::<Channel>).transpose();
    let channel = channel.map_err(|_| Refusal::Invalid("The form names no known channel.".to_owned()))?;
    let person = form.test_person.clone();
    let to = if form.to_person {
        TestRecipient::Person(&person)
    } else {
        TestRecipient::Operator(&operator.email)
    };
    let tested = match (form.document(app).await, problems.into_iter().next()) {
        (Err(found), _) => Err((StatusCode::BAD_REQUEST, domain::problem::joined(&found))),
        (Ok(_), Some(problem)) => Err((StatusCode::BAD_REQUEST, problem)),
        (Ok(document), None) => {
            let text = TestText { document: &document, sample, channel };
            match console.test_sends.send(&console.operations, &operator.caller, app, text, to).await {
                Ok(sent) => Ok(sent),
                Err(TestSendError::UsedUp) => {
                    Err((StatusCode::TOO_MANY_REQUESTS, TestSendError::UsedUp.to_string()))
                }
                Err(TestSendError::Failed(OperationError::NotFound(Object::User))) => {
                    Err((StatusCode::BAD_REQUEST, format!("There is no person {person} in this app.")))
                }
                Err(TestSendError::Failed(OperationError::Later { message, .. })) => {
                    Err((StatusCode::SERVICE_UNAVAILABLE, format!("{message}.")))
                }
                Err(TestSendError::Failed(
                    error @ (OperationError::TooLarge | OperationError::Volume { .. }),
                )) => Err((StatusCode::BAD_REQUEST, format!("{error}."))),
                Err(TestSendError::Failed(error)) => return Err(error.into()),
                Err(error) => Err((StatusCode::BAD_REQUEST, error.to_string())),
            }
        }
    };
    show(console, change.visit, form, tested).await
}

async fn shown(console: &Console, caller: &Caller, app: &App, form: &TemplateForm) -> Result<Shown, Refusal> {
    let (sample, problems) = form.sample(console, caller, app).await?;
    let mut problems: Vec<Remark> = problems.into_iter().map(Remark::from).collect();
    let document = match form.document(app).await {
        Ok(document) => document,
        Err(found) => {
            problems.extend(found.into_iter().map(Remark::from));
            return Ok(Shown { problems, ..Shown::default() });
        }
    };
    let warnings = templates::warnings(&document, app.settings.template_profile, Some(&sample));
    let warnings = warnings.into_iter().map(Remark::from).collect();
    let rendered = templates::preview_draft(&console.operations, caller, app, &document, sample).await?;
    Ok(Shown { problems, warnings, contents: preview::shown(&rendered) })
}

/// Answers with the HTML of the email in the form.
pub(crate) async fn frame(change: Change<'_>, identifier: &str) -> Answer {
    let (app, caller) = (change.visit.app()?, &change.visit.operator.caller);
    caller.may(Permission::EditTemplates, app.id)?;
    let form = TemplateForm::read(identifier, &change.form)?;
    let (sample, _) = form.sample(change.console, caller, app).await?;
    let Ok(document) = form.document(app).await else {
        return answer::frame("<p>The text has problems, which are listed next to it.</p>");
    };
    let operations = &change.console.operations;
    preview::frame(&templates::preview_draft(operations, caller, app, &document, sample).await?)
}

fn example(identifier: &str) -> Option<&'static Example> {
    EXAMPLES.iter().find(|example| example.identifier == identifier)
}

#[derive(Template)]
#[template(path = "template_new.html")]
struct NewPage {
    visit: Visit,
    identifier: String,
    from: String,
    problem: Option<String>,
}

/// Asks for the identifier of a new template, and for what it begins with.
pub(crate) async fn new(console: &Console, visit: Visit, query: &Pairs) -> Answer {
    let (app, caller) = (visit.app()?.id, &visit.operator.caller);
    caller.may(Permission::EditTemplates, app)?;
    let from = query.text("from").unwrap_or(EXAMPLES[0].identifier).to_owned();
    let identifier = query.text("identifier").unwrap_or_default().to_owned();
    let problem = if identifier.is_empty() {
        None
    } else {
        let mut problems = Vec::new();
        check_identifier("The identifier", identifier.clone(), &mut problems);
        let found = templates::find(&console.operations, caller, app, &identifier, None).await;
        match (problems.into_iter().next(), found) {
            (Some(problem), _) => Some(format!("{}.", problem.message)),
            // Browsers remove segments of paths that consist of dots.
            (None, _) if [".", ".."].contains(&identifier.as_str()) => {
                Some("An identifier must not consist of dots only.".to_owned())
            }
            (None, Ok(_)) => Some(format!("There is a template {identifier} already.")),
            (None, Err(OperationError::NotFound(_))) => {
                let path = visit.template_path(&identifier);
                return Ok(see_other(format!("{path}/edit?from={}", encoded(&from))));
            }
            (None, Err(error)) => return Err(error.into()),
        }
    };
    let status = if problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    page(status, &NewPage { visit, identifier, from, problem })
}
