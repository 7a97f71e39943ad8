use crate::stream::unix_millis;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) seq: u64,
    pub(crate) deliveries: u64,
    /// Unix milliseconds.
    pub(crate) published_at: i64,
}

impl Origin {
    /// Reads `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<nanoseconds>.<pending>`, or the
    /// newer form with `<domain>.<account>` before the stream and perhaps a token at the end.
    pub(crate) fn parse(reply: &str) -> Option<Origin> {
        let fields = reply.strip_prefix("$JS.ACK.")?;
        let before_counts = if fields.split('.').count() >= 9 { 4 } else { 2 };
        let mut counts = fields.split('.').skip(before_counts);
        let deliveries = counts.next()?.parse().ok()?;
        let seq = counts.next()?.parse().ok()?;
        let nanos: i128 = counts.nth(1)?.parse().ok()?;
        Some(Origin { seq, deliveries, published_at: unix_millis(nanos) })
    }
}

#[cfg(test)]
mod tests {
    use super::Origin;

    #[test]
    fn both_forms_of_the_reply_subject_are_read() {
        let expected = Some(Origin { seq: 100, deliveries: 3, published_at: 1_700_000_000_123 });
        for reply in [
            "$JS.ACK.INBOX_0.durable.3.100.7.1700000000123456789.42",
            "$JS.ACK._.szMpdrwD.INBOX_0.durable.3.100.7.1700000000123456789.42",
            "$JS.ACK.hub.szMpdrwD.INBOX_0.durable.3.100.7.1700000000123456789.42.token",
        ] {
            assert_eq!(Origin::parse(reply), expected, "{reply}");
        }
    }

    #[test]
    fn anything_else_is_not_a_delivery() {
        for reply in ["", "_INBOX.a.b", "$JS.ACK.INBOX_0.durable.x.1.1.1.1", "$JS.ACK.INBOX_0.durable.1.1"] {
            assert_eq!(Origin::parse(reply), None, "{reply}");
        }
    }
}
