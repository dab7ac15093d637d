//! Searching a string of JSON for what ends its plain part, eight bytes at a time.

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES << 7;

/// How many bytes of `text` come before the first quote, backslash or control character.
#[inline(always)]
pub(super) fn plain_len(text: &[u8]) -> usize {
    let mut rest = text;
    while let Some((word, behind)) = rest.split_first_chunk() {
        let ends = ends_of_word(u64::from_le_bytes(*word));
        if ends != 0 {
            return text.len() - rest.len() + ends.trailing_zeros() as usize / 8;
        }
        rest = behind;
    }
    let tail = rest.iter().take_while(|&&byte| !ends(byte)).count();
    text.len() - rest.len() + tail
}

fn ends(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// The high bit of the lowest byte that ends a plain part; bits above it mean nothing.
///
/// The tests for a byte below a number and for a zero byte are those of "Bit Twiddling Hacks" (Sean Eron Anderson).
/// Flipping the second bit puts the quote next to the control characters, so that one test finds both.
#[inline(always)]
fn ends_of_word(word: u64) -> u64 {
    let flipped = word ^ (ONES * 2);
    let quotes_and_controls = flipped.wrapping_sub(ONES * 0x21) & !flipped;
    let differing = word ^ (ONES * u64::from(b'\\'));
    let backslashes = differing.wrapping_sub(ONES) & !differing;
    (quotes_and_controls | backslashes) & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place() {
        for byte in 0..=u8::MAX {
            for place in 0..70 {
                let mut text = vec![b'x'; 70];
                text[place] = byte;
                text[69] = b'"';
                let expected = if ends(byte) { place } else { 69 };
                assert_eq!(plain_len(&text), expected, "{byte} at {place}");
            }
        }
        assert_eq!(plain_len("ünïcödé and no end".as_bytes()), 22);
        assert_eq!(plain_len(b""), 0);
    }
}
