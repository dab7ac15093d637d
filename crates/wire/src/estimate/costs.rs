//! What a byte costs behind what came before it: the automaton of [`TextTokens`](super::TextTokens) as one table.
//!
//! The states are the runs that the pre-tokenizers of today's vocabularies cut a text into (letters with a space or a
//! mark before them, up to three digits, marks with the line ends behind them, white space), each with its length so
//! far, because the first letter of a word is nearly a token and the next few are free. The costs are a least-squares
//! fit, in 64ths of a token, to what three vocabularies of 128,000 to 200,000 entries (o200k, Qwen's, DeepSeek V3's)
//! count on English questions, Markdown, Rust, Python, JSON, Chinese news and reviews, and manual pages in Russian,
//! Japanese, German, French and Spanish. Where the three disagree, as on digits (Qwen's take one each) and on Chinese
//! (1.3 to 1.7 characters a token), it lies between them. Hangul, the scripts of India and emoji are set by hand.

/// The kinds of bytes. A letter of several bytes costs what its first one says.
const SPACE: u8 = 0;
const NEW_LINE: u8 = 1;
const LOWER: u8 = 2;
const UPPER: u8 = 3;
const DIGIT: u8 = 4;
const APOSTROPHE: u8 = 5;
const MARK: u8 = 6;
/// A byte inside a character: 0x80, and any other.
const INSIDE_80: u8 = 7;
const INSIDE: u8 = 8;
/// First bytes: Latin letters with accents; other alphabets; scripts of South Asia; marks and symbols; kana and
/// ideographic marks; ideographs; hangul; full-width forms; emoji and what is rare.
const ACCENTED: u8 = 9;
const ALPHABET: u8 = 10;
const INDIC: u8 = 11;
const SIGN: u8 = 12;
const KANA: u8 = 13;
const IDEOGRAPH: u8 = 14;
const HANGUL: u8 = 15;
const FULL_WIDTH: u8 = 16;
const RARE: u8 = 17;

/// The class of every byte.
pub(super) static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        #[expect(clippy::cast_possible_truncation, reason = "it is below 256")]
        let class = class_of(byte as u8);
        classes[byte] = class;
        byte += 1;
    }
    classes
}

const fn class_of(byte: u8) -> u8 {
    match byte {
        b' ' | b'\t' => SPACE,
        b'\n' | b'\r' => NEW_LINE,
        b'a'..=b'z' => LOWER,
        b'A'..=b'Z' => UPPER,
        b'0'..=b'9' => DIGIT,
        b'\'' => APOSTROPHE,
        0..=0x7f => MARK,
        0x80 => INSIDE_80,
        0x81..=0xbf => INSIDE,
        0xc0..=0xc9 => ACCENTED,
        0xca..=0xdf => ALPHABET,
        0xe0 | 0xe1 => INDIC,
        0xe2 => SIGN,
        0xe3 => KANA,
        0xe4..=0xe9 => IDEOGRAPH,
        0xea..=0xee => HANGUL,
        0xef => FULL_WIDTH,
        0xf0..=0xff => RARE,
    }
}

/// The states. Those with a length so far have a range of them.
pub(super) const BEGIN: u8 = 0;
const ONE_SPACE: u8 = 1;
const SPACES: u8 = 2;
const LINE: u8 = 3;
const WORD: Run = Run(4, 12);
const CAPITALS: Run = Run(16, 4);
const NUMBER: Run = Run(20, 3);
const MARKS: Run = Run(23, 4);
const LETTERS: Run = Run(27, 5);
const IDEOGRAPHS: u8 = 32;
/// Behind the first byte of kana, which ideographic marks share.
const KANA_BEGUN: u8 = 33;
const INDICS: u8 = 34;
const SIGNS: u8 = 35;
/// Marks between ideographs, full-width ones among them.
const WIDE_MARKS: u8 = 36;
pub(super) const STATES: u8 = 37;

/// The first state of a run, and the number of lengths that are told apart.
#[derive(Clone, Copy)]
struct Run(u8, u8);

impl Run {
    /// The state of this length, or of the longest.
    const fn at(self, len: u8) -> u8 {
        let len = if len > self.1 { self.1 } else { len };
        self.0 + len - 1
    }

    /// The length that a state says; 0 for one of another run.
    const fn len(self, state: u8) -> u8 {
        if state >= self.0 && state < self.0 + self.1 {
            state - self.0 + 1
        } else {
            0
        }
    }
}

/// Room for a class, so that a place in the table is made of a state and a class without a multiplication.
pub(super) const ROW: usize = 32;
/// A power of two, so that masking a place spares the check of its bounds.
pub(super) const PLACES: usize = 2048;

/// At `state · ROW + class`: the next state in the high byte, the cost in the low one.
pub(super) static STEPS: [u16; PLACES] = steps();

const fn steps() -> [u16; PLACES] {
    let mut steps = [0; PLACES];
    let mut state = 0;
    while state < STATES {
        let mut class = 0;
        while class <= RARE {
            let (next, cost) = step(state, class);
            steps[state as usize * ROW + class as usize] = (next as u16) << 8 | cost as u16;
            class += 1;
        }
        state += 1;
    }
    steps
}

/// What is behind it when a run begins.
#[derive(Clone, Copy)]
enum Behind {
    Other,
    Space,
    Spaces,
    Mark,
    Marks,
    Line,
    Number,
    Ideograph,
}

const fn behind(state: u8) -> Behind {
    match state {
        ONE_SPACE => Behind::Space,
        SPACES => Behind::Spaces,
        LINE => Behind::Line,
        IDEOGRAPHS | KANA_BEGUN | WIDE_MARKS => Behind::Ideograph,
        _ if NUMBER.len(state) > 0 => Behind::Number,
        _ if MARKS.len(state) == 1 => Behind::Mark,
        _ if MARKS.len(state) > 1 => Behind::Marks,
        _ => Behind::Other,
    }
}

/// The next state, and what the byte costs.
const fn step(state: u8, class: u8) -> (u8, u8) {
    match class {
        SPACE => space(state),
        NEW_LINE => new_line(state),
        LOWER => lower(state),
        UPPER => upper(state),
        DIGIT => digit(state),
        APOSTROPHE if WORD.len(state) + CAPITALS.len(state) > 0 => (MARKS.at(1), 36),
        APOSTROPHE | MARK => mark(state),
        INSIDE_80 if state == KANA_BEGUN => (WIDE_MARKS, 49),
        INSIDE if state == KANA_BEGUN => (IDEOGRAPHS, 40),
        INSIDE_80 | INSIDE => (state, 0),
        ACCENTED => accented(state),
        ALPHABET => letter(state),
        INDIC => (INDICS, 48),
        SIGN => (SIGNS, 40),
        KANA => (KANA_BEGUN, 0),
        IDEOGRAPH => ideograph(state),
        HANGUL => (IDEOGRAPHS, 46),
        FULL_WIDTH if state == WIDE_MARKS => (WIDE_MARKS, 39),
        FULL_WIDTH => (WIDE_MARKS, 49),
        _ => (SIGNS, 115),
    }
}

/// The first space belongs to the word behind it, and a run of more is a token.
const fn space(state: u8) -> (u8, u8) {
    match state {
        ONE_SPACE => (SPACES, 41),
        SPACES => (SPACES, 0),
        BEGIN | LINE => (ONE_SPACE, 10),
        _ => (ONE_SPACE, 0),
    }
}

/// Marks take the line ends behind them in.
const fn new_line(state: u8) -> (u8, u8) {
    let cost = match behind(state) {
        Behind::Line => 10,
        Behind::Mark | Behind::Marks => 10,
        Behind::Space | Behind::Spaces => 11,
        Behind::Ideograph => 26,
        _ => 66,
    };
    (LINE, cost)
}

const fn lower(state: u8) -> (u8, u8) {
    const fn further(len: u8) -> u8 {
        match len {
            ..5 => 1,
            5..9 => 4,
            9..13 => 10,
            _ => 28,
        }
    }
    match (WORD.len(state), CAPITALS.len(state)) {
        (0, 0) => {}
        (0, 1) => return (WORD.at(2), further(2)),
        (0, _) => return (WORD.at(3), 22),
        (len, _) => {
            let next = WORD.at(len + 1);
            return (next, further(WORD.len(next)));
        }
    }
    let cost = match behind(state) {
        Behind::Space => 60,
        Behind::Spaces => 45,
        Behind::Mark => 42,
        Behind::Marks => 59,
        Behind::Line => 78,
        Behind::Number => 73,
        Behind::Ideograph => 55,
        Behind::Other => 64,
    };
    (WORD.at(1), cost)
}

const fn upper(state: u8) -> (u8, u8) {
    const FURTHER: [u8; 5] = [0, 0, 17, 10, 8];
    if CAPITALS.len(state) > 0 {
        let next = CAPITALS.at(CAPITALS.len(state) + 1);
        return (next, FURTHER[CAPITALS.len(next) as usize]);
    }
    let cost = match behind(state) {
        // As in camelCase.
        _ if WORD.len(state) > 0 => 81,
        Behind::Space => 70,
        Behind::Spaces | Behind::Marks => 59,
        Behind::Mark => 52,
        Behind::Line => 79,
        Behind::Number => 73,
        Behind::Ideograph => 53,
        Behind::Other => 55,
    };
    (CAPITALS.at(1), cost)
}

const fn accented(state: u8) -> (u8, u8) {
    let len = WORD.len(state) + CAPITALS.len(state);
    if len > 0 {
        (WORD.at(len + 2), 70)
    } else {
        (WORD.at(2), 36)
    }
}

const fn letter(state: u8) -> (u8, u8) {
    const FURTHER: [u8; 6] = [0, 0, 18, 16, 17, 28];
    match LETTERS.len(state) {
        0 => (LETTERS.at(1), 18),
        len => {
            let next = LETTERS.at(len + 1);
            (next, FURTHER[LETTERS.len(next) as usize])
        }
    }
}

const fn ideograph(state: u8) -> (u8, u8) {
    let cost = match state {
        IDEOGRAPHS | KANA_BEGUN => 41,
        WIDE_MARKS => 62,
        LINE => 44,
        _ => 80,
    };
    (IDEOGRAPHS, cost)
}

/// A space before a number is a token of its own.
const fn digit(state: u8) -> (u8, u8) {
    match (NUMBER.len(state), state) {
        (0, ONE_SPACE) => (NUMBER.at(1), 102),
        (0, _) => (NUMBER.at(1), 72),
        (1, _) => (NUMBER.at(2), 32),
        (2, _) => (NUMBER.at(3), 29),
        _ => (NUMBER.at(1), 37),
    }
}

const fn mark(state: u8) -> (u8, u8) {
    let cost = match (MARKS.len(state), behind(state)) {
        (1, _) => 14,
        (2, _) => 9,
        (3 | 4, _) => 18,
        (_, Behind::Space) => 73,
        (_, Behind::Spaces) => 87,
        (_, Behind::Line) => 60,
        (_, Behind::Number) => 71,
        (_, Behind::Ideograph) => 50,
        _ if LETTERS.len(state) > 0 => 59,
        _ => 47,
    };
    (MARKS.at(MARKS.len(state) + 1), cost)
}
