//! What is asked of the object store to find the pieces of a stream, as S3 answers it: in order, from any place on.

use async_trait::async_trait;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::blob_keys::{BlobKey, Stream};
use canyon_store::blobs::Blobs;
use canyon_store::streams::{Piece, StreamRef};
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use uuid::Uuid;

/// An object store that counts the names that it has listed.
#[derive(Clone, Debug, Default)]
struct Counting {
    store: Arc<InMemory>,
    listed: Arc<AtomicUsize>,
    /// What others store once a listing was empty.
    late: Arc<Mutex<Vec<BlobKey>>>,
}

impl std::fmt::Display for Counting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}

impl Counting {
    fn counted(
        &self,
        names: BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let listed = self.listed.clone();
        let count = move |_: &Result<ObjectMeta>| {
            listed.fetch_add(1, Ordering::Relaxed);
        };
        names.inspect(count).boxed()
    }

    /// How many names were listed since this was asked last.
    fn take(&self) -> usize {
        self.listed.swap(0, Ordering::Relaxed)
    }
}

#[async_trait]
impl ObjectStore for Counting {
    async fn put_opts(&self, at: &Path, bytes: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.store.put_opts(at, bytes, how).await
    }

    async fn put_multipart_opts(
        &self,
        at: &Path,
        how: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(at, how).await
    }

    async fn get_opts(&self, at: &Path, how: GetOptions) -> Result<GetResult> {
        self.store.get_opts(at, how).await
    }

    fn delete_stream(
        &self,
        all: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(all)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counted(self.store.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let names = self.store.list_with_offset(prefix, offset).collect::<Vec<_>>();
        let names = names.now_or_never().unwrap();
        if names.is_empty() {
            for key in std::mem::take(&mut *self.late.lock().unwrap()) {
                let path = Path::from(key.to_string());
                self.store.put(&path, "0123456789".into()).now_or_never().unwrap().unwrap();
            }
        }
        self.counted(futures::stream::iter(names).boxed())
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, how: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, how).await
    }
}

/// A stream of pieces of these sizes, and where each begins.
async fn stream(sizes: impl Iterator<Item = u64>) -> (Blobs, Counting, StreamRef, Vec<Piece>) {
    let store = Counting::default();
    let blobs = Blobs::new(Arc::new(store.clone()));
    let (org, deployment) = (OrgUuid(Uuid::now_v7()), DeploymentId(Uuid::now_v7()));
    let of = StreamRef { org, deployment, stream: Stream::Log };
    let (mut pieces, mut offset) = (Vec::new(), 0);
    for size in sizes {
        let bytes = vec![b'x'; usize::try_from(size).unwrap()];
        blobs.put_if_absent(&of.key(offset), bytes.into()).await.unwrap();
        pieces.push(Piece { offset, size });
        offset += size;
    }
    (blobs, store, of, pieces)
}

#[tokio::test]
async fn the_end_of_a_long_stream_is_found_by_few_of_its_pieces() {
    for (count, most) in [(0, 0), (1, 1), (999, 999), (1_000, 1_000), (60_000, 12_000)] {
        // Small and large ones, as a program prints that is silent for a while.
        let sizes = (0..count).map(|n| if n % 900 == 0 { 2_000 } else { 1 + n % 7 });
        let (blobs, store, of, pieces) = stream(sizes).await;
        let end = pieces.last().map_or(0, |last| last.end());
        assert_eq!(blobs.stream_end(of).await.unwrap(), end, "{count}");
        let listed = store.take();
        assert!(listed <= most, "{listed} names of {count}");
    }
}

#[tokio::test]
async fn a_look_at_a_long_stream_finds_what_is_there_from_any_byte_on_and_lists_what_is_near() {
    let sizes = (0..20_000_u64).map(|n| if n % 1_000 == 500 { 128 * 1024 } else { 40 + n % 50 });
    let (blobs, store, of, pieces) = stream(sizes).await;
    let end = pieces.last().unwrap().end();
    for offset in (0..end).step_by(99_991).chain([1, 39, 40, end - 1, end, end + 10_000]) {
        let found = blobs.pieces_from(of, offset, 50).await.unwrap();
        let holder = pieces.partition_point(|piece| piece.offset <= offset) - 1;
        let expected = &pieces[holder..pieces.len().min(holder + 50)];
        assert_eq!(found, expected, "from {offset}");
        let listed = store.take();
        assert!(listed <= 6_000, "{listed} names from {offset}");
    }
}

#[tokio::test]
async fn of_a_long_stream_the_last_pieces_are_found_up_to_its_end() {
    let (blobs, store, of, pieces) = stream((0..20_000_u64).map(|n| 1 + n % 7)).await;
    let end = pieces.last().unwrap().end();
    for (from, bytes, count) in [
        (0, u64::MAX, 30_000),
        (0, u64::MAX, 500),
        (0, 1_000, 500),
        (pieces[19_990].offset, u64::MAX, 500),
        (end, u64::MAX, 500),
        (end + 5, u64::MAX, 500),
    ] {
        store.take();
        let found = blobs.last_pieces(of, from, bytes, count).await.unwrap();
        let of_all = &pieces[pieces.len() - found.len()..];
        assert_eq!(found, of_all, "the last ones from {from}");
        let size: u64 = found.iter().map(|piece| piece.size).sum();
        assert!(found.len() <= count && size <= bytes, "{} pieces", found.len());
        assert!(found.iter().all(|piece| piece.offset >= from));
        let least = pieces.iter().filter(|piece| piece.offset >= from).count().min(count / 4);
        assert!(found.len() >= least.min(200), "{} pieces from {from}", found.len());
        let listed = store.take();
        assert!(listed <= 40_000, "{listed} names");
    }
    let (blobs, _, of, _) = stream(std::iter::empty()).await;
    assert_eq!(blobs.last_pieces(of, 0, 10, 10).await.unwrap(), []);
    let read = blobs.bytes_of(of, &[Piece { offset: 0, size: 1 }]).await.unwrap();
    assert_eq!(read, [None], "a piece that is not there");
}

#[tokio::test]
async fn a_stream_that_grows_while_its_end_is_looked_for_has_an_end() {
    let (blobs, store, of, pieces) = stream((0..4_996).map(|_| 10)).await;
    let end = pieces.last().unwrap().end();
    // Pieces come at an end that the search has just found to be empty.
    *store.late.lock().unwrap() = (0..2_500).map(|n| of.key(end + n * 10)).collect();
    let found = blobs.stream_end(of).await.unwrap();
    assert_eq!(found, end + 25_000);
}

#[tokio::test]
async fn a_stream_with_a_gap_ends_behind_it_and_is_read_up_to_it() {
    let (blobs, _, of, _) = stream([10, 10].into_iter()).await;
    let far = 1_000_000_000_000_000;
    blobs.put_if_absent(&of.key(far), "late".into()).await.unwrap();
    assert_eq!(blobs.stream_end(of).await.unwrap(), far + 4);
    let found = blobs.pieces_from(of, 15, 9).await.unwrap();
    assert_eq!(
        found,
        [Piece { offset: 10, size: 10 }, Piece { offset: far, size: 4 }],
        "what is between is for the reader to miss"
    );
}
