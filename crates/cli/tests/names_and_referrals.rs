//! What clients are told by a gateway of users, of volumes that are elsewhere, and by its portmapper.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // test code at the edge

mod support;

use std::sync::Arc;
use std::time::Duration;

use nfs4::{Attribute, AttributeValues, NfsArgOp, NfsResOp, NfsStatus, Outcome, StateId};
use nfs4_client::operations::{get_attributes, lookup, put_handle, set_attributes};
use nfs4_client::{Config, Session};
use onc_rpc::{Credential, Limits, NoService, Peer, Procedure};
use support::{Gateway, Settings, free_port};

#[tokio::test(flavor = "multi_thread")]
async fn owners_have_names_referrals_lead_on_and_the_portmapper_knows_the_port() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let portmapper = free_port();
    let settings = Settings::in_folder(folder.path());
    settings.write(&data);
    let nfs = format!(
        "[nfs]\nnames = \"system\"\ndomain = \"example.org\"\nportmapper = \"{portmapper}\"\n\
         limits = {{ connections = 64, clients = 32, traffic = \"64MiB\" }}\n"
    );
    let far = "[[volume]]\nname = \"far\"\nexport = { referral = [\"box2.example.org:/export/far\"] }\n";
    std::fs::write(data.join("kurma.toml"), settings.text().replacen("[nfs]\n", &nfs, 1) + far).unwrap();
    let mut gateway = Gateway::start(&data);

    let session = Session::connect(gateway.nfs, Config::new("names", [1; 8]), None).await.unwrap();
    let home = session.lookup(&["home"]).await.unwrap();
    let owners = Attribute::set(&[Attribute::Owner, Attribute::OwnerGroup]);
    let root = Some("root@example.org".into());
    let said = session.attributes(&home, owners).await.unwrap();
    assert_eq!((said.owner, said.owner_group), (root.clone(), root));
    let set = async |owner: &str| {
        let values = AttributeValues { owner: Some(owner.into()), ..AttributeValues::default() };
        let change = [put_handle(&home), set_attributes(StateId::ANONYMOUS, &values)];
        session.compound(&change).await.unwrap().status
    };
    assert_eq!(set("no-such-user@example.org").await, NfsStatus::BadOwner);
    assert_eq!(set("root@example.com").await, NfsStatus::BadOwner);
    assert_eq!(set("root@example.org").await, NfsStatus::Ok);

    let place = Attribute::set(&[Attribute::FsLocations]);
    let asked = [NfsArgOp::PutRootFh, lookup("far"), get_attributes(place)];
    let results = session.execute(&asked).await.unwrap();
    let Some(NfsResOp::GetAttr(Outcome::Ok(said))) = results.last() else { panic!("{results:?}") };
    let locations = said.values().unwrap().fs_locations.unwrap().locations;
    assert_eq!(locations[0].servers, ["box2.example.org".into()]);
    let asked = [NfsArgOp::PutRootFh, lookup("far"), NfsArgOp::GetFh];
    assert_eq!(session.compound(&asked).await.unwrap().status, NfsStatus::Moved);

    let peer = Peer::connect(portmapper, Arc::new(NoService), Limits::default()).await.unwrap();
    let get_port = Procedure { program: 100_000, version: 2, number: 3 };
    let mapping: Vec<u8> =
        [nfs4::PROGRAM, nfs4::VERSION, 6, 0].iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
    let port =
        peer.call(get_port, &Credential::None, vec![mapping.into()], Duration::from_secs(20)).await.unwrap();
    assert_eq!(port[..], u32::from(gateway.nfs.port()).to_be_bytes());
    assert_eq!(gateway.stop(), Some(0));
}
