//! Pages of a partition are equal to a plain list, at every size and with every filter.

use crate::world::{World, environment, id, project, record, runner};
use base64::Engine as _;
use canyon_domain::audit_filter::AuditFilter;
use canyon_store::page::{Cursor, Page, PageRequest};
use canyon_store::{Table, meter::Meter};
use std::fmt::Debug;

on_each_table!(
    at_every_size_and_with_every_filter_pages_are_full_and_have_no_gaps,
    a_filter_that_matches_few_of_many_items_needs_few_requests,
    a_page_whose_filter_matches_nothing_is_bounded_and_has_a_cursor,
    a_forged_cursor_stays_in_the_same_list,
);

pub(crate) fn first(limit: u32) -> PageRequest {
    PageRequest { limit, after: None }
}

/// Reads a list page by page and compares each page with the model.
pub(crate) async fn check_pages<T, K, F>(
    limit: u32,
    model: &[K],
    key: impl Fn(&T) -> K,
    list: impl Fn(PageRequest) -> F,
) where
    K: PartialEq + Debug + Clone,
    F: Future<Output = Page<T>>,
{
    let mut after = None::<Cursor>;
    let mut rest = model;
    loop {
        let page = list(PageRequest { limit, after }).await;
        let (expected, left) = rest.split_at(rest.len().min(limit as usize));
        let found: Vec<K> = page.items.iter().map(&key).collect();
        assert_eq!(found, expected, "{limit} at a time");
        assert_eq!(page.next.is_some(), !left.is_empty(), "{limit} at a time, {} left", left.len());
        if left.is_empty() {
            return;
        }
        (after, rest) = (page.next, left);
    }
}

async fn at_every_size_and_with_every_filter_pages_are_full_and_have_no_gaps(table: Table) {
    let World { table, org } = World::new(table).await;
    table.create_project(org, &project("pay"), &record()).await.unwrap();
    let mut runners = vec![("laptop".to_owned(), "local")];
    let mut environments = Vec::new();
    for n in 0..22 {
        let (name, kind) = (format!("runner-{n:02}"), ["ecs", "gke", "gke"][n % 3]);
        table.create_runner(org, &runner(&name, kind), &record()).await.unwrap();
        runners.push((name, kind));
        let name = format!("env-{n:02}");
        let of = environment(["shop", "pay"][usize::from(n % 4 == 0)], &name);
        table.create_environment(org, &of, &record()).await.unwrap();
        environments.push((of.project_id.to_string(), name));
    }
    runners.sort();
    environments.sort();
    for limit in 1..=7 {
        for kind in [None, Some("ecs"), Some("gke"), Some("local"), Some("absent")] {
            let model = runners.iter().filter(|(_, of)| kind.is_none_or(|kind| kind == *of));
            let model: Vec<_> = model.map(|(name, _)| name.clone()).collect();
            let list = async |request| table.runners(org, kind, &request).await.unwrap();
            check_pages(limit, &model, |runner| runner.id.to_string(), list).await;
        }
        for (project, digit) in
            [(None, None), (Some("shop"), None), (Some("pay"), Some('2')), (Some("absent"), None)]
        {
            let wants = |name: &str| digit.is_none_or(|digit| name.contains(digit));
            let model = environments
                .iter()
                .filter(|(of, name)| project.is_none_or(|p| p == of) && wants(name));
            let model: Vec<_> = model.cloned().collect();
            let project = project.map(id);
            let list = async |request| {
                let keep = |env: &canyon_domain::inventory::Environment| wants(env.id.as_str());
                table.environments(org, project.as_ref(), &request, keep).await.unwrap()
            };
            let key = |env: &canyon_domain::inventory::Environment| {
                (env.project_id.to_string(), env.id.to_string())
            };
            check_pages(limit, &model, key, list).await;
        }
    }
    // The API limits a page to 1 to 100 items.
    assert_eq!(table.runners(org, None, &first(0)).await.unwrap().items.len(), 1);
    assert_eq!(table.runners(org, None, &first(u32::MAX)).await.unwrap().items.len(), 23);
}

async fn a_filter_that_matches_few_of_many_items_needs_few_requests(table: Table) {
    let World { table, org } = World::new(table).await;
    for n in 0..120 {
        let kind = if n == 7 { "rare" } else { "local" };
        table.create_runner(org, &runner(&format!("a-{n:03}"), kind), &record()).await.unwrap();
    }
    let meter = Meter::default();
    let watched = meter.watch(&table);
    for limit in [1, 2, 20] {
        let page = watched.runners(org, Some("rare"), &first(limit)).await.unwrap();
        assert_eq!((page.items.len(), page.next), (1, None), "{limit}");
        assert_eq!(meter.take().requests(), 2, "{limit}");
    }
}

async fn a_page_whose_filter_matches_nothing_is_bounded_and_has_a_cursor(table: Table) {
    let World { table, org } = World::new(table).await;
    // One request reads 1 MB, so these take seven.
    for n in 0..60 {
        let kind = if n == 55 { "rare" } else { "local" };
        let mut large = runner(&format!("a-{n:03}"), kind);
        large.definition = format!("{}{}", large.definition, " ".repeat(100_000));
        table.create_runner(org, &large, &record()).await.unwrap();
    }
    let meter = Meter::default();
    let watched = meter.watch(&table);
    let (mut requests, mut found, mut request) = (Vec::new(), Vec::new(), first(20));
    loop {
        let page = watched.runners(org, Some("rare"), &request).await.unwrap();
        requests.push(meter.take().requests());
        let is_left_out = page.next.as_ref().map(Cursor::names_what_is_left_out);
        found.push((page.items.len(), is_left_out));
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    assert_eq!(found, [(0, Some(true)), (1, None)]);
    assert!(requests.iter().all(|requests| *requests <= 4), "{requests:?}");
}

async fn a_forged_cursor_stays_in_the_same_list(table: Table) {
    let (World { table, org }, dev) = World::with_dev(table).await;
    for position in ["a", "zz", "shop", "shop#", "pay#dev", "\u{10ffff}", "../../x"] {
        let forged = "list".to_owned() + "\0" + position;
        let digest = <sha2::Sha256 as sha2::Digest>::digest(forged);
        let bytes = [&digest[..8], position.as_bytes()].concat();
        let token = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        let after = Some(Cursor::decode("list", &token).unwrap());
        let request = PageRequest { limit: 10, after };
        let shop = id("shop");
        let page = table.environments(org, Some(&shop), &request, |_| true).await.unwrap();
        assert!(page.items.iter().all(|found| *found == dev), "{position}");
        table
            .deployments(org, &canyon_store::deployment_lists::DeploymentFilter::All, &request)
            .await
            .unwrap();
        table
            .audit_records(
                org,
                crate::world::at(0),
                crate::world::at(9),
                &AuditFilter::default(),
                &request,
            )
            .await
            .unwrap();
    }
}
