//! Memory for requests and replies, shared out over all connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// What every connection may use without asking, so that small requests go on however little is left, and without
/// a lock that all share.
const ALLOWANCE: usize = 64 << 10;

/// What is beyond the allowance is taken from the budget in pieces of this size.
const PIECE: usize = 64 << 10;

/// Most bytes that requests and replies of all connections may hold together, beyond 64 KiB for each connection.
/// Cheap to clone; all clones are the same budget.
///
/// It is shared out by client address (an IPv6 network of 64 bits counts as one). A client may hold as much as it
/// leaves free (dynamic thresholds, Choudhury and Hahne 1998): alone it gets half of everything, two greedy ones a
/// third each, and whoever comes next always finds something. The only request of a client gets what is free, and what
/// becomes free goes first to those who hold least. Who gets nothing is not read from until there is some.
///
/// Replies are counted when they are made, also beyond the budget; new requests then wait until they are
/// written. See [`Service::reply_bytes`](crate::Service::reply_bytes) for large ones.
#[derive(Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

struct Shared {
    total: usize,
    pool: Mutex<Pool>,
}

struct Pool {
    /// Below zero while replies go beyond the budget.
    free: isize,
    clients: HashMap<Client, Held>,
    /// In the order in which they came; at most two for a connection.
    waiting: Vec<Waiter>,
    next_waiter: u64,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    accounts: usize,
}

struct Waiter {
    number: u64,
    client: Client,
    bytes: usize,
    /// What the request that waits holds already.
    own: usize,
    granted: oneshot::Sender<()>,
}

/// Whose share it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Client(IpAddr);

impl Client {
    pub fn at(address: IpAddr) -> Client {
        Client(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            address => address,
        })
    }
}

impl Budget {
    /// A budget of `bytes`, which should be several times the largest record.
    pub fn new(bytes: usize) -> Budget {
        let total = bytes.clamp(PIECE, isize::MAX as usize);
        let pool =
            Pool { free: total as isize, clients: HashMap::new(), waiting: Vec::new(), next_waiter: 0 };
        Budget { shared: Arc::new(Shared { total, pool: Mutex::new(pool) }) }
    }

    /// Bytes that are neither held nor overdrawn at this moment.
    pub fn free(&self) -> usize {
        self.shared.pool.lock().free.max(0) as usize
    }

    /// Waits until `client` may have `bytes` more for a request that holds `own` bytes already.
    async fn obtain(&self, client: Client, bytes: usize, own: usize) {
        let (granted, receiver) = oneshot::channel();
        let number = {
            let mut pool = self.shared.pool.lock();
            if pool.waiting.is_empty() && pool.may_have(client, bytes, own) {
                pool.give(client, bytes);
                return;
            }
            let number = pool.next_waiter;
            pool.next_waiter += 1;
            pool.waiting.push(Waiter { number, client, bytes, own, granted });
            pool.share_out();
            number
        };
        let mut waiting = Waiting { budget: self, number, client, bytes, received: false };
        // The sender is dropped only after it has sent, or by `waiting`.
        waiting.received = receiver.await.is_ok();
    }

    fn overdraw(&self, client: Client, bytes: usize) {
        self.shared.pool.lock().give(client, bytes);
    }

    fn give_back(&self, client: Client, bytes: usize) {
        let mut pool = self.shared.pool.lock();
        pool.take_back(client, bytes);
        pool.share_out();
    }
}

/// Somebody in the queue; leaves it, or gives back what it was given too late, when it is dropped.
struct Waiting<'a> {
    budget: &'a Budget,
    number: u64,
    client: Client,
    bytes: usize,
    received: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.received {
            return;
        }
        let mut pool = self.budget.shared.pool.lock();
        match pool.waiting.iter().position(|waiter| waiter.number == self.number) {
            Some(index) => drop(pool.waiting.remove(index)),
            None => pool.take_back(self.client, self.bytes),
        }
        pool.share_out();
    }
}

impl Pool {
    fn held(&self, client: Client) -> usize {
        self.clients.get(&client).map_or(0, |held| held.bytes)
    }

    /// Whether the client holds nothing beside this request.
    fn alone(&self, client: Client, own: usize) -> bool {
        // What its connection keeps for the next call does not count.
        self.held(client) <= own.next_multiple_of(PIECE) + PIECE
    }

    fn may_have(&self, client: Client, bytes: usize, own: usize) -> bool {
        let left = self.free - bytes as isize;
        left >= 0 && (self.alone(client, own) || (self.held(client) + bytes) as isize <= left)
    }

    fn give(&mut self, client: Client, bytes: usize) {
        self.free -= bytes as isize;
        self.clients.entry(client).or_default().bytes += bytes;
    }

    fn take_back(&mut self, client: Client, bytes: usize) {
        self.free += bytes as isize;
        if let Some(held) = self.clients.get_mut(&client) {
            held.bytes -= bytes;
        }
    }

    /// Serves those who wait, who hold least first. One that holds nothing else and still waits wants more than there
    /// is: nobody gets anything before it, or the others would keep it waiting for ever.
    fn share_out(&mut self) {
        if self.waiting.is_empty() || self.free <= 0 {
            return;
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_by_key(|waiter| (self.held(waiter.client), waiter.number));
        let mut blocked = false;
        for waiter in waiting {
            if !blocked && self.may_have(waiter.client, waiter.bytes, waiter.own) {
                self.give(waiter.client, waiter.bytes);
                if waiter.granted.send(()).is_err() {
                    self.take_back(waiter.client, waiter.bytes);
                }
                continue;
            }
            blocked |= self.alone(waiter.client, waiter.own);
            self.waiting.push(waiter);
        }
        self.waiting.sort_by_key(|waiter| waiter.number);
    }
}

/// What one connection uses of a budget.
pub(crate) struct Account {
    /// Without one everything is allowed.
    budget: Option<Budget>,
    client: Client,
    local: Mutex<Local>,
}

#[derive(Default)]
struct Local {
    used: usize,
    /// Taken from the budget.
    granted: usize,
}

impl Account {
    /// Of a connection with `address`.
    pub fn new(budget: Option<Budget>, address: IpAddr) -> Arc<Account> {
        let client = Client::at(address);
        if let Some(budget) = &budget {
            budget.shared.pool.lock().clients.entry(client).or_default().accounts += 1;
        }
        Arc::new(Account { budget, client, local: Mutex::default() })
    }

    /// A charge of nothing.
    pub fn open(self: &Arc<Account>) -> Charge {
        Charge { account: self.clone(), bytes: 0 }
    }

    /// What has to come from the budget before `bytes` more are used.
    fn missing(&self, local: &Local, bytes: usize) -> usize {
        (local.used + bytes).saturating_sub(ALLOWANCE + local.granted).next_multiple_of(PIECE)
    }

    fn release(&self, bytes: usize) {
        let Some(budget) = &self.budget else { return };
        let mut local = self.local.lock();
        local.used -= bytes;
        let needed = local.used.saturating_sub(ALLOWANCE).next_multiple_of(PIECE);
        // One piece is kept while the connection is busy, so that it need not ask for each call.
        let kept = if needed > 0 { needed + PIECE } else { 0 };
        let surplus = local.granted.saturating_sub(kept);
        if surplus > 0 {
            local.granted -= surplus;
            drop(local);
            budget.give_back(self.client, surplus);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let Some(budget) = &self.budget else { return };
        let mut pool = budget.shared.pool.lock();
        pool.take_back(self.client, self.local.get_mut().granted);
        if let Some(held) = pool.clients.get_mut(&self.client) {
            held.accounts -= 1;
            if held.accounts == 0 {
                pool.clients.remove(&self.client);
            }
        }
        pool.share_out();
    }
}

/// Bytes in use by one request or reply, until it is dropped.
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: usize,
}

impl Charge {
    /// How many are in use; 0 without a budget.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Waits until `bytes` more may be used, and uses them; never more than half of the budget, which could be waited
    /// for in vain.
    pub async fn grow(&mut self, bytes: usize) {
        let Some(budget) = &self.account.budget else { return };
        let bytes = bytes.min(budget.shared.total / 2);
        let missing = {
            let mut local = self.account.local.lock();
            let missing = self.account.missing(&local, bytes);
            if missing == 0 {
                local.used += bytes;
            }
            missing
        };
        if missing > 0 {
            let missing = missing.min(budget.shared.total);
            budget.obtain(self.account.client, missing, self.bytes).await;
            let mut local = self.account.local.lock();
            local.granted += missing;
            local.used += bytes;
        }
        self.bytes += bytes;
    }

    /// Uses `bytes` from now on, whether there are enough or not.
    pub fn set(&mut self, bytes: usize) {
        let Some(budget) = &self.account.budget else { return };
        if bytes <= self.bytes {
            let released = self.bytes - bytes;
            self.bytes = bytes;
            return self.account.release(released);
        }
        let more = bytes - self.bytes;
        self.bytes = bytes;
        let mut local = self.account.local.lock();
        let missing = self.account.missing(&local, more);
        local.used += more;
        local.granted += missing;
        if missing > 0 {
            budget.overdraw(self.account.client, missing);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.release(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Waker};

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const MIB: usize = 1 << 20;

    fn account(budget: &Budget, client: u8) -> Arc<Account> {
        Account::new(Some(budget.clone()), IpAddr::from([10, 0, 0, client]))
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }

    /// As many requests of one piece as can be had at once.
    fn grab(account: &Arc<Account>) -> Vec<Charge> {
        std::iter::from_fn(|| {
            let mut charge = account.open();
            now(charge.grow(PIECE)).map(|()| charge)
        })
        .collect()
    }

    fn sum(charges: &[Charge]) -> usize {
        charges.iter().map(Charge::bytes).sum()
    }

    #[test]
    fn one_client_gets_half_and_the_next_ones_find_something() {
        let budget = Budget::new(8 * MIB);
        let greedy = account(&budget, 1);
        let first = grab(&greedy);
        assert_eq!(sum(&first), 4 * MIB + ALLOWANCE);
        let second = grab(&account(&budget, 2));
        assert_eq!(sum(&second), 2 * MIB + ALLOWANCE);
        assert!(
            now(account(&budget, 3).open().grow(2 * MIB)).is_some(),
            "who holds nothing gets what is free"
        );
        // A second connection of the same client gets its allowance and nothing else.
        assert_eq!(sum(&grab(&account(&budget, 1))), ALLOWANCE);
        drop((first, second));
        assert_eq!(budget.free(), 8 * MIB);
    }

    #[test]
    fn small_requests_go_on_when_nothing_is_left() {
        let budget = Budget::new(MIB);
        let mut hog = account(&budget, 1).open();
        hog.set(40 * MIB);
        assert_eq!(budget.free(), 0);
        let mut small = account(&budget, 2).open();
        assert!(now(small.grow(ALLOWANCE)).is_some());
        assert!(now(small.grow(1)).is_none());
    }

    #[test]
    fn what_becomes_free_goes_to_who_holds_least() {
        let budget = Budget::new(8 * MIB);
        let (rich, poor) = (account(&budget, 1), account(&budget, 2));
        let (mut of_rich, mut another, mut of_poor) = (rich.open(), rich.open(), poor.open());
        let mut hog = account(&budget, 3).open();
        assert!(now(of_rich.grow(MIB)).is_some());
        hog.set(8 * MIB);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut rich_waits: Pin<Box<dyn Future<Output = ()>>> = Box::pin(another.grow(MIB));
            let mut poor_waits: Pin<Box<dyn Future<Output = ()>>> = Box::pin(of_poor.grow(2 * MIB));
            assert!(rich_waits.as_mut().poll(&mut context).is_pending());
            assert!(poor_waits.as_mut().poll(&mut context).is_pending());
            hog.set(6 * MIB);
            assert!(rich_waits.as_mut().poll(&mut context).is_pending(), "1 MiB is kept for the poor one");
            hog.set(4 * MIB);
            assert!(poor_waits.as_mut().poll(&mut context).is_ready());
            assert!(rich_waits.as_mut().poll(&mut context).is_pending());
            hog.set(0);
            assert!(rich_waits.as_mut().poll(&mut context).is_ready());
        }
        drop((of_rich, another, of_poor, hog));
        assert_eq!(budget.free(), 8 * MIB);
    }

    #[test]
    fn who_stops_waiting_keeps_nothing() {
        let budget = Budget::new(MIB);
        let mut hog = account(&budget, 1).open();
        hog.set(2 * MIB);
        let waiting = account(&budget, 2);
        let mut charge = waiting.open();
        let mut grown = Box::pin(charge.grow(MIB));
        assert!(grown.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(hog); // grants it, but nobody takes it
        drop(grown);
        drop(charge);
        assert_eq!(budget.free(), MIB);
        assert_eq!(waiting.local.lock().granted, 0);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let client = |text: &str| Client::at(text.parse().unwrap());
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
        assert_ne!(client("::ffff:10.0.0.1"), client("::ffff:10.0.0.2"));
    }

    proptest! {
        #[test]
        fn all_that_was_taken_comes_back(steps in vec((0usize..6, 0usize..3 * MIB, any::<bool>()), 1..60)) {
            let budget = Budget::new(4 * MIB);
            {
                let accounts: Vec<_> = (0..6).map(|index| account(&budget, index / 2)).collect();
                let mut charges: Vec<_> = accounts.iter().map(Account::open).collect();
                for (index, bytes, wait) in steps {
                    if wait {
                        let _ = now(charges[index].grow(bytes));
                    } else {
                        charges[index].set(bytes);
                    }
                    let local = accounts[index].local.lock();
                    prop_assert!(local.used <= ALLOWANCE + local.granted);
                    prop_assert_eq!(local.used, charges[index].bytes);
                }
                let granted: usize = accounts.iter().map(|account| account.local.lock().granted).sum();
                prop_assert_eq!(budget.shared.pool.lock().free, (4 * MIB) as isize - granted as isize);
                prop_assert!(budget.shared.pool.lock().waiting.is_empty());
            }
            prop_assert_eq!(budget.free(), 4 * MIB);
            prop_assert!(budget.shared.pool.lock().clients.is_empty());
        }
    }
}
