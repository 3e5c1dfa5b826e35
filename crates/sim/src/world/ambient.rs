//! Randomness that reaches the process past every trait: the keys of hash maps, and the order in which tokio asks the branches
//! of a `select!`. Both come from the C library's `getrandom` when a thread first needs them. A simulated life has a thread
//! of its own, and this module gives that thread numbers that follow from its seed.

use std::cell::RefCell;

use super::dice::Dice;

thread_local! {
    static SEEDED: RefCell<Option<Dice>> = const { RefCell::new(None) };
}

/// Runs `life` in a new thread, to which no randomness comes but that of `seed`. Panics end in `Err`, with what they said.
pub fn in_a_thread<T: Send>(seed: u64, life: impl FnOnce() -> T + Send) -> std::thread::Result<T> {
    std::thread::scope(|scope| {
        let body = move || {
            SEEDED.set(Some(Dice::new(seed, "ambient")));
            life()
        };
        let thread = std::thread::Builder::new().name(format!("life {seed}")).spawn_scoped(scope, body);
        thread.expect("a thread can be started").join()
    })
}

/// Takes the place of the C library's function of this name in this test program.
#[allow(unsafe_code)]
// SAFETY: the one function of this name in the program, with the type that getrandom(2) documents.
#[unsafe(no_mangle)]
extern "C" fn getrandom(buffer: *mut u8, length: usize, flags: u32) -> isize {
    if length == 0 {
        return 0;
    }
    // SAFETY: whoever calls getrandom(2) hands over `length` bytes that may be written.
    let out = unsafe { std::slice::from_raw_parts_mut(buffer, length) };
    let seeded = SEEDED.with(|dice| dice.borrow_mut().as_mut().map(|dice| dice.fill(out)));
    match seeded {
        Some(()) => length as isize,
        None => {
            let flags = rustix::rand::GetRandomFlags::from_bits_retain(flags);
            rustix::rand::getrandom(out, flags).map_or(-1, |filled| filled as isize)
        }
    }
}

#[test]
fn hash_maps_of_one_seed_have_one_order() {
    let order = |seed| {
        let map = || std::collections::HashSet::<u64>::from_iter(0..100).into_iter().collect::<Vec<_>>();
        in_a_thread(seed, map).unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
