use std::io;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::Server;
use super::content::Content;
use super::manner::Manner;
use super::script::{Reaction, Stage, reply_by_name};
use super::wire::Wire;

/// Time after which a server that stalls closes the connection. Clients would wait for it for up to ten minutes.
const STALL: Duration = Duration::from_secs(5);

/// Maximum length of a command line in bytes. It is more than the 512 bytes of RFC 5321, because AUTH needs longer
/// lines (RFC 4954 section 4).
pub(super) const COMMAND_LINE: usize = 12_288;
/// Maximum length of a content line in bytes (RFC 5321 section 4.5.3.1.6).
const CONTENT_LINE: usize = 1_000;
const MAX_RECIPIENTS: usize = 100;

pub(super) enum Next {
    Command,
    /// Send the pending replies, then start TLS.
    Tls,
    /// Send the pending replies, then close the connection.
    Close,
    /// Close the connection without sending the pending replies.
    Cut,
    /// Send no replies, and wait until the client disconnects.
    Stall,
    /// Send the pending replies, and wait until the client disconnects.
    Hold,
}

pub(super) struct Session<'a, S> {
    pub(super) wire: Wire<S>,
    pub(super) server: &'a Server,
    /// True if the client must use STARTTLS before it logs in or sends.
    owes_tls: bool,
    pub(super) greeted: bool,
    pub(super) logged_in: bool,
    pub(super) from: Option<String>,
    to: Vec<String>,
    /// True if the client sent SMTPUTF8. Addresses and headers may then contain non-ASCII characters.
    utf8: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionStart {
    Greeting,
    /// A new connection that needs STARTTLS. The server sends a greeting.
    InTheClear,
    /// A connection after STARTTLS. The server sends no greeting.
    Encrypted,
}

/// Serves a client until the client or the server ends the session. Returns the stream if TLS must start on it.
pub(super) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    server: &Server,
    begin: SessionStart,
) -> io::Result<Option<S>> {
    let mut session = Session {
        wire: Wire::new(stream, server.settings.idle, server.settings.manner),
        server,
        owes_tls: begin == SessionStart::InTheClear,
        greeted: begin == SessionStart::Encrypted && server.settings.manner == Manner::EhloOnce,
        logged_in: false,
        from: None,
        to: Vec::new(),
        utf8: false,
    };
    match session.converse(begin).await? {
        Next::Tls => session.wire.into_stream().await.map(Some),
        Next::Command | Next::Close => session.wire.close().await.map(|()| None),
        Next::Cut => Ok(None),
        Next::Stall => match timeout(STALL, session.wire.wait_for_end()).await {
            Ok(ended) => ended.map(|()| None),
            Err(_) => Ok(None),
        },
        Next::Hold => {
            session.wire.flush().await?;
            session.wire.wait_for_end().await.map(|()| None)
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    async fn converse(&mut self, begin: SessionStart) -> io::Result<Next> {
        if begin != SessionStart::Encrypted
            && let Some(next) = self.greet()
        {
            return Ok(next);
        }
        loop {
            if let Err(flaw) = self.wire.read_line(COMMAND_LINE).await? {
                self.wire.reply(&format!("500 {}", flaw.text()));
                return Ok(Next::Close);
            }
            match self.handle_command().await? {
                Next::Command => {}
                end => return Ok(end),
            }
        }
    }

    /// Sends the greeting. If there are too many connections, or if a rule applies, sends no greeting and returns the next
    /// step.
    fn greet(&mut self) -> Option<Next> {
        if self.server.open.load(Ordering::Relaxed) > self.server.settings.max_connections {
            self.wire.reply("421 4.3.2 too many connections");
            return Some(Next::Close);
        }
        match self.react(Stage::Connect) {
            Some(Next::Command) => Some(Next::Close),
            Some(next) => Some(next),
            None => {
                self.wire.reply("220 stand-in.invalid ESMTP");
                None
            }
        }
    }

    /// Applies the script to `stage`: sends the reply of the first matching rule, if the rule has a reply. Returns None if no
    /// rule applies.
    pub(super) fn react(&mut self, stage: Stage) -> Option<Next> {
        let reaction = self.server.script.take((stage, &self.to))?;
        Some(self.perform(reaction))
    }

    fn perform(&mut self, reaction: Reaction) -> Next {
        match reaction {
            Reaction::Answer(text) => {
                self.wire.reply(&text);
                if text.starts_with("421") { Next::Close } else { Next::Command }
            }
            Reaction::Raw(octets) => {
                self.wire.reply_raw(&octets);
                Next::Hold
            }
            Reaction::Cut => Next::Cut,
            Reaction::Stall => Next::Stall,
        }
    }

    async fn handle_command(&mut self) -> io::Result<Next> {
        let Ok(line) = String::from_utf8(self.wire.last_line().to_vec()) else {
            self.wire.reply("500 5.5.2 not UTF-8");
            return Ok(Next::Command);
        };
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        match verb.to_ascii_uppercase().as_str() {
            "EHLO" => Ok(self.hello(rest, true)),
            "HELO" => Ok(self.hello(rest, false)),
            "STARTTLS" => Ok(self.start_tls()),
            "AUTH" | "MAIL" if self.owes_tls => Ok(self.reply_and_continue("530 5.7.0 STARTTLS first")),
            "AUTH" => self.auth(rest).await,
            "MAIL" => Ok(self.mail(rest)),
            "RCPT" => Ok(self.rcpt(rest)),
            "DATA" => self.data().await,
            "RSET" => {
                self.forget();
                Ok(self.reply_and_continue("250 2.0.0 reset"))
            }
            "NOOP" => Ok(self.reply_and_continue("250 2.0.0 ok")),
            "VRFY" => Ok(self.reply_and_continue("252 2.1.5 send and see")),
            "QUIT" => {
                self.wire.reply("221 2.0.0 bye");
                Ok(Next::Close)
            }
            _ => Ok(self.reply_and_continue("502 5.5.1 not implemented")),
        }
    }

    pub(super) fn reply_and_continue(&mut self, reply: &str) -> Next {
        self.wire.reply(reply);
        Next::Command
    }

    fn forget(&mut self) {
        self.from = None;
        self.to.clear();
    }

    fn hello(&mut self, name: &str, extended: bool) -> Next {
        if name.trim().is_empty() {
            return self.reply_and_continue("501 5.5.4 who are you?");
        }
        let verb = if extended { "EHLO" } else { "HELO" };
        self.server.clients.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{verb} {name}"));
        if let Some(next) = self.react(Stage::Hello) {
            return next;
        }
        match self.server.settings.manner {
            Manner::NoEhlo if extended => return self.reply_and_continue("502 5.5.1 unknown command"),
            Manner::EhloOnce if self.greeted => return self.reply_and_continue("503 5.5.1 again?"),
            _ => {}
        }
        self.forget();
        self.greeted = true;
        if !extended {
            return self.reply_and_continue("250 stand-in.invalid");
        }
        self.wire.reply("250-stand-in.invalid");
        self.wire.reply(&format!("250-SIZE {}", self.server.settings.max_size));
        if self.owes_tls {
            self.wire.reply("250-STARTTLS");
        }
        let mechanisms = self.mechanisms().join(" ");
        if !mechanisms.is_empty() && !self.owes_tls {
            self.wire.reply(&format!("250-AUTH {mechanisms}"));
        }
        if self.server.settings.pipelining {
            self.wire.reply("250-PIPELINING");
        }
        self.wire.reply("250-8BITMIME\r\n250-SMTPUTF8");
        self.reply_and_continue("250 ENHANCEDSTATUSCODES")
    }

    /// Starts TLS. If a rule replaces the server's reply, TLS starts only if the rule's reply begins with 220.
    fn start_tls(&mut self) -> Next {
        match self.server.script.take((Stage::StartTls, &[])) {
            Some(Reaction::Answer(go_on)) if go_on.starts_with("220") => self.wire.reply(&go_on),
            Some(reaction) => return self.perform(reaction),
            None if self.owes_tls => self.wire.reply("220 2.0.0 go on"),
            None => return self.reply_and_continue("503 5.5.1 not now"),
        }
        Next::Tls
    }

    fn mail(&mut self, rest: &str) -> Next {
        if !self.greeted || self.from.is_some() {
            return self.reply_and_continue("503 5.5.1 not now");
        }
        if !self.mechanisms().is_empty() && !self.logged_in {
            return self.reply_and_continue("530 5.7.0 authentication required");
        }
        let Some((from, parameters)) = path(rest, "FROM:") else {
            return self.reply_and_continue("501 5.5.4 MAIL FROM:<address>");
        };
        let size = parameters.split(' ').find_map(|parameter| parameter.strip_prefix("SIZE=")?.parse().ok());
        if size.is_some_and(|size: usize| size > self.server.settings.max_size) {
            return self.reply_and_continue("552 5.3.4 message too big");
        }
        if !from.is_ascii() && !parameters.contains("SMTPUTF8") {
            return self.reply_and_continue("553 5.6.7 SMTPUTF8 is needed");
        }
        self.utf8 = parameters.contains("SMTPUTF8");
        if let Some(next) = self.react(Stage::Mail) {
            return next;
        }
        self.from = Some(from.to_owned());
        self.reply_and_continue("250 2.1.0 sender ok")
    }

    fn rcpt(&mut self, rest: &str) -> Next {
        if self.from.is_none() {
            return self.reply_and_continue("503 5.5.1 MAIL first");
        }
        let to = match path(rest, "TO:") {
            Some((to, _)) if !to.is_empty() => to.to_owned(),
            _ => return self.reply_and_continue("501 5.5.4 RCPT TO:<address>"),
        };
        if !to.is_ascii() && !self.utf8 {
            return self.reply_and_continue("553 5.6.7 SMTPUTF8 is needed");
        }
        if self.to.len() >= MAX_RECIPIENTS {
            return self.reply_and_continue("452 4.5.3 too many recipients");
        }
        let named = reply_by_name(&to);
        self.to.push(to);
        let next = self.react(Stage::Rcpt).or_else(|| named.map(|reply| self.reply_and_continue(&reply)));
        match next {
            Some(next) => {
                self.to.pop();
                next
            }
            None => self.reply_and_continue("250 2.1.5 recipient ok"),
        }
    }

    async fn data(&mut self) -> io::Result<Next> {
        // If a rule answers with 354, the server reads the content even if it accepted no recipient, as lax servers do.
        match self.server.script.take((Stage::Data, &self.to)) {
            Some(Reaction::Answer(go_on)) if go_on.starts_with("354") => self.wire.reply(&go_on),
            Some(reaction) => return Ok(self.perform(reaction)),
            None if self.to.is_empty() => return Ok(self.reply_and_continue("503 5.5.1 RCPT first")),
            None => self.wire.reply("354 end with a dot"),
        }
        if self.server.settings.counts_only {
            let bytes = self.wire.discard_content().await?;
            self.server.counted.fetch_add(1, Ordering::Relaxed);
            self.server.counted_bytes.fetch_add(bytes, Ordering::Relaxed);
            self.forget();
            return Ok(self.reply_and_continue("250 2.0.0 counted"));
        }
        let mut content = Content::new(self.server.settings.max_size);
        let mut first = true;
        loop {
            let read = self.wire.read_line(CONTENT_LINE).await?;
            if std::mem::take(&mut first)
                && let Some(next) = self.react(Stage::Content)
            {
                return Ok(next);
            }
            if content.take(self.wire.last_line(), read) {
                break;
            }
        }
        if !self.server.settings.work.is_zero() {
            tokio::time::sleep(self.server.settings.work).await;
        }
        let next = self.finish(content);
        self.forget();
        Ok(next)
    }

    fn finish(&mut self, content: Content) -> Next {
        let reaction = self.server.script.take((Stage::Dot, &self.to));
        if let Some(answer @ Reaction::Answer(_)) = reaction {
            return self.perform(answer);
        }
        if self.to.is_empty() {
            return self.reply_and_continue("554 5.5.1 no recipient");
        }
        if let Some(refusal) = content.refusal(self.utf8) {
            return self.reply_and_continue(&refusal);
        }
        let from = self.from.as_deref().unwrap_or_default();
        if self.server.outbox.capture("email", from, &self.to, content.lines).is_err() {
            return self.reply_and_continue("451 4.3.0 the message cannot be stored");
        }
        match reaction {
            Some(reaction) => self.perform(reaction),
            None => self.reply_and_continue("250 2.0.0 kept"),
        }
    }
}

fn path<'a>(text: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (head, tail) = text.split_at_checked(keyword.len())?;
    let inside = tail.trim_start().strip_prefix('<')?;
    head.eq_ignore_ascii_case(keyword).then(|| inside.split_once('>')).flatten()
}
