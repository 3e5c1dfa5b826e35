//! What scanners for malware answer.

use scan::{ScanError, Verdict, clamd, icap};

/// An answer of `clamd`, and one of an ICAP service. What is told of it is short, and fit for a terminal.
pub(crate) fn answers(data: &[u8]) {
    match clamd::decode_answer(data) {
        Ok(Verdict::Infected(name)) => told(&name),
        Ok(Verdict::Clean) => assert_eq!(data, b"stream: OK"),
        Err(error) => refused(&error),
    }
    match icap::decode_head(data) {
        Ok(Some(head)) => {
            assert!(head.length <= data.len() && data[..head.length].ends_with(b"\r\n\r\n"));
            head.threat.iter().for_each(|threat| told(threat));
            // It was not complete before its last byte.
            assert_eq!(icap::decode_head(&data[..head.length - 1]), Ok(None));
        }
        Ok(None) => {}
        Err(error) => refused(&error),
    }
}

fn told(text: &str) {
    assert!(
        !text.is_empty() && text.chars().count() <= 200 && !text.chars().any(char::is_control),
        "{text:?}"
    );
}

fn refused(error: &ScanError) {
    assert!(error.to_string().len() < 4096);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "stream: OK",
        "stream: Win.Test.EICAR_HDB-1 FOUND",
        "INSTREAM size limit exceeded. ERROR",
        "ICAP/1.0 100 Continue\r\n\r\n",
        "ICAP/1.0 204 Unmodified\r\nServer: C-ICAP/0.5.10\r\nISTag: \"CI0001-x\"\r\n\r\n",
        "ICAP/1.0 200 OK\r\nMethods: RESPMOD, REQMOD\r\nPreview: 1024\r\nAllow: 204\r\nEncapsulated: null-body=0\r\n\r\n",
        "ICAP/1.0 200 OK\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar;\r\nX-Violations-Found: 1\r\n\t-\r\n\tEicar\r\n\
         Encapsulated: res-hdr=0, res-body=161\r\n\r\nHTTP/1.0 403 Forbidden\r\nVia: x\r\n\r\n",
        "ICAP/1.0 200 OK\r\nEncapsulated: res-hdr=0, res-body=19\r\n\r\nHTTP/1.1 403 No\r\n\r\n",
    ];
    seeds.map(|seed| seed.as_bytes().to_vec()).into()
}
