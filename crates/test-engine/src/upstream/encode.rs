//! Content codings of answers.

use super::mode::Mode;
use crate::http1::Head;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use std::io::{self, Write};

/// A content coding. `deflate` is the zlib format, as RFC 9110 section 8.4.1.2 says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Deflate,
}

impl Coding {
    /// The coding the mode asks for, if the client accepts it or the mode insists.
    pub(crate) fn choose(mode: &Mode, head: &Head) -> Option<Coding> {
        let accepted = head
            .get("accept-encoding")
            .unwrap_or_default()
            .to_ascii_lowercase();
        [Coding::Gzip, Coding::Deflate].into_iter().find(|c| {
            mode.get(c.name())
                .is_some_and(|v| v == "force" || accepted.contains(c.name()))
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
        }
    }

    pub(crate) fn encoder(self) -> Encoder {
        match self {
            Coding::Gzip => Encoder::Gzip(GzEncoder::new(Vec::new(), Compression::default())),
            Coding::Deflate => Encoder::Deflate(ZlibEncoder::new(Vec::new(), Compression::default())),
        }
    }

    pub(crate) fn all(self, body: &[u8]) -> Vec<u8> {
        let mut encoder = self.encoder();
        let mut out = encoder.push(body);
        out.extend(encoder.finish());
        out
    }
}

/// Encodes piece by piece, each piece flushed so that the reader can decode it at once.
pub(crate) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Deflate(ZlibEncoder<Vec<u8>>),
}

impl Encoder {
    pub(crate) fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        fn drain(w: &mut dyn Write, piece: &[u8]) -> io::Result<()> {
            w.write_all(piece)?;
            w.flush()
        }
        match self {
            Encoder::Gzip(w) => drain(w, piece).map(|()| std::mem::take(w.get_mut())),
            Encoder::Deflate(w) => drain(w, piece).map(|()| std::mem::take(w.get_mut())),
        }
        .expect("writing to memory does not fail")
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        match self {
            Encoder::Gzip(w) => w.finish(),
            Encoder::Deflate(w) => w.finish(),
        }
        .expect("writing to memory does not fail")
    }
}
