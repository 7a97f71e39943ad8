use std::fmt::Write as _;

use super::of_html;

#[test]
fn blocks_links_lists_and_images_are_kept_as_text() {
    let html = "<!DOCTYPE html><html><head><title>No</title><style>p > a { color: red }</style></head><body>\n\
        <!-- <p>hidden</p> --><h1>Your   order</h1><p>Hello <b>Ada</b>,<br>it is &quot;on&quot; its way &amp; on time&nbsp;&#33;</p>\
        <ul><li>One</li><li>Two <a href='https://example.com/?a=1&amp;b=2'>details</a></li></ul>\
        <script>if (1 < 2) alert('</p>')</script><table><tr><td>1</td><td>2</td></tr></table>\
        <img src=x alt=\"Our shop\"><p><a href=\"https://example.com\">https://example.com</a> \
        <a href=\"mailto:a@example.com\">a@example.com</a> <a href='#top'>up</a></p></body></html>";
    let text = "Your order\n\nHello Ada,\nit is \"on\" its way & on time !\n\n- One\n- Two details \
        <https://example.com/?a=1&b=2>\n1 2\nOur shop\n\nhttps://example.com a@example.com up\n";
    assert_eq!(of_html(html), text);
}

#[test]
fn character_references_are_those_of_the_standard() {
    for (html, text) in [
        ("&oacute;&iquest;&Aring;", "ó¿Å"),
        ("x&rlm;y&zwj;z", "x\u{200f}y\u{200d}z"),
        ("it&#146;s &#128; &#x80; &#133;", "it’s € € …"),
        ("&copy 2026 &COPY; &notit; &notin;", "© 2026 © ¬it; ∉"),
        ("&NotEqualTilde;&fjlig;&CounterClockwiseContourIntegral;", "≂\u{338}fj∳"),
        ("&#0; &#xD800; &#x110000; &#99999999999;", "\u{fffd} \u{fffd} \u{fffd} \u{fffd}"),
        ("&#x1F600;&#128512;", "😀😀"),
        ("&unknown; & &; &# &#x; a&b", "&unknown; & &; &# &#x; a&b"),
        ("&ampamp;lt; &amp;lt;", "&amp;lt; &lt;"),
        ("a&#10;b&Tab;c", "a b c"),
        ("a&#7;b", "ab"),
        ("<a href='/?a=1&copy=2&amp;b&eacute;'>x</a>", "x </?a=1&copy=2&bé>"),
        ("<img alt='&laquo;&nbsp;A&raquo;'>", "« A»"),
    ] {
        assert_eq!(of_html(html).trim_end(), text, "{html}");
    }
}

#[test]
fn html_without_its_optional_tags_has_the_same_text() {
    for (with, without) in [
        ("<ul><li>a</li><li>b</li></ul>c", "<ul><li>a<li>b</ul>c"),
        ("<p>a</p><p>b</p>", "<p>a<p>b"),
        ("<p>a</p><div>b</div>", "<p>a<div>b</div>"),
        ("<div><p>a</p></div>b", "<div><p>a</div>b"),
        ("<p>a</p><ul><li>b</li></ul>", "<p>a<ul><li>b</ul>"),
        ("<p>a</p><table><tr><td>b</td></tr></table>", "<p>a<table><tr><td>b</table>"),
        ("<ul><li><p>a</p></li><li><p>b</p></li></ul>", "<ul><li><p>a<li><p>b</ul>"),
        (
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
            "<table><thead><tr><th>a<th>b<tbody><tr><td>1<td>2</table>",
        ),
        ("<table><tr><td><p>a</p></td><td>b</td></tr></table>", "<table><tr><td><p>a<td>b</table>"),
        ("<dl><dt>a</dt><dd>b</dd><dt>c</dt><dd>d</dd></dl>", "<dl><dt>a<dd>b<dt>c<dd>d</dl>"),
        ("<select><option>a</option><option>b</option></select>", "<select><option>a<option>b</select>"),
        (
            "<html><head><title>t</title><meta charset=utf-8></head><body><p>a</p></body></html>",
            "<title>t</title><meta charset=utf-8><p>a",
        ),
        ("<head><style>x</style></head><p>a</p>", "<head><style>x</style><p>a"),
        ("<a href=b>a</a> <a href=d>c</a>", "<a href=b>a <a href=d>c"),
        ("a<br>b", "a</br>b"),
    ] {
        assert_eq!(of_html(with), of_html(without), "{without}");
        assert!(!of_html(with).trim().is_empty());
    }
}

#[test]
fn text_that_is_not_shown_is_left_out() {
    for html in [
        "<script>'<p>no</p>' </p></script>yes",
        "<style><!-- no --></style>yes",
        "<title>no <b>no</b> &lt;</title>yes",
        "<template><p>no<template>no</template>no</template>yes",
        "<iframe><p>no</iframe>yes",
        "<!-- no --!>yes",
        "<!no>yes",
        "<?no?>yes",
        "<SCRIPT>no</ScRiPt foo='>'>yes",
    ] {
        assert_eq!(of_html(html), "yes\n", "{html}");
    }
    assert_eq!(of_html("<noscript>shown</noscript><textarea>a<b></textarea>"), "showna<b>\n");
}

/// The test would not end if the time grew with the square of the length.
#[test]
fn hostile_html_is_read_in_one_pass() {
    for html in ["", "<", "<p", "<a href=\"x", "a < b > c", "&", "<!--", "<script>", "</", "<a href=>x</a>"] {
        of_html(html);
    }
    assert_eq!(of_html("a < b &unknown; c"), "a < b &unknown; c\n");
    const TIMES: usize = 1 << 17;
    for piece in [
        "&",
        "<",
        "<div>",
        "</div>",
        "<a href='x'>",
        "<ul><li>",
        "<table><tr><td>",
        "<!--",
        "<!-->",
        "<script>",
        "<script><!--",
        "</script",
        "<template>",
        "<p a=",
        "<p a='",
        "&amp",
        "&#",
        "&#x",
        "&notin",
        "<p a a a ",
        "]]>",
        "<![CDATA[",
        "<title>",
        "<textarea></texta",
        "<br>",
        "&nbsp;",
        "<svg><style>",
        "<b><i>",
    ] {
        let text = of_html(&piece.repeat(TIMES));
        assert!(text.len() <= piece.len() * TIMES + 16, "{piece}: {}", text.len());
    }
    let mut attributes = String::from("<p");
    for number in 0..100_000 {
        write!(attributes, " a{number}=1").unwrap();
    }
    assert_eq!(of_html(&(attributes + ">x")), "x\n");
}
