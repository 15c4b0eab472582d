"""Completion as the shells ask for it. Whatever goes wrong here is no word on somebody's command line."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

_BASH = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            open) compopt -o nospace ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="$COMP_LINE" COMP_POINT="$COMP_POINT" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
_ZSH = """\
#compdef %(prog_name)s
%(complete_func)s() {
    local -a plain open described described_open response
    local type key descr
    response=("${(@f)$(COMP_WORDS="${words[*]}" COMP_CWORD=$((CURRENT-1)) %(complete_var)s=zsh_complete \\
        %(prog_name)s 2>/dev/null)}")
    for type key descr in "${(@)response}"; do
        case $type:$descr in
            dir:*) _path_files -/ ;;
            file:*) _path_files -f ;;
            open:_) open+=("$key") ;;
            open:*) described_open+=("$key:$descr") ;;
            plain:_) plain+=("$key") ;;
            plain:*) described+=("$key:$descr") ;;
        esac
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#described_open )) && _describe -V unsorted described_open -U -S ''
    (( $#plain )) && compadd -U -V unsorted -a plain
    (( $#open )) && compadd -U -S '' -V unsorted -a open
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_FISH = """\
function %(complete_func)s
    set -l response (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp) COMP_CWORD=(commandline -t) \\
        %(prog_name)s 2>/dev/null)
    for completion in $response
        set -l metadata (string split --max 1 "," $completion)
        switch $metadata[1]
            case dir
                __fish_complete_directories $metadata[2]
            case file
                __fish_complete_path $metadata[2]
            case plain
                echo $metadata[2]
        end
    end
end
complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""
_GOES_ON = (":", "=", "/")
"""What a value ends with that is not whole."""
_ESCAPED = r"\\\1"
_SPECIAL = re.compile(r"([^\w@%+=:,./^-])")
_UNSAFE = re.compile(r"""^-|[$`"'\\!]""")
"""An option, or what means something to a shell within quotation marks, too."""


class _Quiet(ShellComplete):
    """Says nothing where the command line cannot be understood, or the settings are bad."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        try:
            return super().get_completions(args, incomplete)
        except Exception:  # noqa: BLE001 -- a shell shows nothing, and the command itself will say what is wrong
            return []


class Bash(_Quiet, BashComplete):
    """Of click's own it differs in what it does with blanks and colons: `git:HEAD` is three words to bash."""

    source_template = _BASH

    @staticmethod
    def _check_version() -> None:
        """Nothing: click would start a shell to ask for its version."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one that is being written."""
        line = self._line()
        words = split_arg_string(line)[1:]
        is_new = not words or (line[-1:].isspace() and self._quote(line) == "" and not line.endswith("\\ "))
        return (words, "") if is_new else (words[:-1], words[-1])

    def complete(self) -> str:
        """One line an answer. bash replaces what stands behind the last of its breaks, so that is what it is given."""
        args, incomplete = self.get_completion_args()
        found = self.get_completions(args, incomplete)
        if not found:
            return ""
        breaks = os.environ.get("COMP_BREAKS", "")
        quoted = self._quote(self._line())
        at = 0 if quoted else max((incomplete.rfind(char) + 1 for char in ":=" if char in breaks), default=0)
        lines = ["open,"] if all(item.value.endswith(_GOES_ON) for item in found if item.type == "plain") else []
        for item in found:
            value = item.value if at == 0 or not item.value.startswith(incomplete[:at]) else item.value[at:]
            lines.append(f"{item.type},{value if quoted else _SPECIAL.sub(_ESCAPED, value)}")
        return "\n".join(lines)

    def _line(self) -> str:
        line, point = os.environ.get("COMP_LINE", ""), os.environ.get("COMP_POINT", "")
        return os.fsdecode(os.fsencode(line)[: int(point)]) if point.isdecimal() else line

    @staticmethod
    def _quote(line: str) -> str:
        """The quotation mark that is open at the end."""
        open_ = ""
        is_escaped = False
        for char in line:
            if is_escaped:
                is_escaped = False
            elif char == "\\" and open_ != "'":
                is_escaped = True
            elif char in "\"'" and open_ in ("", char):
                open_ = "" if open_ else char
        return open_


class Zsh(_Quiet, ZshComplete):
    """Of click's own it differs in that no blank is put behind what goes on."""

    source_template = _ZSH

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Three lines: type, value, help."""
        told = super().format_completion(item)
        return told.replace("plain", "open", 1) if item.type == "plain" and item.value.endswith(_GOES_ON) else told


class Fish(_Quiet, FishComplete):
    """Of click's own it differs in that the order is kept, and commas, too."""

    source_template = _FISH


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}


def get_ready() -> None:
    """For a run in which a shell asks: our classes answer, and nothing is said beside the answer."""
    for shell in SHELLS.values():
        add_completion_class(shell)
    logging.disable()
    sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 -- until this process ends


def item(value: str, text: str = "") -> CompletionItem[str]:
    """One answer, with what some shells show beside it; a line each is all that they can take."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return CompletionItem(value, help=" ".join(line.split()) or None)


def matching(items: Iterable[CompletionItem[str]], incomplete: str) -> list[CompletionItem[str]]:
    """Those that go on as somebody has begun, each once and with what is told of it, and that a shell can be told and
    takes for a word: names come from rules and repositories of others, and what is put on the line is run."""
    found: dict[str, CompletionItem[str]] = {}
    for each in items:
        is_fit = each.value.startswith(incomplete) and (each.type != "plain" or _is_word(each.value))
        if is_fit and (each.value not in found or not found[each.value].help):
            found[each.value] = each
    return list(found.values())


def _is_word(value: str) -> bool:
    return value.isprintable() and not _UNSAFE.search(value)
