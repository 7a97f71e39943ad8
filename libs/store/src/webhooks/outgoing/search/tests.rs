use std::sync::Arc;

use domain::Timestamp;

use super::*;
use crate::webhooks::Target;

const APP: i64 = 1;
const ENDPOINT: (i64, i64) = (APP, 7);
const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn known(search: &Search, at: Duration, apps: &[i64]) -> Vec<Known> {
    search.known((at, NOW), apps, &Depths::new())
}

fn extents(search: &Search, at: Duration, apps: &[i64]) -> Vec<Extent> {
    known(search, at, apps).iter().map(|known| known.extent).collect()
}

fn in_full(search: &Search, at: Duration, apps: &[i64]) -> Vec<i64> {
    let known = known(search, at, apps);
    known.iter().filter(|known| known.due_from.is_none()).map(|known| known.app).collect()
}

#[test]
fn a_full_search_takes_place_each_second_and_the_others_add_a_wake_for_the_next_recent_one() {
    let mut search = Search::default();
    let at = search.begin();
    search.note((at, at), &[], vec![(ENDPOINT, NOW, NOW)]);

    let soon = at + EACH / 2;
    let partial = known(&search, soon, &[APP]);
    assert_eq!(partial[0].due_from, Some(NOW - NEAREST));
    let added = search.overdue(soon, &partial);
    let [Overdue { app: APP, extent: Extent::Recent, after }] = added[..] else { panic!("{added:?}") };
    search.note_overdue(soon, &added);
    search.note((soon, soon), &partial, vec![(ENDPOINT, NOW, NOW)]);

    let later = soon + EACH / 4;
    assert!(search.overdue(later, &known(&search, later, &[APP])).is_empty(), "the wake is on its way");
    assert_eq!(in_full(&search, soon + after, &[APP]), [APP]);
}

#[test]
fn a_recent_search_takes_the_place_of_a_full_one_that_would_take_too_much_time() {
    let mut search = Search::default();
    let seconds = Duration::from_secs_f64;
    search.note((seconds(0.0), seconds(0.5)), &[], vec![(ENDPOINT, NOW, NOW)]);
    assert_eq!(extents(&search, seconds(1.0), &[APP]), [Extent::FromPosition]);
    let soon = seconds(11.0);
    let recent = known(&search, soon, &[APP]);
    assert_eq!((recent[0].due_from, recent[0].claimed_from), (Some(NOW - RECENT), None));
    let overdue = search.overdue(soon, &recent);
    assert_eq!(overdue, [Overdue { app: APP, extent: Extent::Full, after: seconds(89.5) }]);
    search.note_overdue(soon, &overdue);
    search.note((soon, soon), &recent, vec![(ENDPOINT, NOW, NOW)]);
    let of = |search: &Search, at| extents(search, seconds(at), &[APP])[0];
    assert_eq!(of(&search, 11.5), Extent::FromPosition);
    assert_eq!(of(&search, 100.0), Extent::Recent);
    assert_eq!(of(&search, 101.0), Extent::Full);
    let full = known(&search, seconds(101.0), &[APP]);
    search.note((seconds(101.0), seconds(141.0)), &full, vec![(ENDPOINT, NOW, NOW)]);
    assert_eq!(of(&search, 260.0), Extent::FromPosition, "neither twenty times 40 s nor LONGEST are over");
    assert_eq!(of(&search, 262.0), Extent::Full, "at the latest after LONGEST");
}

#[test]
fn the_endpoints_of_an_app_are_read_to_the_same_extent() {
    let mut search = Search::default();
    let [early, late, both] = [0, 500, 1_200].map(Duration::from_millis);
    search.note((early, early), &[], vec![((APP, 1), NOW, NOW)]);
    search.note((late, late), &[], vec![((APP, 2), NOW, NOW)]);
    assert_eq!(extents(&search, both, &[APP]), [Extent::Full; 2]);
}

#[test]
fn an_endpoint_without_room_is_read_when_it_has_some() {
    let mut search = Search::default();
    let [early, later] = [0, 2].map(Duration::from_secs);
    search.note((early, early), &[], vec![((APP, 1), NOW, NOW), ((APP, 2), NOW, NOW)]);
    let asked = known(&search, later, &[APP]);
    search.note((later, later), &asked, vec![((APP, 1), NOW, NOW)]);
    assert_eq!(extents(&search, later + AGAIN / 2, &[APP]), [Extent::FromPosition; 2]);
    let again = later + AGAIN;
    assert_eq!(extents(&search, again, &[APP]), [Extent::Recent; 2]);
    search.note((again, again), &known(&search, again, &[APP]), vec![((APP, 2), NOW, NOW)]);
    assert_eq!(search.endpoints[&(APP, 2)].recent_at, again + EACH);
}

#[test]
fn wakes_are_read_like_messages() {
    let mut search = Search::default();
    let seconds = Duration::from_secs;
    let from = |search: &Search, at| search.wakes_from((seconds(at), NOW));
    assert_eq!(from(&search, 0), None);
    search.note_wakes((seconds(0), seconds(1)), NOW, &Woken::default());
    assert_eq!(from(&search, 2), Some(NOW - NEAREST));
    assert_eq!(from(&search, 21), Some(NOW - RECENT));
    search.note_wakes((seconds(21), seconds(21)), NOW, &Woken::default());
    assert_eq!([21, 120].map(|at| from(&search, at)), [Some(NOW - NEAREST), Some(NOW - RECENT)]);
    assert_eq!(from(&search, 121), None);
}

/// A search that took a second to read the first endpoint of each app, one after the other.
fn slow(apps: &[i64]) -> Search {
    let mut search = Search::default();
    for (second, app) in (0..).zip(apps) {
        let [at, ended] = [second, second + 1].map(Duration::from_secs);
        search.note((at, ended), &[], vec![((*app, 1), NOW, NOW)]);
    }
    search
}

#[test]
fn a_slow_full_search_reads_the_app_that_has_waited_longest() {
    let search = slow(&[3, 2]);
    let at = Duration::from_secs(600);
    assert_eq!(in_full(&search, at, &[2, 3]), [3]);
    assert_eq!(in_full(&search, at, &[2]), [2]);
    let overdue = search.overdue(at, &known(&search, at, &[2, 3]));
    assert_eq!(overdue, [Overdue { app: 2, extent: Extent::Full, after: EACH }]);
}

#[test]
fn a_busy_app_lets_one_go_first_that_has_a_wake_for_its_full_search() {
    let mut search = slow(&[2, 3]);
    let at = Duration::from_secs(600);
    search.note_overdue(at, &[Overdue { app: 2, extent: Extent::Full, after: CALLED / 2 }]);
    assert!(in_full(&search, at, &[3]).is_empty(), "app 2 has waited longer");
    assert_eq!(in_full(&search, at + CALLED / 2, &[2, 3]), [2]);
    assert_eq!(in_full(&search, at + CALLED * 2, &[3]), [3], "another process has answered the wake");
}

#[test]
fn an_endpoint_without_room_does_not_stay_the_one_that_has_waited_longest() {
    let mut search = slow(&[3, 4]);
    let [at, ended] = [600, 601].map(Duration::from_secs);
    let asked = known(&search, at, &[3, 4]);
    assert_eq!(in_full(&search, at, &[3, 4]), [3]);
    search.note((at, ended), &asked, vec![]);
    assert_eq!(in_full(&search, ended, &[3, 4]), [4]);
}

#[test]
fn the_position_does_not_pass_messages_that_a_call_slot_may_return() {
    let mut search = Search::default();
    let later = NOW + Duration::from_secs(60);
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
    search.note((Duration::ZERO, Duration::ZERO), &[], vec![(ENDPOINT, later, later)]);
    let from = |search: &Search| known(search, Duration::ZERO, &[APP])[0].due_from.unwrap() + NEAREST;
    assert_eq!(from(&search), NOW + Duration::from_secs(5));
    search.note_ended((AppId(APP), ENDPOINT.1), Uuid::from_u128(2));
    assert_eq!(from(&search), NOW + Duration::from_secs(5), "it may have returned its messages");
    search.note((EACH / 2, EACH / 2), &known(&search, EACH / 2, &[APP]), vec![(ENDPOINT, later, later)]);
    assert_eq!(from(&search), NOW + Duration::from_secs(7));
    search.forget_slots();
    search.note((EACH / 2, EACH / 2), &known(&search, EACH / 2, &[APP]), vec![(ENDPOINT, later, later)]);
    assert_eq!(from(&search), later);
    assert!(search.slots.is_empty());
}
