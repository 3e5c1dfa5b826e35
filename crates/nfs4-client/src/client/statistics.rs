use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a client has done. Two of them subtract to what was done in between.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Statistics {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// Counts what becomes [`Statistics`].
        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub $name: Counter,)*
        }

        impl Counters {
            pub fn read(&self) -> Statistics {
                Statistics { $($name: self.$name.0.load(Relaxed),)* }
            }
        }

        impl Sub for Statistics {
            type Output = Statistics;

            fn sub(self, earlier: Statistics) -> Statistics {
                Statistics { $($name: self.$name.saturating_sub(earlier.$name),)* }
            }
        }
    };
}

counters! {
    /// Compounds sent, repetitions included: round trips.
    compounds,
    /// Operations in them, SEQUENCE not included.
    operations,
    /// Bytes of the compounds, without RPC headers.
    bytes_out,
    /// Bytes of the replies, without RPC headers.
    bytes_in,
    /// Compounds sent once more because the answer did not come.
    resends,
    /// Compounds done once more because the server asked to come again later.
    delays,
    /// Connections opened after the first one of each.
    reconnects,
    /// Sessions made after the first one.
    recoveries,
}

/// One number that grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_readings_is_what_was_done_in_between() {
        let counters = Counters::default();
        counters.compounds.add(2);
        let before = counters.read();
        counters.compounds.add(3);
        counters.bytes_in.add(70);
        let done = counters.read() - before;
        assert_eq!(done, Statistics { compounds: 3, bytes_in: 70, ..Statistics::default() });
    }
}
