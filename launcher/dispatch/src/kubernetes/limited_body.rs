//! Limits the size of a server's answer, because Canyon does not control the server and holds the
//! answer in memory.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tower::BoxError;

/// The maximum number of bytes of an answer. An object has at most 1.5 MiB (etcd, "System limits").
const BYTES: usize = 16 * 1024 * 1024;
/// The maximum number of objects in an answer: three bytes of JSON, such as a pod without fields,
/// take a kilobyte or more of memory. A Job has about 300, with all of its `managedFields`.
const OBJECTS: usize = 50_000;

/// The limit that an answer exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    #[error("it answers with more than {} MiB", BYTES / 1024 / 1024)]
    Bytes,
    #[error("it answers with more than {OBJECTS} objects")]
    Objects,
}

/// The body of an answer, up to the limit.
pub(super) struct LimitedBody<B> {
    body: B,
    /// `None` if the reader of this body has its own limit.
    left: Option<Left>,
}

struct Left {
    bytes: usize,
    objects: usize,
}

impl Left {
    fn spend(&mut self, data: &[u8]) -> Result<(), TooMuch> {
        self.bytes = self.bytes.checked_sub(data.len()).ok_or(TooMuch::Bytes)?;
        // Braces within strings count too: no legitimate answer has that many.
        let objects: usize = data.iter().map(|byte| usize::from(*byte == b'{')).sum();
        self.objects = self.objects.checked_sub(objects).ok_or(TooMuch::Objects)?;
        Ok(())
    }
}

impl<B> LimitedBody<B> {
    /// A body that is read into memory as a whole.
    pub(super) fn whole(body: B) -> Self {
        Self { body, left: Some(Left { bytes: BYTES, objects: OBJECTS }) }
    }

    /// A body that is read in chunks by a reader with its own limit.
    pub(super) fn streamed(body: B) -> Self {
        Self { body, left: None }
    }
}

impl<B> Body for LimitedBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(read) = ready!(Pin::new(&mut this.body).poll_frame(context)) else {
            return Poll::Ready(None);
        };
        let frame = read.map_err(Into::into)?;
        if let (Some(left), Some(data)) = (&mut this.left, frame.data_ref()) {
            left.spend(data)?;
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
