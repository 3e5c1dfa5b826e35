use super::Config;

/// The JSON schema of the configuration file, for editors and checkers.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Config).to_value()
}
