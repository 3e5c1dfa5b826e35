use serde::{Deserialize, Serialize};

/// What a gateway tells on standard error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// `text` for people, `json` (an object a line) for collectors; `--log-format` overrides it.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug` or `trace`, also by part: `warn,upkeep=debug`. The variable KURMA_LOG overrides it.
    pub level: String,
}

/// How lines of the log look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

impl std::str::FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text {
            "text" => Ok(LogFormat::Text),
            "json" => Ok(LogFormat::Json),
            _ => Err(format!("{text:?} is neither `text` nor `json`")),
        }
    }
}

impl Default for LogConfig {
    fn default() -> LogConfig {
        LogConfig { format: LogFormat::Text, level: "warn".into() }
    }
}

impl LogConfig {
    /// Whether the level means anything.
    pub(super) fn check(&self) -> Result<(), String> {
        let is_level = |level: &str| {
            ["off", "error", "warn", "info", "debug", "trace"].contains(&level.to_ascii_lowercase().as_str())
        };
        for part in self.level.split(',').map(str::trim) {
            let level = part.split_once('=').map_or(part, |(_, level)| level);
            if !is_level(level) {
                return Err(format!(
                    "{part:?}: {level:?} is no level; write error, warn, info, debug or trace"
                ));
            }
        }
        Ok(())
    }
}
