use std::fmt::Display;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use worker::exchange::in_time;

use super::failure::{Failure, Stage};
use super::reply::{Reply, ReplyReader};

/// Number of octets to read at once. Most replies are shorter.
const PIECE: usize = 512;

pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

pub(super) struct Wire<S> {
    stream: S,
    replies: ReplyReader,
    unanswered: usize,
    /// True if replies can no longer be assigned to commands.
    is_out_of_step: bool,
    /// End of every wait for a reply. Only the reply to the content may take longer.
    deadline: Instant,
}

impl<S: Transport> Wire<S> {
    /// Starts a conversation. The server speaks first if `has_greeting` is true.
    pub(super) fn new(stream: S, has_greeting: bool, deadline: Instant) -> Self {
        let unanswered = usize::from(has_greeting);
        Wire { stream, replies: ReplyReader::default(), unanswered, is_out_of_step: false, deadline }
    }

    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Returns true if the reply to every command was read, and nothing else arrived.
    pub(super) fn is_in_step(&self) -> bool {
        !self.is_out_of_step && self.unanswered == 0 && self.replies.is_empty()
    }

    /// Fails if anything follows the last reply: an attacker on the network could have injected it.
    pub(super) fn into_stream(self) -> Result<S, Failure> {
        if self.is_in_step() { Ok(self.stream) } else { Err(unasked(Stage::Connect)) }
    }

    pub(super) async fn command(
        &mut self,
        stage: Stage,
        command: &str,
        limit: Duration,
    ) -> Result<Reply, Failure> {
        self.send(stage, command, 1, limit).await?;
        self.reply(stage, limit).await
    }

    pub(super) async fn send(
        &mut self,
        stage: Stage,
        commands: &str,
        number: usize,
        limit: Duration,
    ) -> Result<(), Failure> {
        self.expect_silence(stage)?;
        self.unanswered += number;
        let sending = async {
            self.stream.write_all(commands.as_bytes()).await?;
            self.stream.flush().await
        };
        match within(until(self.deadline, limit), sending).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.last_words(stage).unwrap_or_else(|| broken(stage, &error))),
            None => Err(Failure::TimedOut { stage }),
        }
    }

    /// A part of a reply counts if it contains a code, but afterwards the connection is of no use.
    pub(super) async fn reply(&mut self, stage: Stage, limit: Duration) -> Result<Reply, Failure> {
        let limit = until(self.deadline, limit);
        self.reply_within(stage, limit).await
    }

    /// Reads the reply to the content, for which the server has `limit` independent of the deadline.
    pub(super) async fn final_reply(&mut self, limit: Duration) -> Result<Reply, Failure> {
        self.unanswered += 1;
        self.reply_within(Stage::Dot, limit).await
    }

    async fn reply_within(&mut self, stage: Stage, limit: Duration) -> Result<Reply, Failure> {
        let received = within(limit, self.receive()).await;
        let failure = match received {
            Some(Ok(reply)) => {
                self.unanswered = self.unanswered.saturating_sub(1);
                return Ok(reply);
            }
            Some(Err(error)) => broken(stage, &error),
            None => Failure::TimedOut { stage },
        };
        self.is_out_of_step = true;
        self.replies.cut().ok_or(failure)
    }

    async fn receive(&mut self) -> io::Result<Reply> {
        loop {
            let next = self.replies.next_reply();
            if let Some(reply) =
                next.map_err(|_| io::Error::other("the server's answer has no reply code"))?
            {
                return Ok(reply);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> io::Result<()> {
        let room = self.replies.room();
        if room == 0 {
            return Err(io::Error::other("the server's answer is too long"));
        }
        let buffer = self.replies.buffer();
        buffer.reserve(room.min(PIECE));
        let read = (&mut self.stream).take(u64::try_from(room).unwrap_or(u64::MAX)).read_buf(buffer).await?;
        if read == 0 { Err(io::Error::other("the server closed the connection")) } else { Ok(()) }
    }

    /// Fails if the server has sent something that no command asked for, or has closed the connection. The next reply would otherwise be
    /// taken for the answer to another command.
    fn expect_silence(&mut self, stage: Stage) -> Result<(), Failure> {
        if self.is_out_of_step || self.unanswered > 0 {
            return Err(unasked(stage));
        }
        self.hear(stage)?;
        if self.replies.is_empty() { Ok(()) } else { Err(unasked(stage)) }
    }

    fn hear(&mut self, stage: Stage) -> Result<(), Failure> {
        let Some(received) = self.receive().now_or_never() else { return Ok(()) };
        self.is_out_of_step = true;
        Err(match received {
            Ok(reply) => unasked_reply(stage, reply),
            Err(error) => broken(stage, &error),
        })
    }

    fn last_words(&mut self, stage: Stage) -> Option<Failure> {
        self.is_out_of_step = true;
        match self.receive().now_or_never() {
            Some(Ok(reply)) => Some(unasked_reply(stage, reply)),
            _ => self.replies.cut().map(|reply| unasked_reply(stage, reply)),
        }
    }

    /// Sends the content, for each block of which the server has `limit`. Stops if the server refuses the email meanwhile.
    pub(super) async fn send_content<'a>(
        &mut self,
        pieces: impl Iterator<Item = &'a str>,
        limit: Duration,
    ) -> Result<(), Failure> {
        let mut slices: Vec<IoSlice<'a>> = pieces.map(|piece| IoSlice::new(piece.as_bytes())).collect();
        let mut left = &mut slices[..];
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let limit = until(self.deadline, limit);
            match within(limit, self.send_or_hear(left)).await {
                Some(Ok(Some(0))) => return Err(broken(Stage::Content, &"the server closed the connection")),
                Some(Ok(Some(sent))) => IoSlice::advance_slices(&mut left, sent),
                Some(Ok(None)) => self.hear(Stage::Content)?,
                Some(Err(error)) => {
                    let refusal = self.last_words(Stage::Content);
                    return Err(refusal.unwrap_or_else(|| broken(Stage::Content, &error)));
                }
                None => return Err(Failure::TimedOut { stage: Stage::Content }),
            }
        }
        Ok(())
    }

    /// Sends what the server accepts now. Returns None if the server sends something instead.
    async fn send_or_hear(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        let Wire { stream, replies, .. } = self;
        std::future::poll_fn(|context| {
            if let Poll::Ready(sent) = Pin::new(&mut *stream).poll_write_vectored(context, pieces) {
                return Poll::Ready(sent.map(Some));
            }
            let mut piece = [0; PIECE];
            let mut buffer = tokio::io::ReadBuf::new(&mut piece[..PIECE.min(replies.room())]);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    replies.buffer().extend_from_slice(buffer.filled());
                    Poll::Ready(Ok(None))
                }
                Poll::Ready(Ok(())) => Poll::Ready(Err(io::Error::other("the server closed the connection"))),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Sends the final dot. Any failure means that the server has not received the dot, so it has not accepted the email.
    pub(super) async fn finish_content(&mut self, limit: Duration) -> Result<(), Failure> {
        let stage = Stage::Content;
        let limit = until(self.deadline, limit);
        match within(limit, self.stream.flush()).await {
            Some(Ok(())) => self.hear(stage)?,
            Some(Err(error)) => return Err(self.last_words(stage).unwrap_or_else(|| broken(stage, &error))),
            None => return Err(Failure::TimedOut { stage }),
        }
        if !self.replies.is_empty() {
            let reply = self.reply(stage, limit).await?;
            return Err(unasked_reply(stage, reply));
        }
        let sending = async {
            self.stream.write_all(b".\r\n").await?;
            self.stream.flush().await
        };
        match within(limit, sending).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.last_words(stage).unwrap_or_else(|| broken(stage, &error))),
            None => Err(Failure::TimedOut { stage }),
        }
    }
}

/// The clock is read before each step: a process that was paused must not go on with a call whose time is over.
pub(super) async fn within<F: Future>(limit: Duration, call: F) -> Option<F::Output> {
    timeout(limit, in_time(limit, call)).await.ok().flatten()
}

fn until(deadline: Instant, limit: Duration) -> Duration {
    limit.min(deadline.saturating_duration_since(Instant::now()))
}

/// Failure of a server that speaks out of turn: with 421 it may announce that it closes the connection.
fn unasked_reply(stage: Stage, reply: Reply) -> Failure {
    match reply.code {
        421 => Failure::Refused { stage, reply },
        400..600 if stage == Stage::Content => Failure::Refused { stage, reply },
        _ => unasked(stage),
    }
}

fn unasked(stage: Stage) -> Failure {
    broken(stage, &"the server sent an answer that no command asked for")
}

pub(super) fn broken(stage: Stage, cause: &impl Display) -> Failure {
    Failure::Broken { stage, cause: cause.to_string() }
}
