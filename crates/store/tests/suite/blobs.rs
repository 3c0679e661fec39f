//! Blobs are written once and completely, and only their owner can read them.

use bytes::Bytes;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::blob_keys::{BlobKey, BlobPrefix, Stream};
use canyon_store::blobs::{Blobs, Put};
use std::os::unix::fs::PermissionsExt;
use uuid::Uuid;

fn ids() -> (OrgUuid, DeploymentId) {
    (OrgUuid(Uuid::now_v7()), DeploymentId(Uuid::now_v7()))
}

#[tokio::test]
async fn of_many_writers_of_one_key_the_first_wins_and_the_blob_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(&folder.path().join("blobs")).unwrap();
    let (org, deployment) = ids();
    let key = BlobKey::outputs(org, deployment, 1);
    let writers: Vec<_> = (0..16_u8)
        .map(|n| {
            let (blobs, key) = (blobs.clone(), key.clone());
            tokio::spawn(async move {
                let put = blobs.put_if_absent(&key, Bytes::from(vec![n; 100_000])).await.unwrap();
                (put == Put::Stored).then_some(n)
            })
        })
        .collect();
    let mut winners = Vec::new();
    for writer in writers {
        winners.extend(writer.await.unwrap());
    }
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(blobs.get(&key).await.unwrap().unwrap(), vec![winners[0]; 100_000]);
    assert_eq!(blobs.get_range(&key, 99_990..200_000).await.unwrap().unwrap().len(), 10);
    assert_eq!(blobs.get(&BlobKey::orphans(org, deployment, 1)).await.unwrap(), None);
}

#[tokio::test]
async fn chunks_are_listed_in_the_order_of_their_bytes_from_any_of_them_on() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(folder.path()).unwrap();
    let (org, deployment) = ids();
    let chunk = |offset| BlobKey::chunk(org, deployment, Stream::Log, offset);
    for offset in [900, 0, 12_345, 90] {
        blobs.put_if_absent(&chunk(offset), "line\n".into()).await.unwrap();
    }
    let events = BlobKey::chunk(org, deployment, Stream::Events, 5);
    blobs.put_if_absent(&events, "{}".into()).await.unwrap();
    let prefix = BlobPrefix::chunks(org, deployment, Stream::Log);
    let offsets = async |after: Option<BlobKey>| -> Vec<_> {
        let found = blobs.list(&prefix, after.as_ref()).await.unwrap();
        found.iter().map(|(key, size)| (key.chunk_offset().unwrap(), *size)).collect()
    };
    assert_eq!(offsets(None).await, [(0, 5), (90, 5), (900, 5), (12_345, 5)]);
    assert_eq!(offsets(Some(chunk(90))).await, [(900, 5), (12_345, 5)]);
}

#[tokio::test]
async fn deleting_an_organization_leaves_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let blobs = Blobs::folder(folder.path()).unwrap();
    let ((ours, deployment), (theirs, _)) = (ids(), ids());
    let kept = BlobKey::archive(theirs, &"07".repeat(32).parse().unwrap());
    let gone = [
        BlobKey::archive(ours, &"07".repeat(32).parse().unwrap()),
        BlobKey::orphans(ours, deployment, 1),
    ];
    for key in gone.iter().chain([&kept]) {
        blobs.put_if_absent(key, "bytes".into()).await.unwrap();
    }
    assert_eq!(blobs.delete_prefix(&BlobPrefix::organization(ours)).await.unwrap(), 2);
    assert_eq!(blobs.delete_prefix(&BlobPrefix::organization(ours)).await.unwrap(), 0);
    assert!(blobs.get(&kept).await.unwrap().is_some());
}

#[tokio::test]
async fn only_their_owner_can_read_files_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("blobs");
    let blobs = Blobs::folder(&root).unwrap();
    let (org, deployment) = ids();
    let key = BlobKey::outputs(org, deployment, 1);
    blobs.put_if_absent(&key, "secret".into()).await.unwrap();
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(root.clone()), mode(root.join(key.to_string()))), (0o700, 0o600));
}
