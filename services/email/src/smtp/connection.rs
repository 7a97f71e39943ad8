use lettre::Address;

use tokio::time::Instant;

use super::failure::{Failure, Stage};
use super::features::Features;
use super::limits::Times;
use super::login::Credentials;
use super::relay::Relay;
use super::reply::Reply;
use super::wire::{Transport, Wire};
use crate::message::OutgoingMail;

pub(crate) struct Connection {
    wire: Wire<Box<dyn Transport>>,
    features: Features,
    times: Times,
    state: State,
    messages: u32,
    /// Number of refused cc and bcc recipients of the current message, and the codes of the first refusal.
    refused_others: Option<(usize, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
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
    pub(crate) async fn open(
        relay: &Relay,
        credentials: Option<&Credentials>,
        times: Times,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let (mut wire, features) = relay.open(&times, deadline).await?;
        if let Some(credentials) = credentials {
            credentials.log_in(&mut wire, &features, times.login).await?;
        }
        Ok(Connection { wire, features, times, state: State::Ready, messages: 0, refused_others: None })
    }

    /// Number of emails started on the connection, including refused ones.
    pub(crate) fn messages(&self) -> u32 {
        self.messages
    }

    /// Returns true if the last email left the connection in a known state, so that another email can be sent over it.
    pub(crate) fn is_usable(&self) -> bool {
        self.state != State::Unusable && self.wire.is_in_step()
    }

    /// Begins a message, whose commands and content must end at `deadline`.
    pub(crate) async fn begin(&mut self, mail: &OutgoingMail, deadline: Instant) -> Result<(), Failure> {
        self.wire.set_deadline(deadline);
        self.messages += 1;
        self.refused_others = None;
        if mail.needs_utf8 && !self.features.utf8 {
            return Err(Failure::Unsupported { stage: Stage::Mail, what: "SMTPUTF8" });
        }
        let result = self.commands(mail).await;
        self.state = result.as_ref().map_or_else(State::after, |()| State::Unusable);
        result
    }

    async fn commands(&mut self, mail: &OutgoingMail) -> Result<(), Failure> {
        if self.state == State::Unfinished {
            let reset = self.wire.command(Stage::Mail, "RSET\r\n", self.times.hello).await?;
            // A refusal of RSET is about the connection, not about this email, so it counts as a broken connection.
            reset.success(Stage::Mail).map_err(|_| Failure::Broken {
                stage: Stage::Mail,
                cause: "the server refused RSET".to_owned(),
            })?;
        }
        let utf8 = if mail.needs_utf8 { " BODY=8BITMIME SMTPUTF8" } else { "" };
        let size = if self.features.size { format!(" SIZE={}", mail.data.len()) } else { String::new() };
        let commands = [
            format!("MAIL FROM:<{}>{size}{utf8}\r\n", mail.from),
            format!("RCPT TO:<{}>\r\n", mail.to),
            "DATA\r\n".to_owned(),
        ];
        // Pipelining is only safe for a single recipient. With cc or bcc, the server could send the email to them
        // although it refused the delivery's recipient.
        if self.features.pipelining && mail.others.is_empty() {
            self.pipeline(&commands.concat()).await
        } else {
            self.one_by_one(&commands, &mail.others).await
        }
    }

    async fn one_by_one(&mut self, commands: &[String; 3], others: &[Address]) -> Result<(), Failure> {
        let [mail, rcpt, data] = commands;
        let Times { mail: mail_limit, rcpt: rcpt_limit, data: data_limit, .. } = self.times;
        self.wire.command(Stage::Mail, mail, mail_limit).await?.success(Stage::Mail)?;
        self.wire.command(Stage::Rcpt, rcpt, rcpt_limit).await?.success(Stage::Rcpt)?;
        self.add_other_recipients(others).await?;
        self.wire.command(Stage::Data, data, data_limit).await?.go_on(Stage::Data).map(drop)
    }

    /// Refusals are counted but do not fail the attempt, because only the reply for the delivery's recipient decides its outcome.
    async fn add_other_recipients(&mut self, others: &[Address]) -> Result<(), Failure> {
        for other in others {
            let command = format!("RCPT TO:<{other}>\r\n");
            let reply = self.wire.command(Stage::Rcpt, &command, self.times.rcpt).await?;
            match reply.success(Stage::Rcpt) {
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

    async fn pipeline(&mut self, commands: &str) -> Result<(), Failure> {
        let Times { mail, rcpt, data, .. } = self.times;
        let stages = [(Stage::Mail, mail), (Stage::Rcpt, rcpt), (Stage::Data, data)];
        self.wire.send(Stage::Mail, commands, stages.len(), mail).await?;
        let mut refusal = None;
        for (stage, limit) in stages {
            let reply = match self.wire.reply(stage, limit).await {
                Ok(reply) if stage == Stage::Data => reply.go_on(stage),
                Ok(reply) => reply.success(stage),
                Err(failure) => Err(failure),
            };
            match reply {
                Ok(_) if stage == Stage::Data && refusal.is_some() => {
                    // The server refused a command but accepted DATA. Empty content ends the transaction (RFC 2920
                    // section 3.1). An error is ignored here, because the RSET before the next email detects a broken
                    // connection.
                    drop(self.wire.command(stage, ".\r\n", limit).await);
                }
                Ok(_) => {}
                Err(refused @ Failure::Refused { .. }) => refusal = refusal.or(Some(refused)),
                Err(broken) => return Err(refusal.unwrap_or(broken)),
            }
        }
        refusal.map_or(Ok(()), Err)
    }

    /// After a failure, the server has not accepted the message, and the connection is of no further use.
    pub(crate) async fn send_content(&mut self, mail: &OutgoingMail) -> Result<(), Failure> {
        self.wire.send_content(mail.data.pieces(), self.times.block).await?;
        self.wire.finish_content(self.times.block).await
    }

    pub(crate) async fn accepted(&mut self, others: usize) -> Result<Reply, Failure> {
        let reply = self.wire.final_reply(self.times.dot).await;
        let result = reply.and_then(|reply| reply.success(Stage::Dot));
        self.state = result.as_ref().map_or_else(State::after, |_| State::Ready);
        let mut reply = result?;
        if let Some((refused, codes)) = &self.refused_others {
            reply.text = format!("{}; {refused} of {others} further recipients refused: {codes}", reply.text);
        }
        Ok(reply)
    }

    pub(crate) async fn noop(&mut self) -> Result<(), Failure> {
        let reply = self.wire.command(Stage::Login, "NOOP\r\n", self.times.hello).await?;
        reply.success(Stage::Login).map(drop)
    }

    pub(crate) async fn quit(mut self) {
        self.wire.set_deadline(Instant::now() + self.times.hello);
        // The connection is closed even if QUIT fails.
        drop(self.wire.command(Stage::Mail, "QUIT\r\n", self.times.hello).await);
    }
}
