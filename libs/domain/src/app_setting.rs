//! The settings of an app. Their table declares each setting once, for the code, the help of commands and `docs/app-settings.md`.

mod kind;

use std::fmt;
use std::mem::discriminant;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::email_layout::{Brand, Color};
use crate::{Problem, TemplateProfile, TokenSubject};
pub use kind::LONGEST_URL;
use kind::{Accent, Guard, ImageUrl, Kind, Number, Origins, Switch, Template, Text, Unit, Word};

pub const DEFAULT_USERS: u32 = 1_000_000;
pub const DEFAULT_CATEGORIES: u32 = 1_000;
pub const DEFAULT_DEVICES: u32 = 2_000_000;
pub const DEFAULT_TOPICS: u32 = 10_000;
pub const DEFAULT_SUBSCRIPTIONS: u32 = 10_000_000;
pub const DEFAULT_MEGABYTES: u32 = 10_000;

/// Length of `brand-name` in characters.
pub const LONGEST_NAME: usize = 64;
/// Length of `email-button` and `email-unsubscribe` in characters.
pub const LONGEST_BUTTON: usize = 40;
/// Length of `brand-address` in characters.
pub const LONGEST_ADDRESS: usize = 200;

/// Width in characters.
const HELP_COLUMN: usize = 27;
const HELP_INDENT: &str = "                             ";

/// Rate per second. The default comes from the configuration.
const RATE: Number = Number { most: 1_000_000, unit: Unit::Count, default: None };
const DAYS: Number = Number { most: 3_650, unit: Unit::Days, default: None };

const NAME: Text = Text { longest: LONGEST_NAME, unset: "default" };
const BUTTON: Text = Text { longest: LONGEST_BUTTON, unset: "default" };
const ADDRESS: Text = Text { longest: LONGEST_ADDRESS, unset: "none" };

const fn quota(default: Option<u32>) -> Number {
    Number { most: 1_000_000_000, unit: Unit::Count, default }
}

/// A setting in forms and texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    pub name: &'static str,
    /// Values in the syntax of the command line, such as `on|off`.
    pub syntax: String,
    pub text: String,
}

/// Declares the settings: doc comment, variant, column of the table `app` with its type, name, kind and description, in which `{default}`
/// stands for the default.
macro_rules! app_settings {
    ($($(#[$doc:meta])* $variant:ident($column:ident: $value:ty) = $name:literal, $kind:expr, $text:literal;)*) => {
        /// The settings of an app. The fields have the names of the columns. None stands for the default of a setting.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct AppSettings { $($(#[$doc])* pub $column: $value),* }

        /// A setting and its value. `Display` uses the syntax of the command line, for instance `secure-mode=on`.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum AppSetting { $($(#[$doc])* $variant($value)),* }

        impl AppSetting {
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// Returns all settings with their syntax and description.
            #[must_use]
            pub fn described() -> Vec<Described> {
                let row = |(name, syntax, text): (&'static str, String, String)| {
                    Described { name, syntax, text: text.replace('\n', " ") }
                };
                rows().into_iter().map(row).collect()
            }

            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self { $(AppSetting::$variant(_) => $name),* }
            }

            #[must_use]
            pub const fn column(&self) -> &'static str {
                match self { $(AppSetting::$variant(_) => stringify!($column)),* }
            }

            #[must_use]
            pub fn stored(&self) -> Value {
                match self { $(AppSetting::$variant(value) => json!(value)),* }
            }

            #[must_use]
            pub fn current(&self, settings: &AppSettings) -> AppSetting {
                match self { $(AppSetting::$variant(_) => AppSetting::$variant(settings.$column.clone())),* }
            }

            /// Returns the value in the syntax of the command line.
            #[must_use]
            pub fn value(&self) -> String {
                match self { $(AppSetting::$variant(value) => $kind.show(value)),* }
            }

            fn parse_value(name: &str, text: &str, problems: &mut Vec<Problem>) -> Option<AppSetting> {
                match name {
                    $($name => $kind.parse(name, text, problems).map(AppSetting::$variant),)*
                    _ => {
                        let names = listed(AppSetting::NAMES);
                        let message = format!("{name:?} is not a switch of an app; the switches are {names}");
                        problems.push(Problem::new(name, "unknown_member", message));
                        None
                    }
                }
            }
        }

        impl AppSettings {
            /// All settings as members of a JSON object, named in camel case.
            #[must_use]
            pub fn to_members(&self) -> Map<String, Value> {
                let mut members = Map::new();
                $(members.insert(camel_case($name), $kind.member(&self.$column));)*
                members
            }
        }

        impl AppSettings {
            /// All settings with their names and values in the syntax of the command line.
            #[must_use]
            pub fn to_texts(&self) -> Vec<(&'static str, String)> {
                vec![$(($name, $kind.show(&self.$column))),*]
            }
        }

        fn rows() -> Vec<(&'static str, String, String)> {
            vec![$(($name, $kind.syntax(), described($text, $kind.default_number()))),*]
        }
    };
}

app_settings! {
    /// If true, calls made on behalf of users need a bearer token.
    SecureMode(secure_mode: bool) = "secure-mode", Switch,
        "API calls by users need a bearer token, signed with a key of `tidings app signing-key`";
    /// If true, calls made on behalf of users need a bearer token or a signature of the user's identifier.
    Hmac(hmac: bool) = "hmac", Switch,
        "API calls by users without a token need a signature of the user id (deprecated); after\n\
         turning it on, run `tidings app rotate-secret` to create the secret that signs";
    /// If true, bearer tokens without an expiry time (`exp`) are refused.
    RequireExp(require_exp: bool) = "require-exp", Switch, "bearer tokens must expire";
    /// Format in which bearer tokens name their user in the JWT claim `sub`.
    TokenSubject(token_subject: TokenSubject) = "token-subject", Word(TokenSubject::ALL),
        "form of the claim sub that names the user: user:ada, ada, or either";
    /// If true, callers that have only the public API key may neither read nor write a user's addresses. None if unset; the app's type then
    /// decides.
    GuardAddresses(guard_addresses: Option<bool>) = "address-keys", Guard,
        "guarded: a caller with only the public API key can neither read nor write the targets of\n\
         messages: email, phoneNumber, phone, fcm, apns, and web-push subscriptions; only the call\n\
         that creates a user may register a push token, and gets a device secret to replace it with";
    /// The part of a user's profile that templates can read.
    TemplateProfile(template_profile: TemplateProfile) = "template-profile", Word(TemplateProfile::ALL),
        "the part of a profile that templates see: every key, or only recipient.app, which only the\n\
         app's backend writes";
    /// Web origins (CORS) whose pages may make calls on behalf of users. None allows all origins; an empty list allows none.
    CorsOrigins(cors_origins: Option<Vec<String>>) = "cors-origins", Origins,
        "the web pages that may call the API for users; calls from other pages are refused\n\
         with 403. This does not stop programs other than browsers; use secure-mode for that";
    /// Requests per second; None for the configured default.
    RateLimit(rate_limit: Option<NonZeroU32>) = "rate-limit", RATE,
        "requests per second of the app's backend; also the limit of all its users together";
    TransactionalRate(transactional_rate: Option<NonZeroU32>) = "transactional-rate", RATE,
        "sends per second outside of the bulk lane";
    MaxUsers(max_users: Option<NonZeroU32>) = "max-users", quota(Some(DEFAULT_USERS)),
        "users that may be created by API calls of users; {default} by default";
    MaxCategories(max_categories: Option<NonZeroU32>) = "max-categories", quota(Some(DEFAULT_CATEGORIES)),
        "categories; {default} by default";
    MaxDevices(max_devices: Option<NonZeroU32>) = "max-devices", quota(Some(DEFAULT_DEVICES)),
        "devices of all users together; {default} by default";
    MaxTopics(max_topics: Option<NonZeroU32>) = "max-topics", quota(Some(DEFAULT_TOPICS)),
        "topics; {default} by default";
    MaxSubscriptions(max_subscriptions: Option<NonZeroU32>) = "max-subscriptions",
        quota(Some(DEFAULT_SUBSCRIPTIONS)), "subscriptions to all topics together; {default} by default";
    MaxSendMegabytes(max_send_megabytes: Option<NonZeroU32>) = "max-send-megabytes",
        quota(Some(DEFAULT_MEGABYTES)),
        "megabytes of accepted sends within 24 hours, without files; {default} by default, and never\n\
         more than a quarter of the event log";
    MaxFileMegabytes(max_file_megabytes: Option<NonZeroU32>) = "max-file-megabytes",
        quota(Some(DEFAULT_MEGABYTES)), "megabytes of the files of sends within 24 hours; {default} by default";
    /// Live connections at each gateway; None for the share that the gateway gives each app.
    RealtimeConnections(realtime_connections: Option<NonZeroU32>) = "realtime-connections", quota(None),
        "live connections at each gateway; by default the share that the gateway gives each app";
    /// Days for which sends are kept, if that is shorter than the configured time; None for the configured time.
    KeepSends(keep_sends: Option<NonZeroU32>) = "keep-sends", DAYS,
        "days for which sends and their deliveries are kept, if that is shorter than [sends] keep;\n\
         in any case a day longer than [streams] retention and [delivery] receipt_wait";
    /// Name that recipients see; None for the name of the app.
    BrandName(brand_name: Option<String>) = "brand-name", NAME,
        "the name in emails without a template; by default the name of the app";
    BrandLogo(brand_logo: Option<String>) = "brand-logo", ImageUrl,
        "PNG or JPEG image at the top of these emails, shown 32 pixels high; by default the name\n\
         and its initial";
    BrandColor(brand_color: Option<Color>) = "brand-color", Accent,
        "the colour of the button in these emails; its text is white or black, whichever is\n\
         readable";
    BrandAddress(brand_address: Option<String>) = "brand-address", ADDRESS,
        "the postal address in the footer of these emails";
    EmailButton(email_button: Option<String>) = "email-button", BUTTON,
        "the text of the button that opens the url of a send; \"View details\" by default";
    EmailUnsubscribe(email_unsubscribe: Option<String>) = "email-unsubscribe", BUTTON,
        "the text of the unsubscribe link in the footer; \"Unsubscribe\" by default";
    /// Identifier of a template.
    EmailLayout(email_layout: Option<String>) = "email-layout", Template,
        "the template that replaces the whole layout of these emails; its variables are title,\n\
         message, url, unsubscribe and app.brand";
    Disabled(disabled: bool) = "disabled", Switch, "all calls are refused";
}

impl AppSettings {
    /// Returns the look of the app's emails.
    #[must_use]
    pub fn brand(&self, app_name: &str) -> Brand {
        Brand {
            name: self.brand_name.clone().unwrap_or_else(|| app_name.to_owned()),
            logo: self.brand_logo.clone(),
            color: self.brand_color,
            address: self.brand_address.clone(),
            button: self.email_button.clone(),
            unsubscribe: self.email_unsubscribe.clone(),
        }
    }
}

impl AppSetting {
    /// Parses texts such as `secure-mode=on`, each setting at most once, and reports all problems.
    pub fn parse_all(texts: &[String]) -> Result<Vec<AppSetting>, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut settings: Vec<AppSetting> = Vec::new();
        for text in texts {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            let Some(setting) = AppSetting::parse_value(name, value, &mut problems) else { continue };
            if settings.iter().any(|earlier| discriminant(earlier) == discriminant(&setting)) {
                problems.push(Problem::new(name, "repeated", format!("{name} must be given only once")));
            }
            settings.push(setting);
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }
}

impl fmt::Display for AppSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name(), self.value())
    }
}

#[must_use]
pub fn help() -> String {
    let rows = rows().into_iter().map(|(name, syntax, text)| {
        let left = format!("{name}={syntax}");
        let text = text.replace('\n', &format!("\n{HELP_INDENT}"));
        if left.chars().count() + 2 > HELP_COLUMN {
            format!("  {left}\n{HELP_INDENT}{text}\n")
        } else {
            format!("  {left:HELP_COLUMN$}{text}\n")
        }
    });
    rows.collect()
}

#[must_use]
pub fn markdown() -> String {
    let rows = rows().into_iter().map(|(name, syntax, text)| {
        format!("| `{name}` | `{}` | {} |\n", syntax.replace('|', "\\|"), text.replace('\n', " "))
    });
    rows.collect()
}

fn described(text: &str, default: Option<u32>) -> String {
    text.replace("{default}", &default.map_or_else(String::new, |number| number.to_string()))
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('-');
    let mut text = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        text.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        text.push_str(letters.as_str());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(texts: &[&str]) -> Result<Vec<AppSetting>, Vec<Problem>> {
        AppSetting::parse_all(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn settings_are_shown_as_they_are_parsed() {
        for text in [
            "secure-mode=on",
            "hmac=off",
            "address-keys=guarded",
            "token-subject=bare",
            "template-profile=app",
            "cors-origins=any",
            "cors-origins=none",
            "cors-origins=https://a.example,http://localhost:3000",
            "rate-limit=1000000",
            "max-users=1000000000",
            "keep-sends=3650",
            "keep-sends=default",
            "brand-name=Müller & Söhne",
            "brand-logo=https://cdn.example/logo.png?v=2",
            "brand-logo=none",
            "brand-color=#635bff",
            "brand-color=default",
            "brand-address=1 Main Street, Springfield",
            "email-button=Ansehen",
            "email-unsubscribe=Abmelden",
            "email-layout=layout",
        ] {
            let parsed = parse(&[text]).unwrap();
            assert_eq!(parsed.iter().map(AppSetting::to_string).collect::<Vec<_>>(), [text]);
        }
    }

    #[test]
    fn the_page_of_the_settings_has_a_row_for_each() {
        let page = include_str!("../../../docs/app-settings.md");
        assert!(page.ends_with(&markdown()), "replace the table of docs/app-settings.md by\n{}", markdown());
    }

    #[test]
    fn all_problems_of_the_settings_are_reported_at_once_and_name_the_accepted_values() {
        let texts = [
            "secure-mode",
            "token-subject=x",
            "address-keys=shut",
            "rate-limit=1000001",
            "max-users=0",
            "keep-sends=3651",
            "cors-origins=https://a.example/",
            "hmac=on",
            "hmac=on",
            "colour=red",
            "brand-name=",
            "brand-address=a\u{202e}b",
            "email-button=01234567890123456789012345678901234567890",
            "brand-logo=http://a.example/x.png",
            "brand-color=red",
            "email-layout=",
        ];
        let problems = parse(&texts).unwrap_err();
        let messages: Vec<_> = problems.iter().map(|problem| problem.message.as_str()).collect();
        assert_eq!(
            messages[..6],
            [
                "secure-mode must be on or off",
                "token-subject must be prefixed, bare or either",
                "address-keys must be open or guarded",
                "rate-limit must be default, or a whole number from 1 to 1000000",
                "max-users must be default, or a whole number from 1 to 1000000000",
                "keep-sends must be default, or a whole number of days from 1 to 3650",
            ]
        );
        assert!(messages[6].ends_with("\"https://a.example/\" is not an origin"), "{}", messages[6]);
        assert_eq!(messages[7], "hmac must be given only once");
        assert!(
            messages[8].starts_with("\"colour\" is not a switch of an app; the switches are secure-mode, ")
        );
        assert!(messages[8].ends_with("email-layout and disabled"), "{}", messages[8]);
        assert_eq!(
            messages[9..],
            [
                "brand-name must be default, or 1 to 64 characters without line breaks and characters that change the direction of text",
                "brand-address must be none, or 1 to 200 characters without line breaks and characters that change the direction of text",
                "email-button must be default, or 1 to 40 characters without line breaks and characters that change the direction of text",
                "brand-logo must be none, or an https URL of at most 1000 characters",
                "brand-color must be default, or a colour such as #635bff",
                "email-layout must be default, or the identifier of a template",
            ]
        );
    }
}
