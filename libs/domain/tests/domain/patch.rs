//! Tests of JSON Patch: the public test cases, and additional ones.

use domain::profile::{
    Author, Change, MAX_OPERATIONS, MAX_PROFILE, MAX_USER_OPERATIONS, MAX_WORK, Patch, PatchFailure, Refusal,
};
use serde_json::{Value, json};

const PUBLIC_CASES: [&str; 2] =
    [include_str!("../json-patch/tests.json"), include_str!("../json-patch/spec_tests.json")];

fn read(patch: &Value) -> Result<Patch, Vec<(String, &'static str)>> {
    let mut problems = Vec::new();
    let patch = Patch::read(patch.as_array().unwrap().clone(), MAX_OPERATIONS, false, &mut problems);
    if problems.is_empty() {
        return Ok(patch);
    }
    Err(problems.into_iter().map(|problem| (problem.field, problem.code)).collect())
}

fn applied(document: &Value, patch: &Value) -> Result<Value, Refusal> {
    read(patch).unwrap().apply_to(document.clone())
}

fn changed(profile: &Value, patch: &Value) -> Result<Value, Refusal> {
    let change = Change::Patch(read(patch).unwrap());
    change.apply(profile.as_object().unwrap(), Author::User).map(Value::Object)
}

#[test]
fn the_public_test_cases_pass() {
    let mut ran = 0;
    for cases in PUBLIC_CASES {
        let cases: Vec<Value> = serde_json::from_str(cases).unwrap();
        let cases = cases.iter().filter(|case| case.get("doc").is_some());
        for case in cases.filter(|case| case["comment"] != "duplicate ops") {
            let outcome = read(&case["patch"]).map(|patch| patch.apply_to(case["doc"].clone()));
            match (outcome, case.get("error")) {
                (Err(_) | Ok(Err(_)), Some(_)) => {}
                (Ok(Ok(after)), None) => {
                    let expected = case.get("expected").unwrap_or(&case["doc"]);
                    assert_eq!(&after, expected, "{case}");
                }
                (outcome, _) => panic!("{case}: {outcome:?}"),
            }
            ran += 1;
        }
    }
    assert_eq!(ran, 94, "some public cases did not run");
}

#[test]
fn an_operation_that_cannot_be_applied_is_named() {
    let document = json!({"list": ["a", "b"], "one": {"two": 2}, "1e0": "key", "none": null});
    let cases = [
        (json!({"op": "test", "path": "/one/two", "value": 3}), PatchFailure::TestFailed),
        (json!({"op": "test", "path": "/one/two", "value": "2"}), PatchFailure::TestFailed),
        (json!({"op": "test", "path": "/none", "value": false}), PatchFailure::TestFailed),
        (json!({"op": "test", "path": "/absent", "value": null}), PatchFailure::NoPath),
        (json!({"op": "test", "path": "/list/01", "value": "b"}), PatchFailure::NoPath),
        (json!({"op": "test", "path": "/list/1e0", "value": "b"}), PatchFailure::NoPath),
        (json!({"op": "test", "path": "/list/-", "value": "b"}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": "/absent"}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": ""}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": "/list/2"}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": "/list/-"}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": "/list/00"}), PatchFailure::NoPath),
        (json!({"op": "remove", "path": "/list/0/deeper"}), PatchFailure::NoPath),
        (json!({"op": "replace", "path": "/absent", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "replace", "path": "/list/1e0", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/absent/deeper", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/list/3", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/list/+1", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/list/", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/one/two/three", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "add", "path": "/list/99999999999999999999", "value": 1}), PatchFailure::NoPath),
        (json!({"op": "copy", "from": "/list/1e0", "path": "/x"}), PatchFailure::NoFrom),
        (json!({"op": "copy", "from": "/absent", "path": "/x"}), PatchFailure::NoFrom),
        (json!({"op": "copy", "from": "/one", "path": "/absent/x"}), PatchFailure::NoPath),
        (json!({"op": "move", "from": "/absent", "path": "/absent"}), PatchFailure::NoFrom),
        (json!({"op": "move", "from": "/list/-", "path": "/x"}), PatchFailure::NoFrom),
        (json!({"op": "move", "from": "/one", "path": "/one/two"}), PatchFailure::IntoItself),
        (json!({"op": "move", "from": "", "path": "/x"}), PatchFailure::IntoItself),
    ];
    let good = json!({"op": "add", "path": "/new", "value": 1});
    for (operation, cause) in cases {
        let refusal = applied(&document, &json!([good, operation])).unwrap_err();
        assert_eq!(refusal, Refusal::Inapplicable(1, cause), "{operation}");
    }
}

#[test]
fn operations_that_the_standard_allows_are_applied() {
    let cases = [
        (json!({"n": 1.0}), json!({"op": "test", "path": "/n", "value": 1}), json!({"n": 1.0})),
        (json!({"n": 0}), json!({"op": "test", "path": "/n", "value": -0.0}), json!({"n": 0})),
        (
            json!({"n": [{"a": 10}]}),
            json!({"op": "test", "path": "", "value": {"n": [{"a": 1e1}]}}),
            json!({"n": [{"a": 10}]}),
        ),
        (json!({"foo": 1}), json!({"op": "move", "from": "/foo", "path": "/foobar"}), json!({"foobar": 1})),
        (json!({"foo": 1}), json!({"op": "move", "from": "/foo", "path": "/foo"}), json!({"foo": 1})),
        (
            json!({"a": {"b": 1}}),
            json!({"op": "copy", "from": "", "path": "/a/c"}),
            json!({"a": {"b": 1, "c": {"a": {"b": 1}}}}),
        ),
        (json!({"a": {"b": 1}}), json!({"op": "move", "from": "/a/b", "path": "/a"}), json!({"a": 1})),
        (json!({"~1": 1}), json!({"op": "remove", "path": "/~01"}), json!({})),
        (json!({"a": 1}), json!({"op": "remove", "path": "/a", "value": 7, "else": 1}), json!({})),
    ];
    for (before, operation, after) in cases {
        assert_eq!(applied(&before, &json!([operation])), Ok(after), "{operation}");
    }
}

#[test]
fn every_problem_of_a_malformed_patch_is_named() {
    let cases: [(Value, &[(&str, &str)]); 6] = [
        (json!([7, null, []]), &[("[0]", "invalid_type"), ("[1]", "invalid_type"), ("[2]", "invalid_type")]),
        (json!([{}]), &[("[0].op", "required"), ("[0].path", "required")]),
        (
            json!([{"op": "remove", "path": "/a"}, {"op": "spam", "path": 7}, {"op": 1, "path": "a"}]),
            &[
                ("[1].op", "unknown_value"),
                ("[1].path", "invalid_type"),
                ("[2].op", "invalid_type"),
                ("[2].path", "invalid_pointer"),
            ],
        ),
        (
            json!([{"op": "add", "path": "/a"}, {"op": "replace", "path": ""}, {"op": "test", "path": ""}]),
            &[("[0].value", "required"), ("[1].value", "required"), ("[2].value", "required")],
        ),
        (
            json!([{"op": "move", "path": "/a"}, {"op": "copy", "path": "/a", "from": "a"}]),
            &[("[0].from", "required"), ("[1].from", "invalid_pointer")],
        ),
        (
            json!([{"op": "Add", "path": "/~2", "value": 1}]),
            &[("[0].op", "unknown_value"), ("[0].path", "invalid_pointer")],
        ),
    ];
    for (patch, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|(field, code)| ((*field).to_owned(), *code)).collect();
        assert_eq!(read(&patch).unwrap_err(), expected, "{patch}");
    }
    let operation = json!({"op": "test", "path": "", "value": {}});
    let most = Value::Array(vec![operation; MAX_OPERATIONS]);
    assert_eq!(applied(&json!({}), &most), Ok(json!({})));
    let more = Value::Array(vec![json!({}); MAX_OPERATIONS + 1]);
    assert_eq!(read(&more).unwrap_err(), [(String::new(), "too_many")]);
}

#[test]
fn unknown_members_are_problems_only_in_strict_mode() {
    let patch = vec![json!({"op": "remove", "path": "/a", "value": null, "from": null, "ops": 1})];
    let mut problems = Vec::new();
    Patch::read(patch.clone(), MAX_OPERATIONS, false, &mut problems);
    assert_eq!(problems, []);
    Patch::read(patch, MAX_OPERATIONS, true, &mut problems);
    assert_eq!((problems.len(), problems[0].field.as_str()), (1, "[0].ops"));
}

#[test]
fn repeated_copies_in_a_patch_stay_within_the_size_limit() {
    let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
    let profile = json!({"a": ["x".repeat(1024)]});
    let refusal = applied(&profile, &Value::Array(vec![double; 40])).unwrap_err();
    assert!(matches!(refusal, Refusal::TooLong(size) if size < 3 * MAX_PROFILE), "{refusal:?}");

    let mut deep = json!({});
    for _ in 1..20 {
        deep = json!({"a": deep});
    }
    let nest = json!({"op": "copy", "from": "", "path": format!("{}/b", "/a".repeat(19))});
    assert_eq!(applied(&deep, &json!([nest])), Err(Refusal::TooDeep));

    let long = json!({"op": "add", "path": "/long", "value": "x".repeat(MAX_PROFILE)});
    let gone = json!({"op": "remove", "path": "/long"});
    assert!(matches!(applied(&json!({}), &json!([long, gone])), Err(Refusal::TooLong(_))));
    let key = json!({"op": "move", "from": "/a", "path": format!("/{}", "k".repeat(MAX_PROFILE))});
    assert!(matches!(applied(&json!({"a": 1}), &json!([key])), Err(Refusal::TooLong(_))));
}

#[test]
fn a_patch_has_a_budget_of_operations_times_bytes() {
    let profile = json!({"large": "x".repeat(60_000), "small": 0});
    let operations = [
        json!({"op": "replace", "path": "/small", "value": 1}),
        json!({"op": "test", "path": "/small", "value": 0}),
        json!({"op": "move", "from": "/small", "path": "/small"}),
        json!({"op": "copy", "from": "/large", "path": "/large"}),
    ];
    for operation in operations {
        let few = Value::Array(vec![operation.clone(); 17]);
        assert_eq!(applied(&profile, &few).map(|_| ()), Ok(()), "{operation}");
        let many = Value::Array(vec![operation.clone(); MAX_OPERATIONS]);
        let refusal = applied(&profile, &many).unwrap_err();
        assert!(
            matches!(refusal, Refusal::TooMuchWork { operations: 1_000, .. }),
            "{operation}: {refusal:?}"
        );
    }
    let copy_and_remove =
        [json!({"op": "copy", "from": "/half", "path": "/other"}), json!({"op": "remove", "path": "/other"})];
    let half = json!({"half": "x".repeat(30_000)});
    let patch = Value::Array(copy_and_remove.into_iter().cycle().take(MAX_OPERATIONS).collect());
    assert!(matches!(applied(&half, &patch), Err(Refusal::TooMuchWork { .. })));
    let small = json!({"small": 0, "other": "x".repeat(MAX_WORK / MAX_OPERATIONS - 100)});
    let many = vec![json!({"op": "replace", "path": "/small", "value": 1}); MAX_OPERATIONS];
    assert!(applied(&small, &Value::Array(many)).is_ok(), "a small profile allows all operations");
}

#[test]
fn users_have_fewer_operations_than_backends() {
    let operation = json!({"op": "test", "path": "", "value": {}});
    let mut problems = Vec::new();
    Patch::read(vec![operation.clone(); MAX_USER_OPERATIONS], MAX_USER_OPERATIONS, false, &mut problems);
    assert_eq!(problems, []);
    Patch::read(vec![operation; MAX_USER_OPERATIONS + 1], MAX_USER_OPERATIONS, false, &mut problems);
    assert_eq!(problems[0].code, "too_many");
    assert!(problems[0].message.contains("1000 with the API secret"), "{}", problems[0].message);
}

#[test]
fn a_patched_profile_is_validated_like_a_merged_one() {
    let profile = json!({"name": "Ada", "fcm": {"tokens": ["a"]}});
    let reserved = [
        json!([{"op": "add", "path": "/identifier", "value": "eve"}]),
        json!([{"op": "move", "from": "/name", "path": "/identifier"}]),
        json!([{"op": "copy", "from": "/name", "path": "/identifier"}]),
        json!([{"op": "replace", "path": "", "value": {"identifier": null}}]),
    ];
    for patch in reserved {
        assert_eq!(changed(&profile, &patch), Err(Refusal::ReservedKey), "{patch}");
    }
    let root = json!([{"op": "replace", "path": "", "value": []}]);
    assert_eq!(changed(&profile, &root), Err(Refusal::NoObject));
    let invalid = [
        (json!([{"op": "add", "path": "/email", "value": 7}]), "email"),
        (json!([{"op": "copy", "from": "/fcm", "path": "/phone"}]), "phone"),
        (json!([{"op": "add", "path": "/fcm/tokens/-", "value": {}}]), "fcm.tokens"),
        (json!([{"op": "replace", "path": "/fcm", "value": "a"}]), "fcm"),
    ];
    for (patch, field) in invalid {
        match changed(&profile, &patch) {
            Err(Refusal::Invalid(problems)) => assert_eq!(problems[0].field, field, "{patch}"),
            other => panic!("{patch}: {other:?}"),
        }
    }
    let through = json!([
        {"op": "add", "path": "/identifier", "value": 1}, {"op": "remove", "path": "/identifier"},
        {"op": "replace", "path": "", "value": []}, {"op": "replace", "path": "", "value": {}}
    ]);
    assert_eq!(changed(&profile, &through), Ok(json!({})), "only the final profile is checked");
    let token = json!([
        {"op": "add", "path": "/fcm/token", "value": "b"}, {"op": "add", "path": "/fcm/tokens/-", "value": "a"}
    ]);
    assert_eq!(changed(&profile, &token), Ok(json!({"name": "Ada", "fcm": {"tokens": ["a", "b"]}})));
    let gone = json!([{"op": "test", "path": "/fcm/tokens/0", "value": "a"}, {"op": "remove", "path": "/fcm/tokens/0"}]);
    assert_eq!(changed(&profile, &gone), Ok(json!({"name": "Ada", "fcm": {"tokens": []}})));
}

#[test]
fn a_merge_must_not_exceed_the_size_limit() {
    let merged = |before: &Value, pairs: &Value| {
        let change = Change::Merge(pairs.as_object().unwrap().clone());
        change.apply(before.as_object().unwrap(), Author::User).map(Value::Object)
    };
    let half = json!({"a": "x".repeat(MAX_PROFILE / 2)});
    let other = json!({"b": "x".repeat(MAX_PROFILE / 2)});
    assert_eq!(merged(&half, &half), Ok(half.clone()));
    assert!(matches!(merged(&half, &other), Err(Refusal::TooLong(_))));
    assert_eq!(merged(&half, &json!({"identifier": "eve"})), Err(Refusal::ReservedKey));
}

#[test]
fn a_patch_without_proof_neither_reads_nor_writes_addresses() {
    let profile = json!({
        "email": "ada@example.com", "phone": null, "other": "eve@example.com", "fcm": {"tokens": ["a"]}, "app": {"tier": 1},
    });
    let patch = |operations: Value| Change::Patch(read(&operations).unwrap());
    let pairs = |pairs: Value| Change::Merge(pairs.as_object().unwrap().clone());
    let guarded = Err(Refusal::AddressGuarded);
    let cases = [
        (pairs(json!({"name": "Ada"})), Ok(("name", json!("Ada")))),
        (pairs(json!({"email": "ada@example.com"})), guarded.clone()),
        (pairs(json!({"email": "eve@example.com"})), guarded.clone()),
        (pairs(json!({"phone": "+15005550006"})), guarded.clone()),
        (pairs(json!({"phoneNumber": null})), guarded.clone()),
        (pairs(json!({"fcm": {"token": "a"}})), guarded.clone()),
        (pairs(json!({"apns": null})), guarded.clone()),
        (pairs(json!({"app": {"tier": 2}})), Err(Refusal::AppOnly)),
        (patch(json!([{"op": "replace", "path": "/other", "value": 1}])), Ok(("other", json!(1)))),
        (patch(json!([{"op": "replace", "path": "/email", "value": "eve@example.com"}])), guarded.clone()),
        (patch(json!([{"op": "test", "path": "/email", "value": "ada@example.com"}])), guarded.clone()),
        (patch(json!([{"op": "remove", "path": "/phone"}])), guarded.clone()),
        (patch(json!([{"op": "copy", "from": "/other", "path": "/email"}])), guarded.clone()),
        (patch(json!([{"op": "copy", "from": "/email", "path": "/seen"}])), guarded.clone()),
        (patch(json!([{"op": "move", "from": "/email", "path": "/moved"}])), guarded.clone()),
        (patch(json!([{"op": "copy", "from": "/fcm/tokens/0", "path": "/seen"}])), guarded.clone()),
        (patch(json!([{"op": "remove", "path": "/fcm/tokens/0"}])), guarded.clone()),
        (patch(json!([{"op": "remove", "path": "/fcm"}])), guarded.clone()),
        (patch(json!([{"op": "copy", "from": "", "path": "/seen"}])), guarded.clone()),
        (patch(json!([{"op": "replace", "path": "", "value": {}}])), guarded),
        (patch(json!([{"op": "remove", "path": "/app/tier"}])), Err(Refusal::AppOnly)),
    ];
    for (change, expected) in cases {
        let mut whole = profile.as_object().unwrap().clone();
        let expected = expected.map(|(key, value)| {
            whole.insert(key.to_owned(), value);
            whole
        });
        assert_eq!(change.apply(profile.as_object().unwrap(), Author::Unproven), expected, "{change:?}");
    }
}

#[test]
fn the_backend_alone_writes_the_key_app() {
    let before = json!({"app": {"tier": "gold"}, "name": "Ada"});
    let before = before.as_object().unwrap();
    let pairs = |pairs: Value| Change::Merge(pairs.as_object().unwrap().clone());
    let patch = |operations: Value| Change::Patch(read(&operations).unwrap());
    for change in [
        pairs(json!({"app": {"tier": "platinum"}})),
        pairs(json!({"app": null})),
        patch(json!([{"op": "replace", "path": "/app/tier", "value": "platinum"}])),
        patch(json!([{"op": "move", "from": "/app", "path": "/mine"}])),
        patch(json!([{"op": "copy", "from": "/name", "path": "/app"}])),
        patch(json!([{"op": "replace", "path": "", "value": {"app": {"tier": "platinum"}}}])),
        patch(json!([{"op": "replace", "path": "", "value": {}}])),
    ] {
        assert_eq!(change.apply(before, Author::User), Err(Refusal::AppOnly), "{change:?}");
        assert!(change.apply(before, Author::App).is_ok(), "{change:?}");
    }
    assert!(pairs(json!({"name": "Eve"})).apply(before, Author::User).is_ok());
}
