//! Plain tables on standard output.

use serde_json::Value;

use crate::outcome::say;

/// Prints rows of an array of objects, one column for each of `columns` (JSON pointer, heading).
pub fn print(rows: &Value, columns: &[(&str, &str)]) {
    let cells: Vec<Vec<String>> = rows
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| columns.iter().map(|(pointer, _)| text(row.pointer(pointer))).collect())
        .collect();
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, (_, heading))| {
            cells.iter().map(|row| row[at].len()).chain([heading.len()]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        say(padded.join("  ").trim_end());
    };
    line(columns.iter().map(|(_, heading)| *heading).collect());
    for row in &cells {
        line(row.iter().map(String::as_str).collect());
    }
}

/// A value as a person reads it.
pub fn text(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".into(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.1}"),
            _ => number.to_string(),
        },
        Some(Value::Array(items)) => items.iter().map(|item| text(Some(item))).collect::<Vec<_>>().join(","),
        Some(other) => other.to_string(),
    }
}

/// A number of bytes with a unit.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}
