//! Query strings and forms, and searches written as `qualifier:value`.

use percent_encoding::percent_decode_str;

/// Similarity (0 to 1) from which a message suggests a qualifier.
const LIKENESS: f64 = 0.7;
/// Longest search, in bytes.
const LONGEST: usize = 512;

/// Pairs of a query string or of a form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairs(Vec<(String, String)>);

impl Pairs {
    pub(crate) fn parse(text: &str) -> Pairs {
        let decode = |text: &str| {
            let spaced = text.replace('+', " ");
            percent_decode_str(&spaced).decode_utf8_lossy().replace('\0', "")
        };
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        Pairs(
            pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(k, v)| (decode(k), decode(v)))
                .collect(),
        )
    }

    /// Returns a trimmed value; None if it is missing or empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    }

    /// Returns the first pairs.
    pub(crate) fn into_first(mut self, most: usize) -> Vec<(String, String)> {
        self.0.truncate(most);
        self.0
    }

    /// Returns a value as it was sent.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A search: words, and values by qualifier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    pub(crate) words: Vec<String>,
    values: Vec<(&'static str, String)>,
    /// Messages about qualifiers that do not exist.
    pub(crate) problems: Vec<String>,
}

impl Search {
    /// Reads the field `q` and the controls of the page, which have the names of the qualifiers and take precedence.
    pub(crate) fn read(pairs: &Pairs, qualifiers: &'static [&'static str]) -> Search {
        let mut search = Search::default();
        let text = pairs.text("q").unwrap_or_default();
        let text = text.get(..text.floor_char_boundary(LONGEST)).unwrap_or_default();
        for word in text.split_whitespace() {
            match word.split_once(':') {
                Some((name, value)) if !value.is_empty() => search.add(name, value, qualifiers),
                _ => search.words.push(word.to_owned()),
            }
        }
        for &name in qualifiers {
            if let Some(value) = pairs.text(name) {
                search.values.retain(|(known, _)| *known != name);
                search.values.push((name, value.to_owned()));
            }
        }
        search
    }

    fn add(&mut self, name: &str, value: &str, qualifiers: &'static [&'static str]) {
        if let Some(&known) = qualifiers.iter().find(|known| **known == name) {
            self.values.push((known, value.to_owned()));
            return;
        }
        let likeness = |known: &str| strsim::jaro_winkler(name, known);
        let nearest = qualifiers.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let nearest = nearest.filter(|known| likeness(known) >= LIKENESS);
        self.problems.push(match nearest {
            Some(known) => format!("{name}: is not a qualifier. Did you mean {known}: ?"),
            None => format!("{name}: is not a qualifier. Use {}.", qualifiers.join(", ")),
        });
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a qualifier if it is one of `known`, and reports any other value.
    pub(crate) fn one_of<T: Copy>(&mut self, name: &str, known: &[(&str, T)]) -> Option<T> {
        let value = self.value(name)?.to_owned();
        let found = known.iter().find(|(text, _)| text.eq_ignore_ascii_case(&value));
        if found.is_none() {
            let texts: Vec<_> = known.iter().map(|(text, _)| *text).collect();
            self.problems.push(format!("{name}:{value} is not known. Use {}.", texts.join(", ")));
        }
        found.map(|(_, value)| *value)
    }

    /// Returns true if the search has no condition.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.values.is_empty()
    }

    /// Returns the search as it would be typed.
    pub(crate) fn written(&self) -> String {
        let values = self.values.iter().map(|(name, value)| format!("{name}:{value}"));
        values.chain(self.words.iter().cloned()).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Search {
        Search::read(&Pairs::parse(query), &["category", "channel", "since"])
    }

    #[test]
    fn a_search_has_words_and_values_and_controls_take_precedence() {
        let search = read("q=order+category%3Aorders+since:2h&since=7d");
        assert_eq!(search.words, ["order"]);
        assert_eq!((search.value("category"), search.value("since")), (Some("orders"), Some("7d")));
        assert_eq!(search.written(), "category:orders since:7d order");
        assert!(search.problems.is_empty() && !search.is_empty() && read("q=&since=").is_empty());
    }

    #[test]
    fn an_unknown_qualifier_is_reported_with_the_nearest() {
        assert_eq!(read("q=chanel:email").problems, ["chanel: is not a qualifier. Did you mean channel: ?"]);
        assert_eq!(read("q=zz:1").problems, ["zz: is not a qualifier. Use category, channel, since."]);
        let mut search = read("channel=fax");
        assert_eq!(search.one_of("channel", &[("email", 1), ("sms", 2)]), None);
        assert_eq!(search.problems, ["channel:fax is not known. Use email, sms."]);
    }

    #[test]
    fn a_time_is_a_word_and_text_is_decoded() {
        assert_eq!(read("q=12:").words, ["12:"]);
        assert_eq!(Pairs::parse("a=%3Cb%3E+%FF&c").text("a"), Some("<b> \u{fffd}"));
    }
}
