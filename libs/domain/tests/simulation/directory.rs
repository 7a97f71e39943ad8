//! The people, where they can be reached, and what they do not want.

use domain::content::Object;
use domain::plan::Person;
use domain::{Channel, UserNumber};
use serde_json::Value;

use crate::dice::Dice;

/// How many people there are.
pub(crate) const PEOPLE: usize = 4;

/// A person.
#[derive(Debug)]
struct Entry {
    identifier: String,
    profile: Object,
    turned_off: Vec<Channel>,
    is_erased: bool,
}

/// Everybody.
#[derive(Debug)]
pub(crate) struct Directory {
    entries: Vec<Entry>,
    changes: usize,
}

impl Directory {
    /// The first two share a telephone, the others a mailbox.
    pub(crate) fn new() -> Directory {
        let entry = |number: usize| {
            let email = if number < 2 { format!("{number}@example.com") } else { "both@example.com".into() };
            let phone = if number < 2 { "+4915100".into() } else { format!("+4915{number}00") };
            let profile = [("email", email), ("phoneNumber", phone)];
            let profile = profile.map(|(name, value)| (name.to_owned(), Value::String(value)));
            let profile = Object::from_iter(profile);
            Entry { identifier: identifier(number), profile, turned_off: Vec::new(), is_erased: false }
        };
        Directory { entries: (0..PEOPLE).map(entry).collect(), changes: 0 }
    }

    pub(crate) fn find(&self, identifier: &str) -> Option<Person<'_>> {
        let is_meant = |entry: &Entry| entry.identifier == identifier && !entry.is_erased;
        let index = self.entries.iter().position(is_meant)?;
        let entry = &self.entries[index];
        Some(Person {
            number: number(index),
            profile: &entry.profile,
            turned_off: &entry.turned_off,
            endpoints: &[],
        })
    }

    /// Takes somebody out, for good: who it was. None where nobody is left.
    pub(crate) fn erase(&mut self, dice: &mut Dice) -> Option<(String, UserNumber)> {
        let left: Vec<usize> = (0..PEOPLE).filter(|index| !self.entries[*index].is_erased).collect();
        let index = *dice.of(&left)?;
        self.entries[index].is_erased = true;
        Some((identifier(index), number(index)))
    }

    /// Gives somebody another address, or lets them turn a channel off or on. Says what has changed.
    pub(crate) fn change(&mut self, dice: &mut Dice) -> String {
        self.changes += 1;
        let changes = self.changes;
        let index = dice.below(PEOPLE);
        let entry = &mut self.entries[index];
        let channel = [Channel::Email, Channel::Sms, Channel::InApp][dice.below(3)];
        if dice.percent(50) {
            let (field, value) = match channel {
                Channel::Sms => ("phoneNumber", format!("+49160{changes}00")),
                _ => ("email", format!("{index}.{changes}@example.com")),
            };
            let what = format!("{} has {value}", entry.identifier);
            entry.profile.insert(field.to_owned(), Value::String(value));
            return what;
        }
        match entry.turned_off.iter().position(|off| *off == channel) {
            Some(place) => {
                entry.turned_off.remove(place);
                format!("{} turns {channel} on", entry.identifier)
            }
            None => {
                entry.turned_off.push(channel);
                format!("{} turns {channel} off", entry.identifier)
            }
        }
    }
}

/// What an app calls a person. The service does not know all of those.
pub(crate) fn identifier(index: usize) -> String {
    ["ada", "bob", "eve", "kim", "nobody"][index.min(PEOPLE)].to_owned()
}

/// The number of a person.
pub(crate) fn number(index: usize) -> UserNumber {
    UserNumber(i64::try_from(index).unwrap() + 1)
}
