//! Numbers for people.

/// Three figures that count: `0.0123`, `1.23`, `123`.
pub(crate) fn three(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.places$}")
}

/// A share in percent: `98.7`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// No change.
pub(crate) const NOTHING: &str = "0 %";

/// How far a ratio is from 1, in percent: `−12 %`. What is below a tenth of a percent is nothing.
pub(crate) fn change(ratio: f64) -> String {
    if !ratio.is_finite() {
        return "–".to_owned();
    }
    let by = (ratio - 1.0) * 100.0;
    let text = match by.abs() {
        size if size < 0.05 => return NOTHING.to_owned(),
        size if size < 9.95 => format!("{:.1}", by.abs()),
        _ => format!("{:.0}", by.abs()),
    };
    let sign = if by < 0.0 { '−' } else { '+' };
    format!("{sign}{text} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_figures_and_changes_a_sign() {
        assert_eq!(
            [0.0123, 1.234, 12.34, 1234.5].map(three),
            ["0.012", "1.23", "12.3", "1234"]
        );
        assert_eq!(percent(0.98765), "98.8");
        assert_eq!(
            [0.5, 1.0, 1.0004, 1.05, 3.0].map(change),
            ["−50 %", "0 %", "0 %", "+5.0 %", "+200 %"]
        );
        assert_eq!(change(f64::NAN), "–");
    }
}
