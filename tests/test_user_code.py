"""Whose code a file contains."""

from __future__ import annotations

import json
import os
import sysconfig

import numpy
import pytest

from oomph.files.user_code import PACKAGE, STANDARD, is_installed, is_users


@pytest.mark.parametrize(
    "path", ["/home/ada/train.py", "train.py", PACKAGE + "-trainings/train.py", "/home/ada/my-site-packages/train.py"]
)
def test_user_files_are_recognised(path):
    assert is_users(path)
    assert not is_installed(path)


@pytest.mark.parametrize("path", [os.path.join(PACKAGE, "cli", "run.py"), json.__file__, os.__file__])
def test_files_of_oomph_and_python_are_not_user_code(path):
    assert not is_users(path)


@pytest.mark.parametrize("path", [numpy.__file__, "/usr/lib/python3/dist-packages/yaml/__init__.py"])
def test_installed_packages_are_not_user_code(path):
    assert is_installed(path)
    assert not is_users(path)


def test_standard_library_folders_match_sysconfig():
    assert tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")) == STANDARD
