use std::path::Path;

use serde::Serialize;

use super::error::line_of_key;
use super::{Config, ConfigError};

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Not in the file.
    Default,
    /// This line of the file.
    Line(usize),
}

/// One value of the configuration, for `kurma config show`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Dotted key; members of lists by number.
    pub key: String,
    /// The value in force.
    pub value: serde_json::Value,
    /// What it would be without the file; `None` for what has no default.
    pub default: Option<serde_json::Value>,
    /// Where it comes from.
    pub origin: Origin,
}

impl Config {
    /// Every value with its default and origin, in the order of the file format.
    pub fn settings(text: &str, path: &Path) -> Result<Vec<Setting>, ConfigError> {
        let config = Config::parse(text, path)?;
        let written: toml::Table = text.parse().unwrap_or_default(); // parsed a line above
        let (values, defaults) = (flatten(&config), flatten(&Config::default()));
        let written = flatten(&written);
        Ok(values
            .into_iter()
            .map(|(key, value)| {
                let default = defaults.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone());
                let in_file = written.iter().any(|(name, _)| *name == key);
                let origin = if in_file { Origin::Line(line_of_key(text, &key)) } else { Origin::Default };
                Setting { key, value, default, origin }
            })
            .collect())
    }
}

/// Every value by its dotted key.
pub(crate) fn flatten(value: &impl Serialize) -> Vec<(String, serde_json::Value)> {
    let mut out = Vec::new();
    walk(String::new(), serde_json::to_value(value).unwrap_or_default(), &mut out);
    out
}

fn walk(key: String, value: serde_json::Value, out: &mut Vec<(String, serde_json::Value)>) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                walk(if key.is_empty() { name } else { format!("{key}.{name}") }, value, out);
            }
        }
        Value::Array(members) if members.iter().any(Value::is_object) => {
            for (at, value) in members.into_iter().enumerate() {
                walk(format!("{key}[{at}]"), value, out);
            }
        }
        value if key != "cloud" && key != "volume" => out.push((key, value)),
        _ => {}
    }
}
