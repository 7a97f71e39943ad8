//! The page that asks before a change, and the page that shows a new secret once.

use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::http::StatusCode;
use askama::Template;

use super::erase::status;
use super::shell::Visit;
use crate::answer::{Answer, Refusal, page};
use crate::changes::{Change, asks_password};
use crate::console::Console;
use crate::text;

/// A value that the operator chooses: name and label of the field, and the values with their words. The first one is chosen at first.
pub(crate) struct Choice {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) options: &'static [(&'static str, &'static str)],
}

/// A change that needs a confirmation.
pub(crate) struct Question {
    pub(crate) title: String,
    /// Sentences about what the change does.
    pub(crate) effect: String,
    /// Path of the form.
    pub(crate) action: String,
    /// Path of the page to which the operator goes back, and its name.
    pub(crate) back: (String, &'static str),
    pub(crate) button: &'static str,
    pub(crate) is_danger: bool,
    pub(crate) choice: Option<&'static Choice>,
    /// State of the object that the page shows. The form is refused if it is another one by then.
    pub(crate) seen: String,
    /// True if the change needs the operator's password.
    pub(crate) is_step_up: bool,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct QuestionPage<'a> {
    visit: Visit,
    question: &'a Question,
    chosen: &'a str,
    asks_password: bool,
    problem: Option<String>,
}

/// A secret that is shown once.
#[derive(Template)]
#[template(path = "secret.html")]
pub(crate) struct SecretPage {
    pub(crate) visit: Visit,
    pub(crate) title: String,
    /// Sentences about what the secret is for.
    pub(crate) purpose: String,
    /// Names of values that are not secret, and the values.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) name: &'static str,
    pub(crate) secret: String,
    /// Path of the next page, and its name.
    pub(crate) next: (String, &'static str),
}

pub(crate) async fn ask(
    console: &Console,
    visit: Visit,
    request: &HttpRequest,
    question: &Question,
) -> Answer {
    let asks_password = question.is_step_up && asks_password(console, &visit, request).await?;
    page(StatusCode::OK, &QuestionPage { visit, question, chosen: "", asks_password, problem: None })
}

impl Change<'_> {
    /// Returns the state of the object that the form was made for.
    pub(crate) fn seen(&self) -> Result<&str, Refusal> {
        let missing = || Refusal::Invalid("The form does not say which state it was made for.".to_owned());
        self.form.text("seen").ok_or_else(missing)
    }

    /// Returns the value that the operator chose.
    pub(crate) fn chosen(&self, choice: &Choice) -> Result<&'static str, Refusal> {
        let given = self.form.text(choice.name);
        let known = choice.options.iter().find(|(value, _)| Some(*value) == given);
        let unknown = || Refusal::Invalid(format!("The form has no valid value for {}.", choice.name));
        known.map(|(value, _)| *value).ok_or_else(unknown)
    }

    /// Returns the time for which a replaced secret stays valid.
    pub(crate) fn grace(&self, choice: &Choice) -> Result<Duration, Refusal> {
        Ok(text::duration(self.chosen(choice)?).unwrap_or(Duration::ZERO))
    }

    /// Verifies the operator's password, and returns the question again if it is wrong. Otherwise returns the change.
    pub(crate) async fn confirmed(self, question: &Question) -> Result<Result<Self, Answer>, Refusal> {
        self.seen()?;
        if let Some(choice) = question.choice {
            self.chosen(choice)?;
        }
        if !question.is_step_up {
            return Ok(Ok(self));
        }
        let Some(problem) = self.confirm_operator().await? else { return Ok(Ok(self)) };
        let asks_password = self.asks_password().await?;
        let chosen = question.choice.and_then(|choice| self.form.text(choice.name)).unwrap_or_default();
        let (status, problem) = (status(&problem), Some(problem.to_string()));
        let asked = QuestionPage { visit: self.visit, question, chosen, asks_password, problem };
        Ok(Err(page(status, &asked)))
    }
}
