/// Converts rows to one vector per column, for `unnest`. Each vector becomes a local variable with the name of its column, so no column may
/// have the name of the loop variable (`mark` in this example):
///
/// ```ignore
/// columns! { mark in marks =>
///     stream = mark.stream.to_string(),
///     seq = mark.seq.cast_signed(),
/// }
/// sqlx::query!("INSERT INTO log_mark (stream, seq) SELECT * FROM unnest($1::text[], $2::bigint[])", &stream, &seq)
/// ```
macro_rules! columns {
    ($row:pat_param in $rows:expr => $($column:ident = $value:expr),+ $(,)?) => {
        let rows = &$rows;
        $(let mut $column = Vec::with_capacity(rows.len());)+
        for $row in rows.iter() {
            $($column.push($value);)+
        }
    };
}

pub(crate) use columns;

/// Converts a number to the type of an `integer` column, or to its maximum.
pub(crate) fn integer<T>(number: T) -> i32
where
    i32: TryFrom<T>,
{
    i32::try_from(number).unwrap_or(i32::MAX)
}
