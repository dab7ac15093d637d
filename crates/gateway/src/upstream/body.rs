//! Bodies of upstream requests.

use crate::exchange::upload::{Broken, UploadBody};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Body of an upstream request. Another of the same content can be made of what it came from, to send it again.
pub(crate) enum RequestBody {
    /// All of it is at hand.
    Whole(Bytes),
    /// It still arrives.
    Upload(Box<UploadBody>),
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Upload(upload) => upload
                .poll_data(cx)
                .map(|data| data.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Upload(upload) => upload.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Upload(upload) => upload.size_hint(),
        }
    }
}
