//! Panics of tasks, which tokio would keep for whoever waits for the task.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// What panicked in this thread, if somebody wants to know.
    static CAUGHT: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// From now on panics of this thread are kept instead of printed.
pub fn catch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic: &PanicHookInfo<'_>| {
            let is_kept = CAUGHT.with_borrow_mut(|caught| match caught {
                Some(caught) => {
                    caught.push(panic.to_string());
                    true
                }
                None => false,
            });
            if !is_kept {
                print(panic);
            }
        }));
    });
    CAUGHT.set(Some(Vec::new()));
}

/// The first panic of this thread.
pub fn first() -> Option<String> {
    CAUGHT.with_borrow(|caught| caught.as_ref().and_then(|caught| caught.first().cloned()))
}
