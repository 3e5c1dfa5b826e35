use environment::mutant::Mutant;

use super::course::{Failure, live};
use super::plan::Plan;

/// A smaller plan that fails as well, after at most `attempts` lives; with how it fails.
pub fn shrink(plan: &Plan, failure: Failure, broken: Option<Mutant>, attempts: usize) -> (Plan, Failure) {
    let mut best = Shrunk { plan: plan.clone(), failure, broken, attempts };
    loop {
        let before = best.size();
        best.drop_phases();
        best.drop_troubles();
        best.drop_steps();
        if best.size() == before || best.attempts == 0 {
            return (best.plan, best.failure);
        }
    }
}

struct Shrunk {
    plan: Plan,
    failure: Failure,
    broken: Option<Mutant>,
    attempts: usize,
}

impl Shrunk {
    fn size(&self) -> usize {
        let phases = self.plan.phases.iter();
        phases.map(|phase| 1 + phase.troubles.len()).sum::<usize>() + self.plan.operations()
    }

    /// Takes the smaller plan if it fails.
    fn try_plan(&mut self, plan: Plan) -> bool {
        if self.attempts == 0 {
            return false;
        }
        self.attempts -= 1;
        match live(&plan, self.broken, false) {
            Err(failure) => {
                (self.plan, self.failure) = (plan, failure);
                true
            }
            Ok(_) => false,
        }
    }

    fn drop_phases(&mut self) {
        // The last one first: what comes after the failure is of no use.
        for number in (0..self.plan.phases.len()).rev() {
            if self.plan.phases.len() > 1 {
                let mut plan = self.plan.clone();
                plan.phases.remove(number);
                self.try_plan(plan);
            }
        }
    }

    fn drop_troubles(&mut self) {
        for number in (0..self.plan.phases.len()).rev() {
            if self.plan.phases[number].point.is_some() {
                let mut plan = self.plan.clone();
                plan.phases[number].point = None;
                self.try_plan(plan);
            }
            for trouble in (0..self.plan.phases[number].troubles.len()).rev() {
                let mut plan = self.plan.clone();
                plan.phases[number].troubles.remove(trouble);
                self.try_plan(plan);
            }
        }
    }

    /// Halves, then quarters, and so on, of what each client does in a phase.
    fn drop_steps(&mut self) {
        for number in (0..self.plan.phases.len()).rev() {
            for client in 0..self.plan.phases[number].steps.len() {
                let mut length = self.plan.phases[number].steps[client].len();
                while length > 0 && self.attempts > 0 {
                    let mut end = self.plan.phases[number].steps[client].len();
                    while end > 0 {
                        let mut plan = self.plan.clone();
                        let start = end.saturating_sub(length);
                        plan.phases[number].steps[client].drain(start..end);
                        self.try_plan(plan);
                        end = start;
                    }
                    length /= 2;
                }
            }
        }
    }
}
