//! The server against a specification: clients, sessions, opens, locks and delegations under random requests.
//!
//! Several clients send whole compounds, good and bad ones, over real connections to a server whose clock stands still
//! unless it is moved. The [`Specification`](specification::Specification) says of each operation with which statuses it
//! may be refused, or that it must not be refused, and keeps what was granted; whatever it cannot explain fails the
//! test. It is written from the RFC, with none of the server's code. In the end all clients fall silent, and nothing
//! may be left.
//!
//! `KURMA_STEPS` is the number of steps, `KURMA_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stdout)] // test code at the edge

mod choices;
#[allow(dead_code)]
#[path = "../compounds/conflicting.rs"]
mod conflicting;
mod history;
#[allow(dead_code)]
#[path = "../../../cli/tests/support/random.rs"]
mod random;
mod run;
mod specification;
mod step;
mod wire;
mod world;

use random::Random;
use run::Run;

/// Enough for everything to happen that is wanted: after a fifth of them, the rarest had not in three of a hundred runs.
const STEPS: u64 = 50_000;

#[tokio::test]
async fn a_server_does_what_the_specification_says() {
    let steps = std::env::var("KURMA_STEPS").map_or(STEPS, |steps| steps.parse().expect("a number"));
    let mut run = Run::begin(Random::from_environment("model")).await;
    for _ in 0..steps {
        run.step().await;
    }
    run.end().await;
    if steps >= STEPS {
        run.history.assert_covered();
    }
}
