//! Clients that do whatever comes to mind, right and wrong.

use proptest::prelude::*;

use super::*;

/// What a client does next. Opens and locks are chosen among those it was ever given, closed ones included.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open { owner: u8, access: u32, deny: u32 },
    Confirm { open: usize },
    Close { open: usize },
    FirstLock { open: usize, owner: u8 },
    Release { owner: u8 },
    Reboot,
    Wait,
}

/// Which number it says that the operation has.
#[derive(Clone, Copy, Debug)]
enum Says {
    Next,
    Again,
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..3u8, 1..4u32, 0..4u32).prop_map(|(owner, access, deny)| Step::Open { owner, access, deny }),
        5 => any::<usize>().prop_map(|open| Step::Confirm { open }),
        3 => any::<usize>().prop_map(|open| Step::Close { open }),
        4 => (any::<usize>(), 0..3u8).prop_map(|(open, owner)| Step::FirstLock { open, owner }),
        2 => (0..3u8).prop_map(|owner| Step::Release { owner }),
        1 => Just(Step::Reboot),
        1 => Just(Step::Wait),
    ]
}

fn says() -> impl Strategy<Value = Says> {
    prop_oneof![8 => Just(Says::Next), 2 => Just(Says::Again), 1 => Just(Says::Wrong)]
}

/// One client as it knows itself.
struct Actor {
    name: String,
    boot: u8,
    id: ClientId,
    /// The number of the newest operation of each open-owner that counted, and its answer.
    newest: [(u32, Option<Answer>); 3],
    /// Every open it was ever given, and whose it is.
    opens: Vec<(StateId, u8)>,
}

impl Actor {
    fn number(&self, owner: u8, says: Says) -> Numbered {
        let (newest, _) = self.newest[usize::from(owner)];
        number(match says {
            Says::Next => newest + 1,
            Says::Again => newest,
            Says::Wrong => newest + 2,
        })
    }

    fn open(&self, index: usize) -> Option<(usize, StateId, u8)> {
        let index = index % self.opens.len().max(1);
        self.opens.get(index).map(|(id, owner)| (index, *id, *owner))
    }
}

/// Runs one step; whatever the state machine says is fine, but for what it must never say.
fn act(world: &mut World, actor: &mut Actor, step: Step, says: Says, counter: &mut u32) {
    let (client, now) = (actor.id, world.now);
    *counter += 1;
    let fresh = Answer { result: Bytes::from(counter.to_string()), ..answer("") };
    let (owner, admitted) = match step {
        Step::Open { owner, .. } => {
            (owner, world.state.admit_open(client, &[owner], actor.number(owner, says), now))
        }
        Step::Confirm { open } | Step::Close { open } => {
            let Some((_, id, owner)) = actor.open(open) else { return };
            let standing = if matches!(step, Step::Confirm { .. }) {
                Standing::Unconfirmed
            } else {
                Standing::Confirmed
            };
            let number = actor.number(owner, says);
            (owner, world.state.admit_by_state(&id, OwnerKind::Open, number, standing, now))
        }
        Step::FirstLock { open, owner: lock_owner } => {
            let Some((_, id, owner)) = actor.open(open) else { return };
            // Lock-owners go on from where they are: what they say wrong is tried elsewhere.
            let number = actor.number(owner, says);
            let known =
                world.state.minor0.by_id.get(&client).and_then(|it| it.lock_owners.get(&[lock_owner][..]));
            let seqid = known.map_or(0, |it| (0..1000).find(|n| it.order(*n, 0).is_ok()).unwrap());
            (owner, world.state.admit_first_lock(&id, (client, &[lock_owner]), number, seqid, now))
        }
        Step::Release { owner } => {
            let held = world.state.release_lock_owner(client, &[owner], now);
            assert!(matches!(held, Ok(()) | Err(NfsStatus::LocksHeld | NfsStatus::Expired)), "{held:?}");
            return;
        }
        Step::Reboot => {
            actor.boot = actor.boot.wrapping_add(1);
            let made = world.set_client_id(&actor.name, actor.boot, USER).unwrap();
            world.confirm(made).unwrap();
            *actor = Actor {
                id: made.0,
                opens: Vec::new(),
                newest: Default::default(),
                ..std::mem::replace(actor, blank())
            };
            return;
        }
        Step::Wait => {
            world.now += LEASE / 2;
            for late in world.state.overdue(world.now) {
                world.state.forget(late, world.now);
            }
            return;
        }
    };
    let newest = actor.newest[usize::from(owner)].clone();
    let turn = match admitted {
        Ok(Admitted::Run(turn)) => turn,
        Ok(Admitted::Again(told)) => {
            assert_eq!(Some(&told), newest.1.as_ref(), "the answer to its newest operation");
            return;
        }
        Err(_) => return,
    };
    let seqid = match (step, says) {
        // Who is not confirmed begins with any number.
        (_, Says::Next) => newest.0 + 1,
        (_, Says::Again) => newest.0,
        (_, Says::Wrong) => newest.0 + 2,
    };
    let mut undo = UndoLog::default();
    let effect = match step {
        Step::Open { owner, access, deny } => {
            let share = Share { access, deny };
            let request = OpenRequest { client, owner: &[owner], file: file(1), share, reclaim: false };
            match world.state.open(&request, || OpenReference::new(()), now, &mut undo) {
                Ok(id) => {
                    actor.opens.push((id, owner));
                    Effect::Opened { open: id.other, by: USER, confirmed: false }
                }
                Err(Refusal::Expired(other)) => {
                    world.state.give_back(&turn);
                    world.state.forget(other, now);
                    return;
                }
                Err(_) => Effect::Nothing,
            }
        }
        Step::Confirm { open } => {
            let (index, id, _) = actor.open(open).unwrap();
            actor.opens[index].0 = world.state.rename_open(&id.other).unwrap();
            Effect::Confirmed
        }
        Step::Close { open } => {
            let (_, id, _) = actor.open(open).unwrap();
            match world.state.close(client, &id.newest(), file(1), &mut undo) {
                Ok(()) => Effect::Closed(id.other),
                Err(_) => Effect::Nothing,
            }
        }
        Step::FirstLock { open, owner } => {
            let (_, id, _) = actor.open(open).unwrap();
            let locker = Locker::New { open: id.newest(), owner: &[owner] };
            let range = ByteRange::new(u64::from(owner), 2).unwrap();
            let request = LockRequest {
                client,
                file: file(1),
                locker,
                range,
                exclusive: true,
                reclaim: false,
                waits: true,
            };
            match world.state.lock(&request, now, &mut undo) {
                Ok(Ok(id)) => Effect::Locked { lock: id.other, by: USER },
                Err(Refusal::Expired(other)) => {
                    world.state.give_back(&turn);
                    world.state.forget(other, now);
                    return;
                }
                _ => Effect::Nothing,
            }
        }
        Step::Release { .. } | Step::Reboot | Step::Wait => return,
    };
    undo.keep();
    actor.newest[usize::from(owner)] = (seqid, Some(fresh.clone()));
    world.state.settle(&turn, fresh, effect, now);
}

fn blank() -> Actor {
    Actor { name: String::new(), boot: 0, id: ClientId(0), newest: Default::default(), opens: Vec::new() }
}

/// Every open and lock belongs to exactly one owner, and every owner that is waited for is waited for by somebody.
fn check(world: &World) {
    let (mut opens, mut locks) = (0, 0);
    for client in world.state.minor0.by_id.values() {
        for owner in client.open_owners.values() {
            assert!(owner.states.keys().all(|open| world.state.holder(open).is_some()), "a lost open");
            assert!(!owner.is_blank(), "an owner that nobody knows");
            opens += owner.states.len();
        }
        let alive = |lock: &&crate::state::Other| world.state.holder(lock).is_some();
        locks +=
            client.lock_owners.values().map(|owner| owner.states.keys().filter(alive).count()).sum::<usize>();
        for (closed, owner) in &client.closed {
            assert!(world.state.holder(closed).is_none() && client.open_owners.contains_key(owner));
        }
    }
    let census = world.state.census();
    assert_eq!((census.opens, census.lock_owners), (opens, locks), "a leak");
}

proptest! {
    #[test]
    fn nothing_leaks_and_no_answer_goes_to_another_operation(
        steps in prop::collection::vec((0..2usize, step(), says()), 0..200)
    ) {
        let mut world = world();
        let mut actors: Vec<Actor> = ["a", "b"]
            .into_iter()
            .map(|name| Actor { name: name.into(), boot: 1, id: world.client(name), ..blank() })
            .collect();
        let mut counter = 0;
        for (who, step, says) in steps {
            act(&mut world, &mut actors[who], step, says, &mut counter);
            check(&world);
        }
    }
}
