//! Filters of templates. A filter whose result can be many times as large as its input is limited here.

use std::cell::Cell;
use std::fmt::{self, Write};

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, filters};

type Arguments = Rest<ValueOrKwargs>;

/// Size in bytes of the result of a filter that is [`ResultSize::Limited`].
pub(crate) const LONGEST: usize = 256 * 1024;
/// Total size in bytes of the results of limited filters in one rendering.
const MOST: usize = 8 * 1024 * 1024;
/// Largest numeric argument that `format`, `indent`, `batch` and `slice` accept.
const WIDEST: usize = 1_000;

thread_local! {
    /// Bytes that limited filters have produced in the current rendering.
    static YIELDED: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultSize {
    Number,
    /// Multiple of the size of the input.
    Times(u64),
    /// The input's elements or, if it is a text, its characters.
    Items,
    Limited,
    /// Result size of the filter that `map` applies, once for each item of the input.
    PerItem,
}

/// None if templates cannot use the filter.
pub(crate) fn result_size(filter: &str) -> Option<ResultSize> {
    Some(match filter {
        "abs" | "bool" | "count" | "float" | "int" | "length" | "round" => ResultSize::Number,
        "attr" | "d" | "default" | "first" | "last" | "max" | "min" | "safe" | "string" | "trim" => {
            ResultSize::Times(1)
        }
        "capitalize" | "lower" | "title" | "upper" => ResultSize::Times(3),
        "e" | "escape" | "urlencode" => ResultSize::Times(6),
        "chain" | "dictsort" | "groupby" | "items" | "lines" | "list" | "reject" | "rejectattr"
        | "reverse" | "select" | "selectattr" | "sort" | "split" | "sum" | "unique" | "zip" => {
            ResultSize::Items
        }
        "batch" | "format" | "indent" | "join" | "replace" | "slice" | "tojson" => ResultSize::Limited,
        "map" => ResultSize::PerItem,
        _ => return None,
    })
}

/// Number of lists that a filter can add around its input; None if its result is a text or a number.
pub(crate) fn added_levels(filter: &str) -> Option<u32> {
    match filter {
        "attr" | "d" | "default" | "first" | "last" | "max" | "min" => Some(0),
        "batch" | "dictsort" | "groupby" | "items" | "slice" | "zip" => Some(2),
        _ if filter == "map" || matches!(result_size(filter), Some(ResultSize::Items)) => Some(1),
        _ => None,
    }
}

/// Also removes `pprint` and `debug`.
pub(crate) fn add_bounded_filters(environment: &mut Environment<'_>) {
    environment.remove_filter("pprint");
    environment.remove_global("debug");
    environment.add_filter("replace", replace);
    environment.add_filter("join", join);
    environment.add_filter("indent", indent);
    environment.add_filter("format", format);
    environment.add_filter("batch", batch);
    environment.add_filter("slice", slice);
    environment.add_filter("tojson", to_json);
}

/// Must be called before each rendering, on the same thread.
pub(crate) fn begin() {
    YIELDED.set(0);
}

fn too_long(filter: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the result of {filter} is too long"))
}

/// Fails if the filter may produce more than [`LONGEST`] bytes, or all filters of the rendering together more than [`MOST`].
fn reserve_bytes(filter: &str, bytes: usize) -> Result<(), Error> {
    let all = YIELDED.get().saturating_add(bytes);
    if bytes > LONGEST || all > MOST {
        return Err(too_long(filter));
    }
    YIELDED.set(all);
    Ok(())
}

/// Length as text, in bytes; `usize::MAX` for a value that is not a text and is longer than [`LONGEST`].
fn length(value: &Value) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0 += text.len();
            if self.0 > LONGEST { Err(fmt::Error) } else { Ok(()) }
        }
    }
    if let Some(text) = value.as_str() {
        return text.len();
    }
    let mut count = Count(0);
    match write!(count, "{value}") {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

fn call(
    function: &Value,
    state: &mut State<'_, '_>,
    value: Value,
    arguments: Vec<Value>,
) -> Result<Value, Error> {
    let arguments: Vec<_> = std::iter::once(value).chain(arguments).collect();
    function.call(state, &arguments)
}

/// Bytes that escaping writes at most for one byte.
fn escaped(state: &State<'_, '_>) -> usize {
    if matches!(state.auto_escape(), AutoEscape::None) { 1 } else { 6 }
}

fn argument(arguments: &[Value], place: usize, name: &str) -> Option<Value> {
    let named = || arguments.iter().find(|argument| argument.is_kwargs())?.get_attr(name).ok();
    let found = arguments.get(place).filter(|argument| !argument.is_kwargs()).cloned().or_else(named);
    found.filter(|value| !value.is_undefined())
}

fn limited_count(filter: &str, value: Option<&Value>) -> Result<usize, Error> {
    let number = value.and_then(Value::as_usize).unwrap_or(1);
    if number > WIDEST {
        let message = format!("{filter} accepts numbers up to {WIDEST}");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    Ok(number)
}

fn replace(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let text = value.to_str().map_or_else(|| value.to_string(), |text| text.to_string());
    let [from, to] = [0, 1].map(|place| arguments.get(place).map(Value::to_string).unwrap_or_default());
    let found = text.matches(from.as_str()).count();
    let bytes = text.len().saturating_add(found.saturating_mul(to.len()));
    reserve_bytes("replace", bytes.saturating_mul(escaped(state)))?;
    call(&Value::from_function(filters::replace), state, value, arguments)
}

fn join(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let between = argument(&arguments, 0, "d").map_or(0, |between| length(&between));
    let mut bytes = 0_usize;
    if let Ok(items) = value.try_iter() {
        for item in items {
            bytes = bytes.saturating_add(length(&item)).saturating_add(between);
            if bytes > LONGEST {
                return Err(too_long("join"));
            }
        }
    }
    reserve_bytes("join", bytes.saturating_mul(escaped(state)))?;
    call(&Value::from_function(filters::join), state, value, arguments)
}

fn indent(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let width = argument(&arguments, 0, "width");
    let width = limited_count("indent", width.as_ref())?.max(4);
    let lines = value.as_str().map_or(1, |text| text.split('\n').count());
    reserve_bytes("indent", length(&value).saturating_add(lines.saturating_mul(width)))?;
    call(&Value::from_function(filters::indent), state, value, arguments)
}

fn format(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let text = value.as_str().unwrap_or_default();
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let widest = numbers.map(|digits| digits.parse().unwrap_or(usize::MAX)).max().unwrap_or_default();
    if widest > WIDEST || text.contains('*') {
        let message = format!("format accepts widths up to {WIDEST}, written as numbers");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let shown = arguments.iter().fold(0_usize, |all, argument| all.saturating_add(length(argument)));
    // Each placeholder may print any argument, so count all arguments for each placeholder.
    let places = text.matches('%').count();
    let bytes =
        text.len().saturating_add(places.saturating_mul(shown.saturating_add(widest).saturating_add(400)));
    reserve_bytes("format", bytes.saturating_mul(escaped(state)))?;
    call(&Value::from_function(filters::format), state, value, arguments)
}

fn batch(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    take_parts("batch", &value, &arguments)?;
    call(&Value::from_function(filters::batch), state, value, arguments)
}

fn slice(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    take_parts("slice", &value, &arguments)?;
    call(&Value::from_function(filters::slice), state, value, arguments)
}

fn take_parts(filter: &str, value: &Value, arguments: &[Value]) -> Result<(), Error> {
    let count = limited_count(filter, arguments.first())?;
    let items = value.len().unwrap_or(LONGEST);
    reserve_bytes(filter, items.saturating_add(count).saturating_mul(16))
}

fn to_json(state: &mut State<'_, '_>, value: Value, arguments: Arguments) -> Result<Value, Error> {
    let arguments = arguments.into_values();
    let indented = argument(&arguments, 0, "indent").is_some_and(|indent| indent.is_true());
    let width = argument(&arguments, 0, "indent").and_then(|indent| indent.as_usize()).unwrap_or_default();
    if width > 8 {
        return Err(Error::new(ErrorKind::InvalidOperation, "tojson accepts an indent of at most 8"));
    }
    let times = if indented { 32 } else { 6 };
    reserve_bytes("tojson", length(&value).saturating_mul(times))?;
    call(&Value::from_function(filters::tojson), state, value, arguments)
}
