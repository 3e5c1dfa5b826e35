"""The tests that fsspec has for every file system."""

import pytest
from fsspec.tests import abstract

from kurma.fs import KurmaFileSystem


class Fixtures(abstract.AbstractFixtures):
    @pytest.fixture
    def fs(self, back_end, place, server):
        if back_end == "local":
            return KurmaFileSystem(root=place, auto_mkdir=True, skip_instance_cache=True)
        host, _, port = server.rpartition(":")
        options = {"uid": 0, "gid": 0, "groups": [], "auto_mkdir": True, "skip_instance_cache": True}
        return KurmaFileSystem(host=host, port=int(port), **options)

    @pytest.fixture
    def fs_path(self, back_end, place, server):
        return "/" if back_end == "local" else place.split(server)[1]


class TestCopy(Fixtures, abstract.AbstractCopyTests):
    pass


class TestGet(Fixtures, abstract.AbstractGetTests):
    pass


class TestPut(Fixtures, abstract.AbstractPutTests):
    pass


class TestPipe(Fixtures, abstract.AbstractPipeTests):
    pass


class TestOpen(Fixtures, abstract.AbstractOpenTests):
    pass
