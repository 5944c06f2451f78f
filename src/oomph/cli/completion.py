"""oomph completion: prints a shell's script that completes verbs, options, scripts and runs.

The script is made from the parsers and holds everything it needs, so that completing starts no Python. Libraries that
make such scripts from argparse know neither that everything after a script belongs to the script, nor a run's name.
A run's name may come from somebody else: the shells compare and quote it, and never expand it.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from oomph.cli.output import write
from oomph.cli.parser import VerbParser, parser_of, takes_script

SUMMARY = "print what makes bash, zsh or fish complete oomph's command line"

_EPILOG = """examples:
  eval "$(oomph completion bash)"       in ~/.bashrc
  eval "$(oomph completion zsh)"        in ~/.zshrc, after compinit
  oomph completion fish > ~/.config/fish/completions/oomph.fish

Completes verbs, options and their values, scripts and notebooks, and the names of the runs in this folder. What comes \
after the script is the script's, and completes as files do.

exit codes: 0 done; 2 an invalid command line"""
_RUN = "RUN"
_WORDS_OF_RUNS = (_RUN, "FOLDER|RUN", "FILE|-|RUN|CODE|NAME")
"""The names of the arguments that may be runs."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's command line."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", choices=tuple(_SHELLS), help="the shell that is to complete")


def run(args: argparse.Namespace) -> int:
    """Print the script."""
    write(_SHELLS[args.shell](_verbs()))
    return 0


class _Option(NamedTuple):
    name: str
    purpose: str
    needs_value: bool
    values: tuple[str, ...]
    """The values to choose from; () for any, and for a run."""
    is_run: bool


class _Verb(NamedTuple):
    """The words that can follow a verb."""

    name: str
    purpose: str
    options: tuple[_Option, ...]
    words: tuple[str, ...]
    """The words to choose from, for a verb that takes one of a few."""
    takes_script: bool
    takes_runs: bool

    @property
    def needing(self) -> str:
        """The options whose value is the next word."""
        return " ".join(option.name for option in self.options if option.needs_value)


def _verbs() -> list[_Verb]:
    from oomph.cli import COMMANDS

    found = []
    for name, (path, purpose) in COMMANDS.items():
        module = importlib.import_module(path)
        found.append(_of_parser(name, purpose, parser_of(name, module), is_script=takes_script(module)))
    return found


def _of_parser(name: str, purpose: str, parser: VerbParser, *, is_script: bool) -> _Verb:
    options = tuple(_option(action) for action in parser.actions if action.option_strings)
    words = [action for action in parser.actions if not action.option_strings]
    return _Verb(
        name=name,
        purpose=purpose,
        options=options,
        words=tuple(str(choice) for action in words for choice in action.choices or ()),
        takes_script=is_script,
        takes_runs=any(action.metavar in _WORDS_OF_RUNS for action in words),
    )


def _option(action: argparse.Action) -> _Option:
    return _Option(
        name=action.option_strings[-1],
        purpose=(action.help or "").partition(";")[0],
        needs_value=action.nargs in (None, "+"),
        values=tuple(map(str, action.choices or ())),
        is_run=action.metavar == _RUN,
    )


# -- bash -------------------------------------------------------------------------------------------------------------


_BASH = """_oomph_runs() {
    local run
    for run in .oomph/{runs,notebooks}/*/ ${OOMPH_RUNS_DIR:+"$OOMPH_RUNS_DIR"/.oomph/runs/*/}; do
        run=${run%%/}; run=${run##*/}
        [[ $run != '*' && $run != *$'\\n'* && $run == "$word"* ]] && COMPREPLY+=("$(printf %%q "$run")")
    done
}
_oomph() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
    local options= needing= words= script= runs= option= place
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W '%(verbs)s help --help --version' -- "$word")); return
    fi
    case $verb in
%(cases)s
    esac
    if [[ $script ]]; then
        for ((place = 2; place < COMP_CWORD; place++)); do
            case ${COMP_WORDS[place]} in
                =) ((place++));;
                --|-m) return;;
                -*) [[ " $needing " == *" ${COMP_WORDS[place]} "* && ${COMP_WORDS[place+1]} != '=' ]] && ((place++));;
                *) return;;
            esac
        done
    fi
    if [[ $word == '=' ]]; then word= option=$before
    elif [[ $before == '=' ]]; then option=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ " $needing " == *" $before "* ]]; then option=$before
    fi
    case "$verb $option" in
%(values)s
        *' ') if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))
            elif [[ $words ]]; then COMPREPLY=($(compgen -W "$words" -- "$word"))
            elif [[ $runs ]]; then _oomph_runs
            elif [[ $script ]]; then
                compopt -o filenames
                while IFS= read -r place; do  # a part of a name that contains a newline is no file
                    [[ -e $place || $place == '~'* ]] && COMPREPLY+=("$place")
                done < <(compgen -d -- "$word"; compgen -f -X '!*.py' -- "$word"
                    compgen -f -X '!*.ipynb' -- "$word")
            fi;;
    esac
}
complete -o default -F _oomph oomph
"""


def _bash(verbs: list[_Verb]) -> str:
    return _BASH % {
        "verbs": " ".join(verb.name for verb in verbs),
        "cases": "\n".join(_shell_case(verb, " ".join(option.name for option in verb.options)) for verb in verbs),
        "values": "\n".join(_values(verbs, 'COMPREPLY=($(compgen -W "%s" -- "$word"))', "_oomph_runs")),
    }


def _shell_case(verb: _Verb, options: str) -> str:
    flags = f"script={verb.takes_script or ''} runs={verb.takes_runs or ''}"
    words = f"needing={shlex.quote(verb.needing)} words={shlex.quote(' '.join(verb.words))}"
    return f"        {verb.name}) options={shlex.quote(options)} {words} {flags};;"


def _values(verbs: list[_Verb], choose: str, runs: str) -> Iterator[str]:
    """Yield the cases that complete the value of an option, in bash and zsh."""
    for verb in verbs:
        for option in verb.options:
            if option.values or option.is_run:
                do = choose % " ".join(option.values) if option.values else runs
                yield f"        '{verb.name} {option.name}') {do};;"


# -- zsh --------------------------------------------------------------------------------------------------------------


_ZSH = """#compdef oomph
_oomph_runs() {
    local -a runs=(.oomph/(runs|notebooks)/*(N/:t))
    [[ -n $OOMPH_RUNS_DIR ]] && runs+=($OOMPH_RUNS_DIR/.oomph/runs/*(N/:t))
    compadd -a runs; _files
}
_oomph() {
    local word=$words[CURRENT] before=$words[CURRENT-1] verb=$words[2] script= runs= option= needing= choices= place
    local -a options verbs=(%(verbs)s)
    if (( CURRENT == 2 )); then
        _describe verb verbs; return
    fi
    case $verb in
%(cases)s
    esac
    if [[ -n $script ]]; then
        for (( place = 3; place < CURRENT; place++ )); do
            case $words[place] in
                (--|-m) _files; return;;
                (-*) [[ " $needing " == *" $words[place] "* ]] && (( place++ ));;
                (*) _files; return;;
            esac
        done
    fi
    if [[ $word == --*=* ]]; then option=${word%%%%=*}; compset -P '*='
    elif [[ " $needing " == *" $before "* ]]; then option=$before
    fi
    case "$verb $option" in
%(values)s
        *' ') if [[ $word == -* ]]; then _describe -o option options
            elif [[ -n $choices ]]; then compadd -- ${=choices}
            elif [[ -n $runs ]]; then _oomph_runs
            elif [[ -n $script ]]; then _files -g '*.(py|ipynb)'
            else _files
            fi;;
        *) _files;;
    esac
}
compdef _oomph oomph
"""


def _zsh(verbs: list[_Verb]) -> str:
    return _ZSH % {
        "verbs": " ".join(_described(verb.name, verb.purpose) for verb in verbs),
        "cases": "\n".join(map(_zsh_case, verbs)),
        "values": "\n".join(_values(verbs, "compadd -- %s", "_oomph_runs")),
    }


def _zsh_case(verb: _Verb) -> str:
    options = " ".join(_described(option.name, option.purpose) for option in verb.options)
    flags = f"script={verb.takes_script or ''} runs={verb.takes_runs or ''}"
    words = f"needing={shlex.quote(verb.needing)} choices={shlex.quote(' '.join(verb.words))}"
    return f"        ({verb.name}) options=({options}) {words} {flags};;"


def _described(name: str, purpose: str) -> str:
    return shlex.quote(f"{name}:{purpose.replace(':', chr(92) + ':')}")


# -- fish -------------------------------------------------------------------------------------------------------------


_FISH = """function __oomph_runs
    for run in .oomph/runs/*/ .oomph/notebooks/*/ $OOMPH_RUNS_DIR/.oomph/runs/*/
        string match -q -- '*'\\n'*' $run; or path basename -- $run
    end
end
function __oomph_at --description 'True before the script of a verb, whose options need a value as the next word'
    set -l words (commandline -opc)
    test "$words[2]" = $argv[1]; or return 1
    set -e words[1..2]
    while set -q words[1]
        if contains -- $words[1] -- -m; or not string match -q -- '-*' $words[1]
            return 1
        end
        contains -- $words[1] $argv[2..]; and set -e words[1]
        set -e words[1]
    end
end
complete -c oomph -e
"""


def _fish(verbs: list[_Verb]) -> str:
    return _FISH + "".join(f"complete -c oomph {line}\n" for verb in verbs for line in _fish_lines(verb))


def _fish_lines(verb: _Verb) -> Iterator[str]:
    yield f"-n __fish_use_subcommand -f -a {verb.name} -d {shlex.quote(verb.purpose)}"
    where = f"__fish_seen_subcommand_from {verb.name}"
    if verb.takes_script:
        where = f"__oomph_at {verb.name} {verb.needing}"
        yield f"-n {shlex.quote(where)} -k -F -a '(__fish_complete_suffix .py .ipynb)'"
    if verb.words:
        yield f"-n {shlex.quote(where)} -f -a {shlex.quote(' '.join(verb.words))}"
    if verb.takes_runs:
        yield f"-n {shlex.quote(where)} -a '(__oomph_runs)'"
    for option in verb.options:
        names = f"-l {option.name[2:]} -d {shlex.quote(option.purpose)}"
        value = f" -x -a {shlex.quote(' '.join(option.values))}" if option.values else ""
        value = " -a '(__oomph_runs)'" if option.is_run else value or (" -r" if option.needs_value else "")
        yield f"-n {shlex.quote(where)} {names}{value}"


_SHELLS: dict[str, Callable[[list[_Verb]], str]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
