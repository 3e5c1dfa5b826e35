//! All targets in one binary, so that it is linked once: `FUZZ_TARGET` names the one to run, `FUZZ_SEEDS` the
//! folder that its seeds are written to.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::PathBuf;
use std::sync::OnceLock;

use fuzz_targets::{TARGETS, Target};
use libfuzzer_sys::fuzz_target;

/// No single allocation that an input of a few KiB causes may be larger.
const LARGEST: usize = 32 << 20;

/// The system's allocator, for whom believing a length is a crash and not a slow success.
struct Modest;

impl Modest {
    fn check(size: usize) {
        if size > LARGEST {
            // Whatever the panic itself allocates is small.
            panic!("an allocation of {size} bytes");
        }
    }
}

unsafe impl GlobalAlloc for Modest {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Modest::check(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Modest::check(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Modest::check(size);
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Modest = Modest;

fn target() -> &'static Target {
    static TARGET: OnceLock<&Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        fuzz_targets::find(&name).unwrap_or_else(|| {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            panic!("FUZZ_TARGET={name:?} is none of: {}", names.join(" "))
        })
    })
}

/// Before the first input: lists the targets with their longest input if `FUZZ_LIST` is given, writes the seeds.
fn begin() {
    // libFuzzer's hook ends the process at any panic, also at one that the product answers with an error. Such are
    // those of redb while it opens a damaged file; if they are not caught, the process still ends.
    let end = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|at| at.file().contains("/redb-")) {
            end(panic);
        }
    }));
    if std::env::var_os("FUZZ_LIST").is_some() {
        TARGETS.iter().for_each(|target| println!("{} {}", target.name, target.max_len));
        std::process::exit(0);
    }
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) else { return };
    std::fs::create_dir_all(&folder).expect("FUZZ_SEEDS is a folder");
    for (number, seed) in (target().seeds)().iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:03}")), seed).expect("FUZZ_SEEDS can be written to");
    }
}

fuzz_target!(
    init: begin(),
    |data: &[u8]| (target().run)(data)
);
