//! Numbers, as a reader wants them: three digits that count, and the unit.

use std::time::Duration;

use maud::{Markup, html};

use crate::sample::{Estimate, Ratio};

/// With a comma behind thousands; fractions only of small numbers.
pub fn number(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        0.0 => "0".into(),
        _ => return format!("{value:.1e}"),
    };
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|it| str::from_utf8(it).ok()).collect();
    let fraction = fraction.map_or(String::new(), |fraction| format!(".{fraction}"));
    format!("{sign}{}{fraction}", groups.join(","))
}

/// A value of a logarithmic axis, which has one digit that counts.
pub fn tick(value: f64) -> String {
    let digits = (-(value.log10() + 1e-9).floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

pub fn time(time: Duration) -> String {
    let nanoseconds = time.as_nanos() as f64;
    let (unit, size) = match nanoseconds {
        n if n < 1e3 => ("ns", 1.0),
        n if n < 1e6 => ("µs", 1e3),
        n if n < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    format!("{} {unit}", number(nanoseconds / size))
}

pub fn bytes(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len() - 1).find(|&power| bytes < 1024f64.powi(power as i32 + 1)).unwrap_or(4);
    format!("{} {}", number(bytes / 1024f64.powi(power as i32)), units[power])
}

/// A mean with its half-width, if it has one.
pub fn estimate(found: Option<Estimate>) -> Markup {
    html! {
        @match found {
            None => "–",
            Some(it) => {
                (number(it.mean))
                @if it.half_width > 0.0 { span.interval { " ± " (number(it.half_width)) } }
            }
        }
    }
}

pub fn mean(found: Option<Estimate>) -> String {
    found.map_or("–".into(), |it| number(it.mean))
}

/// A ratio with its interval; marked if that does not contain 1.
pub fn ratio(found: Option<Ratio>) -> Markup {
    let Some(Ratio { mean, interval }) = found else { return html! { "–" } };
    let (class, mark) = match interval {
        Some((low, _)) if low > 1.0 => ("better", "▲ "),
        Some((_, high)) if high < 1.0 => ("worse", "▼ "),
        _ => ("", ""),
    };
    html! { span class=(class) { (mark) (number(mean)) } (between(interval)) }
}

/// The same without a mark.
pub fn ratio_alone(Ratio { mean, interval }: Ratio) -> Markup {
    html! { (number(mean)) (between(interval)) }
}

fn between(interval: Option<(f64, f64)>) -> Markup {
    html! {
        @if let Some((low, high)) = interval { span.interval { " (" (bound(low)) "–" (bound(high)) ")" } }
    }
}

/// An end of an interval of ratios; far away it does not matter how far.
fn bound(value: f64) -> String {
    match value {
        value if value < 0.01 => "<0.01".into(),
        value if value > 100.0 => ">100".into(),
        value => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_count() {
        let cases = [
            (0.0, "0"),
            (0.004, "4.0e-3"),
            (0.5, "0.50"),
            (9.876, "9.88"),
            (98.76, "98.8"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn ticks_have_as_many_digits_as_they_need() {
        let ticks = [0.001, 0.05, 0.1, 0.2, 1.0, 20.0, 1000.0].map(tick);
        assert_eq!(ticks, ["0.001", "0.05", "0.1", "0.2", "1", "20", "1000"]);
    }

    #[test]
    fn times_and_sizes_have_the_unit_that_fits() {
        let nanos = Duration::from_nanos;
        let times = [nanos(900), nanos(12_345), nanos(1_500_000), nanos(61_000_000_000)].map(time);
        assert_eq!(times, ["900 ns", "12.3 µs", "1.50 ms", "61.0 s"]);
        assert_eq!([0.0, 1023.0, 1536.0, 3e12].map(bytes), ["0 B", "1,023 B", "1.50 KiB", "2.73 TiB"]);
    }

    #[test]
    fn only_an_interval_without_one_is_marked() {
        let text = |low, high| ratio(Some(Ratio { mean: 2.0, interval: Some((low, high)) })).into_string();
        assert!(text(1.01, 3.0).contains("better"));
        assert!(text(0.2, 0.99).contains("worse"));
        let unclear = text(0.9, 3.0);
        assert!(!unclear.contains("better") && !unclear.contains("worse"));
        let single = ratio(Some(Ratio { mean: 2.0, interval: None })).into_string();
        assert!(single.contains("2.00") && !single.contains("better"), "{single}");
    }
}
