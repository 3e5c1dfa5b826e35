//! Untrusted object stores ("clouds") behind one small contract.
//!
//! A *cloud* keeps named byte strings ("objects") for us: a bucket, a container, a directory. Nothing that comes
//! back from one is believed: callers verify what they read. The contract is the trait [`Cloud`]; whoever
//! implements it passes the suite in `conformance`.
//!
//! *Drivers* talk to a kind of store: [`dir`] (a local or mounted directory) and [`s3`]. *Wrappers* implement the
//! same trait around another one: [`Timeouts`], [`Observed`], [`Limited`], [`Retry`]. [`Connection`] stacks them
//! in that order around a driver and adds the driver's [`Health`]: how fast it answers, how often it fails,
//! whether it is sick at the moment.
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

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod connection;
mod contract;
pub mod dir;
mod error;
mod estimate;
#[cfg(any(test, feature = "testing"))]
mod faulty;
mod health;
mod limited;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod moving;
mod name;
mod observed;
mod retry;
pub mod s3;
mod sickness;
#[cfg(any(test, feature = "testing"))]
mod test_clock;
mod timeouts;
mod url;

pub use connection::{Connection, Options};
pub use contract::{Cloud, MAX_LIST, MAX_OBJECT, PutMode};
pub use error::{CloudError, ErrorKind, Operation};
#[cfg(any(test, feature = "testing"))]
pub use faulty::{Fault, Faulty, Side};
pub use health::{CloudHealth, Direction, DirectionHealth, Health, OperationCounts};
pub use limited::Limited;
#[cfg(any(test, feature = "testing"))]
pub use memory::Memory;
pub use moving::Moving;
pub use name::{InvalidName, ObjectName};
pub use observed::Observed;
pub use retry::{Retry, RetryPolicy};
#[cfg(any(test, feature = "testing"))]
pub use test_clock::{TestClock, test_environment};
pub use timeouts::{TimeoutPolicy, Timeouts};
pub use url::{CloudUrl, InvalidUrl};
