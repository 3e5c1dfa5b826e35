//! All orders, one by one.

use std::time::Duration;

use linearizable::{End, Model};

use crate::cell::{Cell, CellOperation, History};

fn ended(operation: &CellOperation) -> Duration {
    match operation.end {
        End::Answered { at, .. } => at,
        End::Lost { until } => until.unwrap_or(Duration::MAX),
    }
}

/// Whether these operations in this order explain what was answered until then.
pub fn explains(history: &History, order: &[usize], until: Duration) -> Result<(), String> {
    for (at, operation) in history.iter().enumerate() {
        let times = order.iter().filter(|placed| **placed == at).count();
        let may_be_missing = matches!(operation.end, End::Lost { .. }) || ended(operation) > until;
        if times != 1 && !(times == 0 && may_be_missing) {
            return Err(format!("{operation} is there {times} times"));
        }
    }
    for (place, first) in order.iter().enumerate() {
        if let Some(second) =
            order[place..].iter().find(|second| ended(&history[**second]) < history[*first].called)
        {
            return Err(format!("{} is behind {}", history[*second], history[*first]));
        }
    }
    let mut state = Cell.start();
    for at in order {
        let CellOperation { call, end, .. } = &history[*at];
        let answer = match end {
            End::Answered { answer, .. } => Some(answer),
            End::Lost { .. } => None,
        };
        state = Cell.step(&state, call, answer).ok_or(format!("{} in {state}", history[*at]))?;
    }
    Ok(())
}

/// Whether anything explains what was answered until then.
pub fn is_linearizable(history: &History, until: Duration) -> bool {
    some_order(history, &mut Vec::new(), until)
}

/// Whether any arrangement of any of the operations that begins like this does.
fn some_order(history: &History, begun: &mut Vec<usize>, until: Duration) -> bool {
    if explains(history, begun, until).is_ok() {
        return true;
    }
    for at in 0..history.len() {
        if !begun.contains(&at) && history[at].called <= until {
            begun.push(at);
            if some_order(history, begun, until) {
                return true;
            }
            begun.pop();
        }
    }
    false
}
