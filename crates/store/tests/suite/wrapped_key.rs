//! There is one master key: the first one that was stored.

use crate::world::{at, count, everything, race};
use canyon_store::Table;
use canyon_store::outcome::Created;
use canyon_store::wrapped_key::WrappedKey;

on_each_table!(of_16_writers_of_a_master_key_one_wins_and_all_read_its_key);

async fn of_16_writers_of_a_master_key_one_wins_and_all_read_its_key(table: Table) {
    assert_eq!(table.wrapped_key().await.unwrap(), None);
    let key = |n: usize| WrappedKey {
        wrapped: format!("wrapped {n}"),
        wrapped_by: "arn:aws:kms:eu-west-1:111122223333:key/1".to_owned(),
        created_at: at(0),
    };
    let stored = race(|n| {
        let (table, key) = (table.clone(), key(n));
        async move {
            let created = table.create_wrapped_key(&key).await.unwrap();
            (created, table.wrapped_key().await.unwrap().unwrap())
        }
    })
    .await;
    let outcomes: Vec<_> = stored.iter().map(|(created, _)| *created).collect();
    assert_eq!((count(&outcomes, &Created::Yes), count(&outcomes, &Created::Exists)), (1, 15));
    let winner = key(outcomes.iter().position(|made| *made == Created::Yes).unwrap());
    assert!(stored.iter().all(|(_, read)| *read == winner), "{stored:?}");
    assert_eq!(everything(&table).await.len(), 1);
}
