use chrono::{DateTime, Utc};
use domain::Timestamp;

pub(crate) fn instant(time: Timestamp) -> DateTime<Utc> {
    time.into()
}
