//! Removing places with all below them, and telling of it.

use vector_client::{Client, Removal, Target};

use super::place::Place;
use super::quote::quoted;
use super::session::Session;
use crate::outcome::Failure;
use crate::progress::Progress;

/// Runs of places of one client.
pub fn by_client(places: &[Place]) -> impl Iterator<Item = (Client, &[Place])> {
    places.chunk_by(|a, b| a.client.is_same(&b.client)).map(|run| (run[0].client.clone(), run))
}

/// Removes everything but what `stays` below these; with `force`, what is not there is no error.
pub async fn remove_trees(
    session: &mut Session,
    places: &[Place],
    verbose: bool,
    force: bool,
    stays: impl Fn(&Target) -> bool + Copy,
) -> Result<(), Failure> {
    let mut progress = Progress::new(session.tool).unless(verbose);
    let mut removed = 0;
    for (client, places) in by_client(places) {
        let targets = places.iter().map(|place| place.target.clone()).collect();
        let tell = |removal: Removal<'_>| {
            let place = &places[removal.argument];
            removed += u64::from(removal.result.is_ok());
            progress.set(removed, None, false);
            match removal.result {
                Ok(()) if verbose => {
                    let kind = if removal.is_directory { "directory " } else { "" };
                    session.say(format_args!("removed {kind}{}", quoted(&place.show(removal.target))));
                }
                Ok(()) => {}
                Err(error) if force && error.is_not_found() => {}
                Err(error) => session.cannot("remove", &place.show(removal.target), error),
            }
        };
        client.rm_recursive_but(targets, stays, tell).await.map_err(Failure::failed)?;
    }
    Ok(())
}
