//! Rows in aligned columns, for people.

/// Renders `header` and `rows`, each column as wide as its widest cell.
pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let all = || std::iter::once(&header).chain(rows);
    let widths: [usize; N] =
        std::array::from_fn(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_end_without_spaces() {
        let rows = [["1".to_owned(), "shop".to_owned()], ["12".to_owned(), "ü".to_owned()]];
        assert_eq!(render(["ID", "NAME"], &rows), "ID  NAME\n1   shop\n12  ü\n");
    }
}
