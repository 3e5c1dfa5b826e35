//! What exports demand of connections and credentials.

use std::sync::Arc;

use nfs4::{GssService, NfsArgOp, NfsResOp, NfsStatus, Outcome, SecInfo, SecInfoArgs, SecInfoStyle};
use nfs4_client::operations::{lookup, put_handle};
use nfs4_client::{Config, Session};
use nfs4_server::{Export, ExportOptions, ExportSecurity, Flavor, TlsDemand};
use onc_rpc::Security;
use onc_rpc::tls::{ClientCertificates, TlsClient, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::harness::{Running, World, home, outcome};

fn offer(world: &World, running: &Running, security: ExportSecurity) {
    let options = ExportOptions { security, ..ExportOptions::default() };
    let home = Export::new("home", world.home.clone()).with(options);
    running.server.replace_exports(vec![home, Export::new("other", world.other.clone())]).unwrap();
}

async fn ways(session: &Session, operations: &[NfsArgOp]) -> Vec<SecInfo> {
    let mut results = session.compound(operations).await.unwrap().into_results().unwrap();
    match results.pop() {
        Some(NfsResOp::SecInfo(Outcome::Ok(ways)) | NfsResOp::SecInfoNoName(Outcome::Ok(ways))) => ways,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn who_shows_too_little_learns_what_is_demanded_and_nothing_else() {
    let world = World::new().await;
    let running = world.start().await;
    let session = running.client("a").await;
    let root = home(&session).await;
    session.create(&root, "f", 0o666).await.unwrap();
    let flavors = vec![Flavor::Krb5p, Flavor::Krb5i];
    offer(&world, &running, ExportSecurity { flavors, ..ExportSecurity::default() });

    let wrong = NfsStatus::WrongSec;
    assert_eq!(outcome(&session, &[NfsArgOp::PutRootFh, lookup("home")]).await, (wrong, 2));
    assert_eq!(outcome(&session, &[put_handle(&root), lookup("f")]).await, (wrong, 2));
    assert_eq!(
        outcome(&session, &[put_handle(&root), lookup("g")]).await,
        (wrong, 2),
        "whether it exists or not"
    );
    let of = |name: &str| NfsArgOp::SecInfo(SecInfoArgs { name: name.into() });
    let kerberos = |service| SecInfo::Gss { oid: SecInfo::KERBEROS_5, qop: 0, service };
    let expected = [kerberos(GssService::Privacy), kerberos(GssService::Integrity)];
    let no_name = |style| NfsArgOp::SecInfoNoName(style);
    assert_eq!(ways(&session, &[NfsArgOp::PutRootFh, of("home")]).await, expected);
    assert_eq!(ways(&session, &[put_handle(&root), of("f")]).await, expected);
    assert_eq!(ways(&session, &[put_handle(&root), of("g")]).await, expected, "whether it exists or not");
    assert_eq!(
        ways(&session, &[put_handle(&root), no_name(SecInfoStyle::CurrentFileHandle)]).await,
        expected
    );
    assert_eq!(
        ways(&session, &[NfsArgOp::PutRootFh, no_name(SecInfoStyle::CurrentFileHandle)]).await,
        [&expected[..], &[SecInfo::SYS, SecInfo::NONE]].concat(),
        "the pseudo root takes whatever leads into one of its volumes"
    );
    session.lookup(&["other"]).await.unwrap();
    running.stop().await;
}

#[tokio::test]
async fn a_volume_can_demand_tls_and_a_client_certificate() {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
    };
    let roots = authority.pem();
    let (certificate, key) = issue("box.example");
    let clients = ClientCertificates::Optional(roots.as_bytes());
    let tls = TlsServer::new(certificate.as_bytes(), key.as_bytes(), clients).unwrap();

    let world = World::new().await;
    let running = world.start().await;
    running.server.replace_security(Security { tls: Some(Arc::new(tls)), ..Security::default() });
    let with = |tls| Config { tls, ..Config::new("a", [1; 8]) };
    let (certificate, key) = issue("laptop.example");
    let (certificate, key) = (certificate.as_bytes(), key.as_bytes());
    let named = TlsClient::with_certificate("box.example", roots.as_bytes(), certificate, key).unwrap();
    let anonymous = TlsClient::new("box.example", roots.as_bytes()).unwrap();
    let sessions = [
        running.connect(with(None)).await,
        running.connect(with(Some(anonymous))).await,
        running.connect(with(Some(named))).await,
    ];
    let demands = [TlsDemand::Optional, TlsDemand::Required, TlsDemand::Mutual];
    for (strictness, tls) in demands.into_iter().enumerate() {
        offer(&world, &running, ExportSecurity { tls, ..ExportSecurity::default() });
        for (strength, session) in sessions.iter().enumerate() {
            let expected = if strength >= strictness { NfsStatus::Ok } else { NfsStatus::WrongSec };
            let found = outcome(session, &[NfsArgOp::PutRootFh, lookup("home")]).await;
            assert_eq!(found, (expected, 2), "{tls:?} demanded, connection {strength}");
        }
    }
    running.stop().await;
}
