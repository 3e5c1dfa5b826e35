//! Untrusted object stores ("clouds") behind one small contract.
//!
//! A *cloud* keeps named byte strings ("objects") for us: a bucket, a container, a directory. Nothing that comes
//! back from one is believed: callers verify what they read. The contract is the trait [`Cloud`]; whoever
//! implements it passes the suite in `conformance`.
//!
//! *Drivers* talk to a kind of store: [`dir`] (a local or mounted directory), [`s3`], [`azure`] and [`gcs`] (which
//! share all but how they are opened), [`sftp`], [`webdav`], [`swift`]. *Wrappers* implement the
//! same trait around another one: [`Timeouts`], [`GivenUp`], [`Accounted`], [`Observed`], [`Throttled`], [`Limited`], [`Retry`],
//! [`ReadOnly`]. [`Connection`] stacks them in that order around a driver and adds the driver's [`Health`]: how fast it answers, how often it fails,
//! whether it is sick at the moment, and when it would be done with one operation more ([`Health::forecast`]); and its [`Costs`]: what was asked of
//! it that its provider may charge for, by [`Prices`].
//!
//! The crate knows nothing of blocks, fragments, keys or redundancy over several clouds: that is `blocks`.
//!
//! ```
//! # use cloud::{Connection, CloudUrl, Options, ObjectName, PutMode};
//! # let folder = tempfile::tempdir().unwrap();
//! # let url = format!("dir://{}", folder.path().display());
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let env = environment::Environment::real();
//! let cloud = Connection::open(&env, "cellar", &CloudUrl::parse(&url)?, &Options::default()).await?;
//! let name = ObjectName::new("greeting")?;
//! cloud.put(&name, vec!["hello ".into(), "world".into()], PutMode::Overwrite).await?;
//! assert_eq!(cloud.get(&name, None).await?, "hello world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```

#![deny(missing_docs)]

mod accounted;
pub mod azure;
mod bucket;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod connection;
mod contract;
mod costs;
mod credentials;
pub mod dir;
mod driver;
mod error;
mod estimate;
mod fan_out;
#[cfg(any(test, feature = "testing"))]
mod faulty;
pub mod gcs;
mod given_up;
mod health;
mod hourly;
mod http;
mod limited;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod metered;
mod moving;
mod name;
mod observed;
mod prices;
mod read_only;
mod retry;
pub mod s3;
pub mod sftp;
mod sickness;
pub mod swift;
#[cfg(any(test, feature = "testing"))]
mod test_clock;
mod throttled;
mod timeouts;
mod url;
pub mod webdav;

pub use accounted::Accounted;
pub use connection::{Connection, Options};
pub use contract::{Cloud, MAX_LIST, MAX_OBJECT, PutMode};
pub use costs::{CostCounts, Costs};
pub use credentials::{Credentials, InvalidCredentials};
pub use error::{CloudError, ErrorKind, Operation};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Fault, Faulty, Side};
pub use given_up::GivenUp;
pub use health::{CloudHealth, Direction, DirectionHealth, Forecast, Health, OperationCounts};
pub use limited::Limited;
#[cfg(any(test, feature = "testing"))]
pub use memory::Memory;
pub use moving::Moving;
pub use name::{InvalidName, ObjectName};
pub use observed::Observed;
pub use prices::{Charge, Prices};
pub use read_only::ReadOnly;
pub use retry::{Retry, RetryPolicy};
#[cfg(any(test, feature = "testing"))]
pub use test_clock::{TestClock, test_environment};
pub use throttled::{Rates, Throttled};
pub use timeouts::{TimeoutPolicy, Timeouts};
pub use url::{CloudUrl, InvalidUrl};
