//! The bytes of a connection that its requests have not consumed. actix-web counts heads in pieces of 128 KiB and pipelined requests
//! by their number, so one connection could hold 2 MiB of heads. An [`Inlet`] reads from the socket only what is wanted: a head while
//! no request is in progress, and then the body while its handler waits for it. Everything else stays in the socket, where the
//! kernel's flow control limits it.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use actix_web::HttpRequest;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use actix_web::rt::net::TcpStream;
use actix_web::web::Bytes;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};

/// Maximum size of the head of a request in bytes: request line and headers.
pub const MAX_HEAD: usize = 16 * 1024;
/// Number of bytes of a body that may arrive ahead of its handler.
pub const AHEAD: usize = 64 * 1024;
/// Number of bytes that are read and dropped after a head that is too large, or of a body of unknown length that no handler reads,
/// so that the client receives the answer.
const MAX_IGNORED: usize = 256 * 1024;
/// Answer to a first head that is too large. Later heads end the connection, because the earlier answer may be unfinished.
const TOO_LARGE: &[u8] = b"HTTP/1.1 431 Request Header Fields Too Large\r\n\
    content-type: application/json\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: 107\r\n\r\n\
    {\"status\":\"error\",\"message\":\"request line and headers are larger than 16384 bytes\",\"code\":\"head_too_large\"}";

/// A connection that is read only as far as its requests want.
pub struct Inlet {
    stream: TcpStream,
    reading: Rc<Reading>,
}

/// State of a connection that its inlet and its requests share.
#[derive(Debug)]
pub struct Reading(RefCell<State>);

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Number of bytes that may be read now.
    left: usize,
    /// A head has reached its limit, and the connection has had no chance to parse it yet.
    is_stopped: bool,
    /// Maximum number of bytes of the current body that have not arrived at its handler.
    unread: usize,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    FirstHead,
    /// A head after another request, and the rest of that request's body.
    Head,
    /// A request is in progress, until its answer has been passed to the connection.
    Exchange,
    /// The head was too large. What follows is dropped.
    Refused,
}

/// Guard of a request in progress.
#[derive(Debug)]
pub struct Exchange(Rc<Reading>);

/// Body of an answer, which ends the exchange.
struct AnswerBody {
    body: BoxBody,
    _exchange: Exchange,
}

impl Inlet {
    pub fn new(stream: TcpStream) -> Inlet {
        let state =
            State { phase: Phase::FirstHead, left: MAX_HEAD, is_stopped: false, unread: 0, waker: None };
        Inlet { stream, reading: Rc::new(Reading(RefCell::new(state))) }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn reading(&self) -> Rc<Reading> {
        Rc::clone(&self.reading)
    }

    /// Reads and drops what follows a head that is too large.
    fn poll_ignore(&mut self, context: &mut Context<'_>, left: usize) -> Poll<io::Result<()>> {
        let mut scratch = [0; 4 * 1024];
        let mut left = left;
        while left > 0 {
            let mut ignored = ReadBuf::new(&mut scratch);
            if Pin::new(&mut self.stream).poll_read(context, &mut ignored)?.is_pending() {
                self.reading.0.borrow_mut().left = left;
                return Poll::Pending;
            }
            match ignored.filled().len() {
                0 => break,
                bytes => left = left.saturating_sub(bytes),
            }
        }
        self.reading.0.borrow_mut().left = 0;
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Inlet {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let reading = self.reading();
        let (phase, left) = reading.permit(context);
        match phase {
            Phase::Exchange if left == 0 => Poll::Pending,
            // The bytes so far may contain a whole head, which the connection parses next.
            Phase::FirstHead | Phase::Head if left == 0 && reading.is_first_stop() => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Phase::Refused => self.poll_ignore(context, left),
            Phase::FirstHead if left == 0 => {
                // The socket has sent nothing yet, so its buffer has room. If it fails, the connection ends without an answer.
                self.stream.try_write(TOO_LARGE).ok();
                SockRef::from(&self.stream).shutdown(Shutdown::Write).ok();
                reading.refuse();
                self.poll_ignore(context, MAX_IGNORED)
            }
            // The end of the stream, for the connection.
            Phase::Head if left == 0 => Poll::Ready(Ok(())),
            Phase::FirstHead | Phase::Head | Phase::Exchange => {
                let before = buffer.filled().len();
                let mut limited = (&mut self.stream).take(left as u64);
                let read = Pin::new(&mut limited).poll_read(context, buffer);
                reading.0.borrow_mut().left -= buffer.filled().len() - before;
                read
            }
        }
    }
}

impl AsyncWrite for Inlet {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.reading.is_refused() {
            // The connection's own answer, such as one to a head that takes too long.
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.reading.is_refused() {
            return Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl Reading {
    /// Returns the state of a request's connection; None if the request did not arrive through an inlet.
    pub fn of(request: &HttpRequest) -> Option<Rc<Reading>> {
        request.conn_data::<Rc<Reading>>().cloned()
    }

    /// Notes that a request begins. Nothing more is read than its body.
    pub fn begin(self: &Rc<Self>, request: &HttpRequest) -> Exchange {
        let mut state = self.0.borrow_mut();
        (state.phase, state.left, state.unread) = (Phase::Exchange, 0, declared(request));
        state.is_stopped = false;
        drop(state);
        Exchange(Rc::clone(self))
    }

    /// Lets up to `bytes` of the body arrive.
    pub fn want(&self, bytes: usize) {
        let mut state = self.0.borrow_mut();
        if state.phase == Phase::Exchange && state.left < bytes {
            state.left = bytes;
            state.wake();
        }
    }

    /// Notes that the handler has read the whole body.
    pub fn body_ended(&self) {
        let mut state = self.0.borrow_mut();
        state.unread = 0;
        if state.phase == Phase::Exchange {
            state.left = 0;
        }
    }

    /// Returns true if the handler left a body of unknown length unread.
    pub fn is_endless(&self) -> bool {
        self.0.borrow().unread == usize::MAX
    }

    fn permit(&self, context: &Context<'_>) -> (Phase, usize) {
        let mut state = self.0.borrow_mut();
        state.waker = Some(context.waker().clone());
        (state.phase, state.left)
    }

    /// Returns true on the first call after the head has reached its limit.
    fn is_first_stop(&self) -> bool {
        !std::mem::replace(&mut self.0.borrow_mut().is_stopped, true)
    }

    fn is_refused(&self) -> bool {
        self.0.borrow().phase == Phase::Refused
    }

    fn refuse(&self) {
        self.0.borrow_mut().phase = Phase::Refused;
    }
}

/// Returns the maximum length of a request's body: its `Content-Length`, or the largest number if it has none and is not empty.
fn declared(request: &HttpRequest) -> usize {
    if request.headers().contains_key(TRANSFER_ENCODING) {
        return usize::MAX;
    }
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or_default()
}

impl State {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Exchange {
    /// Ends the exchange when the whole answer has been passed to the connection.
    pub fn end_with(self, body: BoxBody) -> BoxBody {
        BoxBody::new(AnswerBody { body, _exchange: self })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut state = self.0.0.borrow_mut();
        // actix-web drops the rest of the body. If the length is unknown, no request follows.
        let unread = if state.unread == usize::MAX { MAX_IGNORED } else { state.unread };
        (state.phase, state.left) = (Phase::Head, unread.saturating_add(MAX_HEAD));
        state.is_stopped = false;
        state.wake();
    }
}

impl MessageBody for AnswerBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
