use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use environment::Environment;

use crate::driver::Driven;
use crate::{
    Accounted, Cloud, CloudError, CloudUrl, Costs, Credentials, GivenUp, Health, Limited, Moving, ObjectName,
    Observed, Prices, Rates, ReadOnly, Retry, RetryPolicy, Throttled, TimeoutPolicy, Timeouts, azure, dir,
    gcs, s3, sftp, swift, webdav,
};

/// How a [`Connection`] behaves around its driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Operations at a time, some of which are kept for reads; default 64.
    pub concurrent: usize,
    /// Operations that may wait for their turn; default 4,096.
    pub waiting: usize,
    /// Time limits of one try.
    pub timeouts: TimeoutPolicy,
    /// Repetitions.
    pub retry: RetryPolicy,
    /// How much the cloud may be given to do; default without limits.
    pub rates: Rates,
    /// Nothing is written or deleted; default false.
    pub read_only: bool,
    /// What the provider charges, if that is known.
    pub prices: Option<Prices>,
    /// For directories: which store it has to be. For others: whether it has been set up before.
    pub marker: Option<dir::Marker>,
    /// Of this cloud alone; by default those of the environment or of the provider's standard chain.
    pub credentials: Option<Credentials>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            concurrent: 64,
            waiting: 4096,
            timeouts: TimeoutPolicy::default(),
            retry: RetryPolicy::default(),
            rates: Rates::default(),
            read_only: false,
            prices: None,
            marker: None,
            credentials: None,
        }
    }
}

impl Options {
    /// The store has been set up before.
    fn is_known(&self) -> bool {
        self.marker.is_some_and(|marker| marker.known)
    }
}

/// One configured cloud: a driver inside of its wrappers, with its health. Acts as a [`Cloud`].
///
/// From the outside in: [`ReadOnly`] if so configured, [`Retry`], [`Limited`], [`Throttled`], [`Observed`],
/// [`Accounted`], [`GivenUp`], [`Timeouts`], driver. So a waiting retry holds no place, and every single try is measured and paid,
/// without the time in the queue.
#[derive(Clone)]
pub struct Connection {
    name: Arc<str>,
    cloud: Arc<dyn Cloud>,
    /// The same without repetitions, which is only read from.
    once: Arc<dyn Cloud>,
    /// Of every store that it is put into.
    given_up: Vec<Arc<GivenUp>>,
    health: Arc<Health>,
    costs: Arc<Costs>,
    prices: Option<Prices>,
    moving: bool,
}

impl Connection {
    /// Connects to the store that `url` names. Fails when that is clear at once; [`Connection::check`] asks.
    pub async fn open(
        env: &Environment,
        name: &str,
        url: &CloudUrl,
        options: &Options,
    ) -> Result<Connection, CloudError> {
        let credentials = options.credentials.as_ref();
        let costs = Arc::new(Costs::default());
        let counts_itself = matches!(url, CloudUrl::S3(_) | CloudUrl::Azure(_) | CloudUrl::Gcs(_));
        let driver: Arc<dyn Cloud> = match url {
            CloudUrl::Dir(path) => {
                Arc::new(dir::Dir::open(env, name, path, options.concurrent, options.marker).await?)
            }
            CloudUrl::S3(location) => s3::open(name, location, credentials, &costs)?,
            CloudUrl::Azure(location) => azure::open(name, location, credentials, &costs)?,
            CloudUrl::Gcs(location) => gcs::open(name, location, credentials, &costs)?,
            CloudUrl::Sftp(location) => {
                Arc::new(Driven(sftp::Sftp::open(env, name, location, credentials, options.is_known())))
            }
            CloudUrl::Webdav(location) => {
                Arc::new(Driven(webdav::Webdav::open(env, name, location, credentials, options.is_known())?))
            }
            CloudUrl::Swift(location) => Arc::new(Driven(swift::Swift::open(name, location, credentials)?)),
        };
        Ok(Connection::stack(env, name, driver, options, costs, counts_itself))
    }

    /// Puts the wrappers around `driver`.
    pub fn assemble(env: &Environment, name: &str, driver: Arc<dyn Cloud>, options: &Options) -> Connection {
        Connection::stack(env, name, driver, options, Arc::default(), false)
    }

    fn stack(
        env: &Environment,
        name: &str,
        driver: Arc<dyn Cloud>,
        options: &Options,
        costs: Arc<Costs>,
        counts_itself: bool,
    ) -> Connection {
        let name: Arc<str> = name.into();
        let clock = &env.clock;
        let health = Health::new(&name, clock.clone());
        let timed = Timeouts::new(driver, &name, clock.clone(), options.timeouts.clone());
        let given_up = Arc::new(GivenUp::new(Arc::new(timed), clock.clone()));
        let counted = (!counts_itself).then(|| costs.clone());
        let accounted = Accounted::new(given_up.clone(), &name, clock.clone(), counted);
        let observed = Observed::new(Arc::new(accounted), health.clone());
        let throttled =
            Throttled::new(Arc::new(observed), clock.clone(), options.rates).telling(health.clone());
        let limited = Limited::new(Arc::new(throttled), &name, options.concurrent, options.waiting)
            .telling(health.clone());
        let once: Arc<dyn Cloud> = Arc::new(limited);
        let retry: Arc<dyn Cloud> = Arc::new(Retry::new(once.clone(), env, options.retry.clone()));
        let cloud: Arc<dyn Cloud> = match options.read_only {
            true => Arc::new(ReadOnly::new(retry, &name)),
            false => retry,
        };
        let given_up = vec![given_up];
        Connection { name, cloud, once, given_up, health, costs, prices: options.prices, moving: false }
    }

    /// What is in `from` or in `to`, and goes to `to`; bears the names of both, for either may have answered, and the
    /// health of `to`.
    pub fn moving(from: &Connection, to: &Connection) -> Connection {
        let cloud = Arc::new(Moving::new(from.cloud.clone(), to.cloud.clone()));
        let once = Arc::new(Moving::new(from.once.clone(), to.once.clone()));
        let name = format!("{} or {}", to.name, from.name).into();
        let (health, costs) = (to.health.clone(), to.costs.clone());
        let given_up = [from, to].iter().flat_map(|side| side.given_up.clone()).collect();
        Connection { name, cloud, once, given_up, health, costs, prices: to.prices, moving: true }
    }

    /// Notes that the store gave back something else than it was given. On the move nobody knows which of the two it was,
    /// and neither is accused.
    pub fn report_bad(&self) {
        if !self.moving {
            self.health.report_bad();
        }
    }

    /// The store with its wrappers.
    pub fn as_cloud(&self) -> Arc<dyn Cloud> {
        self.cloud.clone()
    }

    /// As [`Cloud::get`], without repetitions: for who would rather ask another store at once.
    pub async fn get_once(&self, name: &ObjectName, range: Option<Range<u64>>) -> Result<Bytes, CloudError> {
        self.once.get(name, range).await
    }

    /// How long ago a put of this object may have been given up for the last time: it may still be carried out. Never longer
    /// than since the store was connected, for nothing is known of what was put before.
    pub fn since_given_up(&self, name: &ObjectName) -> Duration {
        self.given_up.iter().map(|side| side.since(name)).min().unwrap_or_default()
    }

    /// Whether a put of this object was given up so lately, as far as is known.
    pub fn gave_up_within(&self, name: &ObjectName, period: Duration) -> bool {
        self.given_up.iter().any(|side| side.was_within(name, period))
    }

    /// The configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How the store has behaved lately.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
    }

    /// What the store has been asked for, as it may be charged.
    pub fn costs(&self) -> &Arc<Costs> {
        &self.costs
    }

    /// What the provider charges, if that is known.
    pub fn prices(&self) -> Option<&Prices> {
        self.prices.as_ref()
    }

    /// Asks the store for one name: an error tells that it is unreachable, missing or closed to us.
    pub async fn check(&self) -> Result<(), CloudError> {
        self.cloud.list("", None, 1).await.map(|_| ())
    }
}

impl Deref for Connection {
    type Target = dyn Cloud;

    fn deref(&self) -> &(dyn Cloud + 'static) {
        &*self.cloud
    }
}
