//! What clouds cost, and whether that decides where data is read.

use cloud::Prices;
use serde::{Deserialize, Serialize};

use super::{Config, Span};

/// What a provider charges. All prices in one currency, which Kurma does not need to know; what is not said costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PriceConfig {
    /// One request that stores something. Providers quote 1,000 or 10,000 of them: divide.
    pub put: f64,
    /// One request for an object, or for what is known of it.
    pub get: f64,
    /// One request for names, of which it brings up to 1,000.
    pub list: f64,
    /// One request that deletes.
    pub delete: f64,
    /// 10^9 bytes that come from there.
    pub egress_gb: f64,
    /// 10^9 bytes kept for a month of 730 hours.
    pub storage_gb_month: f64,
}

/// Reading from clouds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadConfig {
    /// Which clouds are read from, where more have the data than are needed.
    pub prefer: Prefer,
    /// With `prefer = "cost"`: how long a read of one block may take. Clouds that take longer, more often than once in twenty times, are
    /// left out as long as the others suffice.
    pub latency_bound: Span,
}

/// What decides where data is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// The clouds that are expected to be done first.
    #[default]
    Speed,
    /// The cheapest clouds among those that keep the bound. Needs the prices of all clouds.
    Cost,
}

impl Default for ReadConfig {
    fn default() -> ReadConfig {
        ReadConfig { prefer: Prefer::Speed, latency_bound: Span::from_secs(1) }
    }
}

impl ReadConfig {
    pub(crate) fn preference(&self) -> blocks::Preference {
        match self.prefer {
            Prefer::Speed => blocks::Preference::Speed,
            Prefer::Cost => blocks::Preference::Cost { bound: self.latency_bound.as_duration() },
        }
    }
}

impl From<&PriceConfig> for Prices {
    fn from(prices: &PriceConfig) -> Prices {
        let PriceConfig { put, get, list, delete, egress_gb, storage_gb_month } = *prices;
        Prices { put, get, list, delete, egress_gb, storage_gb_month }
    }
}

impl PriceConfig {
    /// By their names.
    pub(crate) fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("put", self.put),
            ("get", self.get),
            ("list", self.list),
            ("delete", self.delete),
            ("egress_gb", self.egress_gb),
            ("storage_gb_month", self.storage_gb_month),
        ]
    }

    fn check(&self) -> Result<(), String> {
        match self.named().into_iter().find(|(_, price)| !price.is_finite() || *price < 0.0) {
            Some((name, price)) => Err(format!("{name} = {price}: a price is a number, 0 or more")),
            None => Ok(()),
        }
    }
}

impl Config {
    /// What cannot be meant, and of which key.
    pub(super) fn check_costs(&self) -> Result<(), (String, String)> {
        if self.read.latency_bound.as_duration().is_zero() {
            return Err(("read.latency_bound".into(), "must be at least 1ms".into()));
        }
        for (at, cloud) in self.clouds.iter().enumerate() {
            match &cloud.price {
                Some(price) => price.check().map_err(|why| (format!("cloud[{at}].price"), why))?,
                None if self.read.prefer == Prefer::Cost => {
                    let why = format!(
                        "\"cost\" needs the prices of all clouds, and {:?} has none: write price = {{ get = ..., egress_gb = ... }} there, or prefer \"speed\"",
                        cloud.name
                    );
                    return Err(("read.prefer".into(), why));
                }
                None => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const A: &str = "[[cloud]]\nname = 'a'\nurl = 'dir:a'\n";
    const B: &str = "[[cloud]]\nname = 'b'\nurl = 'dir:b'\n";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("k.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn prices_are_read_and_what_is_not_said_costs_nothing() {
        let config = parse(&format!("{A}price = {{ put = 5e-6, get = 4e-7, egress_gb = 0.09 }}\n")).unwrap();
        let prices = config.clouds[0].price.as_ref().map(Prices::from).unwrap();
        let expected = Prices { put: 5e-6, get: 4e-7, egress_gb: 0.09, ..Prices::default() };
        assert_eq!(prices, expected);
        assert_eq!(config.read.preference(), blocks::Preference::Speed);
        // Whole numbers are prices as well.
        assert_eq!(
            parse(&format!("{A}price = {{ get = 1 }}\n")).unwrap().clouds[0].price.as_ref().unwrap().get,
            1.0
        );
    }

    #[test]
    fn prices_that_are_none_are_refused() {
        for (price, expected) in [
            ("put = -1", "k.toml:4: cloud[0].price: put = -1: a price is a number, 0 or more"),
            ("get = nan", "k.toml:4: cloud[0].price: get = NaN"),
            ("egress = 1", "k.toml:4: unknown field `egress`"),
            ("list = '1 cent'", "k.toml:4: "),
        ] {
            let problem = parse(&format!("{A}price = {{ {price} }}\n")).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
        }
    }

    #[test]
    fn cost_needs_all_prices_and_a_bound() {
        let by_cost = "[read]\nprefer = 'cost'\nlatency_bound = '300ms'\n";
        let problem = parse(&format!("{by_cost}{A}price = {{}}\n{B}")).unwrap_err();
        assert!(problem.starts_with("k.toml:2: read.prefer: \"cost\" needs the prices"), "{problem}");
        assert!(problem.contains("\"b\" has none"), "{problem}");
        let config = parse(&format!("{by_cost}{A}price = {{}}\n{B}price = {{ get = 1 }}\n")).unwrap();
        let bound = std::time::Duration::from_millis(300);
        assert_eq!(config.read.preference(), blocks::Preference::Cost { bound });
        let problem = parse("[read]\nlatency_bound = '0s'\n").unwrap_err();
        assert!(problem.starts_with("k.toml:2: read.latency_bound: "), "{problem}");
        let problem = parse("[read]\nprefer = 'price'\n").unwrap_err();
        assert!(problem.starts_with("k.toml:2: "), "{problem}");
    }
}
