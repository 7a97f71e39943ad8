use std::sync::Arc;

use domain::Timestamp;

use super::*;
use crate::webhooks::Target;

const APP: i64 = 1;
const ENDPOINT: (i64, i64) = (APP, 7);
const OTHER: (i64, i64) = (2, 9);
const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;
const START: Duration = Duration::ZERO;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// A search that has read the two endpoints.
fn search() -> Search {
    let mut search = Search::default();
    ask(&mut search, &[(ENDPOINT, NOW, NOW), (OTHER, NOW, NOW)]);
    search
}

/// Asks for endpoints and reads them.
fn ask(search: &mut Search, read: &[EndpointRead]) {
    search.note_asked(&[], read);
    search.note(read.to_vec());
}

fn due_from(search: &Search) -> DateTime<Utc> {
    search.known(&[APP], &Depths::new())[0].due_from.unwrap() + NEAREST
}

/// Begins a look, which must be of this reach, and ends it.
fn look(search: &mut Search, reach: Reach, (at, ended): (Duration, Duration), found: &[Place]) {
    let mut look = search.look_at(at).unwrap();
    assert_eq!(look.reach, reach);
    (look.found, look.unread) = (found.to_vec(), BTreeSet::new());
    search.note_look_at(&look, ended);
}

fn endpoints(look: &Behind) -> Vec<(i64, i64)> {
    look.positions.values().flatten().map(|place| place.endpoint).collect()
}

#[test]
fn endpoints_that_were_asked_for_are_looked_at_once() {
    let mut search = search();
    look(&mut search, Reach::Recent, (START, START), &[]);
    look(&mut search, Reach::Full, (START, START), &[]);
    assert!(search.look_at(seconds(1_000)).is_none());
    let known = search.known(&[APP], &Depths::new());
    search.note_asked(&known, &[]);
    let asked = search.look_at(seconds(1_000)).unwrap();
    assert_eq!(endpoints(&asked), [ENDPOINT], "also if it had no room for calls");
}

#[test]
fn looks_that_take_long_are_rare() {
    let mut search = search();
    look(&mut search, Reach::Recent, (START, START), &[]);
    look(&mut search, Reach::Full, (START, seconds(40)), &[]);
    ask(&mut search, &[(ENDPOINT, NOW, NOW)]);
    look(&mut search, Reach::Recent, (seconds(40), seconds(42)), &[]);
    ask(&mut search, &[(ENDPOINT, NOW, NOW)]);
    assert!(search.look_at(seconds(46)).is_none());
    look(&mut search, Reach::Recent, (seconds(47), seconds(47)), &[]);
    ask(&mut search, &[(ENDPOINT, NOW, NOW)]);
    look(&mut search, Reach::Recent, (seconds(48), seconds(48)), &[]);
    assert!(search.look_at(seconds(159)).is_none());
    look(&mut search, Reach::Full, (seconds(160), seconds(160)), &[]);
}

#[test]
fn a_look_that_failed_at_once_is_repeated_soon() {
    let mut search = search();
    let failed = search.look_at(START).unwrap();
    search.note_look_at(&failed, seconds(3));
    look(&mut search, Reach::Full, (seconds(3), seconds(3)), &[]);
    assert!(search.look_at(seconds(3)).is_none());
    let lost = search.look_at(seconds(4)).unwrap();
    assert_eq!((lost.reach, endpoints(&lost)), (Reach::Recent, vec![ENDPOINT, OTHER]));
    search.forget_looks();
    let mut again = search.look_at(seconds(4)).unwrap();
    assert_eq!((again.reach, endpoints(&again)), (Reach::Recent, vec![ENDPOINT, OTHER]));
    again.unread = BTreeSet::from([APP]);
    search.note_look_at(&again, seconds(40));
    assert!(search.look_at(seconds(44)).is_none(), "it has read a lot");
    assert_eq!(endpoints(&search.look_at(seconds(45)).unwrap()), [ENDPOINT], "the other app was read");
}

#[test]
fn the_position_moves_before_messages_that_a_look_has_found_and_their_app_is_asked_for_until_it_is_locked() {
    let mut search = search();
    let earlier = Some(NOW - seconds(60));
    let found = Place { endpoint: ENDPOINT, due_from: earlier, claimed_from: None };
    let running = Place { endpoint: OTHER, due_from: None, claimed_from: earlier };
    look(&mut search, Reach::Recent, (START, START), &[found, running]);
    assert_eq!((Some(due_from(&search)), search.found()), (earlier, vec![APP]));
    assert_eq!(search.known(&[OTHER.0], &Depths::new())[0].claimed_from, earlier);
    search.note_wakes((START, START), (None, NOW), &Woken::default());
    assert_eq!(search.found(), [APP], "another process has locked it");
    search.note_wakes((START, START), (None, NOW), &Woken { apps: vec![APP], ..Woken::default() });
    assert!(search.found().is_empty());
}

#[test]
fn a_search_asks_for_some_of_many_apps_in_which_messages_were_found() {
    let mut search = search();
    let place = |app| Place { endpoint: (app, 1), due_from: Some(NOW), claimed_from: None };
    look(&mut search, Reach::Recent, (START, START), &(1..=100).map(place).collect::<Vec<_>>());
    let asked = search.found();
    assert_eq!((asked.len(), search.unfinished().len()), (MAX_FOUND, 100));
    search.note_wakes((START, START), (None, NOW), &Woken { apps: asked, ..Woken::default() });
    assert_eq!(search.found().len(), 100 - MAX_FOUND);
}

#[test]
fn a_search_that_failed_does_not_begin_so_early_again_before_the_next_look() {
    let mut search = search();
    let found = Place { endpoint: ENDPOINT, due_from: Some(NOW - seconds(60)), claimed_from: None };
    look(&mut search, Reach::Recent, (START, START), &[found]);
    look(&mut search, Reach::Full, (START, START), &[]);
    let known = search.known(&[APP], &Depths::new());
    search.note_failed(&[APP], &known);
    assert_eq!((due_from(&search), search.found()), (NOW, vec![]));
    assert_eq!(search.unfinished(), [AppId(APP)]);
    look(&mut search, Reach::Recent, (seconds(1), seconds(1)), &[]);
    assert_eq!(endpoints(&search.look_at(seconds(1)).unwrap()), [ENDPOINT]);
}

#[test]
fn an_endpoint_whose_position_was_forgotten_is_looked_at_up_to_the_present() {
    let mut search = search();
    search.endpoints.clear();
    let asked = search.look_at(START).unwrap();
    assert_eq!(asked.positions.values().flatten().filter(|place| place.due_from.is_none()).count(), 2);
    search.note_look_at(&asked, START);
    let found = Place { endpoint: ENDPOINT, due_from: Some(NOW), claimed_from: None };
    look(&mut search, Reach::Recent, (seconds(1), seconds(1)), &[found]);
    assert_eq!(search.found(), [APP]);
}

#[test]
fn wakes_are_read_from_the_last_search_each_second_from_ten_seconds_ago_and_rarely_from_the_beginning() {
    let mut search = Search::default();
    let mut at = |at: u64, ended: u64| {
        let (from, _) = search.wakes_from((seconds(at), NOW));
        search.note_wakes((seconds(at), seconds(ended)), (from, NOW), &Woken::default());
        from
    };
    let recent = Some(NOW - LATE);
    let near = Some(NOW - NEAREST);
    assert_eq!(at(0, 1), None);
    assert_eq!([at(2, 2), at(6, 6), at(6, 6), at(7, 7)], [near, recent, near, recent]);
    assert_eq!([at(120, 120), at(121, 121)], [recent, None]);
}

#[test]
fn wakes_that_were_being_written_at_the_last_search_are_read_however_long_ago_that_was() {
    let mut search = Search::default();
    search.note_wakes((START, seconds(1)), (None, NOW), &Woken::default());
    let now = NOW + seconds(40);
    assert_eq!(search.wakes_from((seconds(40), now)).0, Some(NOW - LATE));
    search.note_wakes((seconds(40), seconds(40)), (Some(NOW), now), &Woken::default());
    assert_eq!(search.wakes_from((seconds(41), now + seconds(1))).0, Some(now - LATE));
}

#[test]
fn apps_in_other_hands_are_left_out_while_they_may_hide_others() {
    let mut search = Search::default();
    let mut left_out = |held: &[i64], has_more| {
        let (from, left_out) = search.wakes_from((START, NOW));
        let woken = Woken { held: held.to_vec(), has_more, ..Woken::default() };
        search.note_wakes((START, START), (from, NOW), &woken);
        left_out
    };
    assert_eq!(
        [left_out(&[1], true), left_out(&[2], true), left_out(&[], true)],
        [vec![], vec![1], vec![1, 2]]
    );
    assert_eq!(
        [left_out(&[1], true), left_out(&[2], false), left_out(&[], false)],
        [vec![], vec![1], vec![2]]
    );
}

#[test]
fn searches_of_wakes_that_fail_do_not_read_all_of_them_again_and_leave_nothing_to_hurry_for() {
    let mut search = Search::default();
    let woken = Woken { has_more: true, ..Woken::default() };
    search.note_wakes((START, START), (None, NOW), &woken);
    assert!(search.has_more());
    let at = search.begin() + seconds(1);
    assert_eq!(search.wakes_from((at, NOW)).0, None);
    assert_ne!(search.wakes_from((at, NOW)).0, None);
    assert!(!search.has_more());
}

#[test]
fn the_position_does_not_pass_messages_that_a_call_slot_may_return() {
    let mut search = Search::default();
    let later = NOW + seconds(60);
    let due = |token: u128, seconds: i64| DueMessage {
        app: AppId(APP),
        endpoint: ENDPOINT.1,
        id: Uuid::nil(),
        target: Arc::new(Target { url: String::new(), sealed: Vec::new() }),
        body: String::new(),
        attempt: 1,
        due_at: Timestamp::from_millis(seconds * 1_000),
        token: Uuid::from_u128(token),
    };
    for (token, seconds) in [(1, 9), (1, 7), (1, 8), (2, 5)] {
        search.note_slot(&due(token, seconds));
    }
    ask(&mut search, &[(ENDPOINT, later, later)]);
    assert_eq!(due_from(&search), NOW + seconds(5));
    search.note_ended((AppId(APP), ENDPOINT.1), Uuid::from_u128(2));
    assert_eq!(due_from(&search), NOW + seconds(5), "it may have returned its messages");
    ask(&mut search, &[(ENDPOINT, later, later)]);
    assert_eq!(due_from(&search), NOW + seconds(7), "the other slot is still running");
    search.note_ended((AppId(APP), ENDPOINT.1), Uuid::from_u128(1));
    ask(&mut search, &[(ENDPOINT, later, later)]);
    assert_eq!(due_from(&search), later);
    assert!(search.slots.is_empty());
}
