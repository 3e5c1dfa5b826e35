//! Opens, locks, delegations, recalls, silence and loss in any order: nobody waits for ever, and nobody holds what another's
//! rights exclude.

use proptest::prelude::*;

use super::*;
use crate::state::callback::{CallbackEnd, Notice};

const CLIENTS: usize = 3;
const FILES: u128 = 2;

#[derive(Clone, Debug)]
enum Step {
    Open { client: usize, file: u128, access: u32, deny: u32 },
    Close { client: usize },
    Lock { client: usize, exclusive: bool },
    Delegate { client: usize, file: u128, writing: bool },
    Return { client: usize },
    Change { client: usize, file: u128 },
    Read { client: usize, file: u128 },
    Ask { client: usize, file: u128 },
    Send { client: usize, file: u128 },
    Callback { end: u8 },
    LoseConnection { client: usize },
    Bind { client: usize },
    Renew { client: usize },
    Pass { eighths: u32 },
    KeepHouse,
    RollBack,
}

fn step() -> impl Strategy<Value = Step> {
    let (client, file) = (0..CLIENTS, 0..FILES);
    let at = move || (client.clone(), file.clone());
    prop_oneof![
        4 => (at(), 1..4u32, prop_oneof![4 => Just(0), 1 => 0..4u32])
            .prop_map(|((client, file), access, deny)| Step::Open { client, file, access, deny }),
        2 => (0..CLIENTS).prop_map(|client| Step::Close { client }),
        1 => (0..CLIENTS, any::<bool>()).prop_map(|(client, exclusive)| Step::Lock { client, exclusive }),
        6 => (at(), any::<bool>())
            .prop_map(|((client, file), writing)| Step::Delegate { client, file, writing }),
        2 => (0..CLIENTS).prop_map(|client| Step::Return { client }),
        2 => at().prop_map(|(client, file)| Step::Change { client, file }),
        2 => at().prop_map(|(client, file)| Step::Read { client, file }),
        2 => at().prop_map(|(client, file)| Step::Ask { client, file }),
        1 => at().prop_map(|(client, file)| Step::Send { client, file }),
        4 => (0..6u8).prop_map(|end| Step::Callback { end }),
        1 => (0..CLIENTS).prop_map(|client| Step::LoseConnection { client }),
        1 => (0..CLIENTS).prop_map(|client| Step::Bind { client }),
        2 => (0..CLIENTS).prop_map(|client| Step::Renew { client }),
        2 => (1..12u32).prop_map(|eighths| Step::Pass { eighths }),
        1 => Just(Step::KeepHouse),
        1 => Just(Step::RollBack),
    ]
}

/// One client, with a connection of its own.
struct Known {
    id: ClientId,
    session: SessionId,
    connection: ConnectionId,
    opens: Vec<(StateId, u128)>,
    delegations: Vec<(StateId, u128)>,
}

struct Orders {
    world: World,
    clients: Vec<Known>,
    names: u64,
}

impl Orders {
    fn new() -> Orders {
        let mut orders = Orders { world: world(), clients: Vec::new(), names: 0 };
        (0..CLIENTS).for_each(|_| {
            let known = orders.connect();
            orders.clients.push(known);
        });
        orders
    }

    fn connect(&mut self) -> Known {
        self.names += 1;
        let (id, session) = self.world.holder(&format!("client {}", self.names));
        let connection = ConnectionId(100 + self.names);
        self.world.state.bind_connection(session, CONNECTION, false).unwrap();
        self.world.state.bind_connection(session, connection, true).unwrap();
        Known { id, session, connection, opens: Vec::new(), delegations: Vec::new() }
    }

    /// What a server does about a refusal.
    fn heed(&mut self, refusal: &Refusal) {
        let now = self.world.now;
        match refusal {
            Refusal::Expired(client) => {
                self.world.state.forget(*client, now);
                for place in 0..CLIENTS {
                    if self.clients[place].id == *client && !self.world.state.clients.contains_key(client) {
                        self.clients[place] = self.connect();
                    }
                }
            }
            Refusal::Overdue(client) => drop(self.world.state.revoke_writer(*client, now)),
            Refusal::Unrecorded(client) => self.world.record(*client),
            Refusal::Status(_) | Refusal::Recalled(_) | Refusal::Asked(_) => {}
        }
    }

    fn run(&mut self, step: &Step) {
        if !matches!(step, Step::RollBack) {
            self.world.undo.keep();
        }
        let refused = match *step {
            Step::Open { client, file, access, deny } => {
                let known = &self.clients[client];
                let opened = self.world.open(known.id, "o", file, access, deny);
                opened.map(|id| self.clients[client].opens.push((id, file))).err()
            }
            Step::Close { client } => {
                if let Some((id, number)) = self.clients[client].opens.pop() {
                    let (state, undo) = (&mut self.world.state, &mut self.world.undo);
                    let _ =
                        state.close(self.clients[client].id, &StateId { seqid: 0, ..id }, file(number), undo);
                    // A compound that closes marks the file until nothing is taken back any more.
                    undo.keep();
                }
                None
            }
            Step::Lock { client, exclusive } => {
                let known = &self.clients[client];
                let open = known.opens.last().copied();
                open.and_then(|(open, number)| {
                    let open = StateId { seqid: 0, ..open };
                    let locker = Locker::New { open, owner: b"l" };
                    self.world.lock(known.id, locker, number, (0, 9), exclusive).err()
                })
            }
            Step::Delegate { client, file, writing } => {
                let id = self.clients[client].id;
                let delegated = self.world.delegate_as(id, file, writing.then_some(7));
                self.clients[client].delegations.extend(delegated.ok().map(|id| (id, file)));
                None
            }
            Step::Return { client } => {
                if let Some((id, number)) = self.clients[client].delegations.pop() {
                    let _ = self.world.state.return_delegation(self.clients[client].id, &id, file(number));
                }
                None
            }
            Step::Change { client, file: number } => {
                let changed = self.world.change(self.clients[client].id, number);
                if changed.is_ok() {
                    self.world.state.end_change(file(number));
                }
                changed.err()
            }
            Step::Read { client, file: number } => {
                let id = self.clients[client].id;
                self.world.state.recall_writers(Some(id), file(number), self.world.now).err()
            }
            Step::Ask { client, file: number } => {
                let id = self.clients[client].id;
                self.world.state.size_by_holder(Some(id), file(number), &[], self.world.now).err()
            }
            Step::Send { client, file: number } => {
                self.world.state.sends(self.clients[client].id, file(number), self.world.now);
                None
            }
            Step::Callback { end } => {
                self.call(end);
                None
            }
            Step::LoseConnection { client } => {
                self.world.state.connection_lost(self.clients[client].connection);
                None
            }
            Step::Bind { client } => {
                let known = &self.clients[client];
                let _ = self.world.state.bind_connection(known.session, known.connection, true);
                None
            }
            Step::Renew { client } => {
                if let Some(client) = self.world.state.clients.get_mut(&self.clients[client].id) {
                    client.renewed = self.world.now;
                }
                None
            }
            Step::Pass { eighths } => {
                self.world.now += LEASE / 8 * eighths;
                None
            }
            Step::KeepHouse => {
                self.keep_house();
                None
            }
            Step::RollBack => {
                self.world.state.roll_back(&mut self.world.undo);
                None
            }
        };
        if let Some(refused) = refused {
            self.heed(&refused);
        }
    }

    /// Sends one callback, which ends in some way.
    fn call(&mut self, end: u8) {
        let Some(callback) = self.world.state.next_callback() else { return };
        let end = match end {
            0 => CallbackEnd::Lost,
            1 => CallbackEnd::Refused(NfsStatus::Delay),
            2 => CallbackEnd::Refused(NfsStatus::BadSession),
            3 => CallbackEnd::Answered(NfsStatus::BadHandle),
            _ => CallbackEnd::Answered(NfsStatus::Ok),
        };
        if let Notice::Ask { id, number, .. } = &callback.notice {
            match end {
                CallbackEnd::Answered(NfsStatus::Ok) => {
                    let says = HolderSays { change: 7 + self.names % 2, size: 3 };
                    self.world.state.answered(id.other, *number, says);
                }
                CallbackEnd::Refused(NfsStatus::Delay) => {}
                _ => self.world.state.not_answered(&id.other, *number),
            }
        }
        self.world.end(&callback, end);
    }

    fn keep_house(&mut self) {
        let now = self.world.now;
        self.world.state.revoke_overdue(now);
        for client in self.world.state.overdue_writers(now) {
            self.world.state.revoke_writer(client, now);
        }
        self.world.undo.keep();
    }

    /// Nobody holds what the rights of another client exclude, and the books are right.
    fn check(&self) {
        let state = &self.world.state;
        for number in 0..FILES {
            let delegations: Vec<_> = state.delegations_of(file(number)).map(|(_, held)| held).collect();
            let opens = state.files.get(&file(number)).map_or(&[][..], |file| &file.opens);
            for held in &delegations {
                let alone = delegations.iter().all(|other| other.client == held.client);
                assert!(held.writing.is_none() || alone, "delegated to write, and to another");
                for other in opens {
                    let Some(Held::Open(open)) = state.held.get(other) else { panic!("an open is lost") };
                    let against = held.writing.is_some() || open.share.access & Share::WRITE != 0;
                    assert!(open.client == held.client || !against, "open against a delegation");
                }
                assert!(state.clients.contains_key(&held.client));
            }
        }
        let held = state.held.values().filter(|held| matches!(held, Held::Delegation(_))).count();
        assert_eq!(held, state.delegations);
        let recalled = state.held.values().filter(|held| match held {
            Held::Delegation(held) => held.recalled.is_some(),
            _ => false,
        });
        assert_eq!(recalled.count(), state.recalled.len());
    }

    /// Whoever wants something gets it, or is refused for good, when the others do nothing any more.
    fn settle(&mut self) {
        self.world.undo.keep();
        for client in 0..CLIENTS {
            for number in 0..FILES {
                for attempt in 0.. {
                    assert!(attempt < 60, "client {client} waits for file {number} for ever");
                    let id = self.clients[client].id;
                    if let Some(known) = self.world.state.clients.get_mut(&id) {
                        known.renewed = self.world.now;
                    }
                    let asked = self.world.state.size_by_holder(Some(id), file(number), &[], self.world.now);
                    let outcome = match asked {
                        Err(Refusal::Asked(question)) => {
                            self.world.state.not_answered(&question.delegation, question.number);
                            Err(Refusal::Asked(question))
                        }
                        _ => self.world.change(id, number),
                    };
                    match outcome {
                        Ok(()) => {
                            self.world.state.end_change(file(number));
                            break;
                        }
                        Err(Refusal::Status(_)) => break,
                        Err(refusal) => {
                            self.heed(&refusal);
                            self.world.now += LEASE / 4;
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn nobody_waits_for_ever_in_whatever_order(steps in prop::collection::vec(step(), 1..80)) {
        let mut orders = Orders::new();
        for step in &steps {
            orders.run(step);
            orders.check();
        }
        orders.settle();
        orders.check();
    }
}
