/// How far the numbers of calls may be apart that are under way.
pub(crate) const WINDOW: u32 = 1024;

/// The largest number a call may have (RFC 2203 §5.3.3.1).
const MAX_SEQUENCE: u32 = 1 << 31;

/// Which numbers of a context have been used (RFC 2203 §5.3.3.1).
pub(crate) struct Window {
    /// The largest one so far; 0 before the first.
    highest: u32,
    /// A bit for each of the last [`WINDOW`] numbers, at its remainder.
    seen: [u64; WINDOW as usize / 64],
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// It is new.
    Execute,
    /// Repeated, or too old to know: no answer at all.
    Drop,
    /// The context has no numbers left.
    Exhausted,
}

impl Window {
    pub fn new() -> Window {
        Window { highest: 0, seen: [0; WINDOW as usize / 64] }
    }

    /// Takes the number of a call, whose header has been verified.
    pub fn take(&mut self, number: u32) -> Sequence {
        if number >= MAX_SEQUENCE {
            return Sequence::Exhausted;
        }
        if number > self.highest {
            // Those that the window leaves behind make room for the new ones.
            let skipped = (number - self.highest).min(WINDOW);
            for offset in 0..skipped {
                let (word, bit) = place(number - offset);
                self.seen[word] &= !bit;
            }
            self.highest = number;
        } else if self.highest - number >= WINDOW {
            return Sequence::Drop;
        }
        let (word, bit) = place(number);
        if self.seen[word] & bit != 0 {
            return Sequence::Drop;
        }
        self.seen[word] |= bit;
        Sequence::Execute
    }
}

fn place(number: u32) -> (usize, u64) {
    let index = number % WINDOW;
    (index as usize / 64, 1 << (index % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_end() {
        let mut window = Window::new();
        assert_eq!(window.take(MAX_SEQUENCE - 1), Sequence::Execute);
        assert_eq!(window.take(MAX_SEQUENCE), Sequence::Exhausted);
        assert_eq!(window.take(u32::MAX), Sequence::Exhausted);
        assert_eq!(window.take(MAX_SEQUENCE - 2), Sequence::Execute);
    }

    proptest! {
        #[test]
        fn every_number_is_executed_once_while_it_is_in_the_window(
            steps in vec(prop_oneof![8 => 0u32..40, 1 => 0u32..3000], 1..300)
        ) {
            let (mut window, mut used, mut highest) = (Window::new(), HashSet::new(), 0u32);
            for step in steps {
                // Around the highest one, sometimes far ahead.
                let number = if step < 40 { (highest + 20).saturating_sub(step * 60) } else { highest + step };
                let fresh = highest < number || highest - number < WINDOW;
                let expected = if fresh && used.insert(number) { Sequence::Execute } else { Sequence::Drop };
                prop_assert_eq!(window.take(number), expected, "{} after {}", number, highest);
                highest = highest.max(number);
            }
        }
    }
}
