//! The search for an order.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;

use crate::{End, Failure, Model, Operation, Violation};

/// Most places that are looked at.
const MOST: usize = 1_000_000;

/// Most states in a [`Violation`].
const STATES: usize = 6;

/// Operations before the one that is stuck in the text of a [`Violation`].
const SHOWN: usize = 12;

/// An order that explains all answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linearization {
    /// Positions in the history; those of lost operations that were not done are not among them.
    pub order: Vec<usize>,
    /// How many places were looked at: a measure of the work.
    pub places: usize,
}

/// An order that explains the history.
///
/// # Errors
/// [`Failure::Violation`] if there is none, [`Failure::Undecided`] if that would take too long to say.
pub fn check<M: Model>(
    model: &M,
    history: &[Operation<M::Call, M::Answer>],
) -> Result<Linearization, Failure> {
    Search::new(model, history).run()
}

/// How far an attempt has come: the operations numbered by their ends.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place<S> {
    /// All before this one are placed.
    next: usize,
    /// Placed behind `next`, ascending: they were called before it ended.
    ahead: Vec<usize>,
    state: S,
}

impl<S> Place<S> {
    fn has(&self, number: usize) -> bool {
        number < self.next || self.ahead.binary_search(&number).is_ok()
    }

    fn put(&mut self, number: usize) {
        if let Err(at) = self.ahead.binary_search(&number) {
            self.ahead.insert(at, number);
        }
        let row = self.ahead.iter().zip(self.next..).take_while(|(ahead, next)| *ahead == next).count();
        self.ahead.drain(..row);
        self.next += row;
    }
}

/// An operation put somewhere; the way to a place is the chain of those before it.
struct Link {
    before: Option<usize>,
    number: usize,
}

/// What can be done next: the operation, and the state after it; none if it was lost and was not done.
type Choice<S> = (usize, Option<S>);

/// A place with the choices that are left, the best last.
struct Branch<S> {
    place: Place<S>,
    link: Option<usize>,
    choices: Vec<Choice<S>>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    history: &'a [Operation<M::Call, M::Answer>],
    /// Positions in the history, by the ends: the number of an operation is its place here.
    numbers: Vec<usize>,
    /// For each number those that may come before it is placed, itself included: called before its end, and not ended before.
    under_way: Vec<Vec<usize>>,
    links: Vec<Link>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, history: &'a [Operation<M::Call, M::Answer>]) -> Search<'a, M> {
        let mut numbers: Vec<usize> = (0..history.len()).collect();
        numbers.sort_by_key(|at| history[*at].ended());
        let mut calls: Vec<usize> = (0..numbers.len()).collect();
        calls.sort_by_key(|number| Reverse(history[numbers[*number]].called));
        let mut open = BTreeSet::new();
        let under_way = numbers.iter().enumerate().map(|(number, at)| {
            while let Some(called) =
                calls.pop_if(|call| history[numbers[*call]].called <= history[*at].ended())
            {
                open.insert(called);
            }
            let row = open.iter().copied().collect();
            open.remove(&number);
            row
        });
        let under_way = under_way.collect();
        Search { model, history, numbers, under_way, links: Vec::new() }
    }

    fn operation(&self, number: usize) -> &'a Operation<M::Call, M::Answer> {
        &self.history[self.numbers[number]]
    }

    fn step(&self, state: &M::State, number: usize) -> Option<M::State> {
        let operation = self.operation(number);
        self.model.step(state, &operation.call, operation.answer())
    }

    fn only_looks(&self, number: usize) -> bool {
        let operation = self.operation(number);
        operation.answer().is_some_and(|answer| self.model.only_looks(&operation.call, answer))
    }

    fn is_lost(&self, number: usize) -> bool {
        matches!(self.operation(number).end, End::Lost { .. })
    }

    fn run(mut self) -> Result<Linearization, Failure> {
        let mut place = Place { next: 0, ahead: Vec::new(), state: self.model.start() };
        let link = self.settle(&mut place, None);
        let mut furthest = (place.next, link, vec![place.state.clone()]);
        let mut visited = HashSet::from([place.clone()]);
        let mut branches = vec![self.branch(place, link)];
        while let Some(branch) = branches.last_mut() {
            if branch.place.next == self.numbers.len() {
                return Ok(Linearization { order: self.order(branch.link), places: visited.len() });
            }
            let Some((number, after)) = branch.choices.pop() else {
                branches.pop();
                continue;
            };
            let (mut place, mut link) = (branch.place.clone(), branch.link);
            place.put(number);
            if let Some(state) = after {
                place.state = state;
                link = self.link(link, number);
            }
            link = self.settle(&mut place, link);
            if !visited.insert(place.clone()) {
                continue;
            }
            if visited.len() >= MOST {
                return Err(Failure::Undecided { places: visited.len() });
            }
            let (next, _, states) = &mut furthest;
            if place.next > *next {
                furthest = (place.next, link, vec![place.state.clone()]);
            } else if place.next == *next && states.len() < STATES && !states.contains(&place.state) {
                states.push(place.state.clone());
            }
            branches.push(self.branch(place, link));
        }
        let (next, link, states) = furthest;
        Err(Failure::Violation(self.violation(next, link, &states)))
    }

    fn link(&mut self, before: Option<usize>, number: usize) -> Option<usize> {
        self.links.push(Link { before, number });
        Some(self.links.len() - 1)
    }

    /// Places what only looks and is right here. Whatever order there is from here on, it can be moved to the front of it.
    fn settle(&mut self, place: &mut Place<M::State>, mut link: Option<usize>) -> Option<usize> {
        let mut from = None;
        while from != Some(place.next) && place.next < self.numbers.len() {
            from = Some(place.next);
            for at in 0..self.under_way[place.next].len() {
                let number = self.under_way[place.next][at];
                if place.has(number) || !self.only_looks(number) {
                    continue;
                }
                if self.step(&place.state, number).is_some_and(|after| after == place.state) {
                    link = self.link(link, number);
                    place.put(number);
                    if from != Some(place.next) {
                        break;
                    }
                }
            }
        }
        link
    }

    fn branch(&self, place: Place<M::State>, link: Option<usize>) -> Branch<M::State> {
        let next = place.next;
        let Some(under_way) = self.under_way.get(next) else {
            return Branch { place, link, choices: Vec::new() };
        };
        let explains = |state: &M::State| self.is_lost(next) || self.step(state, next).is_some();
        let mut choices: Vec<(u8, Choice<M::State>)> = Vec::new();
        for number in under_way.iter().copied().filter(|number| !place.has(*number)) {
            if let Some(after) = self.step(&place.state, number) {
                let rank = if number == next {
                    0
                } else if explains(&after) {
                    1
                } else {
                    2
                };
                choices.push((rank, (number, Some(after))));
            }
        }
        if self.is_lost(next) {
            choices.push((0, (next, None)));
        }
        choices.sort_by_key(|(rank, (number, after))| Reverse((*rank, after.is_some(), *number)));
        Branch { place, link, choices: choices.into_iter().map(|(_, choice)| choice).collect() }
    }

    fn order(&self, mut link: Option<usize>) -> Vec<usize> {
        let mut order = Vec::new();
        while let Some(at) = link {
            order.push(self.numbers[self.links[at].number]);
            link = self.links[at].before;
        }
        order.reverse();
        order
    }

    fn violation(&self, next: usize, link: Option<usize>, states: &[M::State]) -> Violation {
        let order = self.order(link);
        let stuck = self.numbers[next];
        let beside = self.under_way[next].iter().filter(|number| **number != next);
        let beside: Vec<usize> = beside.map(|number| self.numbers[*number]).collect();
        let states: Vec<String> = states.iter().map(|state| format!("{state:?}")).collect();
        let mut violation = Violation { order, stuck, beside, states, text: String::new() };
        violation.text = self.describe(next, &violation);
        violation
    }

    fn describe(&self, next: usize, violation: &Violation) -> String {
        let Violation { order, stuck, beside, states, .. } = violation;
        let mut text = format!(
            "not linearizable: answer {} of {} has no place in any order\n  {}\n",
            next + 1,
            self.history.len(),
            self.history[*stuck]
        );
        let mut line = |indent: &str, what: &dyn std::fmt::Display| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{indent}{what}");
        };
        line("", &"an order of what was answered before it, the last of it, each with the state after it:");
        let mut state = self.model.start();
        for (place, at) in order.iter().enumerate() {
            let operation = &self.history[*at];
            if let Some(after) = self.model.step(&state, &operation.call, operation.answer()) {
                state = after;
            }
            if place + SHOWN >= order.len() {
                line("  ", &format_args!("{operation}    {state:?}"));
            }
        }
        line("", &"states that are possible then:");
        states.iter().for_each(|state| line("  ", state));
        line("", &"under way at the same time:");
        beside.iter().for_each(|at| line("  ", &self.history[*at]));
        text
    }
}
