use domain::Timestamp;
use domain::target::masked;
use operations::users::{self, UserFilter};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::directory::device::Device;
use store::directory::user::User;

use crate::admin_api::Query;
use crate::listing::Listing;
use crate::options::Options;
use crate::place::{NOT_REVEALED, Place};
use crate::refused::InvalidInput;

/// List the users of an app, or find some of them.
///
/// Upper and lower case make no difference, and neither do spaces, hyphens, dots and parentheses in phone numbers. Addresses and
/// numbers are masked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidings users shop --email ada@example.com
  tidings users shop --phone '+49 151 12345678' --reveal
  tidings users shop --q ada
  tidings users shop --limit 1000 --json")]
pub(crate) struct Arguments {
    /// Name or id of the app
    app: String,
    #[command(flatten)]
    search: Search,
    /// Only users after this place, which a page with the same filter names as `next`
    #[arg(long, value_name = "PLACE")]
    after: Option<String>,
    /// Maximum number of users
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    /// Show addresses and numbers in full; needs the database
    #[arg(long)]
    reveal: bool,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Search {
    /// Only users with this email address
    #[arg(long, value_name = "ADDRESS")]
    email: Option<String>,
    /// Only users with this phone number
    #[arg(long, value_name = "NUMBER")]
    phone: Option<String>,
    /// Only users whose identifier, email address or name begins with this text
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
}

impl Search {
    fn filter(&self) -> UserFilter<'_> {
        let email = self.email.as_deref().map(UserFilter::Email);
        let phone = self.phone.as_deref().map(UserFilter::PhoneNumber);
        email.or(phone).or(self.q.as_deref().map(UserFilter::Start)).unwrap_or(UserFilter::All)
    }
}

/// A user.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct UserRow {
    identifier: String,
    /// Masked unless revealed.
    email: Option<String>,
    phone_number: Option<String>,
    devices: usize,
    created_at: Timestamp,
}

impl UserRow {
    fn new((user, devices): (User, Vec<Device>), reveal: bool) -> UserRow {
        let shown = |keys: &[&str]| {
            let text = keys.iter().find_map(|key| user.profile.get(*key)).and_then(Value::as_str);
            text.map(|text| if reveal { text.to_owned() } else { masked(text) })
        };
        let (email, phone_number) = (shown(&["email"]), shown(&["phoneNumber", "phone"]));
        let devices = devices.len();
        UserRow { identifier: user.identifier, email, phone_number, devices, created_at: user.created_at }
    }
}

async fn page(arguments: &Arguments) -> anyhow::Result<(Vec<UserRow>, Option<String>)> {
    let (place, app) = arguments.options.open_app(&arguments.app).await?;
    let Arguments { search, after, limit, reveal, .. } = arguments;
    let filter = search.filter();
    let place_of = |text: &String| {
        filter.place(text).ok_or_else(|| InvalidInput("--after must be the `next` of a page".to_owned()))
    };
    let from = after.as_ref().map(place_of).transpose()?;
    let limit = *limit as usize;
    match place {
        Place::Database(database) => {
            let (operations, caller) = (&database.operations, &database.caller);
            let page = users::list(operations, caller, app.id, filter, from, limit).await?;
            let users = page.users.into_iter().map(|user| UserRow::new(user, *reveal));
            Ok((users.collect(), page.next.map(|next| next.to_string())))
        }
        Place::Console(_) if *reveal => Err(InvalidInput(NOT_REVEALED.to_owned()).into()),
        Place::Console(api) => {
            let query = Query::default().with("email", search.email.as_ref());
            let query = query.with("phoneNumber", search.phone.as_ref()).with("q", search.q.as_ref());
            Ok(api.after(&[&"apps", &app.id, &"people"], query, limit, after.clone()).await?)
        }
    }
}

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (users, next) = page(arguments).await?;
    let next = next.map(|place| ("after", place));
    let header = ["USER", "EMAIL", "PHONE", "DEVICES", "CREATED"];
    Ok(Listing::new(users).render_page(arguments.options.json, next, header, |user| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let (email, phone) = (or_dash(&user.email), or_dash(&user.phone_number));
        [user.identifier.clone(), email, phone, user.devices.to_string(), user.created_at.to_string()]
    }))
}
