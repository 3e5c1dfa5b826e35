use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is wrong with a configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Something in the file is wrong.
    #[error("{}:{line}: {what}{}", path.display(), suggestion.as_ref().map(|s| format!("; did you mean `{s}`?")).unwrap_or_default())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// Key and reason.
        what: String,
        /// A known key that looks alike.
        suggestion: Option<String>,
    },
}

impl ConfigError {
    /// An error of the TOML reader, told in one line.
    pub(super) fn from_toml(path: &Path, text: &str, cause: &toml::de::Error) -> ConfigError {
        let line = line_at(text, cause.span().map_or(0, |span| span.start));
        let what = cause.message().replace('\n', " ");
        ConfigError::Invalid { path: path.to_owned(), line, suggestion: suggest(&what), what }
    }

    /// A value that reads well and means nothing.
    pub(super) fn value(path: &Path, text: &str, key: &str, why: String) -> ConfigError {
        ConfigError::Invalid {
            path: path.to_owned(),
            line: line_of_key(text, key),
            what: format!("{key}: {why}"),
            suggestion: None,
        }
    }
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes()[..offset.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}

/// The line of `table.key` or `array[N].key`; of the table when the key is not written.
pub(super) fn line_of_key(text: &str, key: &str) -> usize {
    let (table, field) = key.rsplit_once('.').unwrap_or((key, ""));
    let (header, nth) = match table.split_once('[') {
        Some((name, index)) => (
            format!("[[{name}]]"),
            index.split(']').next().and_then(|index| index.parse::<usize>().ok()).unwrap_or(0),
        ),
        None => (format!("[{table}]"), 0),
    };
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let Some((start, _)) = lines.by_ref().filter(|(_, line)| line.starts_with(&header)).nth(nth) else {
        return 1;
    };
    lines
        .take_while(|(_, line)| !line.starts_with('['))
        .find(|(_, line)| line.split('=').next().is_some_and(|name| name.trim() == field))
        .map_or(start, |(at, _)| at)
}

/// The expected name that is nearest to the unknown one, from a message of the form
/// "unknown field `x`, expected one of `a`, `b`".
fn suggest(message: &str) -> Option<String> {
    let mut quoted = message.split('`').skip(1).step_by(2);
    if !message.starts_with("unknown") {
        return None;
    }
    let unknown = quoted.next()?;
    quoted
        .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
        .filter(|(distance, known)| *distance <= known.len().max(unknown.len()) / 2)
        .min()
        .map(|(_, known)| known.to_owned())
}
