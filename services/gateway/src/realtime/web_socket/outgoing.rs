//! The direction to the client. The queue counts bytes, because clients choose how large some of the frames are.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_web::body::{BodySize, MessageBody};
use actix_web::web::{Bytes, BytesMut};

/// Maximum number of bytes in the queue of a connection. The connection's own buffer holds up to 48 KiB more.
pub const MAX_UNREAD: usize = 64 * 1024;
/// Maximum number of bytes that are passed to the connection's buffer at once.
const PART: usize = 16 * 1024;
const TEXT: u8 = 0x81;
const PONG: u8 = 0x8a;
const CLOSE: u8 = 0x88;
/// Longest header of a frame from a server, which has no mask.
const HEADER: usize = 10;

/// Error: the connection has ended, or the message can never be sent because it is larger than the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unwritable;

#[derive(Default)]
struct Queue {
    bytes: BytesMut,
    /// No frame follows those in the queue.
    is_ended: bool,
    /// The connection no longer sends anything.
    is_gone: bool,
    body: Option<Waker>,
    writer: Option<Waker>,
}

pub(crate) struct Outgoing(Rc<RefCell<Queue>>);

/// Body of the answer, which the connection sends.
pub(super) struct OutgoingBody(Rc<RefCell<Queue>>);

pub(super) fn queue() -> (Outgoing, OutgoingBody) {
    let queue = Rc::<RefCell<Queue>>::default();
    (Outgoing(Rc::clone(&queue)), OutgoingBody(queue))
}

impl Outgoing {
    /// Adds a text. Waits while the queue has no room for it.
    ///
    /// # Errors
    /// Returns an error if the text cannot be sent.
    pub(crate) async fn text(&self, text: &str) -> Result<(), Unwritable> {
        self.frame(TEXT, text.as_bytes()).await
    }

    /// Answers a ping.
    ///
    /// # Errors
    /// Returns an error if the answer cannot be sent.
    pub(crate) async fn pong(&self, payload: &[u8]) -> Result<(), Unwritable> {
        self.frame(PONG, payload).await
    }

    /// Adds the last frame.
    ///
    /// # Errors
    /// Returns an error if the frame cannot be sent.
    pub(crate) async fn close(&self, code: u16) -> Result<(), Unwritable> {
        let closed = self.frame(CLOSE, &code.to_be_bytes()).await;
        self.0.borrow_mut().end();
        closed
    }

    async fn frame(&self, head: u8, payload: &[u8]) -> Result<(), Unwritable> {
        if HEADER + payload.len() > MAX_UNREAD {
            return Err(Unwritable);
        }
        std::future::poll_fn(|context| {
            let mut queue = self.0.borrow_mut();
            if queue.is_gone || queue.is_ended {
                return Poll::Ready(Err(Unwritable));
            }
            if queue.bytes.len() + HEADER + payload.len() > MAX_UNREAD {
                queue.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            queue.push(head, payload);
            Poll::Ready(Ok(()))
        })
        .await
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.0.borrow_mut().end();
    }
}

impl Queue {
    fn push(&mut self, head: u8, payload: &[u8]) {
        self.bytes.extend_from_slice(&[head]);
        match payload.len() {
            length @ 0..=125 => self.bytes.extend_from_slice(&[length as u8]),
            length @ 126..=0xffff => {
                self.bytes.extend_from_slice(&[126]);
                self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                self.bytes.extend_from_slice(&[127]);
                self.bytes.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        self.bytes.extend_from_slice(payload);
        if let Some(waker) = self.body.take() {
            waker.wake();
        }
    }

    fn end(&mut self) {
        self.is_ended = true;
        if let Some(waker) = self.body.take() {
            waker.wake();
        }
    }
}

impl MessageBody for OutgoingBody {
    type Error = Infallible;

    fn size(&self) -> BodySize {
        BodySize::Stream
    }

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Infallible>>> {
        let mut queue = self.0.borrow_mut();
        if queue.bytes.is_empty() {
            if queue.is_ended {
                return Poll::Ready(None);
            }
            queue.body = Some(context.waker().clone());
            return Poll::Pending;
        }
        let length = queue.bytes.len().min(PART);
        // Copied, because a shared part would keep the memory of the whole queue.
        let part = Bytes::copy_from_slice(&queue.bytes.split_to(length));
        if queue.bytes.is_empty() {
            queue.bytes = BytesMut::new();
        }
        if let Some(waker) = queue.writer.take() {
            waker.wake();
        }
        Poll::Ready(Some(Ok(part)))
    }
}

impl Drop for OutgoingBody {
    fn drop(&mut self) {
        let mut queue = self.0.borrow_mut();
        queue.is_gone = true;
        queue.bytes = BytesMut::new();
        if let Some(waker) = queue.writer.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn next(body: &mut OutgoingBody) -> Option<Bytes> {
        match Pin::new(body).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(part))) => Some(part),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    #[test]
    fn the_queue_holds_a_number_of_bytes_and_not_of_frames() {
        let (outgoing, mut body) = queue();
        let text = "x".repeat(MAX_UNREAD / 4 - HEADER);
        for _ in 0..4 {
            outgoing.text(&text).now_or_never().unwrap().unwrap();
        }
        let more = "x".repeat(PART + 100);
        let mut waiting = pin!(outgoing.text(&more));
        assert!(waiting.as_mut().now_or_never().is_none(), "one more does not fit");
        assert_eq!(next(&mut body).unwrap().len(), PART);
        assert!(waiting.as_mut().now_or_never().is_none(), "it still does not fit");
        assert_eq!(next(&mut body).unwrap().len(), PART);
        assert_eq!(waiting.as_mut().now_or_never(), Some(Ok(())));
        assert!(outgoing.0.borrow().bytes.len() <= MAX_UNREAD);
        let large = "x".repeat(MAX_UNREAD - HEADER + 1);
        assert_eq!(outgoing.text(&large).now_or_never(), Some(Err(Unwritable)));
    }

    #[test]
    fn frames_have_the_shortest_length_and_end_with_the_close() {
        let (outgoing, mut body) = queue();
        for length in [0, 125, 126, 300] {
            outgoing.text(&"x".repeat(length)).now_or_never().unwrap().unwrap();
            let expected = match length {
                0..=125 => vec![TEXT, u8::try_from(length).unwrap()],
                _ => [vec![TEXT, 126], u16::try_from(length).unwrap().to_be_bytes().to_vec()].concat(),
            };
            assert_eq!(next(&mut body).unwrap(), [expected, vec![b'x'; length]].concat());
        }
        outgoing.close(1009).now_or_never().unwrap().unwrap();
        assert_eq!(next(&mut body).unwrap().as_ref(), [CLOSE, 2, 0x03, 0xf1]);
        assert_eq!(outgoing.pong(b"").now_or_never(), Some(Err(Unwritable)));
        assert!(next(&mut body).is_none());
    }

    #[test]
    fn a_writer_learns_that_the_connection_has_ended() {
        let (outgoing, body) = queue();
        drop(body);
        assert_eq!(outgoing.text("x").now_or_never(), Some(Err(Unwritable)));
    }
}
