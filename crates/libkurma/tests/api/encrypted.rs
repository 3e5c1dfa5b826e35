//! TLS.

use std::process::Command;
use std::sync::Arc;

use nfs4_server::Limits;
use onc_rpc::Security;
use onc_rpc::tls::{ClientCertificates, TlsServer};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::compiler::{SUITE, run};
use crate::world::World;

#[test]
fn connections_are_protected_by_tls_and_shown_certificates() {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
    };
    let ((certificate, key), (own, own_key)) = (issue("box.example"), issue("program.example"));
    let authorities = authority.pem();
    let clients = ClientCertificates::Required(authorities.as_bytes());
    let tls = TlsServer::new(certificate.as_bytes(), key.as_bytes(), clients).unwrap();
    let security = Security { tls: Some(Arc::new(tls)), tls_required: true, gss: None };
    let world = World::with(Limits::default(), security);
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("authorities", authorities), ("certificates", own), ("key", own_key)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let [_, address] = world.arguments();
    let place = format!("{address} {}", folder.path().display());
    run(Command::new(&*SUITE).args(["connections_are_protected_by_tls", "tls", &place]));
}
