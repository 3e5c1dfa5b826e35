//! Users and groups by name (RFC 8881 §5.9).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use nfs4::attribute::acl::{ALLOWED, flag};
use nfs4::bits::share_access;
use nfs4::{
    Ace, Attribute, AttributeValues, Bitmap, CreateArgs, CreateHow, CreateType, FileHandle, NfsArgOp,
    NfsResOp, NfsStatus, OpenHow, Outcome, StateId,
};
use nfs4_client::Session;
use nfs4_client::operations::{create, open, owner, put_handle, set_attributes, unchecked};
use nfs4_server::{Export, ExportOptions, IdKind, NameMapping, NameService, NameServiceError};
use onc_rpc::{AuthSys, Credential};

use crate::harness::{Running, World, home, outcome};

const OWNERS: Bitmap = Attribute::set(&[Attribute::Owner, Attribute::OwnerGroup, Attribute::Acl]);

/// Anna is 1000, the group staff 50.
struct Office;

#[async_trait]
impl NameService for Office {
    async fn name(&self, kind: IdKind, id: u32) -> Result<Option<String>, NameServiceError> {
        let known = [(IdKind::User, 0, "root"), (IdKind::User, 1000, "anna"), (IdKind::Group, 50, "staff")];
        Ok(known.iter().find(|entry| (entry.0, entry.1) == (kind, id)).map(|entry| entry.2.to_owned()))
    }

    async fn id(&self, kind: IdKind, name: &str) -> Result<Option<u32>, NameServiceError> {
        Ok(match (kind, name) {
            (IdKind::User, "anna") => Some(1000),
            (IdKind::Group, "staff") => Some(50),
            _ => None,
        })
    }
}

/// Never answers.
struct Closed;

#[async_trait]
impl NameService for Closed {
    async fn name(&self, _: IdKind, _: u32) -> Result<Option<String>, NameServiceError> {
        std::future::pending().await
    }

    async fn id(&self, _: IdKind, _: &str) -> Result<Option<u32>, NameServiceError> {
        std::future::pending().await
    }
}

async fn start(world: &World, service: impl NameService + 'static) -> Running {
    let running = world.start().await;
    let options = ExportOptions { acls: true, ..ExportOptions::default() };
    running.server.replace_exports(vec![Export::new("home", world.home.clone()).with(options)]).unwrap();
    let mapping = NameMapping { service: Arc::new(service), domain: "example.org".into() };
    running.server.replace_names(Some(mapping));
    running
}

fn owned(owner: &str, group: &str) -> AttributeValues {
    AttributeValues { owner: Some(owner.into()), owner_group: Some(group.into()), ..Default::default() }
}

async fn set(session: &Session, file: &FileHandle, values: &AttributeValues) -> NfsStatus {
    outcome(session, &[put_handle(file), set_attributes(StateId::ANONYMOUS, values)]).await.0
}

#[tokio::test]
async fn owners_and_lists_are_said_and_set_by_name() {
    let world = World::new().await;
    let running = start(&world, Office).await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    assert_eq!(set(&session, &file, &owned("anna@example.org", "staff@EXAMPLE.org")).await, NfsStatus::Ok);
    let ace = |who: &str, flags| Ace { ace_type: ALLOWED, flags, access_mask: 1, who: who.into() };
    let list =
        vec![ace("anna@example.org", 0), ace("staff@example.org", flag::IDENTIFIER_GROUP), ace("77", 0)];
    let values = AttributeValues { acl: Some(list.clone()), ..Default::default() };
    assert_eq!(set(&session, &file, &values).await, NfsStatus::Ok);
    let said = session.attributes(&file, OWNERS).await.unwrap();
    assert_eq!(said.owner, Some("anna@example.org".into()));
    assert_eq!(said.owner_group, Some("staff@example.org".into()));
    assert_eq!(said.acl, Some(list), "who has no name is a number");
    let entry = &session.read_directory(&root, OWNERS).await.unwrap()[0];
    assert_eq!(entry.attributes.values().unwrap().owner, Some("anna@example.org".into()));

    for (owner, group) in [
        ("berta@example.org", "50"),
        ("anna@example.com", "50"),
        ("anna", "50"),
        ("1000", "anna@example.org"),
    ] {
        assert_eq!(set(&session, &file, &owned(owner, group)).await, NfsStatus::BadOwner, "{owner} {group}");
    }
    let values = AttributeValues { acl: Some(vec![ace("berta@example.org", 0)]), ..Default::default() };
    assert_eq!(set(&session, &file, &values).await, NfsStatus::BadOwner);
    assert_eq!(set(&session, &file, &owned("1001", "0")).await, NfsStatus::Ok);
    assert_eq!(session.attributes(&file, OWNERS).await.unwrap().owner, Some("1001".into()));

    running.server.replace_names(None);
    assert_eq!(set(&session, &file, &owned("anna@example.org", "50")).await, NfsStatus::BadOwner);
    assert_eq!(set(&session, &file, &owned("1000", "50")).await, NfsStatus::Ok);
    assert_eq!(session.attributes(&file, OWNERS).await.unwrap().owner, Some("1000".into()));
    running.stop().await;
}

#[tokio::test]
async fn a_name_service_that_does_not_answer_stalls_nobody() {
    let world = World::new().await;
    let running = start(&world, Closed).await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let clock = world.clock.clone();
    let asked = async {
        let said = session.attributes(&file, OWNERS).await.unwrap();
        assert_eq!(said.owner, Some("0".into()));
    };
    let time = async {
        loop {
            clock.advance(std::time::Duration::from_millis(10));
            tokio::task::yield_now().await;
        }
    };
    tokio::select! { () = asked => {}, () = time => {} }
    // Time stands still from here on.
    assert_eq!(set(&session, &file, &owned("anna@example.org", "0")).await, NfsStatus::Delay);
    assert_eq!(set(&session, &file, &owned("1000", "0")).await, NfsStatus::Ok);
    assert_eq!(session.attributes(&file, OWNERS).await.unwrap().owner, Some("1000".into()));
    session.create(&root, "g", 0o644).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_file_is_made_with_a_named_owner_or_not_at_all() {
    let world = World::new().await;
    let running = start(&world, Office).await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let make = |name: &str, values: &AttributeValues| {
        let mut how = unchecked(0o644);
        if let nfs4::OpenHow::Create(nfs4::CreateHow::Unchecked(attributes)) = &mut how {
            *attributes = values.to_fattr();
        }
        vec![put_handle(&root), open(name.to_owned(), 3, how, owner("o"))]
    };
    assert_eq!(outcome(&session, &make("f", &owned("anna@example.org", "50"))).await.0, NfsStatus::Ok);
    let file = session.lookup(&["home", "f"]).await.unwrap();
    assert_eq!(session.attributes(&file, OWNERS).await.unwrap().owner, Some("anna@example.org".into()));
    assert_eq!(outcome(&session, &make("g", &owned("berta@example.org", "50"))).await.0, NfsStatus::BadOwner);
    assert_eq!(crate::harness::status(session.lookup(&["home", "g"]).await), NfsStatus::NoEnt);
    running.stop().await;
}

/// Knows nobody, and counts who is asked for.
#[derive(Default)]
struct Counting(Arc<AtomicUsize>);

#[async_trait]
impl NameService for Counting {
    async fn name(&self, _: IdKind, _: u32) -> Result<Option<String>, NameServiceError> {
        Ok(None)
    }

    async fn id(&self, _: IdKind, _: &str) -> Result<Option<u32>, NameServiceError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(None)
    }
}

#[tokio::test]
async fn the_name_service_is_asked_for_those_who_may_do_what_they_want_and_for_nobody_else() {
    let world = World::new().await;
    let asked = Arc::new(AtomicUsize::new(0));
    let running = start(&world, Counting(asked.clone())).await;
    let session = running.client("a").await;
    let root = home(&session).await;
    let file = session.create(&root, "f", 0o644).await.unwrap().handle;
    let folder = [put_handle(&root), create(CreateType::Directory, "d", 0o755), NfsArgOp::GetFh];
    let results = session.execute(&folder).await.unwrap();
    let Some(NfsResOp::GetFh(Outcome::Ok(folder))) = results.last() else { panic!("{results:?}") };
    let stranger = session.with_credential(Credential::Sys(AuthSys::new(4711, 4711)));

    let values = owned("made-up@example.org", "0");
    let owned_open = |name: &str| {
        let how = OpenHow::Create(CreateHow::Unchecked(values.to_fattr()));
        open(name, share_access::READ, how, owner("o"))
    };
    let made = NfsArgOp::Create(CreateArgs {
        object_type: CreateType::Fifo,
        name: "made".into(),
        attributes: values.to_fattr(),
    });
    assert_eq!(set(&stranger, &file, &values).await, NfsStatus::Perm);
    assert_eq!(outcome(&stranger, &[put_handle(folder), made.clone()]).await.0, NfsStatus::Access);
    assert_eq!(outcome(&stranger, &[put_handle(folder), owned_open("made")]).await.0, NfsStatus::Access);
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    session.create(folder, "there", 0o644).await.unwrap();
    let there = [put_handle(folder), owned_open("there")];
    assert_eq!(outcome(&stranger, &there).await.0, NfsStatus::Ok, "it sets no owner of what is there");
    assert_eq!(asked.load(Ordering::SeqCst), 0);

    assert_eq!(outcome(&session, &[put_handle(folder), made]).await.0, NfsStatus::BadOwner);
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(outcome(&session, &[put_handle(folder), owned_open("made")]).await.0, NfsStatus::BadOwner);
    assert_eq!(set(&session, &file, &values).await, NfsStatus::BadOwner);
    running.stop().await;
}
