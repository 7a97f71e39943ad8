//! The page on which the reader of an email chooses channels for each category.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::StatusCode;
use actix_web::{HttpRequest, HttpResponse};
use domain::body::{ObjectSchema, Presence, json, named};
use domain::html::escaped;
use domain::{CategoryId, Channel};
use operations::preferences::LinkedChoices;
use store::directory::category::Category;
use web::failure::Failure;

use crate::directory::unsubscribe_page::{PageTexts, answer, texts_for};

/// Maximum number of fields of the form: a box for each channel of 1,000 categories, and the list of boxes.
pub(super) const MOST_FIELDS: usize = 5_001;
/// Name of the checked boxes. The value is `CATEGORY:CHANNEL`.
const ON: &str = "on";
/// Name of the field with all boxes as the page showed them, separated by spaces: `CATEGORY:CHANNEL:on` or `…:off`.
const SHOWN: &str = "shown";

domain::schemas! {
    /// The form of the page.
    pub(crate) ChoicesForm = |schemas| named(schemas, "ChoicesForm", |_| {
        let mut form = ObjectSchema::new(&["The form of the page with the reader's preferences."]);
        let shown = "The boxes as the page showed them, separated by spaces: category, channel and `on` or `off`.";
        let on = "A checked box: category and channel. Repeated for each.";
        form.add(SHOWN, Presence::Required, &[shown], json!({"type": "string"}));
        form.add(ON, Presence::Optional, &[on], json!({"type": "string"}));
        let mut schema = form.finish();
        schema["example"] = json!({"shown": "7:inApp:on 7:email:on", "on": "7:inApp"});
        schema
    });
}

/// Returns the choices that differ from those that the page showed.
pub(super) fn changed(fields: &[(String, String)]) -> Result<BTreeMap<(CategoryId, Channel), bool>, Failure> {
    let named = |wanted: &'static str| {
        fields.iter().filter(move |(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    let on: BTreeSet<&str> = named(ON).collect();
    let mut changed = BTreeMap::new();
    for shown in named(SHOWN).flat_map(str::split_whitespace).take(MOST_FIELDS) {
        let (choice, state) = shown.rsplit_once(':').ok_or_else(not_of_the_page)?;
        let (category, channel) = choice.split_once(':').ok_or_else(not_of_the_page)?;
        let category = category.parse().map(CategoryId).map_err(|_| not_of_the_page())?;
        let channel = channel.parse().map_err(|_| not_of_the_page())?;
        let is_on = on.contains(choice);
        if is_on != (state == "on") {
            changed.insert((category, channel), is_on);
        }
    }
    Ok(changed)
}

fn not_of_the_page() -> Failure {
    Failure::problem(SHOWN, "invalid_value", "shown is not as the page wrote it; open the link again")
}

/// Returns the page. `is_saved` is true after a change.
pub(super) fn page(request: &HttpRequest, choices: &LinkedChoices, is_saved: bool) -> HttpResponse {
    let words = texts_for(request);
    // The name is inserted last, because it may itself contain a placeholder.
    let intro = words.choose.replace("{app}", &escaped(&choices.app));
    let saved = if is_saved { words.saved } else { "" };
    let content = if choices.categories.is_empty() {
        format!("<p>{}</p>\n", words.no_choice)
    } else {
        format!(
            "<form method=\"post\"><input type=\"hidden\" name=\"{SHOWN}\" value=\"{}\">\n{}\
             <button>{}</button></form>\n",
            shown(choices),
            table(choices, words),
            words.save
        )
    };
    let content = format!("<p>{intro}</p>\n<p class=\"saved\" role=\"status\">{saved}</p>\n{content}");
    answer(StatusCode::OK, words, words.preferences, &content)
}

fn shown(choices: &LinkedChoices) -> String {
    let open = choices.categories.iter().filter(|category| !category.critical);
    let boxes = open.flat_map(|category| {
        choices.channels.iter().map(move |&channel| {
            let state = if choices.is_on(category, channel) { "on" } else { "off" };
            format!("{}:{state}", value(category, channel))
        })
    });
    boxes.collect::<Vec<_>>().join(" ")
}

fn value(category: &Category, channel: Channel) -> String {
    format!("{}:{channel}", category.id)
}

fn table(choices: &LinkedChoices, words: &PageTexts) -> String {
    let heads = choices.channels.iter().map(|&channel| words.channel(channel));
    let head: String = heads.map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let rows: String = choices.categories.iter().map(|category| row(category, choices, words)).collect();
    format!("<table><thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}</tbody></table>\n")
}

fn row(category: &Category, choices: &LinkedChoices, words: &PageTexts) -> String {
    let name = escaped(&name_of(category));
    let (class, note) = if category.critical {
        (" class=\"locked\"", format!("<small>{}</small>", words.locked))
    } else {
        ("", String::new())
    };
    let boxes = choices.channels.iter().map(|&channel| {
        let checked = if choices.is_on(category, channel) { " checked" } else { "" };
        let disabled = if category.critical { " disabled" } else { "" };
        let (label, value) = (words.channel(channel), value(category, channel));
        format!(
            "<td><label><span>{label}</span><input type=\"checkbox\" name=\"{ON}\" value=\"{value}\" \
             aria-label=\"{name}: {label}\"{checked}{disabled}></label></td>"
        )
    });
    let boxes: String = boxes.collect();
    format!("<tr{class}><th scope=\"row\"><bdi>{name}</bdi>{note}</th>{boxes}</tr>\n")
}

/// Returns the name of a category. One that has only an identifier is shown as words, as in the inbox component.
fn name_of(category: &Category) -> String {
    if category.name != category.identifier {
        return category.name.clone();
    }
    let mut words = String::new();
    let mut before = ' ';
    for letter in category.identifier.chars() {
        if letter.is_uppercase() && (before.is_lowercase() || before.is_ascii_digit()) {
            words.push(' ');
        }
        words.push(if ['-', '_', '.', ':', '/'].contains(&letter) { ' ' } else { letter });
        before = letter;
    }
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut letters = words.chars();
    let first: String = letters.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    first + letters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn only_boxes_that_the_reader_changed_are_choices() {
        let form =
            [field("shown", "7:email:on 7:sms:off 8:email:on"), field("on", "7:sms"), field("on", "8:email")];
        let expected = [((CategoryId(7), Channel::Email), false), ((CategoryId(7), Channel::Sms), true)];
        assert_eq!(changed(&form).unwrap(), BTreeMap::from(expected));
        assert!(changed(&[field("on", "9:email")]).unwrap().is_empty(), "a box that the page did not show");
        for bad in ["7", "7:email", "x:email:on", "7:fax:on"] {
            assert!(changed(&[field("shown", bad)]).is_err(), "{bad}");
        }
    }
}
