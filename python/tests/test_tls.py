"""Connections by TLS."""

import pathlib
import subprocess

import pytest
from conftest import folder, free_port, gateway

import kurma


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def issue(place, name, authority=None):
    """A certificate and its key, of an authority or by itself."""
    key, certificate = place / f"{name}.key", place / f"{name}.pem"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    how = ["-addext", "keyUsage=critical,keyCertSign"]
    if authority:
        how = ["-CA", place / f"{authority}.pem", "-CAkey", place / f"{authority}.key"]
        how += ["-addext", "basicConstraints=critical,CA:false", "-addext", "subjectAltName=IP:127.0.0.1"]
    openssl("req", "-x509", "-new", "-key", key, "-subj", f"/CN={name}", "-days", "2", "-out", certificate, *how)
    return certificate.read_bytes(), key.read_bytes()


@pytest.fixture(scope="module")
def protected():
    """A gateway that takes nothing but TLS, and the folder with all certificates."""
    with folder() as data:
        place = pathlib.Path(data)
        nfs, admin = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        for name, authority in [("ours", None), ("theirs", None), ("server", "ours"), ("client", "ours")]:
            issue(place, name, authority)
        with gateway(data, nfs, admin):
            pass
        configuration = place / "gateway/kurma.toml"
        tls = f"""
[nfs.tls]
certificate = "{place}/server.pem"
key = "{place}/server.key"
client_authorities = "{place}/ours.pem"
required = true
"""
        configuration.write_text(configuration.read_text() + tls)
        with gateway(data, nfs, admin):
            yield f"nfs://{nfs}/home", place


def connected(url, **options):
    return kurma.Client.connect(url, uid=0, gid=0, patience=2, **options)


def test_all_goes_by_tls(protected):
    url, place = protected
    ours = (place / "ours.pem").read_bytes()
    with connected(url, tls=ours) as client:
        client.write_files({"a": b"content"})
    own = {name: (place / f"client.{suffix}").read_bytes() for name, suffix in [("certificate", "pem"), ("key", "key")]}
    with connected(url, tls=ours, **own) as client:
        assert client.read_files(["a"]) == [b"content"]


def test_servers_that_nobody_vouches_for_and_clients_without_tls_get_nothing(protected):
    url, place = protected
    with pytest.raises(OSError):
        connected(url, tls=(place / "theirs.pem").read_bytes())
    with pytest.raises(OSError):
        connected(url)
    with pytest.raises(ValueError):
        connected(url, certificate=(place / "client.pem").read_bytes())
