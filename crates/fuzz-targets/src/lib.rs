//! One function for every decoder that reads bytes from outside the process: the network, the clouds, the local
//! disk, files that people write.
//!
//! A target takes any bytes and panics when a promise is broken: nothing panics, nothing allocates what the input
//! does not pay for, what is accepted is what was meant, and nothing is left behind. Two things drive the targets:
//! the tests of this crate, which change the [seeds](Target::seeds) a bounded number of times on every run, and
//! libFuzzer, which explores them for as long as it is given (folder `fuzz`).
//!
//! What it is not: it holds no decoder of its own, and nothing that is shipped depends on it. Decoders that are
//! private to their crates have property tests beside them instead.
//!
//! ```
//! let target = fuzz_targets::find("nfs_request").expect("it is in the table");
//! for seed in (target.seeds)() {
//!     (target.run)(&seed);
//! }
//! (target.run)(b"garbage");
//! ```

#![deny(missing_docs)]
// All of it is test code: a panic is its way to report.
#![allow(clippy::unwrap_used)]

mod backups;
mod cache_image;
mod custody;
mod image_disk;
mod journal_image;
mod listing;
mod machine;
mod metadata_image;
mod rpc;
mod scanner;
mod sealed;
mod server;
mod tape;
mod text;
mod vectors;
mod wire;

/// A decoder under test.
pub struct Target {
    /// Its name, for command lines and folders.
    pub name: &'static str,
    /// Feeds it these bytes. Panics when it breaks a promise.
    pub run: fn(&[u8]),
    /// Inputs that reach deep: valid encodings, made by the present code so that they follow the formats.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Longer inputs only make it slower.
    pub max_len: usize,
    /// How many changed seeds one run of the tests tries: about a second's worth.
    pub cases: u32,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "xdr", run: wire::xdr, seeds: wire::xdr_seeds, max_len: 512, cases: 20000 },
    Target {
        name: "nfs_request",
        run: wire::request,
        seeds: wire::request_seeds,
        max_len: 1024,
        cases: 20000,
    },
    Target { name: "nfs_reply", run: wire::reply, seeds: wire::reply_seeds, max_len: 1024, cases: 20000 },
    Target {
        name: "nfs_callback",
        run: wire::callback,
        seeds: wire::callback_seeds,
        max_len: 1024,
        cases: 20000,
    },
    Target {
        name: "nfs_attributes",
        run: wire::attributes,
        seeds: wire::attribute_seeds,
        max_len: 512,
        cases: 20000,
    },
    // A sealed head has 16 KiB at least.
    Target { name: "backup", run: backups::any, seeds: backups::seeds, max_len: 20 << 10, cases: 5000 },
    Target { name: "rpc", run: rpc::connection, seeds: rpc::seeds, max_len: 4096, cases: 5000 },
    Target {
        name: "server_request",
        run: server::request,
        seeds: server::request_seeds,
        max_len: 2048,
        cases: 1500,
    },
    Target {
        name: "server_history",
        run: server::history,
        seeds: server::history_seeds,
        max_len: 512,
        cases: 1000,
    },
    Target {
        name: "sealed_block",
        run: sealed::block,
        seeds: sealed::block_seeds,
        max_len: 1024,
        cases: 10000,
    },
    Target {
        name: "fragments",
        run: sealed::fragments,
        seeds: sealed::fragment_seeds,
        max_len: 1024,
        cases: 5000,
    },
    Target { name: "pack", run: sealed::pack, seeds: sealed::pack_seeds, max_len: 1024, cases: 10000 },
    Target {
        name: "certificate",
        run: sealed::certificate,
        seeds: sealed::certificate_seeds,
        max_len: 256,
        cases: 10000,
    },
    Target { name: "wrapped_keys", run: sealed::keys, seeds: sealed::key_seeds, max_len: 256, cases: 5000 },
    Target {
        name: "key_file",
        run: sealed::key_file,
        seeds: sealed::key_file_seeds,
        max_len: 1024,
        cases: 10000,
    },
    Target {
        name: "key_words",
        run: custody::kept_key,
        seeds: custody::kept_key_seeds,
        max_len: 4096,
        cases: 3000,
    },
    Target {
        name: "statement",
        run: custody::statement,
        seeds: custody::statement_seeds,
        max_len: 1024,
        cases: 10000,
    },
    Target {
        name: "journal",
        run: journal_image::recovery,
        seeds: journal_image::seeds,
        max_len: 64,
        cases: 1000,
    },
    Target {
        name: "metadata",
        run: metadata_image::files,
        seeds: metadata_image::file_seeds,
        max_len: 64,
        cases: 100,
    },
    Target {
        name: "metadata_replay",
        run: metadata_image::replay,
        seeds: metadata_image::replay_seeds,
        max_len: 512,
        cases: 100,
    },
    Target {
        name: "cache_disk",
        run: cache_image::regions,
        seeds: cache_image::seeds,
        max_len: 64,
        cases: 1000,
    },
    Target {
        name: "data_op",
        run: cache_image::data_op,
        seeds: cache_image::data_op_seeds,
        max_len: 128,
        cases: 20000,
    },
    Target {
        name: "cloud_listing",
        run: listing::directory,
        seeds: listing::seeds,
        max_len: 256,
        cases: 150,
    },
    Target {
        name: "scanner_answers",
        run: scanner::answers,
        seeds: scanner::seeds,
        max_len: 1024,
        cases: 20000,
    },
    Target { name: "config", run: text::config, seeds: text::config_seeds, max_len: 2048, cases: 2000 },
    Target { name: "text", run: text::values, seeds: text::value_seeds, max_len: 256, cases: 10000 },
];

/// The target of this name.
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
