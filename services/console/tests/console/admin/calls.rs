use console::admin_routes;

use super::contract::AdminClient;
use crate::fixture::TestConsole;

#[tokio::test(flavor = "multi_thread")]
async fn the_document_has_every_call_with_an_id_a_tag_and_an_example_of_its_body() {
    let console = TestConsole::start(|_| {}).await;
    let client = AdminClient::of(&console).await;
    let document = &client.document;
    let tags: Vec<_> = document["tags"].as_array().unwrap().iter().map(|tag| &tag["name"]).collect();
    let mut ids = std::collections::BTreeSet::new();
    for (method, path) in admin_routes() {
        let call = &document["paths"][&path][method.to_lowercase()];
        let id = call["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path}"));
        assert!(ids.insert(id.to_owned()), "{method} {path}: another call has the id {id}");
        assert!(tags.contains(&&call["tags"][0]), "{method} {path}: {}", call["tags"]);
        assert!(!call["summary"].as_str().unwrap().is_empty(), "{method} {path}");
        assert_eq!(call["security"], serde_json::json!([{"bearer": []}]), "{method} {path}");
    }
    for operation in client.operations() {
        assert!(
            operation.body.is_none_or(|example| example.is_object()),
            "{} has no example",
            operation.path
        );
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer} does not exist");
    }
}
