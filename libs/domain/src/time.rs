//! Instants with the precision of the API: milliseconds, UTC.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use chrono::{DateTime, Datelike, SecondsFormat, Timelike, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NANOSECONDS: u32 = 1_000_000_000;

/// Milliseconds since the Unix epoch, serialized as RFC 3339 in UTC with three decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Parses an RFC 3339 date-time with any offset, and drops digits beyond milliseconds. A leap second is the second after 23:59:59 UTC
    /// on the last day of a month (RFC 3339, section 5.7).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let time = DateTime::parse_from_rfc3339(text).ok()?.with_timezone(&Utc);
        // `chrono` keeps a second 60 as a second 59 with more than a second of nanoseconds, in any minute.
        let is_leap_second = time.nanosecond() >= NANOSECONDS;
        (!is_leap_second || ends_month(&time)).then(|| time.into())
    }

    /// Zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn ends_month(time: &DateTime<Utc>) -> bool {
    let is_last_second = (time.hour(), time.minute(), time.second()) == (23, 59, 59);
    let next_day = time.date_naive().succ_opt();
    is_last_second && next_day.is_some_and(|day| day.day() == 1)
}

impl<Tz: chrono::TimeZone> From<DateTime<Tz>> for Timestamp {
    fn from(time: DateTime<Tz>) -> Self {
        Timestamp(time.timestamp_millis())
    }
}

impl From<Timestamp> for DateTime<Utc> {
    fn from(time: Timestamp) -> Self {
        DateTime::from_timestamp_millis(time.0).unwrap_or(if time.0 < 0 {
            DateTime::<Utc>::MIN_UTC
        } else {
            DateTime::<Utc>::MAX_UTC
        })
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&DateTime::<Utc>::from(*self).to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        Timestamp::parse(&text).ok_or_else(|| serde::de::Error::custom("not an RFC 3339 date-time"))
    }
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    /// The cases of the JSON-Schema-Test-Suite for the format `date-time`, and more leap seconds.
    #[test]
    fn a_date_time_is_one_of_rfc_3339_and_a_leap_second_ends_a_month_in_utc() {
        for valid in [
            "1963-06-19T08:30:06.283185Z",
            "1963-06-19T08:30:06Z",
            "1937-01-01T12:00:27.87+00:20",
            "1990-12-31T15:59:50.123-08:00",
            "1998-12-31T23:59:60Z",
            "1998-12-31T15:59:60.123-08:00",
            "1963-06-19t08:30:06.283185z",
            "1999-01-01T05:29:60+05:30",
            "2016-12-31T23:59:60.999999999Z",
            "1972-06-30T23:59:60Z",
            "2024-02-29T23:59:60Z",
            "2027-03-31T23:59:60-00:00",
            "2024-02-29T12:00:00+23:59",
            "9999-12-31T23:59:60Z",
        ] {
            assert!(Timestamp::parse(valid).is_some(), "{valid}");
        }
        for invalid in [
            "1998-12-31T23:59:61Z",
            "1998-12-31T23:58:60Z",
            "1998-12-31T22:59:60Z",
            "1998-12-31T23:59:60+01:00",
            "1998-12-30T23:59:60Z",
            "2024-02-28T23:59:60Z",
            "2027-01-15T23:59:60Z",
            "1999-01-01T00:59:60Z",
            "1990-02-31T15:59:59.123-08:00",
            "1990-12-31T15:59:59-24:00",
            "1963-06-19T08:30:06.28123+01:00Z",
            "06/19/1963 08:30:06 PST",
            "2013-350T01:01:01",
            "1963-6-19T08:30:06.283185Z",
            "1963-06-1T08:30:06.283185Z",
            "1963-06-1\u{9ea}T00:00:00Z",
            "1963-06-11T0\u{9ea}:00:00Z",
            "+11963-06-19T08:30:06.283185Z",
            "1990-12-31T10:00:00+10:0",
            "1963-06-19T08:30:06",
            "1963-06-19T24:00:00Z",
            "1963-06-19T08:60:00Z",
            "1963-06-19T08:30Z",
            "1963-06-19T08:30:06.Z",
            "1963-06-19T08:30:06,5Z",
            "1990-12-31T15:59:50+24:00",
            "1990-12-31T15:59:50+00:60",
            "",
        ] {
            assert_eq!(Timestamp::parse(invalid), None, "{invalid}");
        }
        let [leap, next] =
            ["2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"].map(|text| Timestamp::parse(text).unwrap());
        assert!(leap <= next);
    }
}
