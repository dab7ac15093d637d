//! Quantities with units, and times of day.

pub(crate) use weighbridge_core::units::{UnitError, duration, show_size, size};
pub use weighbridge_core::units::{parse_duration, show_duration};

/// Reads `HH:MM` or `HH:MM:SS`: seconds since midnight.
pub(crate) fn daytime(text: &str) -> Option<u32> {
    let mut parts = text.split(':');
    let mut next = |below: u32| {
        let part = parts.next()?;
        let digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let number: u32 = part.parse().ok().filter(|_| digits)?;
        (number < below).then_some(number)
    };
    let (hours, minutes) = (next(24)?, next(60)?);
    let seconds = if text.len() > 5 { next(60)? } else { 0 };
    parts
        .next()
        .is_none()
        .then_some(hours * 3600 + minutes * 60 + seconds)
}

/// A time of day as [`daytime`] reads it.
pub(crate) fn show_daytime(at: u32) -> String {
    let (hours, minutes, seconds) = (at / 3600, at / 60 % 60, at % 60);
    match seconds {
        0 => format!("{hours:02}:{minutes:02}"),
        _ => format!("{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        for (text, seconds) in [
            ("00:00", 0),
            ("04:00", 14_400),
            ("23:59", 86_340),
            ("23:59:59", 86_399),
        ] {
            assert_eq!(daytime(text), Some(seconds), "{text}");
            assert_eq!(show_daytime(seconds), text);
        }
        for text in [
            "",
            "4:00",
            "24:00",
            "04:60",
            "04:00:60",
            "04:00:0",
            "04:00:00:00",
            "0a:00",
            "+4:00",
            "04-00",
        ] {
            assert_eq!(daytime(text), None, "{text}");
        }
    }
}
