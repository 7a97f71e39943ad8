use serde::Serialize;
use serde_json::json;

use crate::print::printable;
use crate::shell::quoted;

pub(crate) struct Listing<R> {
    rows: Vec<R>,
    /// Limit, if there are more rows than the listing shows.
    exceeded: Option<u32>,
}

impl<R: Serialize> Listing<R> {
    pub(crate) fn new(rows: Vec<R>) -> Listing<R> {
        Listing { rows, exceeded: None }
    }

    /// The caller passes at least one more row than `limit` if there are more.
    pub(crate) fn first(mut rows: Vec<R>, limit: u32) -> Listing<R> {
        let exceeded = (rows.len() > limit as usize).then_some(limit);
        rows.truncate(limit as usize);
        Listing { rows, exceeded }
    }

    /// Renders the rows as JSON with the place after which `--{option}` continues, or as a table with a line that says how to continue.
    pub(crate) fn render_page<const N: usize>(
        &self,
        json: bool,
        next: Option<(&str, String)>,
        header: [&str; N],
        cells: impl Fn(&R) -> [String; N],
    ) -> String {
        let (option, place) = next.unzip();
        if json {
            return format!("{}\n", json!({"data": self.rows, "next": place}));
        }
        let mut text = self.render(false, header, cells);
        if let (Some(option), Some(place)) = (option, place) {
            text.push_str(&format!("\nThere may be more: --{option} {} continues.\n", quoted(&place)));
        }
        text
    }

    pub(crate) fn render<const N: usize>(
        &self,
        json: bool,
        header: [&str; N],
        cells: impl Fn(&R) -> [String; N],
    ) -> String {
        if json {
            return format!("{}\n", json!(self.rows));
        }
        let mut text = table(header, self.rows.iter().map(cells));
        if let Some(limit) = self.exceeded {
            text.push_str(&format!("\nThere are more than {limit}; --limit shows more.\n"));
        }
        text
    }
}

/// Returns the rows of a command for what a use case has found.
pub(crate) fn rows<Row: From<Found>, Found>(found: impl IntoIterator<Item = Found>) -> Vec<Row> {
    found.into_iter().map(Row::from).collect()
}

pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let all: Vec<_> = std::iter::once(header.map(str::to_owned)).chain(rows.map(shown)).collect();
    let widths: [usize; N] =
        std::array::from_fn(|column| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Keeps each cell in its line.
fn shown<const N: usize>(cells: [String; N]) -> [String; N] {
    cells.map(|cell| printable(&cell).replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(listing: &Listing<(u8, &str)>, json: bool) -> String {
        let cells = |&(id, name): &(u8, &str)| [id.to_string(), name.to_owned()];
        listing.render(json, ["ID", "NAME"], cells)
    }

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let listing = Listing::new(vec![(1, "shop"), (12, "ü")]);
        assert_eq!(render(&listing, false), "ID  NAME\n1   shop\n12  ü\n");
    }

    #[test]
    fn a_cell_cannot_control_the_terminal() {
        let listing = Listing::new(vec![(1, "a\u{1b}]52;c;x\u{7}\nb")]);
        assert_eq!(render(&listing, false), "ID  NAME\n1   a\u{fffd}]52;c;x\u{fffd} b\n");
    }

    #[test]
    fn rows_beyond_the_limit_are_left_out_and_reported_to_people() {
        let listing = Listing::first(vec![(1, "a"), (2, "b")], 1);
        assert_eq!(
            render(&listing, false),
            "ID  NAME\n1   a\n\nThere are more than 1; --limit shows more.\n"
        );
        assert_eq!(render(&listing, true), "[[1,\"a\"]]\n");
        let whole = Listing::first(vec![(1, "a")], 1);
        assert_eq!(render(&whole, false), "ID  NAME\n1   a\n");
    }
}
