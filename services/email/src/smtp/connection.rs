//! One SMTP connection.

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Ehlo, Noop, Rset};
use lettre::transport::smtp::extension::Extension;
use lettre::transport::smtp::response::Response;

use super::failure::{Failure, Reply, Stage, failure};
use super::login::Credentials;
use super::relay::Relay;
use crate::message::OutgoingMail;

/// An open SMTP connection, logged in if the provider has a login. Dropping the value closes the connection.
pub(crate) struct Connection {
    smtp: AsyncSmtpConnection,
    /// True if the server supports PIPELINING (RFC 2920).
    pipelining: bool,
    /// True if the server supports SIZE (RFC 1870).
    sizes: bool,
    state: State,
    messages: u32,
    /// Number of refused cc and bcc recipients of the current message, and the codes of the first refusal.
    refused_others: Option<(usize, String)>,
}

/// Next command that the connection can send.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// MAIL: the connection is ready for an email.
    Ready,
    /// RSET, because the server refused a command and the transaction is still open.
    Unfinished,
    /// No command: the server waits for content, closed the connection, or is in an unknown state.
    Unusable,
}

impl State {
    fn after(failure: &Failure) -> Self {
        match failure {
            Failure::Refused { reply, .. } if reply.code != 421 => State::Unfinished,
            _ => State::Unusable,
        }
    }
}

impl Connection {
    /// Connects to the server of `relay` and logs in. Keeps `stage` up to date, so that the caller knows
    /// which stage was reached if the call times out.
    pub(crate) async fn open(
        relay: &Relay,
        credentials: Option<&Credentials>,
        stage: &mut Stage,
    ) -> Result<Self, Failure> {
        *stage = Stage::Connect;
        let (mut smtp, client) = relay.open().await?;
        if let Some(credentials) = credentials {
            *stage = Stage::Login;
            credentials.log_in(&mut smtp).await?;
        }
        *stage = Stage::Connect;
        // Send EHLO again to find out whether the server supports PIPELINING and SIZE, which the library does not
        // report.
        let features = smtp.command(Ehlo::new(client)).await.map_err(|error| failure(*stage, &error))?;
        let offers = |keyword: &str| {
            let mut words = features.message().filter_map(|line| line.split(' ').next());
            words.any(|word| word.eq_ignore_ascii_case(keyword))
        };
        let pipelining = offers("PIPELINING");
        let sizes = offers("SIZE");
        Ok(Connection { smtp, pipelining, sizes, state: State::Ready, messages: 0, refused_others: None })
    }

    /// Number of emails started on the connection, including refused ones.
    pub(crate) fn messages(&self) -> u32 {
        self.messages
    }

    /// Returns true if the connection can be used for another email: the last one left it in a known state.
    pub(crate) fn is_usable(&self) -> bool {
        self.state != State::Unusable
    }

    /// Sends the commands before the content of an email (MAIL, RCPT, DATA). Keeps `stage` up to date, so that the
    /// caller knows which stage was reached if the call times out.
    pub(crate) async fn begin(&mut self, mail: &OutgoingMail, stage: &mut Stage) -> Result<(), Failure> {
        *stage = Stage::Mail;
        self.messages += 1;
        self.refused_others = None;
        if mail.needs_utf8 && !self.smtp.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(Failure::Unsupported { stage: *stage, what: "SMTPUTF8" });
        }
        let result = self.commands(mail, stage).await;
        self.state = result.as_ref().map_or_else(State::after, |()| State::Unusable);
        result
    }

    async fn commands(&mut self, mail: &OutgoingMail, stage: &mut Stage) -> Result<(), Failure> {
        if self.state == State::Unfinished {
            let reset = self.smtp.command(Rset).await;
            // A refusal of RSET is about the connection, not about this email, so it counts as a broken connection.
            reset.map_err(|error| Failure::Broken { stage: *stage, cause: error.to_string() })?;
        }
        let utf8 = if mail.needs_utf8 { " BODY=8BITMIME SMTPUTF8" } else { "" };
        let size = if self.sizes { format!(" SIZE={}", mail.data.len()) } else { String::new() };
        let commands = [
            (Stage::Mail, format!("MAIL FROM:<{}>{size}{utf8}\r\n", mail.from)),
            (Stage::Rcpt, format!("RCPT TO:<{}>\r\n", mail.to)),
            (Stage::Data, "DATA\r\n".to_owned()),
        ];
        // Pipelining is only safe for a single recipient. With cc or bcc, the server could send the email to them
        // although it refused the delivery's recipient.
        if self.pipelining && mail.others.is_empty() {
            self.pipeline(&commands, stage).await
        } else {
            self.one_by_one(&commands, &mail.others, stage).await
        }
    }

    async fn one_by_one(
        &mut self,
        commands: &[(Stage, String)],
        others: &[Address],
        stage: &mut Stage,
    ) -> Result<(), Failure> {
        for (at, command) in commands {
            if *at == Stage::Data {
                self.add_other_recipients(others).await?;
            }
            *stage = *at;
            parse_reply(*at, self.smtp.command(command).await)?;
        }
        Ok(())
    }

    /// Sends RCPT for cc and bcc. Refusals are counted but do not fail the attempt, because only the reply for the
    /// delivery's recipient decides its outcome.
    async fn add_other_recipients(&mut self, others: &[Address]) -> Result<(), Failure> {
        for other in others {
            let answer = self.smtp.command(format!("RCPT TO:<{other}>\r\n")).await;
            match parse_reply(Stage::Rcpt, answer) {
                Ok(_) => {}
                Err(Failure::Refused { reply, .. }) if reply.code != 421 => {
                    let (refused, _) = self.refused_others.get_or_insert_with(|| (0, reply.codes()));
                    *refused += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Sends all commands at once, then reads every reply. Returns the first refusal, if there is one.
    async fn pipeline(&mut self, commands: &[(Stage, String)], stage: &mut Stage) -> Result<(), Failure> {
        let together = commands.iter().map(|(_, command)| command.as_str()).collect::<String>();
        let mut refusal = None;
        for (at, _) in commands {
            let answer = if *at == Stage::Mail {
                self.smtp.command(&together).await
            } else {
                self.smtp.read_response().await
            };
            *stage = *at;
            match parse_reply(*at, answer) {
                Ok(_) if *at == Stage::Data && refusal.is_some() => {
                    // The server refused a command but accepted DATA. Empty content ends the transaction (RFC 2920
                    // section 3.1). An error is ignored here, because the RSET before the next email detects a broken
                    // connection.
                    drop(self.smtp.command(".\r\n").await);
                }
                Ok(_) => {}
                Err(refused @ Failure::Refused { .. }) => refusal = refusal.or(Some(refused)),
                Err(broken) => return Err(refusal.unwrap_or(broken)),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Sends the content of the current message and reads the server's reply.
    pub(crate) async fn finish(&mut self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let result = parse_reply(Stage::Content, self.smtp.command(&mail.data).await);
        self.state = result.as_ref().map_or_else(State::after, |_| State::Ready);
        let mut reply = result?;
        if let Some((refused, codes)) = &self.refused_others {
            let others = mail.others.len();
            reply.text = format!("{}; {refused} of {others} further recipients refused: {codes}", reply.text);
        }
        Ok(reply)
    }

    /// Checks that the server still responds.
    pub(crate) async fn noop(&mut self) -> Result<(), Failure> {
        parse_reply(Stage::Login, self.smtp.command(Noop).await).map(drop)
    }

    /// Closes the connection with QUIT.
    pub(crate) async fn quit(mut self) {
        // The connection is closed even if QUIT fails.
        drop(self.smtp.quit().await);
    }
}

/// Converts a response to a reply. A success code that the command at `stage` does not expect is a failure.
fn parse_reply(stage: Stage, answer: Result<Response, Error>) -> Result<Reply, Failure> {
    let response = answer.map_err(|error| failure(stage, &error))?;
    let code = u16::from(response.code());
    let expected = if stage == Stage::Data { 300..400 } else { 200..300 };
    if !expected.contains(&code) {
        return Err(Failure::Broken { stage, cause: format!("unexpected answer {code}") });
    }
    Ok(Reply { code, text: response.message().collect::<Vec<_>>().join(" ") })
}
