//! Accounts: each change is conditional on the version that was read.

use crate::world::{at, count, id, race, record};
use canyon_domain::account::{Account, AccountCredentials};
use canyon_domain::ids::OrgUuid;
use canyon_store::Table;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::PageRequest;
use uuid::Uuid;

on_each_table!(
    an_account_of_each_type_reads_back_in_its_organization_alone,
    of_16_changes_of_one_account_one_wins,
    a_deletion_names_the_version_that_was_read,
);

fn account(name: &str, credentials: AccountCredentials) -> Account {
    Account {
        id: id(name),
        name: None,
        credentials,
        created_at: at(0),
        updated_at: at(0),
        version: 1,
    }
}

fn role() -> AccountCredentials {
    let aws_role = "arn:aws:iam::123456789012:role/deploy".to_owned();
    AccountCredentials::AwsRole { aws_role, session_name: None, sts_region: None }
}

async fn an_account_of_each_type_reads_back_in_its_organization_alone(table: Table) {
    let (org, other) = (OrgUuid(Uuid::now_v7()), OrgUuid(Uuid::now_v7()));
    let identity = AccountCredentials::GcpIdentity {
        gcp_audience: "//iam.googleapis.com/x".to_owned(),
        gcp_service_account: "x@y.gserviceaccount.com".to_owned(),
    };
    let application = AccountCredentials::AzureIdentity {
        azure_identity_tenant_id: Uuid::nil().to_string(),
        azure_identity_client_id: Uuid::max().to_string(),
    };
    let mut made = [account("Of", role()), account("of", identity), account("on", application)];
    made[0].name = Some("ours".to_owned());
    for one in &made {
        assert_eq!(table.create_account(org, one, &record()).await.unwrap(), Created::Yes);
        assert_eq!(table.create_account(org, one, &record()).await.unwrap(), Created::Exists);
        assert_eq!(table.account(org, &one.id).await.unwrap().as_ref(), Some(one));
        assert_eq!(table.account(other, &one.id).await.unwrap(), None);
    }
    let all = PageRequest { limit: 10, after: None };
    assert_eq!(table.accounts(org, &all).await.unwrap().items, made);
    assert!(table.accounts(other, &all).await.unwrap().items.is_empty());
}

async fn of_16_changes_of_one_account_one_wins(table: Table) {
    let org = OrgUuid(Uuid::now_v7());
    let made = account("small", role());
    table.create_account(org, &made, &record()).await.unwrap();
    let saved = race(|n| {
        let (table, mut changed) = (table.clone(), made.clone());
        changed.name = Some(n.to_string());
        changed.version += 1;
        async move { table.save_account(org, &changed, &record()).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
}

async fn a_deletion_names_the_version_that_was_read(table: Table) {
    let org = OrgUuid(Uuid::now_v7());
    let read = account("small", role());
    table.create_account(org, &read, &record()).await.unwrap();
    let changed = Account { version: 2, ..read.clone() };
    assert_eq!(table.save_account(org, &changed, &record()).await.unwrap(), Saved::Yes);
    for (version, deleted) in
        [(&read, Deleted::No), (&changed, Deleted::Yes), (&changed, Deleted::No)]
    {
        assert_eq!(table.delete_account(org, version, &record()).await.unwrap(), deleted);
    }
    assert_eq!(table.account(org, &read.id).await.unwrap(), None);
}
