//! Jobs that a lane has in hand, from their fetch to their acknowledgement. Settling an attempt waits for the disk, and meanwhile its place
//! is used for the next attempt: batches of claims and settlements grow with the load, while the number of concurrent calls stays.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use domain::AppId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout, timeout_at};

use crate::slots::{AHEAD, Pace};

const PER_CALL: usize = 16;
/// Size in bytes from which no further job is fetched.
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// Size in bytes, in addition to `MAX_BYTES`.
const MAX_LONG_BYTES: usize = 32 * 1024 * 1024;
/// Parts of the room. One app may use one of them.
const PARTS: usize = 4;
/// Longest delay of a fetch until a quarter of the attempts can start, so that one fetch returns several jobs.
const GATHERING: Duration = Duration::from_millis(1);

pub(crate) struct JobsInHand {
    most_calls: usize,
    shared: Arc<Shared>,
}

struct Shared {
    attempts: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    long_calls: Arc<LongCalls>,
    pace: Pace,
    counts: watch::Sender<Counts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    attempts: usize,
    jobs: usize,
    bytes: usize,
}

pub(crate) struct JobInHand {
    shared: Arc<Shared>,
    bytes: usize,
    is_attempted: bool,
    attempt: Option<(OwnedSemaphorePermit, Instant)>,
    /// Set after the job has left the lane. It is then not counted in [`Counts`].
    long_call: Option<LongCall>,
}

impl JobsInHand {
    pub(crate) fn new(most_calls: usize) -> JobsInHand {
        let attempts = Arc::new(Semaphore::new(most_calls * AHEAD));
        let calls = Arc::new(Semaphore::new(most_calls));
        let most_long = Size { jobs: most_calls * PER_CALL, bytes: MAX_LONG_BYTES };
        let long_calls = Arc::new(LongCalls::new(most_long));
        let (pace, counts) = (Pace::default(), watch::Sender::default());
        let shared = Shared { attempts, calls, long_calls, pace, counts };
        JobsInHand { most_calls, shared: Arc::new(shared) }
    }

    /// Waits until at least one more job can start, and up to a millisecond longer until a quarter of the attempts can. A job that is
    /// fetched earlier would wait here although another worker might be free.
    pub(crate) async fn free_slots(&self) -> usize {
        let quarter = || self.most_attempts().div_ceil(4);
        let mut counts = self.shared.counts.subscribe();
        loop {
            // The sender lives as long as `self`.
            drop(counts.wait_for(|counts| self.free(counts) > 0).await);
            drop(timeout(GATHERING, counts.wait_for(|counts| self.free(counts) >= quarter())).await);
            // If attempts have become long meanwhile, fewer may start.
            let free = self.free(&self.shared.counts.borrow());
            if free > 0 {
                return free;
            }
        }
    }

    pub(crate) fn add(&self, bytes: usize) -> JobInHand {
        self.shared.counts.send_modify(|counts| {
            counts.attempts += 1;
            counts.jobs += 1;
            counts.bytes += bytes;
        });
        let shared = Arc::clone(&self.shared);
        JobInHand { shared, bytes, is_attempted: true, attempt: None, long_call: None }
    }

    /// Attempts rather than calls: while attempts are short, some are claimed ahead of their calls.
    fn most_attempts(&self) -> usize {
        if self.shared.pace.is_short() { self.most_calls * AHEAD } else { self.most_calls }
    }

    fn free(&self, counts: &Counts) -> usize {
        if counts.bytes >= MAX_BYTES {
            return 0;
        }
        let of_attempts = self.most_attempts().saturating_sub(counts.attempts);
        of_attempts.min((self.most_calls * PER_CALL).saturating_sub(counts.jobs))
    }
}

impl JobInHand {
    /// Waits only for jobs of a bundle, which can contain more jobs than were free when it was fetched.
    pub(crate) async fn start_attempt(&mut self) {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.shared.attempts).acquire_owned().await.ok();
        self.attempt = permit.map(|permit| (permit, Instant::now()));
    }

    /// None if no call may start until `latest`.
    pub(crate) async fn call_of_lane(&self, latest: tokio::time::Instant) -> Option<OwnedSemaphorePermit> {
        let permit = timeout_at(latest, Arc::clone(&self.shared.calls).acquire_owned()).await;
        permit.ok().and_then(Result::ok)
    }

    /// Leaves the place after `long`, as soon as there is room for a further long call of the app.
    pub(crate) async fn leave_lane_after(&mut self, long: Duration, app: AppId) {
        while self.long_call.is_none() {
            sleep(long).await;
            self.long_call = LongCalls::add(&self.shared.long_calls, app, self.bytes);
        }
        self.end_attempt();
        self.shared.counts.send_modify(|counts| counts.remove_job(self.bytes));
    }

    /// Ends the attempt before it is settled, so that another can start.
    pub(crate) fn end_attempt(&mut self) {
        if let Some((_, began)) = self.attempt.take() {
            self.shared.pace.record(began.elapsed());
        }
        if self.is_attempted {
            self.is_attempted = false;
            self.shared.counts.send_modify(|counts| counts.attempts -= 1);
        }
    }
}

impl Drop for JobInHand {
    fn drop(&mut self) {
        self.end_attempt();
        if self.long_call.is_none() {
            self.shared.counts.send_modify(|counts| counts.remove_job(self.bytes));
        }
    }
}

impl Counts {
    fn remove_job(&mut self, bytes: usize) {
        self.jobs -= 1;
        self.bytes -= bytes;
    }
}

/// A long call leaves the place of its job and its call in the lane to others, so a slow provider of one app delays no other app. Each app
/// has a part of the room. If the part is used up, the call keeps its place in the lane.
#[derive(Debug)]
struct LongCalls {
    most: Size,
    apps: Mutex<HashMap<AppId, Size>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    jobs: usize,
    bytes: usize,
}

#[derive(Debug)]
struct LongCall {
    room: Arc<LongCalls>,
    app: AppId,
    bytes: usize,
}

impl LongCalls {
    fn new(most: Size) -> LongCalls {
        LongCalls { most, apps: Mutex::default() }
    }

    /// None if the app has no place left.
    fn add(room: &Arc<LongCalls>, app: AppId, bytes: usize) -> Option<LongCall> {
        let mut apps = room.apps();
        let total = apps.values().fold(Size::default(), |total, of_app| total.plus(*of_app));
        let of_app = apps.get(&app).copied().unwrap_or_default();
        let one = Size { jobs: 1, bytes };
        if !total.plus(one).is_within(room.most, 1) || !of_app.plus(one).is_within(room.most, PARTS) {
            return None;
        }
        apps.insert(app, of_app.plus(one));
        Some(LongCall { room: Arc::clone(room), app, bytes })
    }

    fn apps(&self) -> MutexGuard<'_, HashMap<AppId, Size>> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Size {
    fn plus(self, other: Size) -> Size {
        Size { jobs: self.jobs + other.jobs, bytes: self.bytes + other.bytes }
    }

    fn is_within(self, most: Size, parts: usize) -> bool {
        self.jobs <= most.jobs / parts && self.bytes <= most.bytes / parts
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        let mut apps = self.room.apps();
        if let Some(of_app) = apps.get_mut(&self.app) {
            *of_app = Size { jobs: of_app.jobs - 1, bytes: of_app.bytes - self.bytes };
            if of_app.jobs == 0 {
                apps.remove(&self.app);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_settling_job_leaves_its_place_to_the_next_attempt_up_to_a_limit() {
        let jobs = JobsInHand::new(4);
        assert_eq!(jobs.free_slots().await, 4);
        let mut held: Vec<JobInHand> = (0..4).map(|_| jobs.add(1)).collect();
        assert_eq!(jobs.free_slots().now_or_never(), None);
        while held.len() < 4 * PER_CALL {
            held.iter_mut().for_each(JobInHand::end_attempt);
            assert_eq!(jobs.free_slots().await, 4);
            held.extend((0..4).map(|_| jobs.add(1)));
        }
        held.iter_mut().for_each(JobInHand::end_attempt);
        assert_eq!(jobs.free_slots().now_or_never(), None, "all jobs in hand wait for their settlement");
        drop(held);
        assert_eq!(jobs.free_slots().await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_call_leaves_its_places_to_others_up_to_the_part_of_its_app() {
        const LONG: Duration = Duration::from_secs(15);
        let jobs = JobsInHand::new(1);
        let mut held = Vec::new();
        let mut start = async |bytes, app| {
            let mut job = jobs.add(bytes);
            job.start_attempt().await;
            let call = job.call_of_lane(Instant::now().into()).await;
            assert!(call.is_some() && jobs.free_slots().now_or_never().is_none());
            let has_left = timeout(LONG * 10, job.leave_lane_after(LONG, AppId(app))).await.is_ok();
            held.push(job);
            has_left
        };
        assert!(start(MAX_BYTES, 1).await);
        assert!(start(1, 2).await, "another app has its own part");
        assert!(!start(1, 1).await, "the part of the app is used up");
        assert_eq!(jobs.free_slots().now_or_never(), None, "so its job keeps its place");
        drop(held);
        assert_eq!(jobs.free_slots().await, 1, "finished calls leave no state");
    }

    #[tokio::test]
    async fn jobs_of_a_bundle_start_as_attempts_end() {
        let jobs = JobsInHand::new(1);
        let mut bundle: Vec<JobInHand> = (0..=AHEAD).map(|_| jobs.add(1)).collect();
        for job in &mut bundle[..AHEAD] {
            assert_eq!(job.start_attempt().now_or_never(), Some(()));
        }
        assert_eq!(bundle[AHEAD].start_attempt().now_or_never(), None);
        bundle[0].end_attempt();
        assert_eq!(bundle[AHEAD].start_attempt().now_or_never(), Some(()));
    }

    #[tokio::test]
    async fn while_attempts_are_short_more_of_them_start() {
        let jobs = JobsInHand::new(4);
        assert_eq!(jobs.free_slots().await, 4);
        for _ in 0..100 {
            let mut job = jobs.add(1);
            job.start_attempt().await;
        }
        assert_eq!(jobs.free_slots().await, 4 * AHEAD);
        jobs.shared.pace.record(Duration::from_secs(30));
        assert_eq!(jobs.free_slots().await, 4);
    }

    #[tokio::test(start_paused = true)]
    async fn no_fetch_begins_if_attempts_become_long_while_it_waits() {
        let jobs = JobsInHand::new(4);
        while !jobs.shared.pace.is_short() {
            jobs.shared.pace.record(Duration::ZERO);
        }
        let mut held: Vec<JobInHand> = (0..4 * AHEAD - 1).map(|_| jobs.add(1)).collect();
        let mut slots = Box::pin(jobs.free_slots());
        assert_eq!(slots.as_mut().now_or_never(), None, "waits for a quarter of the attempts");
        jobs.shared.pace.record(Duration::from_secs(30));
        tokio::time::advance(GATHERING * 2).await;
        assert_eq!(slots.as_mut().now_or_never(), None, "no further attempt may start");
        held.truncate(3);
        tokio::time::advance(GATHERING * 2).await;
        assert_eq!(slots.await, 1);
    }

    #[tokio::test]
    async fn no_job_is_fetched_while_those_in_hand_are_too_large() {
        let jobs = JobsInHand::new(32);
        let mut large: Vec<JobInHand> = (0..16).map(|_| jobs.add(MAX_BYTES / 16)).collect();
        assert_eq!(jobs.free_slots().now_or_never(), None);
        large.pop();
        assert_eq!(jobs.free_slots().await, 17);
    }

    #[tokio::test]
    async fn a_fetch_waits_a_millisecond_for_a_quarter_of_the_attempts() {
        let jobs = JobsInHand::new(32);
        let mut held: Vec<JobInHand> = (0..32).map(|_| jobs.add(1)).collect();
        held.truncate(31);
        let mut slots = Box::pin(jobs.free_slots());
        assert_eq!(slots.as_mut().now_or_never(), None);
        assert_eq!(slots.await, 1);
        held.truncate(24);
        assert_eq!(jobs.free_slots().now_or_never(), Some(8));
    }

    #[test]
    fn one_app_gets_a_quarter_of_the_room_and_all_apps_the_whole() {
        let room = Arc::new(LongCalls::new(Size { jobs: 8, bytes: 800 }));
        let add = |app, bytes| LongCalls::add(&room, AppId(app), bytes);
        let mut held = vec![add(1, 1).unwrap(), add(1, 1).unwrap()];
        assert!(add(1, 1).is_none(), "two of eight calls");
        held.push(add(2, 200).unwrap());
        assert!(add(2, 1).is_none(), "200 of 800 bytes");
        for app in 3..8 {
            held.push(add(app, 1).unwrap());
        }
        assert!(add(8, 1).is_none(), "the room is full");
        drop(held);
        assert!(room.apps().is_empty(), "finished calls leave no state");
    }
}
