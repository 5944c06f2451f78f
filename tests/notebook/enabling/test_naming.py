"""The name of a notebook, from what Jupyter and VS Code tell its kernel."""

from __future__ import annotations

import pytest

from oomph.notebook.naming import Notebook, named


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "course").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("namespace", "environ", "expected"),
    [
        ({}, {"JPY_SESSION_NAME": "{}/course/lesson 1.ipynb"}, ("{}/course", "lesson 1", True)),
        ({"__session__": "{}/course/a.ipynb"}, {"JPY_SESSION_NAME": "{}/b.ipynb"}, ("{}/course", "a", True)),
        ({"__vsc_ipynb_file__": "{}/course/c.ipynb"}, {}, ("{}/course", "c", True)),
        ({}, {"JPY_SESSION_NAME": "course/d.ipynb"}, ("{}/course", "d", True)),
        ({}, {"JPY_SESSION_NAME": "/elsewhere/e.ipynb"}, ("{}", "e", True)),
        ({}, {"JPY_SESSION_NAME": "console-1-0f3a"}, ("{}", "notebook", False)),
        ({"__session__": 3}, {}, ("{}", "notebook", False)),
        ({}, {}, ("{}", "notebook", False)),
        ({}, {"COLAB_RELEASE_TAG": "release-colab"}, ("{}", "notebook", True)),
        ({}, {"KAGGLE_KERNEL_RUN_TYPE": "Interactive"}, ("{}", "notebook", True)),
    ],
)
def test_notebook_is_named_by_its_client(folder, namespace, environ, expected):
    filled = [
        {name: text.format(folder) if isinstance(text, str) else text for name, text in given.items()}
        for given in (namespace, environ)
    ]
    found = named(*filled, folder)
    assert (str(found.folder), found.name, found.is_named) == (expected[0].format(folder), *expected[1:])


def test_run_directory_is_beside_the_notebook_under_a_valid_name(folder):
    odd = Notebook(folder, "Übung 3/4?").run_dir
    assert (odd.parent, odd.name[:-9]) == (folder / ".oomph/notebooks", "Übung-3-4")
    alike = {Notebook(folder, name).run_dir for name in ("a b", "a-b", 'a"b', "a\nb", "a  b")}
    assert len(alike) == 5, "what looks alike in a folder's name is not the same notebook"
    assert folder / ".oomph/notebooks/a-b" in alike
