//! The direction from the client.

use std::rc::Rc;

use actix_web::HttpRequest;
use actix_web::web::{Bytes, Payload};
use fairness::principal::Principal;
use fairness::quota::{Lease, Quota};
use futures_util::StreamExt as _;
use web::inlet::Reading;

use super::frames::{FrameError, FrameReader, Message};

/// Size in bytes up to which an unfinished message is not charged to its peer.
const FREE: usize = 4 * 1024;
/// Number of bytes that may arrive ahead of the parser.
const AHEAD: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Gone,
    /// The client broke the protocol or a limit.
    Refused(FrameError),
    /// The share of the client's peer in the memory for unfinished messages is used up.
    Crowded,
}

impl Ended {
    /// Status code of the Close frame (RFC 6455, section 7.4.1).
    pub(crate) fn code(self) -> u16 {
        match self {
            Ended::Gone => 1000,
            Ended::Refused(error) => error.code(),
            Ended::Crowded => 1013,
        }
    }
}

pub(crate) struct Incoming {
    payload: Payload,
    reading: Option<Rc<Reading>>,
    /// Bytes that have arrived and are not parsed yet.
    rest: Bytes,
    reader: FrameReader,
    room: Quota,
    principal: Principal,
    place: Option<Lease>,
}

impl Incoming {
    pub(super) fn new(
        request: &HttpRequest,
        payload: Payload,
        room: Quota,
        principal: Principal,
    ) -> Incoming {
        Incoming {
            payload,
            reading: Reading::of(request),
            rest: Bytes::new(),
            reader: FrameReader::default(),
            room,
            principal,
            place: None,
        }
    }

    /// Waits for the next message. Can be dropped and called again.
    ///
    /// # Errors
    /// Returns an error if no message follows.
    pub(crate) async fn next(&mut self) -> Result<Message, Ended> {
        loop {
            let message = self.reader.read(&mut self.rest).map_err(Ended::Refused)?;
            self.charge()?;
            if let Some(message) = message {
                return Ok(message);
            }
            self.reading.as_ref().inspect(|reading| reading.want(AHEAD));
            match self.payload.next().await {
                Some(Ok(bytes)) => self.rest = bytes,
                Some(Err(_)) | None => return Err(Ended::Gone),
            }
        }
    }

    /// Charges the unfinished message to its peer.
    fn charge(&mut self) -> Result<(), Ended> {
        let kept = self.reader.kept();
        if kept <= FREE {
            self.place = None;
            return Ok(());
        }
        let units = kept.div_ceil(1024);
        match &mut self.place {
            Some(place) => place.grow(units.saturating_sub(place.units())),
            None => self.room.take(&self.principal, units).map(|place| self.place = Some(place)),
        }
        .map_err(|_| Ended::Crowded)
    }
}
