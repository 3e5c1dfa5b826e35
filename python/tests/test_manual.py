"""The manual page that comes with the package."""

import pathlib
import re
import sys

import kurma

PAGE = pathlib.Path(sys.prefix, "share/man/man3/kurma-python.3")


def test_it_is_installed_and_names_every_call():
    named = set(re.findall(r"\w+", PAGE.read_text()))
    calls = {name for name in dir(kurma.Client) if not name.startswith("_")}
    assert calls | {"chain"} <= named
