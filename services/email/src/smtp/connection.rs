//! One conversation with a server.

use std::error::Error as _;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Ehlo, Noop, Rset};
use lettre::transport::smtp::extension::Extension;
use lettre::transport::smtp::response::Response;

use super::login::Credentials;
use super::route::Route;
use crate::message::OutgoingMail;

/// How far an exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No usable connection yet: connecting, TLS, greeting, EHLO.
    Connect,
    /// AUTH.
    Login,
    /// MAIL.
    Mail,
    /// RCPT.
    Rcpt,
    /// DATA; no content was sent.
    Data,
    /// Content is on its way: from here on the server may have taken the message.
    Content,
}

/// What a server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The basic code, such as 550.
    pub code: u16,
    /// Its text, lines joined by spaces, with the enhanced code in front where there is one.
    pub text: String,
}

/// Why a message was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// As many connections as allowed were in use all the while; the server was not asked.
    Busy,
    /// The server's addresses must not be called.
    Forbidden {
        /// Which ones, and what would allow them.
        cause: String,
    },
    /// No access token can be had.
    NoToken {
        /// Whether the token endpoint refused, for good.
        is_refused: bool,
        /// What it said, or what happened.
        cause: String,
    },
    /// The server refused.
    Refused {
        /// At which command.
        stage: Stage,
        /// With which words.
        reply: Reply,
    },
    /// The server cannot do what the exchange needs.
    Unsupported {
        /// At which command it would be needed.
        stage: Stage,
        /// What it lacks.
        what: &'static str,
    },
    /// The connection could not be made, was lost, or carried nonsense.
    Broken {
        /// After which command.
        stage: Stage,
        /// What happened.
        cause: String,
    },
    /// The time for a part of the exchange was over.
    TimedOut {
        /// In which command.
        stage: Stage,
    },
}

/// An open connection, logged in. Dropping it closes it.
pub(crate) struct Connection {
    smtp: AsyncSmtpConnection,
    /// The server takes several commands at once (RFC 2920).
    pipelining: bool,
    /// The server wants to hear the size first (RFC 1870).
    sizes: bool,
    state: State,
    messages: u32,
    /// Of the message that was begun: how many of its further recipients were refused, and the first refusal's codes.
    refused_others: Option<(usize, String)>,
}

/// What may be said next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// MAIL.
    Ready,
    /// RSET, since the last transaction was refused half-way.
    Unfinished,
    /// Nothing new: content is due, where the conversation stands is unknown, or it was ended.
    Spent,
}

impl State {
    fn after(failure: &Failure) -> Self {
        match failure {
            Failure::Refused { reply, .. } if reply.code != 421 => State::Unfinished,
            _ => State::Spent,
        }
    }
}

impl Connection {
    /// Connects along `route`, and logs in.
    pub(crate) async fn open(
        route: &Route,
        credentials: Option<&Credentials>,
        stage: &mut Stage,
    ) -> Result<Self, Failure> {
        *stage = Stage::Connect;
        let (mut smtp, client) = route.open().await?;
        if let Some(credentials) = credentials {
            *stage = Stage::Login;
            credentials.log_in(&mut smtp).await?;
        }
        *stage = Stage::Connect;
        // Once more, for the library keeps only some of what the server offers.
        let features = smtp.command(Ehlo::new(client)).await.map_err(|error| failure(*stage, &error))?;
        let offers = |keyword: &str| {
            let mut words = features.message().filter_map(|line| line.split(' ').next());
            words.any(|word| word.eq_ignore_ascii_case(keyword))
        };
        let (pipelining, sizes) = (offers("PIPELINING"), offers("SIZE"));
        Ok(Connection { smtp, pipelining, sizes, state: State::Ready, messages: 0, refused_others: None })
    }

    /// How many messages were tried on it.
    pub(crate) fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether another message can be tried: only after an exchange that ended as the protocol foresees.
    pub(crate) fn is_usable(&self) -> bool {
        self.state != State::Spent
    }

    /// Says everything before a message's content, and keeps `stage` at how far it came.
    pub(crate) async fn begin(&mut self, mail: &OutgoingMail, stage: &mut Stage) -> Result<(), Failure> {
        *stage = Stage::Mail;
        self.messages += 1;
        self.refused_others = None;
        if mail.needs_utf8 && !self.smtp.server_info().supports_feature(Extension::SmtpUtfEight) {
            return Err(Failure::Unsupported { stage: *stage, what: "SMTPUTF8" });
        }
        let result = self.commands(mail, stage).await;
        self.state = result.as_ref().map_or_else(State::after, |()| State::Spent);
        result
    }

    async fn commands(&mut self, mail: &OutgoingMail, stage: &mut Stage) -> Result<(), Failure> {
        if self.state == State::Unfinished {
            let reset = self.smtp.command(Rset).await;
            // A refusal speaks of the connection here, not of this message.
            reset.map_err(|error| Failure::Broken { stage: *stage, cause: error.to_string() })?;
        }
        let utf8 = if mail.needs_utf8 { " BODY=8BITMIME SMTPUTF8" } else { "" };
        let size = if self.sizes { format!(" SIZE={}", mail.data.len()) } else { String::new() };
        let commands = [
            (Stage::Mail, format!("MAIL FROM:<{}>{size}{utf8}\r\n", mail.from)),
            (Stage::Rcpt, format!("RCPT TO:<{}>\r\n", mail.to)),
            (Stage::Data, "DATA\r\n".to_owned()),
        ];
        // PostmarkReply at once, a DATA could send something to the others although the first was refused.
        if self.pipelining && mail.others.is_empty() {
            self.at_once(&commands, stage).await
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
                self.name_others(others).await?;
            }
            *stage = *at;
            understood(*at, self.smtp.command(command).await)?;
        }
        Ok(())
    }

    /// Names cc and bcc. The recipient of the delivery decides what becomes of it, so their refusals are noted only.
    async fn name_others(&mut self, others: &[Address]) -> Result<(), Failure> {
        for other in others {
            let answer = self.smtp.command(format!("RCPT TO:<{other}>\r\n")).await;
            match understood(Stage::Rcpt, answer) {
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

    /// Says all commands, then hears each answer: the first refusal counts, but the rest is to be heard too.
    async fn at_once(&mut self, commands: &[(Stage, String)], stage: &mut Stage) -> Result<(), Failure> {
        let together = commands.iter().map(|(_, command)| command.as_str()).collect::<String>();
        let mut refusal = None;
        for (at, _) in commands {
            let answer = match *at {
                Stage::Mail => self.smtp.command(&together).await,
                _ => self.smtp.read_response().await,
            };
            *stage = *at;
            match understood(*at, answer) {
                Ok(_) if *at == Stage::Data && refusal.is_some() => {
                    // It waits for content that nobody is to get: an empty one ends the transaction (RFC 2920
                    // section 3.1). Were the connection broken now, the RSET before its next use would show it.
                    drop(self.smtp.command(".\r\n").await);
                }
                Ok(_) => {}
                Err(refused @ Failure::Refused { .. }) => refusal = refusal.or(Some(refused)),
                Err(broken) => return Err(refusal.unwrap_or(broken)),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Sends the content of a message that was begun, and hears whether the server took it.
    pub(crate) async fn finish(&mut self, mail: &OutgoingMail) -> Result<Reply, Failure> {
        let result = understood(Stage::Content, self.smtp.command(&mail.data).await);
        self.state = result.as_ref().map_or_else(State::after, |_| State::Ready);
        let mut reply = result?;
        if let Some((refused, codes)) = &self.refused_others {
            let others = mail.others.len();
            reply.text = format!("{}; {refused} of {others} further recipients refused: {codes}", reply.text);
        }
        Ok(reply)
    }

    /// Asks whether the server is still there.
    pub(crate) async fn noop(&mut self) -> Result<(), Failure> {
        understood(Stage::Login, self.smtp.command(Noop).await).map(drop)
    }

    /// Says goodbye.
    pub(crate) async fn quit(mut self) {
        // It ends in any case.
        drop(self.smtp.quit().await);
    }
}

/// An answer of the kind that the command at `stage` asks for, or why it is none.
fn understood(stage: Stage, answer: Result<Response, Error>) -> Result<Reply, Failure> {
    let response = answer.map_err(|error| failure(stage, &error))?;
    let code = u16::from(response.code());
    let expected = if stage == Stage::Data { 300..400 } else { 200..300 };
    if !expected.contains(&code) {
        return Err(Failure::Broken { stage, cause: format!("unexpected answer {code}") });
    }
    Ok(Reply { code, text: response.message().collect::<Vec<_>>().join(" ") })
}

/// What an error of the library means.
pub(crate) fn failure(stage: Stage, error: &Error) -> Failure {
    match error.status() {
        Some(code) => {
            let text = error.source().map(ToString::to_string).unwrap_or_default();
            Failure::Refused { stage, reply: Reply { code: code.into(), text } }
        }
        None => Failure::Broken { stage, cause: error.to_string() },
    }
}
