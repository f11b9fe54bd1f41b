"""Checks of files by their paths."""

import os
import pathlib

import pytest

from keras_encdec.configuration import ConfigurationError
from keras_encdec.errors import InputError
from keras_encdec.runtime.files import (
    check_can_be_read_again,
    check_distinct_files,
    check_folder,
    check_writable,
    exists,
    file_checksum,
    read_contents,
)
from keras_encdec.runtime.input_lines import InputLines


def test_an_input_that_is_also_an_output_is_an_error(tmp_path):
    check_distinct_files(tmp_path / "a", None, tmp_path / "b", "-", "-")
    with pytest.raises(ValueError, match=r"found one file for two purposes \(.*/a\), expected a different file"):
        check_distinct_files(tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a")
    for other in (f"{tmp_path}/a", f"file://{tmp_path}/b/../a"):
        with pytest.raises(ValueError, match="found one file for two purposes"):
            check_distinct_files(f"file://{tmp_path}/a", other)
    check_distinct_files(f"file://{tmp_path}/a", tmp_path / "b", "s3://bucket/a")


def test_only_pipes_cannot_be_read_again(tmp_path):
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    # A directory or a missing file is reported by what opens it.
    for path in (tmp_path / "file", tmp_path, tmp_path / "missing", "s3://bucket/a"):
        check_can_be_read_again(path)
    for path in (tmp_path / "pipe", "-"):
        for use in (check_can_be_read_again, file_checksum):
            with pytest.raises(InputError, match="found a pipe, expected a file"):
                use(path)


@pytest.mark.parametrize("use", [InputLines, read_contents, check_writable, check_distinct_files, check_folder, exists])
def test_a_path_with_a_nul_character_is_an_error_that_says_so(use):
    for path in ("folder/a\0b", pathlib.Path("folder/a\0b")):
        with pytest.raises(ConfigurationError, match=r"found a NUL character in the path 'folder/a\\x00b', expected"):
            use(path)


def test_a_folder_cannot_be_standard_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_folder("./-")
    with pytest.raises(InputError, match=r"^-: found standard output, expected a directory; name it \./- if this is"):
        check_folder("-")
