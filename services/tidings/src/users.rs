use domain::target::masked;
use operations::users::{self, UserFilter};
use serde_json::{Value, json};
use store::directory::device::Device;
use store::directory::user::User;

use crate::control_plane::ControlPlane;
use crate::listing::Listing;
use crate::options::Options;
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
    /// Show addresses and numbers in full
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

pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<String> {
    let (control_plane, app) = arguments.options.open_app(&arguments.app).await?;
    let ControlPlane { operations, caller, .. } = control_plane;
    let filter = arguments.search.filter();
    let place = |text: &String| {
        filter.place(text).ok_or_else(|| InvalidInput("--after must be the `next` of a page".to_owned()))
    };
    let after = arguments.after.as_ref().map(place).transpose()?;
    let page = users::list(&operations, &caller, app.id, filter, after, arguments.limit as usize).await?;
    let next = page.next.map(|place| ("after", place.to_string()));
    let shown = |user: &User, keys: &[&str]| {
        let text = keys.iter().find_map(|key| user.profile.get(*key)).and_then(Value::as_str);
        text.map(|text| if arguments.reveal { text.to_owned() } else { masked(text) })
    };
    let email = |user: &User| shown(user, &["email"]);
    let phone = |user: &User| shown(user, &["phoneNumber", "phone"]);
    let as_json = |(user, devices): &(User, Vec<Device>)| {
        json!({
            "identifier": user.identifier, "email": email(user), "phoneNumber": phone(user),
            "devices": devices.len(), "createdAt": user.created_at,
        })
    };
    let header = ["USER", "EMAIL", "PHONE", "DEVICES", "CREATED"];
    Ok(Listing::new(page.users).render_page(
        arguments.options.json,
        next,
        as_json,
        header,
        |(user, devices)| {
            let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
            let (email, phone) = (or_dash(email(user)), or_dash(phone(user)));
            [user.identifier.clone(), email, phone, devices.len().to_string(), user.created_at.to_string()]
        },
    ))
}
