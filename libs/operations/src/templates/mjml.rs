//! MJML in place of the HTML of an email.

use std::borrow::Cow;

use domain::Problem;
use serde_json::{Map, Value};

const HTML: &str = "email.html";
const MJML: &str = "email.mjml";

/// Replaces MJML by the HTML to which it compiles, and returns it.
pub(super) fn compile(channels: &mut Map<String, Value>, problems: &mut Vec<Problem>) -> Option<String> {
    let Some(Value::Object(email)) = channels.get_mut("email") else { return None };
    let Some(Value::String(mjml)) = email.remove("mjml").filter(|mjml| mjml != "") else { return None };
    match planning::compile_mjml(&mjml) {
        Ok(html) => drop(email.insert("html".to_owned(), Value::String(html))),
        Err(problem) => problems.push(problem),
    }
    Some(mjml)
}

/// Returns the content by channel as its author wrote it: with `mjml` instead of the HTML that was compiled from it.
#[must_use]
pub fn written<'a>(channels: &'a Value, mjml: Option<&str>) -> Cow<'a, Value> {
    let Some(mjml) = mjml else { return Cow::Borrowed(channels) };
    let mut written = channels.clone();
    if let Some(Value::Object(email)) = written.get_mut("email") {
        email.remove("html");
        email.insert("mjml".to_owned(), Value::String(mjml.to_owned()));
    }
    Cow::Owned(written)
}

/// Returns the texts by name, with `email.mjml` instead of the HTML that was compiled from it.
pub(super) fn written_texts(channels: &Value, mjml: Option<&str>) -> Vec<(String, String)> {
    let mut texts = planning::texts(channels);
    if let (Some(mjml), Some(text)) = (mjml, texts.iter_mut().find(|(name, _)| name == HTML)) {
        *text = (MJML.to_owned(), mjml.to_owned());
    }
    texts
}

/// Returns the name of the text that the author wrote.
pub(super) fn written_name<'a>(name: &'a str, mjml: Option<&str>) -> &'a str {
    if mjml.is_some() && name == HTML { MJML } else { name }
}

/// Names the text that the author wrote in a problem of the compiled HTML.
pub(super) fn of_compiled(problem: Problem) -> Problem {
    let (html, mjml) = (format!("channels.{HTML}"), format!("channels.{MJML}"));
    if problem.field != html {
        return problem;
    }
    let message = problem.message.replace(&html, &format!("{mjml}, compiled to HTML,"));
    Problem::new(mjml, problem.code, message)
}
