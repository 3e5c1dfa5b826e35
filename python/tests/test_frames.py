"""What people use it for: pandas, pyarrow and dask, by URL."""

import dask
import fsspec
import pandas
import pytest
from dask import dataframe
from pyarrow import dataset

OPTIONS = {"uid": 0, "gid": 0}


@pytest.fixture
def url(nfs_place):
    return nfs_place.replace("nfs://", "kurma://")


@pytest.fixture
def frame():
    return pandas.DataFrame({"number": range(1000), "name": [f"name {n}" for n in range(1000)], "part": [n % 4 for n in range(1000)]})


def test_pandas_reads_what_it_wrote(url, frame):
    frame.to_csv(f"{url}/a.csv", index=False, storage_options=OPTIONS)
    frame.to_parquet(f"{url}/a.parquet", storage_options=OPTIONS)
    frame.to_csv(f"{url}/a.csv.gz", index=False, storage_options=OPTIONS)
    for read, name in [(pandas.read_csv, "a.csv"), (pandas.read_parquet, "a.parquet"), (pandas.read_csv, "a.csv.gz")]:
        pandas.testing.assert_frame_equal(read(f"{url}/{name}", storage_options=OPTIONS), frame)
    columns = pandas.read_parquet(f"{url}/a.parquet", columns=["part"], storage_options=OPTIONS)
    assert list(columns.columns) == ["part"]


def test_pyarrow_reads_a_partitioned_directory(url, frame):
    frame.to_parquet(f"{url}/parts", partition_cols=["part"], storage_options=OPTIONS)
    fs, path = fsspec.url_to_fs(f"{url}/parts", **OPTIONS)
    parts = dataset.dataset(path, filesystem=fs, format="parquet", partitioning="hive")
    assert len(parts.files) == 4
    table = parts.to_table(filter=dataset.field("part") == 3)
    assert sorted(table.column("number").to_pylist()) == list(range(3, 1000, 4))
    again = pandas.read_parquet(f"{url}/parts", storage_options=OPTIONS)
    assert len(again) == 1000


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_reads_many_files(url, frame, scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        frames = dataframe.from_pandas(frame, npartitions=5)
        frames.to_csv(f"{url}/csv/part-*.csv", index=False, storage_options=OPTIONS)
        frames.to_parquet(f"{url}/parquet", storage_options=OPTIONS)
        for read in (
            dataframe.read_csv(f"{url}/csv/*.csv", storage_options=OPTIONS),
            dataframe.read_parquet(f"{url}/parquet", storage_options=OPTIONS),
        ):
            assert read.npartitions == 5
            assert read.number.sum().compute() == 499_500
            assert read.compute().name.tolist() == frame.name.tolist()
