use std::ops::Deref;
use std::sync::Arc;

use environment::Environment;

use crate::{
    Cloud, CloudError, CloudUrl, Health, Limited, Moving, Observed, Retry, RetryPolicy, TimeoutPolicy,
    Timeouts, dir, s3,
};

/// How a [`Connection`] behaves around its driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// Operations at a time; default 64.
    pub concurrent: usize,
    /// Operations that may wait for their turn; default 4,096.
    pub waiting: usize,
    /// Time limits of one try.
    pub timeouts: TimeoutPolicy,
    /// Repetitions.
    pub retry: RetryPolicy,
    /// For directories: which store it has to be.
    pub marker: Option<dir::Marker>,
    /// For S3; by default from the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` or
    /// the machine's role.
    pub credentials: Option<s3::Credentials>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            concurrent: 64,
            waiting: 4096,
            timeouts: TimeoutPolicy::default(),
            retry: RetryPolicy::default(),
            marker: None,
            credentials: None,
        }
    }
}

/// One configured cloud: a driver inside of its wrappers, with its health. Acts as a [`Cloud`].
///
/// From the outside in: [`Retry`], [`Limited`], [`Observed`], [`Timeouts`], driver. So a waiting retry holds no
/// place, and every single try is measured, without the time in the queue.
#[derive(Clone)]
pub struct Connection {
    name: Arc<str>,
    cloud: Arc<dyn Cloud>,
    health: Arc<Health>,
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
        let driver: Arc<dyn Cloud> = match url {
            CloudUrl::Dir(path) => {
                Arc::new(dir::Dir::open(env, name, path, options.concurrent, options.marker).await?)
            }
            CloudUrl::S3(location) => Arc::new(s3::S3::open(name, location, options.credentials.as_ref())?),
        };
        Ok(Connection::assemble(env, name, driver, options))
    }

    /// Puts the wrappers around `driver`.
    pub fn assemble(env: &Environment, name: &str, driver: Arc<dyn Cloud>, options: &Options) -> Connection {
        let name: Arc<str> = name.into();
        let health = Health::new(&name, env.clock.clone());
        let timed = Timeouts::new(driver, &name, env.clock.clone(), options.timeouts.clone());
        let observed = Observed::new(Arc::new(timed), health.clone());
        let limited = Limited::new(Arc::new(observed), &name, options.concurrent, options.waiting);
        let retry = Retry::new(Arc::new(limited), env, options.retry.clone());
        Connection { name, cloud: Arc::new(retry), health, moving: false }
    }

    /// What is in `from` or in `to`, and goes to `to`; bears the names of both, for either may have answered, and the
    /// health of `to`.
    pub fn moving(from: &Connection, to: &Connection) -> Connection {
        let cloud = Arc::new(Moving::new(from.cloud.clone(), to.cloud.clone()));
        let name = format!("{} or {}", to.name, from.name).into();
        Connection { name, cloud, health: to.health.clone(), moving: true }
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

    /// The configured name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How the store has behaved lately.
    pub fn health(&self) -> &Arc<Health> {
        &self.health
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
