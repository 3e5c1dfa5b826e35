//! Several clients that ask one object for things, and the verdict on what they saw.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use linearizable::{End, Model, Operation, check};
use tokio::task::JoinHandle;

use crate::support::Random;
use crate::world::World;

pub type History<M> = Vec<Operation<<M as Model>::Call, <M as Model>::Answer>>;

/// A call with its answer.
pub type Answered<M> = (<M as Model>::Call, <M as Model>::Answer);

/// One of those who contend for an object.
#[async_trait]
pub trait Contender: Send + 'static {
    type Model: Model<Call: Send + Sync, Answer: Send + Sync>;

    /// What to ask next.
    fn choose(&mut self, random: &mut Random) -> <Self::Model as Model>::Call;

    /// Asks. No answer: it is lost, as the server died.
    async fn ask(&mut self, call: &<Self::Model as Model>::Call) -> Option<<Self::Model as Model>::Answer>;

    /// What the death of the server did besides, to an object of which this call was not answered.
    fn amends(&mut self, _call: &<Self::Model as Model>::Call) -> Option<Answered<Self::Model>> {
        None
    }
}

/// An object whose clients are at work.
pub struct Contest<M: Model> {
    name: String,
    model: M,
    /// First words of calls and of their answers that must have come.
    expected: &'static [(&'static str, &'static str)],
    clients: Vec<JoinHandle<History<M>>>,
}

/// A model of which it is known what has to happen, or nothing would be tested.
pub trait Expects: Model {
    /// First words of calls and of their answers.
    const EXPECTED: &'static [(&'static str, &'static str)];
}

impl<M: Expects> Contest<M> {
    /// An object of each name, with its clients.
    pub fn begin_all<C: Contender<Model = M>>(
        world: &Arc<World>,
        model: M,
        objects: Vec<(String, Vec<C>)>,
        random: &mut Random,
    ) -> Vec<Contest<M>>
    where
        M: Clone + 'static,
        M::Call: Send + Sync,
        M::Answer: Send + Sync,
    {
        let begin = |(name, clients)| Contest::begin(world, name, model.clone(), clients, random);
        objects.into_iter().map(begin).collect()
    }

    fn begin<C: Contender<Model = M>>(
        world: &Arc<World>,
        name: String,
        model: M,
        clients: Vec<C>,
        random: &mut Random,
    ) -> Contest<M>
    where
        M: 'static,
        M::Call: Send + Sync,
        M::Answer: Send + Sync,
    {
        let clients = clients.into_iter().enumerate();
        let clients =
            clients.map(|(number, client)| tokio::spawn(work(world.clone(), number, client, random.fork())));
        Contest { name, model, expected: M::EXPECTED, clients: clients.collect() }
    }

    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Waits for the clients; what they saw, which has an order.
    pub async fn verdict(self) -> History<M> {
        let mut history = Vec::new();
        for client in self.clients {
            history.extend(client.await.expect("the client has come to its end"));
        }
        let lost = history.iter().filter(|operation| matches!(operation.end, End::Lost { .. })).count();
        let name = &self.name;
        match check(&self.model, &history) {
            Ok(found) => {
                println!("{name}: {} operations, {lost} lost; {} places", history.len(), found.places);
            }
            Err(failure) => panic!("{name}: {failure}"),
        }
        let seen: BTreeSet<(String, String)> = history.iter().filter_map(words).collect();
        for (call, answer) in self.expected {
            let pair = ((*call).to_owned(), (*answer).to_owned());
            assert!(seen.contains(&pair), "{name}: {pair:?} never came, but only {seen:?}");
        }
        history
    }
}

/// The first words of call and answer.
fn words<C: Debug, A: Debug>(operation: &Operation<C, A>) -> Option<(String, String)> {
    let word =
        |text: String| text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned();
    match &operation.end {
        End::Answered { answer, .. } => {
            Some((word(format!("{:?}", operation.call)), word(format!("{answer:?}"))))
        }
        End::Lost { .. } => None,
    }
}

async fn work<C: Contender>(
    world: Arc<World>,
    number: usize,
    mut client: C,
    mut random: Random,
) -> History<C::Model> {
    let mut history = Vec::new();
    let mut lost = 0;
    let unfinished = Unfinished(&world);
    for _ in 0..world.operations {
        let call = client.choose(&mut random);
        let called = world.now();
        let answer = client.ask(&call).await;
        let at = world.now();
        match answer {
            Some(answer) => {
                history.push(Operation { client: number, call, called, end: End::Answered { at, answer } });
            }
            None => {
                lost += 1;
                let death = world.last_death(called, lost);
                let amends = client.amends(&call);
                let end = End::Lost { until: Some(death) };
                history.push(Operation { client: number, call, called, end });
                if let Some((call, answer)) = amends {
                    // After the death and before the next server.
                    let after = |nanoseconds| death + Duration::from_nanos(nanoseconds);
                    let end = End::Answered { at: after(2), answer };
                    history.push(Operation { client: number, call, called: after(1), end });
                }
            }
        }
        world.did(1);
    }
    std::mem::forget(unfinished);
    world.keep(client);
    history
}

/// A client that has not come to its end: it has failed if this is dropped.
struct Unfinished<'a>(&'a World);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

/// For the tests of models: what they reject.
pub mod tests {
    use linearizable::Failure;

    use super::*;

    /// A history without anything at the same time.
    pub fn one_after_the_other<C, A>(asked: impl IntoIterator<Item = (C, A)>) -> Vec<Operation<C, A>> {
        let time = |at: usize| Duration::from_millis(at as u64);
        let operation = |(at, (call, answer))| {
            let end = End::Answered { at: time(2 * at + 1), answer };
            Operation { client: at, call, called: time(2 * at), end }
        };
        asked.into_iter().enumerate().map(operation).collect()
    }

    /// The answer of operation `stuck` has no place; without it all have.
    #[track_caller]
    pub fn violates<M: Model>(model: &M, mut history: History<M>, stuck: usize) {
        match check(model, &history) {
            Err(Failure::Violation(violation)) => assert_eq!(violation.stuck, stuck, "{violation:?}"),
            other => panic!("{other:?}"),
        }
        history.remove(stuck);
        assert!(check(model, &history).is_ok());
    }
}
