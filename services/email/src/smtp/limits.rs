use std::time::Duration;

const fn minutes(number: u64) -> Duration {
    Duration::from_secs(number * 60)
}

#[derive(Clone, Debug)]
pub struct PoolLimits {
    pub connections: usize,
    /// Limit because many servers close a connection after a few hundred emails.
    pub messages_per_connection: u32,
    pub idle: Duration,
    /// Time limit for loading attachments and the unsubscribe link. Only a few large emails may be in memory at once; the
    /// limit includes the wait for other large emails.
    pub preparing: Duration,
    pub queueing: Duration,
    pub times: Times,
    pub api: Duration,
}

/// The default is that of RFC 5321 section 4.5.3.2: servers check clients and emails for as long as this.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub connect: Duration,
    pub handshake: Duration,
    pub greeting: Duration,
    /// Reply to EHLO, HELO, STARTTLS, RSET, NOOP or QUIT.
    pub hello: Duration,
    /// Each reply to a line of AUTH, and each call for an access token.
    pub login: Duration,
    pub mail: Duration,
    pub rcpt: Duration,
    pub data: Duration,
    pub block: Duration,
    /// Everything before the final dot. After this time, the server has certainly not accepted the email.
    pub before_dot: Duration,
    /// Reply to the final dot. After this time, the outcome is unknown (RFC 1047).
    pub dot: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        PoolLimits {
            connections: 32,
            messages_per_connection: 200,
            idle: Duration::from_secs(30),
            preparing: Duration::from_secs(6),
            queueing: Duration::from_secs(10),
            times: Times::default(),
            api: Duration::from_secs(30),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Times {
            connect: Duration::from_secs(30),
            handshake: minutes(1),
            greeting: minutes(5),
            hello: minutes(5),
            login: minutes(5),
            mail: minutes(5),
            rcpt: minutes(5),
            data: minutes(2),
            block: minutes(3),
            before_dot: minutes(30),
            dot: minutes(10),
        }
    }
}

/// Time limit of an attempt. It is longer than all time limits of [`PoolLimits`] together, of which only some leave an outcome unknown.
pub(super) const LONGEST_CALL: Duration = minutes(41);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_ends_by_its_own_limits() {
        let PoolLimits { preparing, queueing, times, .. } = PoolLimits::default();
        assert!(preparing + queueing + times.before_dot + times.dot < LONGEST_CALL);
    }
}
