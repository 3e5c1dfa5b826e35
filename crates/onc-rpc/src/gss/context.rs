use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use super::window::Window;
use super::{GssLimits, SecurityContext, UnixUser};

/// A client's context and what is known of the client.
pub(super) struct Context {
    pub mechanism: Box<dyn SecurityContext>,
    pub principal: Arc<str>,
    pub user: Option<UnixUser>,
    pub window: Mutex<Window>,
    /// In milliseconds of the monotonic clock.
    used: AtomicU64,
}

/// Names a context on the wire.
pub(super) type Handle = [u8; 16];

/// All contexts of a server.
pub(super) struct Contexts {
    by_handle: RwLock<HashMap<Handle, Arc<Context>>>,
    limits: GssLimits,
}

impl Context {
    pub fn new(mechanism: Box<dyn SecurityContext>, user: Option<UnixUser>) -> Context {
        Context {
            principal: mechanism.principal().into(),
            mechanism,
            user,
            window: Mutex::new(Window::new()),
            used: AtomicU64::new(0),
        }
    }
}

impl Contexts {
    pub fn new(limits: GssLimits) -> Contexts {
        Contexts { by_handle: RwLock::default(), limits }
    }

    /// Adds one; room is made by those that have expired (by `now`, seconds since 1970), then by those not used for
    /// longest: of the same principal when it has too many, else of all.
    pub fn add(&self, handle: Handle, context: Context, now: i64, monotonic: Duration) {
        context.used.store(monotonic.as_millis() as u64, Ordering::Relaxed);
        let mut contexts = self.by_handle.write();
        let of_principal = |contexts: &HashMap<Handle, Arc<Context>>| {
            contexts.values().filter(|other| other.principal == context.principal).count()
        };
        let crowded = of_principal(&contexts) >= self.limits.contexts_per_principal;
        if crowded || contexts.len() >= self.limits.contexts {
            contexts.retain(|_, context| context.mechanism.expires() > now);
        }
        let victim = if of_principal(&contexts) >= self.limits.contexts_per_principal {
            least_used(contexts.iter().filter(|(_, other)| other.principal == context.principal))
        } else if contexts.len() >= self.limits.contexts {
            least_used(contexts.iter())
        } else {
            None
        };
        if let Some(victim) = victim {
            contexts.remove(&victim);
        }
        contexts.insert(handle, Arc::new(context));
    }

    /// The context with this handle, which is used now.
    pub fn get(&self, handle: &[u8], monotonic: Duration) -> Option<Arc<Context>> {
        let context = self.by_handle.read().get(handle)?.clone();
        context.used.store(monotonic.as_millis() as u64, Ordering::Relaxed);
        Some(context)
    }

    pub fn remove(&self, handle: &[u8]) {
        self.by_handle.write().remove(handle);
    }

    pub fn len(&self) -> usize {
        self.by_handle.read().len()
    }
}

fn least_used<'a>(contexts: impl Iterator<Item = (&'a Handle, &'a Arc<Context>)>) -> Option<Handle> {
    contexts.min_by_key(|(_, context)| context.used.load(Ordering::Relaxed)).map(|(handle, _)| *handle)
}
