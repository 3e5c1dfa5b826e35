"""What type checkers are told is so."""

import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parents[1]


def run(tmp_path, *command):
    # From elsewhere: beside the sources there is no native module.
    ended = subprocess.run(
        [sys.executable, "-P", *command], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert ended.returncode == 0, ended.stdout


def test_the_stubs_say_what_the_modules_have(tmp_path):
    run(tmp_path, HERE / "stubs", "check")
    configuration = f"--mypy-config-file={HERE / 'pyproject.toml'}"
    run(tmp_path, "-m", "mypy.stubtest", "--concise", configuration, "kurma._native", "kurma.client")


def test_the_package_and_its_examples_are_typed(tmp_path):
    options = [f"--config-file={HERE / 'pyproject.toml'}", f"--cache-dir={tmp_path}"]
    run(tmp_path, "-m", "mypy", *options, "-p", "kurma")
    run(tmp_path, "-m", "mypy", *options, *(HERE / "examples").glob("*.py"))
