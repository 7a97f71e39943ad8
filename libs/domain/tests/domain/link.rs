//! Tests of the links that a notification may contain.

use domain::link::{is_icon, is_link};

#[test]
fn relative_links_usual_schemes_and_schemes_of_apps_are_links() {
    for text in [
        "",
        "orders/7",
        "/orders/7?at=12:30#x:y",
        "//shop.example/7",
        "?a=javascript:alert(1)",
        "./javascript:x",
        "http://shop.example",
        "HTTPS://shop.example:8443/",
        " https://shop.example",
        "mailto:ada@example.com",
        "tel:+49151",
        "shop-app://orders/7",
        "com.example.shop:orders",
        "javascripts:x",
        "database:x",
        ":javascript:x",
    ] {
        assert!(is_link(text) && is_icon(text), "{text:?}");
    }
}

#[test]
fn script_and_data_schemes_are_not_links_in_any_spelling() {
    let schemes = ["javascript", "data", "vbscript", "file", "blob", "about", "view-source", "filesystem"];
    for scheme in schemes {
        let (start, end) = scheme.split_at(scheme.len() / 2);
        for text in [
            format!("{scheme}:alert(1)"),
            format!("{}:alert(1)", scheme.to_uppercase()),
            format!("{}{end}:alert(1)", start.to_uppercase()),
            format!("{start}\t{end}:alert(1)"),
            format!("{start}\r\n{end}:alert(1)"),
            format!("\t\r\n {scheme}\n:alert(1)"),
            format!("\u{1}\u{0}\u{1f}{scheme}:alert(1)"),
            format!("\u{a0}\u{feff}\u{2003}\u{2028}{scheme}:alert(1)"),
            format!("{scheme}:"),
            format!("{scheme}:image/png:data:image/png"),
        ] {
            assert!(!is_link(&text), "{text:?}");
            assert!(scheme == "data" || !is_icon(&text), "{text:?}");
        }
    }
}

#[test]
fn an_icon_may_contain_its_image_and_nothing_else() {
    for text in ["data:image/png;base64,AAAA", "DATA:Image/svg+xml,<svg/>", "bell", "fa:bell"] {
        assert!(is_icon(text), "{text:?}");
    }
    for text in [
        "data:text/html,x",
        "data:,x",
        "data:",
        "data:imag",
        "data:imageé",
        "data: image/png",
        "javascript:1",
    ] {
        assert!(!is_icon(text), "{text:?}");
    }
    assert!(!is_link("data:image/png;base64,AAAA"));
}
