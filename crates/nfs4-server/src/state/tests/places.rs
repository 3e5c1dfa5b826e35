//! The table of clients is shared out by address.

use super::*;
use crate::overview::Origin;

/// A client with a name of its own asks for an id, and confirms it if `confirms`.
fn comes(world: &mut World, address: &str, number: usize, confirms: bool) -> Result<ClientId, Refusal> {
    let exchanged = world.exchange(&format!("{address} {number}"), 1, USER, false)?;
    let address = address.parse().unwrap();
    world.state.came_from(
        exchanged.client,
        Origin { address, principal: "uid 1000".into(), security: String::new() },
    );
    world.state.check_place(exchanged.client, world.now)?;
    if confirms {
        world.create_session_as(exchanged.client, exchanged.sequence, USER).unwrap();
    }
    Ok(exchanged.client)
}

/// How many ids an address gets.
fn all_of(world: &mut World, address: &str, confirms: bool) -> usize {
    (0..100).take_while(|number| comes(world, address, *number, confirms).is_ok()).count()
}

#[test]
fn whoever_makes_up_names_leaves_as_many_places_as_he_takes() {
    for confirms in [false, true] {
        let mut world = world_with(Limits { clients: 64, ..Limits::default() }, &[]);
        assert_eq!(all_of(&mut world, "10.0.0.1", confirms), 32);
        assert_eq!(all_of(&mut world, "10.0.0.2", confirms), 16);
        assert_eq!(all_of(&mut world, "fd00::1", confirms), 8);
        assert_eq!(
            refused(comes(&mut world, "fd00::2", 0, confirms)),
            NfsStatus::Delay,
            "one network of IPv6"
        );
        assert_eq!(refused(comes(&mut world, "10.0.0.1", 100, confirms)), NfsStatus::Delay);
        assert!(comes(&mut world, "10.0.0.3", 0, confirms).is_ok());
        assert_eq!(world.state.clients.len(), 57, "who was refused is not kept");
    }
}

#[test]
fn who_is_known_may_ask_again_and_his_own_silent_clients_make_room() {
    let mut world = world_with(Limits { clients: 8, ..Limits::default() }, &[]);
    let first = comes(&mut world, "10.0.0.1", 0, true).unwrap();
    assert_eq!(all_of(&mut world, "10.0.0.1", true), 4, "the first one again among them");
    assert_eq!(comes(&mut world, "10.0.0.1", 0, false), Ok(first));
    assert_eq!(refused(comes(&mut world, "10.0.0.1", 9, false)), NfsStatus::Delay);
    world.now += LEASE + Duration::from_secs(1);
    assert!(matches!(comes(&mut world, "10.0.0.1", 9, false), Err(Refusal::Expired(_))));
    assert!(comes(&mut world, "10.0.0.2", 0, false).is_ok());
}
