"""Files that a script names after the current time have a different name at each start."""

from __future__ import annotations

import os
import tempfile

import pytest

from oomph.resume.fit.written_files import new_names

IN_TMP = os.path.join(tempfile.gettempdir(), "tmpab12", "best.keras")


@pytest.mark.parametrize(
    ("old", "pattern", "new"),
    [
        ("/a/log-20260102-030405.csv", "/a/log-20260103-040506.csv", "/a/log-20260103-040506.csv"),
        ("/a/2026-01-02T03:04:05.123456/w.h5", "/a/2026-01-02T03:05:06.654321/w.h5", None),
        ("/a/log-1795363320.csv", "/a/log-1795363329.csv", None),
        ("/a/1795363320/e01-0.5.h5", "/a/1795363329/e{epoch:02d}-{loss:.1f}.h5", "/a/1795363329/e01-0.5.h5"),
        (IN_TMP, IN_TMP.replace("ab12", "cd34"), None),
    ],
)
def test_renamed_file_is_matched_by_pattern(old: str, pattern: str, new: str | None):
    assert new_names([old], [pattern]) == {new or pattern: [old]}
    assert new_names([old], ["/a/other", pattern, pattern]) == {new or pattern: [old]}


@pytest.mark.parametrize(
    ("paths", "pattern"),
    [
        (["/a/log-20260102-030405.csv"], "/a/log-20260102-030405.csv"),  # a name that the script has spelled out
        (["/a/e01.h5"], "/a/e{epoch:02d}.h5"),
        (["/a/log-20260102.csv"], "/b/log-20260103.csv"),
        (["/a/log-20260102.csv"], "/a/log-20260103.h5"),
        (["/a/x/20260102/etc"], "/a/20260103/{name}"),
        (["/a/log-7.csv"], "/a/log-8.csv"),
        ([], "/a/log-20260103.csv"),
    ],
)
def test_unrelated_files_and_unchanged_names_are_not_matched_as_renamed(paths: list[str], pattern: str):
    assert new_names(paths, [pattern]) == {}


def test_all_indistinguishable_names_are_reported():
    paths = ["/a/log-20260102-030405.csv", "/a/log-20260102-030406.csv"]
    assert new_names(paths, ["/a/log-20260103-030405.csv"]) == {"/a/log-20260103-030405.csv": paths}


def test_relative_new_name_is_made_absolute():
    assert new_names(["log-20260102.csv"], ["log-20260103.csv"]) == {
        os.path.abspath("log-20260103.csv"): ["log-20260102.csv"]
    }
