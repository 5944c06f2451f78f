"""oomph kernel: installs, lists and removes the kernelspecs of kernels that oomph supervises."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from oomph.cli.output import write, write_json
from oomph.errors import UsageError

if TYPE_CHECKING:
    from oomph.notebook.kernel.spec import Kernelspec

SUMMARY = "install a Jupyter kernel that restarts when it dies, and says why it died"

_USAGE = """oomph kernel install [--user | --sys-prefix] [--like NAME]
       oomph kernel list [--json]
       oomph kernel uninstall [NAME]"""
_EPILOG = """examples:
  oomph kernel install               a kernel of this Python, for JupyterLab, Notebook, VS Code, nbclient, papermill
  oomph kernel install --like NAME   the same as an installed kernel, with its arguments, environment and icons
  oomph kernel list
  oomph kernel uninstall

Choose the kernel in the notebook. Its training is guarded as under oomph run. If it dies, it starts again on the same \
connection, and the cell that died says what killed it and which cells to run again.

exit codes: 0 done; 2 an invalid command line, or a kernel that oomph cannot supervise"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.usage, parser.epilog = _USAGE, _EPILOG
    parser.add_argument("action", choices=("install", "list", "uninstall"), help="what to do")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the kernel to uninstall (default: oomph)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="install for this user (default outside an environment)")
    place.add_argument("--sys-prefix", action="store_true", help="install in the environment of this Python")
    parser.add_argument("--like", metavar="NAME", help="supervise a copy of the installed kernel NAME, as NAME-oomph")
    parser.add_argument("--json", action="store_true", help="print the list as one JSON document")


def run(args: argparse.Namespace) -> int:
    """Install, list or uninstall kernelspecs. Raises UsageError."""
    _check(args)
    from oomph.notebook.kernel import spec

    if args.action == "install":
        made = spec.install(args.like, user=args.user, sys_prefix=args.sys_prefix)
        write(f"installed the kernel {made.name}, “{made.document['display_name']}”, in {made.folder}\n")
    elif args.action == "uninstall":
        gone = spec.uninstall(spec.NAME if args.name is None else args.name)
        write(f"removed the kernel {gone.name} from {gone.folder}\n")
    elif args.json:
        write_json({"schema": 1, "kernels": [_as_data(each) for each in spec.installed()]})
    else:
        _list(spec.installed())
    return 0


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for an argument that the action does not take."""
    given = {"NAME": args.name, "--user": args.user, "--sys-prefix": args.sys_prefix, "--like": args.like}
    given["--json"] = args.json
    takes = {"install": ("--user", "--sys-prefix", "--like"), "list": ("--json",), "uninstall": ("NAME",)}
    for option, value in given.items():
        if value and option not in takes[args.action]:
            hint = " (for a copy of an installed kernel: --like NAME)" if args.action == "install" else ""
            raise UsageError(f"oomph kernel {args.action} takes no {option}{hint if option == 'NAME' else ''}")


def _list(kernels: list[Kernelspec]) -> None:
    if not kernels:
        write("no oomph kernel is installed: to install one, run oomph kernel install\n")
        return
    width = max(len(each.name) for each in kernels)
    for each in kernels:
        write(f"{each.name:<{width}}  {each.trouble or each.folder}\n")


def _as_data(kernel: Kernelspec) -> dict[str, object]:
    return {
        "name": kernel.name,
        "display_name": kernel.document.get("display_name", ""),
        "folder": str(kernel.folder),
        "python": kernel.python,
        "trouble": kernel.trouble,
    }
