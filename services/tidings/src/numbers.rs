//! Numbers that the admin API writes as text, because many JSON parsers round large ones.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Text(String),
    Plain(i64),
}

impl Number {
    fn parse<T: FromStr<Err: Display>, E: serde::de::Error>(self) -> Result<T, E> {
        let text = match self {
            Number::Text(text) => text,
            Number::Plain(number) => number.to_string(),
        };
        text.parse().map_err(E::custom)
    }
}

pub(crate) fn read<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(from: D) -> Result<T, D::Error> {
    Number::deserialize(from).map_err(|_| D::Error::custom("expected a number"))?.parse()
}

pub(crate) fn read_option<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Option::<Number>::deserialize(from)?.map(Number::parse).transpose()
}

pub(crate) fn write<S: Serializer>(number: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}
