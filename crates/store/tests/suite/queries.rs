//! Indexes contain the right items in order, and pages have no gap and no overlap.

use crate::items::{item, put, s};
use canyon_store::Table;
use canyon_store::conditional::Item;
use canyon_store::table::{GSI1, GSI2, GSI3, Index};

on_each_table!(
    a_sparse_index_contains_only_items_with_its_keys_in_order,
    an_item_leaves_a_sparse_index_with_its_key,
    each_index_contains_its_own_attributes_and_no_others,
    pages_have_no_gap_and_no_overlap_in_both_directions,
);

async fn in_index(table: &Table, index: Index, pk: &str, up_to: &str) -> Vec<Item> {
    let query = table
        .client()
        .query()
        .table_name(table.name())
        .index_name(index.name)
        .key_condition_expression("#pk = :pk AND #sk <= :to")
        .expression_attribute_names("#pk", index.pk)
        .expression_attribute_names("#sk", index.sk)
        .expression_attribute_values(":pk", s(pk))
        .expression_attribute_values(":to", s(up_to));
    query.send().await.unwrap().items.unwrap()
}

fn keys(items: &[Item]) -> Vec<String> {
    items.iter().map(|item| item["sk"].as_s().unwrap().clone()).collect()
}

async fn a_sparse_index_contains_only_items_with_its_keys_in_order(table: Table) {
    for (sk, due) in [("c", "2026-03"), ("a", "2026-01"), ("d", "2026-09"), ("b", "2026-02")] {
        put(&table, item(&format!("job/{sk}"), &[("gsi2pk", "due"), ("gsi2sk", due)])).await;
    }
    put(&table, item("job/not-due", &[])).await;
    put(&table, item("job/other", &[("gsi2pk", "due#2"), ("gsi2sk", "2026-01")])).await;
    assert_eq!(keys(&in_index(&table, GSI2, "due", "2026-08").await), ["a", "b", "c"]);
}

async fn an_item_leaves_a_sparse_index_with_its_key(table: Table) {
    put(&table, item("job/1", &[("gsi2pk", "due"), ("gsi2sk", "1")])).await;
    assert_eq!(keys(&in_index(&table, GSI2, "due", "9").await), ["1"]);
    let done = table.client().update_item().table_name(table.name());
    let done = done.set_key(Some(item("job/1", &[]))).update_expression("REMOVE gsi2pk, gsi2sk");
    done.send().await.unwrap();
    assert!(in_index(&table, GSI2, "due", "9").await.is_empty());
}

async fn each_index_contains_its_own_attributes_and_no_others(table: Table) {
    let keys = [GSI1, GSI2, GSI3].map(|index| [(index.pk, "p"), (index.sk, "s")]).concat();
    let attributes = [&keys[..], &[(GSI1.includes[0], "shop"), ("body", "large")]].concat();
    put(&table, item("d/1", &attributes)).await;
    for index in [GSI1, GSI2, GSI3] {
        let found = in_index(&table, index, "p", "t").await;
        let mut expected = vec![(index.pk, "p"), (index.sk, "s")];
        expected.extend(index.includes.iter().map(|name| (*name, "shop")));
        assert_eq!(found, [item("d/1", &expected)], "{}", index.name);
    }
}

async fn pages_have_no_gap_and_no_overlap_in_both_directions(table: Table) {
    for n in 0..23 {
        put(&table, item(&format!("list/{n:02}"), &[("gsi1pk", "org"), ("gsi1sk", "same")])).await;
    }
    for (index, forward) in [(None, true), (None, false), (Some(GSI1.name), true)] {
        let (pk, value) = if index.is_some() { ("gsi1pk", "org") } else { ("pk", "list") };
        let mut seen = Vec::new();
        let mut start = None;
        loop {
            let query = table
                .client()
                .query()
                .table_name(table.name())
                .set_index_name(index.map(Into::into));
            let query = query.key_condition_expression("#pk = :pk");
            let query = query
                .expression_attribute_names("#pk", pk)
                .expression_attribute_values(":pk", s(value));
            let query = query.scan_index_forward(forward).limit(5).set_exclusive_start_key(start);
            let page = query.send().await.unwrap();
            assert!(page.items().len() <= 5);
            seen.extend(keys(page.items()));
            start = page.last_evaluated_key;
            if start.is_none() {
                break;
            }
        }
        let mut expected: Vec<_> = (0..23).map(|n| format!("{n:02}")).collect();
        if index.is_some() {
            seen.sort(); // DynamoDB guarantees no order of equal sort keys
        } else if !forward {
            expected.reverse();
        }
        assert_eq!(seen, expected, "{index:?} forward {forward}");
    }
}
