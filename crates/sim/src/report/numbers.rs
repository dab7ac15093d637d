//! Numbers as people read them: three digits that mean something, thousands apart, one unit per row.

/// Three significant digits, without an exponent; thousands are set apart.
pub(super) fn significant(value: f64) -> String {
    fixed(value, decimals(value))
}

/// Decimals that make three significant digits.
pub(super) fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        size if size >= 0.09995 => 3,
        size if size >= 0.009995 => 4,
        _ => 5,
    }
}

/// With as many decimals.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    match value.is_finite() {
        true => grouped(&format!("{value:.decimals$}")),
        false => "–".to_owned(),
    }
}

/// Two significant digits: for what says how certain another number is.
pub(super) fn rough(value: f64) -> String {
    fixed(value, decimals(value).saturating_sub(1))
}

/// Whole numbers in full; others like [`significant`].
pub(super) fn counted(value: f64) -> String {
    match value.fract() == 0.0 && value.abs() < 1e15 {
        true => grouped(&format!("{value:.0}")),
        false => significant(value),
    }
}

/// A number that is written out, with a comma between thousands.
#[must_use]
pub fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("−", rest));
    let (whole, fraction) = digits
        .split_once('.')
        .map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if let Some(fraction) = fraction {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    // What rounds to nothing has no sign.
    if grouped
        .chars()
        .all(|digit| matches!(digit, '−' | '0' | '.' | ','))
    {
        "0".to_owned()
    } else {
        grouped
    }
}

/// With a plus where it is one.
pub(super) fn signed(text: String) -> String {
    if text.starts_with('−') || text == "0" || text == "–" {
        text
    } else {
        format!("+{text}")
    }
}

/// A change in percent, such as `−42 %`.
pub(super) fn percent_change(relative: f64) -> String {
    let percent = relative * 100.0;
    if percent >= 1000.0 {
        return format!("×{}", significant(relative + 1.0));
    }
    let decimals = usize::from(percent.abs() < 9.95);
    signed(grouped(&format!("{percent:.decimals$}"))) + " %"
}

/// A share in percent, such as `97.3 %`: never rounded to all or nothing.
pub(super) fn share(share: f64) -> String {
    format!("{} %", percent(share))
}

/// The number of [`share`].
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        _ if percent.fract() == 0.0 && (percent == 0.0 || percent == 100.0) => format!("{percent:.0}"),
        _ if percent > 99.9 && percent < 100.0 => grouped(&format!("{:.2}", percent.min(99.99))),
        _ if percent > 0.0 && percent < 0.1 => grouped(&format!("{:.2}", percent.max(0.01))),
        _ => grouped(&format!("{percent:.1}")),
    }
}

/// A time with its own unit, such as `2 s`, `41.2 ms`, `3.5 min`.
pub(super) fn time(seconds: f64) -> String {
    let size = seconds.abs();
    match size {
        _ if size >= 7200.0 => format!("{} h", significant(seconds / 3600.0)),
        _ if size >= 600.0 => format!("{} min", significant(seconds / 60.0)),
        _ if size >= 0.9995 || size == 0.0 => format!("{} s", significant(seconds)),
        _ => format!("{} ms", significant(seconds * 1e3)),
    }
}

/// The same without zeros at the end, for bounds and axes: `2 s`, `50 ms`, `10 min`.
pub(super) fn short_time(seconds: f64) -> String {
    let text = time(seconds);
    let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
    let number = match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    };
    format!("{number} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_mean_something() {
        for (value, expect) in [
            (0.0, "0"),
            (0.012_345, "0.0123"),
            (0.5, "0.500"),
            (0.9999, "1.00"),
            (9.999, "10.0"),
            (12.345, "12.3"),
            (99.96, "100"),
            (1_234_567.8, "1,234,568"),
            (-1234.0, "−1,234"),
            (-0.000_000_1, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(significant(value), expect);
        }
        assert_eq!(counted(5.0), "5");
        assert_eq!(counted(1_000_000.0), "1,000,000");
        assert_eq!(counted(4.5), "4.50");
    }

    #[test]
    fn changes_shares_and_times_have_their_units() {
        assert_eq!(percent_change(-0.4211), "−42 %");
        assert_eq!(percent_change(0.0), "0 %");
        assert_eq!(percent_change(0.051), "+5.1 %");
        assert_eq!(percent_change(11.0), "×12.0");
        assert_eq!(share(0.9731), "97.3 %");
        assert_eq!(share(0.999_99), "99.99 %");
        assert_eq!(share(1.0), "100 %");
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(0.000_001), "0.01 %");
        assert_eq!(time(0.0412), "41.2 ms");
        assert_eq!(time(7200.0), "2.00 h");
        assert_eq!(short_time(2.0), "2 s");
        assert_eq!(short_time(0.05), "50 ms");
        assert_eq!(short_time(600.0), "10 min");
        assert_eq!(short_time(100.0), "100 s");
    }
}
