//! Search for users. The expressions are those of the indexes in migration 0061.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use domain::content::Object;
use domain::{AppId, UserNumber};
use sqlx::types::Json;

use super::{User, UserRow};
use crate::{Directory, Error};

/// Reads of a search that fill one page.
const READS: usize = 10;
/// Longest key of an index, in characters.
const LONGEST_KEY: usize = 512;

/// Place of a user in the result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPlace {
    /// 1: found by the identifier, 2: by the email address, 3: by the name.
    part: i32,
    key: String,
    number: i64,
}

/// Users that a search has found.
#[derive(Debug, Default)]
pub struct SearchPage {
    pub users: Vec<User>,
    /// Place after which the next page begins; None on the last page.
    pub next: Option<SearchPlace>,
}

struct FoundPlaces {
    /// The boolean is true if an earlier part has found the user already.
    places: Vec<(SearchPlace, bool)>,
    is_complete: bool,
}

impl fmt::Display for SearchPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.part, self.number, self.key)
    }
}

#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("not a place in the result of a search")]
pub struct InvalidPlace;

impl FromStr for SearchPlace {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (part, rest) = text.split_once(':').ok_or(InvalidPlace)?;
        let (number, key) = rest.split_once(':').ok_or(InvalidPlace)?;
        if key.contains('\0') || key.chars().count() > LONGEST_KEY {
            return Err(InvalidPlace);
        }
        let part = part.parse().ok().filter(|part| (1..=3).contains(part)).ok_or(InvalidPlace)?;
        let number = number.parse().map_err(|_| InvalidPlace)?;
        Ok(SearchPlace { part, key: key.to_owned(), number })
    }
}

impl Directory<'_> {
    /// Lists the users with an email address, in order of creation. Case does not matter. The identifier of a user without the key `email`
    /// counts as the address.
    pub async fn users_with_email(
        self,
        app: AppId,
        email: &str,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number > $3
               AND mailbox_key('email', left(btrim(coalesce(profile ->> 'email', identifier)), 255)) COLLATE "C"
                 = mailbox_key('email', left(btrim($2::text), 255))
             ORDER BY number LIMIT $4"#,
            app.0,
            email,
            after.map_or(0, |number| number.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// Lists the users with a phone number, in order of creation. Only digits and `+` count.
    pub async fn users_with_phone(
        self,
        app: AppId,
        number: &str,
        after: Option<UserNumber>,
        limit: i64,
    ) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number > $3
               AND regexp_replace(replace(left(coalesce(profile ->> 'phoneNumber', profile ->> 'phone'), 255), '(0)', ''),
                   '[^+0-9]', '', 'g') COLLATE "C"
                 = regexp_replace(replace(left($2::text, 255), '(0)', ''), '[^+0-9]', '', 'g')
             ORDER BY number LIMIT $4"#,
            app.0,
            number,
            after.map_or(0, |number| number.0),
            limit
        )
        .fetch_all(&self.0.pool)
        .await?;
        Ok(rows.into_iter().map(User::from).collect())
    }

    /// Lists at most `limit` users whose identifier, email address or name begins with `start`, in this order. Case does not matter. A page
    /// may have fewer users, or none, although more follow: a user who is found by several of the three is listed for the first.
    pub async fn search_users(
        self,
        app: AppId,
        start: &str,
        after: Option<&SearchPlace>,
        limit: usize,
    ) -> Result<SearchPage, Error> {
        let (mut numbers, mut place) = (Vec::new(), after.cloned());
        let mut is_complete = false;
        for _ in 0..READS {
            let found = self.read_places(app, start, place.as_ref(), limit).await?;
            is_complete = found.is_complete;
            let mut found = found.places.into_iter();
            // One user more shows if there is a next page.
            for (at, is_repeated) in found.by_ref() {
                if !is_repeated && numbers.len() == limit {
                    return Ok(SearchPage { users: self.users(app, &numbers).await?, next: place });
                }
                if !is_repeated {
                    numbers.push(at.number);
                }
                place = Some(at);
            }
            if is_complete {
                break;
            }
        }
        let next = place.filter(|_| !is_complete);
        Ok(SearchPage { users: self.users(app, &numbers).await?, next })
    }

    async fn read_places(
        self,
        app: AppId,
        start: &str,
        after: Option<&SearchPlace>,
        limit: usize,
    ) -> Result<FoundPlaces, Error> {
        let most = limit.saturating_add(1);
        let rows = sqlx::query_file!(
            "src/directory/user/search.sql",
            app.0,
            start,
            i64::try_from(most).unwrap_or(i64::MAX),
            after.map_or(0, |place| place.part),
            after.map_or("", |place| &place.key),
            after.map_or(0, |place| place.number)
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut found = FoundPlaces { places: Vec::new(), is_complete: true };
        let mut of_part = 0;
        for row in rows {
            if found.places.last().is_none_or(|(last, _): &(SearchPlace, bool)| last.part != row.part) {
                // A part with as many rows as were asked for may have more, which come before those of the next part.
                if of_part == most {
                    break;
                }
                of_part = 0;
            }
            of_part += 1;
            let place = SearchPlace { part: row.part, key: row.key, number: row.number };
            found.places.push((place, row.is_repeated));
        }
        found.is_complete = of_part < most;
        Ok(found)
    }

    /// Returns users in the order of their numbers in `numbers`.
    async fn users(self, app: AppId, numbers: &[i64]) -> Result<Vec<User>, Error> {
        let rows = sqlx::query_as!(
            UserRow,
            r#"SELECT number, identifier, profile AS "profile: Json<Object>", created_at FROM app_user
             WHERE app_id = $1 AND number = ANY($2)"#,
            app.0,
            numbers
        )
        .fetch_all(&self.0.pool)
        .await?;
        let mut users: HashMap<_, _> = rows.into_iter().map(|row| (row.number.0, User::from(row))).collect();
        Ok(numbers.iter().filter_map(|number| users.remove(number)).collect())
    }
}
