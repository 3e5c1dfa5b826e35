//! `docs/protocol.md` says what is offered; here it is held to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use nfs4::{CbOpCode, CompoundHeader, CompoundRes, NfsArgOp, NfsStatus, OpCode};
use nfs4_client::operations::lookup;
use nfs4_client::{Config, Session};
use onc_rpc::{Credential, Procedure};
use xdr::{Encode, Encoder};

use crate::harness::{World, home};

/// One line of a table of operations.
struct Row {
    name: String,
    /// `yes`, `-` or an error, in 4.0, 4.1 and 4.2.
    versions: [String; 3],
    tests: Vec<String>,
}

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Tables of operations with a column for each version: lines of six cells.
fn rows() -> Vec<Row> {
    let page = std::fs::read_to_string(folder("../../docs/protocol.md")).unwrap();
    let section = page.split("\n## ").find(|section| section.starts_with("Operations\n")).unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| operation |"));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, zero, one, two, _, tests] = cells[..] else { panic!("six cells: {line}") };
            let versions = [zero, one, two].map(|cell| cell.trim_matches('`').to_owned());
            Row { name: name.to_owned(), versions, tests: quoted(tests).map(str::to_owned).collect() }
        })
        .collect()
}

/// Names of all functions of this crate's sources and tests.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![folder("src"), folder("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = std::fs::read_to_string(path).unwrap();
                let after = source.split("fn ").skip(1);
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                names.extend(after.map(|rest| rest.chars().take_while(|c| is_name(*c)).collect::<String>()));
            }
        }
    }
    names
}

/// The arguments of every operation, from the vectors of `nfs4`; several of some.
fn arguments() -> BTreeMap<String, Vec<Bytes>> {
    let vectors = std::fs::read_to_string(folder("../nfs4/tests/vectors/wire.txt")).unwrap();
    let mut arguments: BTreeMap<String, Vec<Bytes>> = BTreeMap::new();
    for line in vectors.lines() {
        let ["args", name, hex] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes = (0..hex.len()).step_by(2).map(digit).collect::<Vec<u8>>();
        arguments.entry(name.to_owned()).or_default().push(bytes.into());
    }
    arguments.insert("ILLEGAL".to_owned(), vec![Bytes::copy_from_slice(&10044u32.to_be_bytes())]);
    arguments
}

#[test]
fn every_operation_is_documented_with_tests_that_exist() {
    let (rows, functions) = (rows(), functions());
    let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
    let operations = (0..=10044).filter_map(OpCode::from_number).map(OpCode::name);
    let callbacks = (0..=10044).filter_map(CbOpCode::from_number).map(CbOpCode::name);
    for name in operations.chain(callbacks) {
        assert_eq!(names.iter().filter(|row| **row == name).count(), 1, "{name}");
    }
    for row in &rows {
        let is_unused = row.name.starts_with("CB_") && row.versions.iter().all(|cell| cell == "-");
        assert!(is_unused || !row.tests.is_empty(), "{} has no test", row.name);
        for test in &row.tests {
            assert!(functions.contains(test), "{}: there is no test {test}", row.name);
        }
    }
}

/// The status of the operation that is sent as `argument` with the file `f` as current and saved filehandle.
async fn status_of(session: &Session, minor_version: u32, argument: &Bytes) -> NfsStatus {
    let mut before = vec![NfsArgOp::PutRootFh, lookup("home"), lookup("f"), NfsArgOp::SaveFh];
    let alone =
        [OpCode::ExchangeId, OpCode::CreateSession, OpCode::BindConnToSession, OpCode::DestroyClientId];
    let is = |code: OpCode| argument.starts_with(&(code as u32).to_be_bytes());
    if minor_version > 0 {
        let mut slot = session.slot().await.unwrap();
        before.insert(0, NfsArgOp::Sequence(slot.arguments(false)));
        slot.executed();
        if is(OpCode::Sequence) || alone.into_iter().any(is) {
            before.clear();
        }
    }
    let mut body = Encoder::new();
    let op_count = before.len() as u32 + 1;
    CompoundHeader { tag: "".into(), minor_version, op_count }.encode(&mut body);
    before.iter().for_each(|operation| operation.encode(&mut body));
    body.put_raw(argument.clone());
    let procedure =
        Procedure { program: nfs4::PROGRAM, version: nfs4::VERSION, number: nfs4::PROCEDURE_COMPOUND };
    let timeout = std::time::Duration::from_secs(20);
    let body = vec![body.into_bytes()];
    let reply = session.peer().call(procedure, &Credential::None, body, timeout).await.unwrap();
    let reply: CompoundRes = xdr::from_bytes(reply).unwrap();
    assert_eq!(reply.results.len(), op_count as usize, "{reply:?}"); // what comes before succeeds
    reply.status
}

#[tokio::test]
async fn the_table_of_operations_is_true() {
    let world = World::new().await;
    let running = world.start().await;
    let maker = running.client("maker").await;
    let file = maker.create(&home(&maker).await, "f", 0o666).await.unwrap();
    maker.close(&file).await.unwrap();
    let arguments = arguments();
    for row in rows().iter().filter(|row| !row.name.starts_with("CB_")) {
        for (minor_version, said) in (0u32..).zip(&row.versions) {
            for (number, argument) in arguments[&row.name].iter().enumerate() {
                let name = format!("{}{minor_version}{number}", row.name);
                let config = Config { minor_version: minor_version.max(1), ..Config::new(name, [1; 8]) };
                let session = running.connect(config).await;
                let status = status_of(&session, minor_version, argument).await;
                let context = format!("{} {number} in 4.{minor_version}: {status:?}", row.name);
                match &**said {
                    // Invented arguments get all sorts of errors. Of OPEN not every claim is offered.
                    "yes" => {
                        assert_ne!(status, NfsStatus::OpIllegal, "{context}");
                        assert!(status != NfsStatus::NotSupp || row.name == "OPEN", "{context}");
                    }
                    "-" => assert_eq!(status, NfsStatus::OpIllegal, "{context}"),
                    error => assert_eq!(status.name(), error, "{context}"),
                }
                let _ = session.destroy_client().await; // what the operation was may have done it already
            }
        }
    }
    running.stop().await;
}
