//! Forms: what is found in one while it passes is what a reader of the whole finds, however it is cut, and with the model
//! written anew every other byte stays.

use crate::input::{Input, cut};
use crate::multipart::{self, Fault, Form};
use weighbridge_wire::form::{FormError, FormModel, FormScanner, boundary};

const BOUNDARIES: [&str; 6] = ["b0", "-", "----WebKitFormBoundaryAbC", "a b", "--", "x\"y\\z"];
/// Longest debug text of a scanner, whatever it was fed: a head of 8 KiB, five characters a byte, and a little more.
const SHOWN_MAX: usize = 48 * 1024;

/// A boundary, a model to write, where to cut, a stretch to repeat, and the body.
pub fn check(data: &[u8]) {
    let mut input = Input(data);
    let boundary = BOUNDARIES[input.below(BOUNDARIES.len())];
    let len = input.below(24);
    let model = String::from_utf8_lossy(input.take(len)).into_owned();
    let cuts = input.cuts();
    let (from, len, times) = (input.short(), input.byte(), input.byte());
    check_boundary(&input.0[..input.0.len().min(200)]);
    let body = stretched(input.0, (from, len, times));
    check_form(&body, (boundary, &cuts), &model);
}

/// The body with a stretch of it repeated.
fn stretched(body: &[u8], (from, len, times): (u16, u8, u8)) -> Vec<u8> {
    let from = usize::from(from) * (body.len() + 1) / 65536;
    let to = (from + usize::from(len)).min(body.len());
    let again = body[from..to].repeat(usize::from(times) * 5);
    [&body[..to], &again, &body[to..]].concat()
}

type Found = (Option<FormModel>, bool, Option<(usize, String)>);

fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, boundary: &str) -> Result<Found, FormError> {
    let mut scanner = FormScanner::new(boundary);
    let mut fed = Ok(());
    for piece in pieces {
        fed = scanner.feed(piece);
        if fed.is_err() {
            break;
        }
    }
    let shown = format!("{scanner:?}").len();
    assert!(shown < SHOWN_MAX, "{shown}");
    fed?;
    scanner.finish()?;
    Ok((
        scanner.model().cloned(),
        scanner.stream(),
        scanner.model_part("put-in"),
    ))
}

fn fault(error: FormError) -> Fault {
    match error {
        FormError::NoBoundary | FormError::TwoBoundaries => panic!("the boundary was given"),
        FormError::BrokenBoundary => Fault::Boundary,
        FormError::BadHead(_) => Fault::Head,
        FormError::TooManyParts => Fault::Parts,
        FormError::DuplicateModel => Fault::Twice,
        FormError::BadModel(_) => Fault::Model,
        FormError::Unclosed => Fault::Unclosed,
    }
}

fn check_form(body: &[u8], (boundary, cuts): (&str, &[u16]), model: &str) {
    let whole = scan([body], boundary);
    assert_eq!(scan(cut(body, cuts), boundary), whole, "cut");
    if body.len() <= 4096 {
        assert_eq!(scan(body.chunks(1), boundary), whole, "byte by byte");
    }
    let (form, (found, stream, part)) = match (multipart::parse(body, boundary), whole) {
        (Ok(form), Ok(found)) => (form, found),
        (form, found) => {
            let told = found.as_ref().map_err(|error| error.to_string());
            assert!(!told.is_err_and(|told| told.is_empty() || told.len() > 200));
            assert_eq!(found.map(|_| ()).map_err(fault), form.map(|_| ()));
            return;
        }
    };
    assert_eq!(found.as_ref().map(|found| found.place.clone()), form.model);
    if let Some(found) = &found {
        assert_eq!(found.name.as_bytes(), &body[found.place.clone()]);
    }
    assert_eq!(stream, form.stream);
    let (at, part) = part.expect("a first boundary");
    assert_eq!(at, form.first);
    match form.model.clone() {
        Some(place) => check_rewritten((body, &form), boundary, (place, model)),
        None => check_put_in((body, &form), boundary, (at, &part)),
    }
}

/// Heads and contents of the parts, and what stands around them.
fn contents<'a>(body: &'a [u8], form: &Form) -> Vec<(String, &'a [u8], &'a [u8])> {
    let part = |part: &multipart::Part| {
        (
            part.name.clone(),
            &body[part.head.clone()],
            &body[part.content.clone()],
        )
    };
    form.parts.iter().map(part).collect()
}

fn check_rewritten(
    (body, form): (&[u8], &Form),
    boundary: &str,
    (place, model): (std::ops::Range<usize>, &str),
) {
    // A name that holds a boundary is the operator's and would be a strange one.
    if model.trim().is_empty() || model.contains('\r') || model.starts_with("--") {
        return;
    }
    let new = [&body[..place.start], model.as_bytes(), &body[place.end..]].concat();
    let read = multipart::parse(&new, boundary).expect("what was rewritten is a form");
    let (found, stream, _) = scan([&new[..]], boundary).expect("what was rewritten is taken");
    assert_eq!(found.expect("a model").name, model);
    assert_eq!((stream, read.first), (form.stream, form.first));
    let mut expected = contents(body, form);
    for (name, _, content) in &mut expected {
        if name == "model" {
            *content = model.as_bytes();
        }
    }
    assert_eq!(contents(&new, &read), expected);
}

fn check_put_in((body, form): (&[u8], &Form), boundary: &str, (at, part): (usize, &str)) {
    let new = [&body[..at], part.as_bytes(), &body[at..]].concat();
    let read = multipart::parse(&new, boundary);
    if form.parts.len() == multipart::PARTS_MAX {
        assert_eq!(read.err(), Some(Fault::Parts));
        return;
    }
    let read = read.expect("with a model put in it is a form");
    let (found, stream, _) = scan([&new[..]], boundary).expect("with a model put in it is taken");
    assert_eq!(found.expect("a model").name, "put-in");
    assert_eq!((stream, read.first), (form.stream, form.first));
    let (added, kept) = read.parts.split_first().expect("a part was put in");
    assert_eq!(added.name, "model");
    assert_eq!(kept.len(), form.parts.len());
    let contents_of_new = contents(&new, &read);
    assert_eq!(contents_of_new[1..], contents(body, form)[..]);
}

/// The boundary that a content type names.
fn check_boundary(parameters: &[u8]) {
    let _ = boundary(parameters);
    let content_type = [b"multipart/form-data;", parameters].concat();
    let found = boundary(&content_type);
    let Ok(text) = std::str::from_utf8(parameters) else {
        assert_eq!(found, Ok(None));
        return;
    };
    let usable = |text: &str| {
        (1..=256).contains(&text.len())
            && !text.ends_with(' ')
            && text.chars().all(|char| char == ' ' || char.is_ascii_graphic())
    };
    let named: Option<Vec<String>> = multipart::parameters(text).map(|all| {
        let named = all.into_iter().filter(|(key, _)| key == "boundary");
        named.map(|(_, value)| value).collect()
    });
    match named.as_deref() {
        Some([one]) if usable(one) => assert_eq!(found, Ok(Some(one.clone()))),
        Some([_, _, ..]) => assert_eq!(found, Err(FormError::TwoBoundaries)),
        _ => assert_eq!(found, Err(FormError::NoBoundary)),
    }
}
