//! Two gateways with one identity find out about each other, whoever comes second.

use super::*;
use crate::{Known, Who};

/// Another gateway over the same clouds, with what `state` says.
fn beside(world: &World, state: Option<State>) -> World {
    World {
        environment: world.environment.clone(),
        clouds: world
            .clouds
            .iter()
            .map(|(name, memory, faulty)| (name.clone(), memory.clone(), faulty.clone()))
            .collect(),
        kept: Kept(Mutex::new(state)),
        rows: world.rows.clone(),
        states: world.states.clone(),
        ..World::new()
    }
}

/// What a restore of the newest backup keeps.
async fn restored(world: &World) -> Option<State> {
    let survey = world.survey().await;
    Some(State::restored(survey.newest().unwrap().as_parent(), survey.known()))
}

/// A gateway that has made a backup, and claimed its branch.
async fn original() -> World {
    let mut world = World::new();
    world.start().await;
    world.hold().await.unwrap();
    world.set("a", Some(b"1"));
    world.back_up().await.unwrap();
    world
}

fn who(held: Result<Vec<String>, BackupError>) -> Who {
    match held {
        Err(BackupError::Rival(rival)) => rival.is,
        other => panic!("nobody is seen: {other:?}"),
    }
}

async fn back_up_and_hold(world: &mut World) -> Result<Vec<String>, BackupError> {
    world.set("changed", Some(b"again"));
    world.back_up().await?;
    world.hold().await
}

#[tokio::test(start_paused = true)]
async fn who_was_restored_from_sees_who_goes_on_for_it_and_does_not_come_back() {
    let mut old = original().await;
    let mut new = beside(&old, restored(&old).await);
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3, "a restore alone is nobody's rival");
    let refused = new.try_start(false).await.unwrap_err();
    assert_eq!((refused.is, refused.branch), (Who::Original, 0), "the old one goes on");
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3, "and was not disturbed");

    let mut new = beside(&old, restored(&old).await);
    new.start().await;
    assert_eq!(new.hold().await.unwrap(), ["a", "b", "c"]);
    assert_eq!(who(back_up_and_hold(&mut old).await), Who::Successor);
    assert_eq!(old.try_start(false).await.unwrap_err().is, Who::Successor);
    for _ in 0..3 {
        assert_eq!(back_up_and_hold(&mut new).await.unwrap().len(), 3);
        new.start().await;
    }
    // Whoever is wanted takes over, and the other one sees that.
    old.try_start(true).await.unwrap();
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3);
    assert_eq!(old.writer.as_ref().unwrap().state().branch, 2);
    assert_eq!(who(back_up_and_hold(&mut new).await), Who::Successor);
    old.start().await;
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3);
}

/// Clouds that came after the branches before have nothing of these.
#[tokio::test(start_paused = true)]
async fn a_branch_that_is_far_from_all_others_is_found() {
    let first = original().await;
    let old = beside(&first, first.kept.0.lock().clone());
    let mut world = first;
    for branch in 1..12 {
        let mut next = beside(&world, restored(&world).await);
        next.start().await;
        next.hold().await.unwrap();
        back_up_and_hold(&mut next).await.unwrap();
        assert_eq!(next.writer.as_ref().unwrap().state().branch, branch);
        let own = next.writer.as_ref().unwrap().names();
        for (_, cloud, _) in &next.clouds {
            let others = cloud.names().into_iter().filter(|name| !own.contains(name));
            others.for_each(|name| drop(cloud.poke(&name, None)));
        }
        let found = next.survey().await;
        assert_eq!(found.newest().map(|head| head.branch), Some(branch));
        assert_eq!(found.standings(found.newest().unwrap()).len(), 3);
        world = next;
    }
    // Whoever was there long before sees that others go on.
    let mut old = beside(&world, old.kept.0.lock().clone());
    assert_eq!(old.try_start(false).await.unwrap_err().is, Who::Successor);
    // Nothing is left in a cloud that is not to have backups any more.
    let (places, writer) = (world.places(), world.writer.as_mut().unwrap());
    assert!(writer.leave(&places[0]).await);
    assert_eq!(world.clouds[0].1.names().len(), 0);
}

/// The old one makes a backup after the new one has looked and before that has claimed anything: then it may have deleted what the new
/// one needs.
#[tokio::test(start_paused = true)]
async fn a_backup_between_look_and_claim_is_found_by_the_claimer() {
    let mut old = original().await;
    let mut new = beside(&old, restored(&old).await);
    new.start().await;
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3);
    assert_eq!(who(new.hold().await), Who::Original);
    // And again after a crash.
    assert_eq!(new.try_start(false).await.unwrap_err().is, Who::Original);
}

#[tokio::test(start_paused = true)]
async fn two_that_were_restored_from_one_backup_do_not_both_go_on() {
    for at_once in [false, true] {
        let old = original().await;
        let state = restored(&old).await;
        let (mut one, mut two) = (beside(&old, state.clone()), beside(&old, state));
        one.start().await;
        if at_once {
            two.start().await;
        }
        one.hold().await.unwrap();
        let second =
            if at_once { two.hold().await.map(drop) } else { two.try_start(false).await.map_err(Into::into) };
        let is = who(second.map(|()| Vec::new()));
        assert_eq!(is, if at_once { Who::Successor } else { Who::Original });
        assert_eq!(back_up_and_hold(&mut one).await.unwrap().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_copies_of_a_data_folder_one_stops() {
    let mut one = original().await;
    let copy = one.kept.0.lock().clone();
    // The copy starts while the other one runs.
    let mut two = beside(&one, copy.clone());
    two.start().await;
    assert_eq!(back_up_and_hold(&mut two).await.unwrap().len(), 3);
    assert_eq!(who(back_up_and_hold(&mut one).await), Who::Copy);
    assert_eq!(one.try_start(false).await.unwrap_err().is, Who::Copy);
    // An older copy of what goes on, by one backup or by one start.
    for change in ["backup", "start"] {
        let copy = two.kept.0.lock().clone();
        match change {
            "backup" => drop(back_up_and_hold(&mut two).await.unwrap()),
            _ => {
                two.start().await;
                two.hold().await.unwrap();
            }
        }
        let mut old = beside(&two, copy);
        assert_eq!(old.try_start(false).await.unwrap_err().is, Who::Copy, "{change}");
        assert_eq!(back_up_and_hold(&mut two).await.unwrap().len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn clouds_that_come_later_are_looked_at_before_anything_is_overwritten_there() {
    let old = original().await;
    let state = restored(&old).await;
    let mut one = beside(&old, state.clone());
    old.down(0, true);
    old.down(1, true);
    one.start().await;
    back_up_and_hold(&mut one).await.unwrap();
    old.down(2, true);
    let mut two = beside(&old, state);
    // It sees nothing, and takes the same number.
    two.start().await;
    old.down(0, false);
    two.hold().await.unwrap();
    two.set("b", Some(b"2"));
    two.back_up().await.unwrap();
    let head = one.keys.head_name(1);
    let kept = old.clouds[2].1.peek(&head).unwrap();
    old.down(2, false);
    assert_eq!(who(two.hold().await), Who::Successor);
    while two.writer.as_mut().unwrap().catch_up(&old.places()).await {}
    assert!(two.back_up().await.is_err());
    assert_eq!(old.clouds[2].1.peek(&head), Some(kept));
}

#[tokio::test(start_paused = true)]
async fn an_empty_folder_and_a_loaded_one() {
    let mut old = original().await;
    let mut empty = beside(&old, None);
    assert_eq!(empty.try_start(false).await.unwrap_err().is, Who::Unknown);
    assert_eq!(back_up_and_hold(&mut old).await.unwrap().len(), 3);
    // Whoever loads a dump knows what he does.
    let mut loaded = beside(&old, Some(State::loaded()));
    loaded.start().await;
    assert_eq!(loaded.hold().await.unwrap().len(), 3);
    assert_eq!(who(old.hold().await), Who::Successor);
}

/// Clouds give back old claims, none, or noise: nobody is afraid of himself, and what is lost is put again.
#[tokio::test(start_paused = true)]
async fn old_claims_and_lost_ones_are_put_again() {
    let mut world = original().await;
    let (memory, claim) = (world.clouds[1].1.clone(), world.keys.claim_name(0));
    let old = memory.peek(&claim).unwrap();
    world.start().await;
    world.hold().await.unwrap();
    let new = memory.peek(&claim).unwrap();
    assert_ne!(old, new);
    for bad in [None, Some(old), Some(Bytes::from_static(b"noise")), Some(new.slice(1..))] {
        memory.poke(&claim, bad);
        assert_eq!(world.hold().await.unwrap().len(), 3);
        let put = world.keys.open_claim(0, memory.peek(&claim).unwrap()).unwrap();
        assert_eq!(put.starts, 2);
    }
    let survey = world.survey().await;
    let known = |known: &Known| (known.backup, known.starts);
    assert_eq!(survey.known().iter().map(known).collect::<Vec<_>>(), [(1, 2)]);
}
