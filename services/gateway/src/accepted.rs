//! Choice between a page and JSON by the header `Accept` (RFC 9110, section 12.5.1).

use actix_web::HttpRequest;
use actix_web::http::header::ACCEPT;

/// Weight of a media type, and how specifically a range names it: 3 for the type itself, 1 for `*/*`, 0 if none does.
type Rank = (f32, u8);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted {
    json: Rank,
    html: Rank,
}

impl Accepted {
    pub(crate) fn of(request: &HttpRequest) -> Accepted {
        Accepted::read(request.headers().get_all(ACCEPT).filter_map(|value| value.to_str().ok()))
    }

    fn read<'a>(accepted: impl Iterator<Item = &'a str>) -> Accepted {
        let (mut json, mut html) = ((0.0, 0), (0.0, 0));
        for range in accepted.flat_map(|value| value.split(',')) {
            let (media, parameters) = range.split_once(';').unwrap_or((range, ""));
            let weight = parameters.split(';').find_map(|parameter| parameter.trim().strip_prefix("q="));
            let weight = weight.map_or(Ok(1.0), str::parse::<f32>).unwrap_or_default();
            let media = media.trim().to_ascii_lowercase();
            for (best, whole, group) in
                [(&mut json, "application/json", "application/*"), (&mut html, "text/html", "text/*")]
            {
                let rank = [(whole, 3), (group, 2), ("*/*", 1)].into_iter().find(|(name, _)| *name == media);
                if let Some((_, rank)) = rank.filter(|(_, rank)| *rank > best.1) {
                    *best = (weight, rank);
                }
            }
        }
        Accepted { json, html }
    }

    /// Returns true if `application/json` has a larger weight than `text/html`, or the same weight by a more specific range.
    pub(crate) fn prefers_json(self) -> bool {
        self.json.0 > 0.0 && self.json > self.html
    }

    /// The same the other way round. False for `*/*` and for a missing header, as programs send them.
    pub(crate) fn prefers_html(self) -> bool {
        self.html.0 > 0.0 && self.html > self.json
    }
}

#[cfg(test)]
mod tests {
    use super::Accepted;

    #[test]
    fn callers_get_what_they_name_with_the_larger_weight() {
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8";
        for (accepted, json, html) in [
            ("", false, false),
            ("*/*", false, false),
            (browser, false, true),
            ("application/json", true, false),
            ("Application/JSON, text/plain, */*", true, false),
            ("application/json, */*;q=0.5", true, false),
            ("application/*;q=0.5, text/html;q=0.4", true, false),
            ("text/html, application/json", false, false),
            ("application/json;q=0", false, false),
        ] {
            let read = Accepted::read([accepted].into_iter());
            assert_eq!((read.prefers_json(), read.prefers_html()), (json, html), "{accepted}");
        }
    }
}
