//! The form in which a template is written.

use domain::Problem;
use domain::content::Object;
use operations::templates::{Example, Sample, TemplateDocument};
use operations::{Caller, Object as Missing, OperationError};
use serde_json::{Value, json};
use store::control::app::App;
use store::control::template::TemplateVersion;

use super::fields::{self, ChannelFields, text_of};
use crate::answer::Refusal;
use crate::console::Console;
use crate::query::Pairs;

/// Widths of the preview in pixels, and their names.
pub(crate) const WIDTHS: [(&str, &str); 2] = [("640", "640 px"), ("375", "375 px")];

pub(crate) struct TemplateForm {
    pub(crate) identifier: String,
    /// Number of the version that the text is based on; 0 for a new template.
    pub(crate) base: i32,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) channels: Vec<ChannelFields>,
    /// Values for the preview.
    pub(crate) sample: String,
    /// Identifier of the recipient of the preview, in place of the recipient in the sample.
    pub(crate) person: String,
    pub(crate) locale: String,
    /// In pixels.
    pub(crate) width: String,
    pub(crate) dark: bool,
    /// True if a test goes to a person, not to the operator.
    pub(crate) to_person: bool,
    pub(crate) test_person: String,
    /// The only channel of a test; empty for all.
    pub(crate) test_channel: String,
}

impl TemplateForm {
    fn new(identifier: &str, channels: &Value, sample: &Value) -> TemplateForm {
        TemplateForm {
            identifier: identifier.to_owned(),
            base: 0,
            name: String::new(),
            category: String::new(),
            channels: fields::of_version(channels),
            sample: format!("{sample:#}"),
            person: String::new(),
            locale: String::new(),
            width: WIDTHS[0].0.to_owned(),
            dark: false,
            to_person: false,
            test_person: String::new(),
            test_channel: String::new(),
        }
    }

    pub(crate) fn of_version(version: &TemplateVersion) -> TemplateForm {
        let sample = Value::Object(Sample::invented(&version.channels).variables().clone());
        let written = operations::templates::written(&version.channels, version.mjml.as_deref());
        let form = TemplateForm::new(&version.identifier, &written, &sample);
        let category = version.category.clone().unwrap_or_default();
        TemplateForm { base: version.version, name: version.name.clone(), category, ..form }
    }

    /// Returns the form of a new template.
    pub(crate) fn of_example(identifier: &str, example: Option<&Example>) -> TemplateForm {
        match example {
            Some(example) => {
                let form = TemplateForm::new(identifier, &example.channels(), &example.sample());
                TemplateForm { name: example.name.to_owned(), ..form }
            }
            None => TemplateForm::new(identifier, &json!({}), &json!({})),
        }
    }

    pub(crate) fn read(identifier: &str, form: &Pairs) -> Result<TemplateForm, Refusal> {
        let bad = || Refusal::Invalid("The form is incomplete. Open the template again.".to_owned());
        let base = form.text("base").and_then(|text| text.parse().ok()).ok_or_else(bad)?;
        let text = |name: &str| form.text(name).unwrap_or_default().to_owned();
        let width =
            WIDTHS.iter().find(|(width, _)| form.text("width") == Some(width)).unwrap_or(&WIDTHS[0]).0;
        Ok(TemplateForm {
            identifier: identifier.to_owned(),
            base,
            name: text("name"),
            category: text("category"),
            channels: fields::of_form(form),
            sample: text_of(form, "sample"),
            person: text("person"),
            locale: text("locale"),
            width: width.to_owned(),
            dark: form.text("dark").is_some(),
            to_person: form.text("to") == Some("person"),
            test_person: text("testPerson"),
            test_channel: text("testChannel"),
        })
    }

    /// Returns true if no channel has a text.
    pub(crate) fn is_blank(&self) -> bool {
        !self.channels.iter().any(ChannelFields::is_used)
    }

    /// Returns the text as a document.
    ///
    /// # Errors
    /// Returns all problems of the text.
    pub(crate) async fn document(&self, app: &App) -> Result<TemplateDocument, Vec<Problem>> {
        let channels = fields::channels(&self.channels)?;
        let filled = |text: &String| (!text.is_empty()).then(|| text.clone());
        let document = json!({
            "identifier": self.identifier, "name": filled(&self.name), "category": filled(&self.category), "channels": channels,
        });
        TemplateDocument::read_apart(document, app.settings.template_profile).await
    }

    /// Returns the values of the preview, and the problems because of which some are missing.
    pub(crate) async fn sample(
        &self,
        console: &Console,
        caller: &Caller,
        app: &App,
    ) -> Result<(Sample, Vec<String>), Refusal> {
        let mut problems = Vec::new();
        let values = match serde_json::from_str(&self.sample) {
            Ok(Value::Object(values)) => values,
            _ if self.sample.trim().is_empty() => Object::new(),
            Ok(_) => {
                problems.push("The sample must be a JSON object.".to_owned());
                Object::new()
            }
            Err(error) => {
                problems.push(format!("The sample is not valid JSON: {error}."));
                Object::new()
            }
        };
        let mut sample = Sample::new(values);
        if !self.person.is_empty() {
            match sample.clone().for_user(&console.operations, caller, app.id, &self.person).await {
                Ok(of_user) => sample = of_user,
                Err(OperationError::NotFound(Missing::User)) => {
                    problems.push(format!("There is no person {} in this app.", self.person));
                }
                Err(OperationError::Denied(_)) => {
                    problems.push("The preview for a real person needs the role support.".to_owned());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if !self.locale.is_empty() {
            sample = sample.with_recipient("locale", &self.locale);
        }
        Ok((sample, problems))
    }
}
