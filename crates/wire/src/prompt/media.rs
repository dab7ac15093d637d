//! Images, audio, films and files in a message: known by their fields, counted by a hash.

use super::facts::Needs;
use crate::fields::{Malformed, Reader};
use xxhash_rust::xxh3::Xxh3;

/// What a medium is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Medium {
    Image,
    Audio,
    Video,
    File,
}

impl Medium {
    /// What a field of a message or of a part of it holds. `source` and the ids and bytes of files are what the `type` of
    /// their part says.
    pub(super) fn of_field(key: &str, kind: &str) -> Option<Self> {
        match key {
            "image_url" | "image" | "images" | "input_image" => Some(Self::Image),
            "input_audio" | "audio" | "audio_url" => Some(Self::Audio),
            "video_url" | "video" | "videos" | "input_video" => Some(Self::Video),
            "file" | "file_id" | "file_data" | "file_url" | "source" => Some(Self::of_kind(kind)),
            _ => None,
        }
    }

    fn of_kind(kind: &str) -> Self {
        if kind.contains("image") {
            Self::Image
        } else if kind.contains("audio") {
            Self::Audio
        } else if kind.contains("video") {
            Self::Video
        } else {
            Self::File
        }
    }

    pub(super) fn needs(self) -> Needs {
        match self {
            Self::Image => Needs::IMAGE,
            Self::Audio => Needs::AUDIO,
            Self::Video => Needs::VIDEO,
            Self::File => Needs::FILE,
        }
    }

    /// Tokens of a usual one, since nothing is decoded: an image of about a megapixel, half a minute of sound or film, two
    /// pages. A larger one may take ten times as many.
    pub(super) fn tokens(self) -> u64 {
        match self {
            Self::Image => 800,
            Self::Audio => 400,
            Self::Video => 4000,
            Self::File => 1500,
        }
    }
}

/// The hash of a value, whatever its strings are escaped like and whatever space is between its parts.
pub(super) fn hash(raw: &str) -> Result<u64, Malformed> {
    let mut hash = Xxh3::new();
    compact(raw, |piece| hash.update(piece))?;
    Ok(hash.digest())
}

/// Gives a value without the space between its parts, and its strings by their characters.
pub(super) fn compact(raw: &str, mut on_piece: impl FnMut(&[u8])) -> Result<(), Malformed> {
    let mut rest = raw;
    loop {
        let quote = memchr::memchr(b'"', rest.as_bytes()).unwrap_or(rest.len());
        for part in rest.as_bytes()[..quote].split(u8::is_ascii_whitespace) {
            if !part.is_empty() {
                on_piece(part);
            }
        }
        rest = &rest[quote..];
        if rest.is_empty() {
            return Ok(());
        }
        let mut reader = Reader::new(rest);
        on_piece(b"\"");
        reader.text(&mut on_piece)?;
        on_piece(b"\"");
        rest = reader.rest();
    }
}
