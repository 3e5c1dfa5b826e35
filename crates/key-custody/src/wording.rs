use bip39::Language;
use seal::KeyFile;
use zeroize::Zeroizing;

use crate::CustodyError;

/// Bits of a word.
const BITS: usize = 11;
const CHECKSUM: usize = 4;
const KEY: u8 = 1;
pub(crate) const SHARE: u8 = 2;
/// More words than anything takes.
const MAX_WORDS: usize = 256;
/// Letters in which all words differ.
const LETTERS: usize = 4;

/// A key in words, in their order.
pub fn words(key: &KeyFile) -> Vec<&'static str> {
    encode(KEY, &key.to_bytes())
}

/// The key of such words.
///
/// # Errors
/// Which word is wrong, if that can be told.
pub fn key_of_words(text: &str) -> Result<KeyFile, CustodyError> {
    Ok(KeyFile::from_bytes(&decode(KEY, text)?)?)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    let hash = blake3::derive_key("kurma 2026 words", bytes);
    [hash[0], hash[1], hash[2], hash[3]]
}

pub(crate) fn encode(kind: u8, body: &[u8]) -> Vec<&'static str> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(1 + body.len() + CHECKSUM));
    bytes.push(kind);
    bytes.extend_from_slice(body);
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum);
    let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| usize::from(byte >> (7 - at % 8) & 1));
    let number = |word: usize| (word * BITS..(word + 1) * BITS).fold(0, |number, at| number << 1 | bit(at));
    (0..(bytes.len() * 8).div_ceil(BITS)).map(|word| Language::English.word_list()[number(word)]).collect()
}

pub(crate) fn decode(kind: u8, text: &str) -> Result<Zeroizing<Vec<u8>>, CustodyError> {
    let numbers = numbers(text)?;
    let bits = numbers.len() * BITS;
    let bit = |at: usize| (numbers[at / BITS] >> (BITS - 1 - at % BITS) & 1) as u8;
    let byte = |at: usize| (at * 8..at * 8 + 8).fold(0, |byte, at| byte << 1 | bit(at));
    let mut is_possible = false;
    // What is left of the last word may be longer than a byte.
    for length in [bits / 8, (bits / 8).saturating_sub(1)] {
        if length <= 1 + CHECKSUM || (length * 8).div_ceil(BITS) != numbers.len() {
            continue;
        }
        is_possible = true;
        let mut bytes = Zeroizing::new((0..length).map(byte).collect::<Vec<u8>>());
        let (content, sum) = bytes.split_at(length - CHECKSUM);
        if (length * 8..bits).any(|at| bit(at) == 1) || sum != checksum(content) {
            continue;
        }
        if bytes[0] != kind {
            let name = |kind| if kind == KEY { "a whole key" } else { "a share of a key" };
            return Err(CustodyError::OtherKind { found: name(bytes[0]), expected: name(kind) });
        }
        bytes.truncate(length - CHECKSUM);
        bytes.drain(..1);
        return Ok(bytes);
    }
    Err(match is_possible {
        true => CustodyError::WrongWords,
        false => CustodyError::WordCount { found: numbers.len() },
    })
}

/// Numbers of the words in the list. Comments behind `#`, and the numbers that words have on the paper, are passed over.
fn numbers(text: &str) -> Result<Zeroizing<Vec<u16>>, CustodyError> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let parts = lines.flat_map(|line| line.split(|c: char| c.is_whitespace() || ",;.:)".contains(c)));
    let written = parts.filter(|part| !part.is_empty() && !part.bytes().all(|byte| byte.is_ascii_digit()));
    let mut numbers = Zeroizing::new(Vec::with_capacity(MAX_WORDS));
    for (at, word) in written.enumerate() {
        if at == MAX_WORDS {
            return Err(CustodyError::WordCount { found: at + 1 });
        }
        let known = known(word);
        let number = known.ok_or_else(|| CustodyError::UnknownWord {
            number: at + 1,
            word: word.chars().take(20).collect(),
            nearest: nearest(word),
        })?;
        numbers.push(number);
    }
    Ok(numbers)
}

fn known(word: &str) -> Option<u16> {
    let word = word.to_ascii_lowercase();
    let list = Language::English.word_list();
    let whole = list.iter().position(|known| **known == *word);
    let cut = || {
        let is_cut = word.len() == LETTERS && word.is_ascii();
        list.iter().position(|known| is_cut && known.starts_with(&word))
    };
    whole.or_else(cut).and_then(|at| u16::try_from(at).ok())
}

/// The word that differs in the fewest places.
fn nearest(word: &str) -> Option<&'static str> {
    let word: Vec<char> = word.chars().take(20).map(|c| c.to_ascii_lowercase()).collect();
    let distance = |known: &&&'static str| distance(&word, &known.chars().collect::<Vec<_>>());
    let list = Language::English.word_list();
    list.iter().min_by_key(distance).filter(|known| distance(known) <= 2).copied()
}

/// Letters to be changed, put in or left out to make one word of another.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let best = (diagonal + usize::from(a != b)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use environment::SystemEntropy;
    use ids::GatewayId;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_words_of_a_key_come_back_however_they_are_written() {
        let key = KeyFile::generate(GatewayId(300), &SystemEntropy::new());
        let words = words(&key);
        assert_eq!(words.len(), 56);
        let numbered: String =
            words.iter().enumerate().map(|(at, word)| format!("{:2}. {word}\r\n", at + 1)).collect();
        let short: Vec<String> = words.iter().map(|word| word.chars().take(4).collect()).collect();
        let commented = format!("# words of a key\n{}  # end\n", words.join(" ").to_uppercase());
        for text in [words.join(" "), numbered, short.join("\n"), commented] {
            assert_eq!(key_of_words(&text).unwrap(), key, "{text}");
        }
    }

    #[test]
    fn a_wrong_word_is_named_with_what_it_may_have_been() {
        let key = KeyFile::generate(GatewayId(1), &SystemEntropy::new());
        let mut words = words(&key);
        words[6] = "zebbra";
        let error = key_of_words(&words.join(" ")).unwrap_err().to_string();
        assert!(error.contains("word 7") && error.contains("\"zebra\"?"), "{error}");
        assert!(matches!(key_of_words("abandon ability"), Err(CustodyError::WordCount { found: 2 })));
        let many = "zoo ".repeat(300);
        assert!(matches!(key_of_words(&many), Err(CustodyError::WordCount { .. })));
    }

    #[test]
    fn the_words_of_a_share_are_not_taken_for_a_key() {
        let words = encode(SHARE, &[7; 40]);
        assert_eq!(&decode(SHARE, &words.join(" ")).unwrap()[..], [7; 40]);
        assert!(matches!(key_of_words(&words.join(" ")), Err(CustodyError::OtherKind { .. })));
    }

    proptest! {
        #[test]
        fn bodies_of_any_length_come_back(body in prop::collection::vec(any::<u8>(), 1..120)) {
            prop_assert_eq!(&decode(KEY, &encode(KEY, &body).join(" ")).unwrap()[..], &body[..]);
        }

        #[test]
        fn a_changed_word_and_two_exchanged_ones_are_noticed(
            body in prop::collection::vec(any::<u8>(), 8..80),
            at in any::<prop::sample::Index>(), to in 0_usize..2048, with in any::<prop::sample::Index>(),
        ) {
            let words = encode(KEY, &body);
            let (at, with) = (at.index(words.len()), with.index(words.len()));
            let mut changed = words.clone();
            changed[at] = Language::English.word_list()[to];
            let mut exchanged = words.clone();
            exchanged.swap(at, with);
            for other in [changed, exchanged].iter().filter(|other| **other != words) {
                prop_assert!(matches!(decode(KEY, &other.join(" ")), Err(CustodyError::WrongWords)));
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,200}") {
            let _ = key_of_words(&text);
        }
    }
}
