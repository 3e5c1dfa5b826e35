use serde::{Deserialize, Serialize};

use crate::CostCounts;

/// Bytes of a gigabyte that is charged for.
const GIGABYTE: f64 = 1e9;

/// What a provider charges, in one currency for all clouds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// One request that stores something.
    pub put: f64,
    /// One request for an object, or for what is known of it.
    pub get: f64,
    /// One request for names.
    pub list: f64,
    /// One request that deletes.
    pub delete: f64,
    /// 10^9 bytes that come from there.
    pub egress_gb: f64,
    /// 10^9 bytes kept for 730 hours.
    pub storage_gb_month: f64,
}

/// What is to be paid, by what it is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Charge {
    /// Requests that stored something.
    pub put: f64,
    /// Requests for objects.
    pub get: f64,
    /// Requests for names.
    pub list: f64,
    /// Requests that deleted.
    pub delete: f64,
    /// Bytes that came.
    pub egress: f64,
    /// Bytes kept.
    pub storage: f64,
    /// All of it.
    pub total: f64,
}

impl Prices {
    /// One request for an object of which `bytes` come.
    pub fn of_reading(&self, bytes: u64) -> f64 {
        self.get + bytes as f64 / GIGABYTE * self.egress_gb
    }

    /// So many bytes kept for a month.
    pub fn of_keeping(&self, bytes: f64) -> f64 {
        bytes / GIGABYTE * self.storage_gb_month
    }

    /// All requests and bytes in `counts`, and `gb_months` of storage.
    pub fn charge(&self, counts: &CostCounts, gb_months: f64) -> Charge {
        let times = |count: u64, price: f64| count as f64 * price;
        let mut charge = Charge {
            put: times(counts.put, self.put),
            get: times(counts.get, self.get),
            list: times(counts.list, self.list),
            delete: times(counts.delete, self.delete),
            egress: counts.downloaded_bytes as f64 / GIGABYTE * self.egress_gb,
            storage: gb_months * self.storage_gb_month,
            total: 0.0,
        };
        charge.total = charge.put + charge.get + charge.list + charge.delete + charge.egress + charge.storage;
        charge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_and_every_byte_has_its_price() {
        let prices =
            Prices { put: 3.0, get: 0.5, list: 5.0, delete: 7.0, egress_gb: 80.0, storage_gb_month: 20.0 };
        let counts = CostCounts {
            put: 2,
            get: 4,
            list: 1,
            delete: 3,
            given_up: 1,
            uploaded_bytes: 1 << 40,
            downloaded_bytes: 500_000_000,
        };
        let charge = prices.charge(&counts, 1.5);
        let expected =
            Charge { put: 6.0, get: 2.0, list: 5.0, delete: 21.0, egress: 40.0, storage: 30.0, total: 104.0 };
        assert_eq!(charge, expected);
        assert_eq!(prices.of_reading(250_000_000), 20.5);
    }
}
