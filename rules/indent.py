"""Two spaces a level: lines move sideways, nothing in them changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

STEP = 2


def indented(text: str, _data: Any, root: Any) -> str:
    """The text with its block structure indented by two spaces a level, list items within their key.

    LF is expected; `root` as `read_nodes` gives it.
    """
    plan = _Plan(text.split("\n"))
    plan.visit(root, 0)
    return "\n".join(plan.moved())


@dataclass(slots=True)
class _Plan:
    lines: list[str]
    targets: dict[int, int] = field(default_factory=dict)
    """Line → new indentation, for lines that begin a key or a list item."""
    inside: set[int] = field(default_factory=set)
    """Lines within a scalar or a flow collection: they move with the line on which that begins."""

    def visit(self, node: Any, column: int) -> None:
        """Plans a block node whose first line shall stand at `column`."""
        event, children = node if isinstance(node, tuple) else (node, None)
        if children is None or event.flow_style:
            self._keep_together(event, children)
        elif isinstance(children, dict):
            for key, value in children.values():
                self._place(key.start_mark, column)
                self.visit(value, column + STEP)
        else:
            for item in children:
                first = item[0] if isinstance(item, tuple) else item
                self._place(first.start_mark, column)
                self.visit(item, column + STEP)

    def _place(self, mark: Any, column: int) -> None:
        """The first thing of a line decides; `- key:` is decided by the item."""
        before = self.lines[mark.line][: mark.column].strip()
        if before in ("", "-"):
            self.targets.setdefault(mark.line, column)

    def _keep_together(self, event: Any, children: Any) -> None:
        last = _last_line(event, children)
        self.inside.update(range(event.start_mark.line + 1, last + 1))

    def moved(self) -> list[str]:
        result = []
        shift = 0
        for number, line in enumerate(self.lines):
            if number in self.targets and number not in self.inside:
                shift = self.targets[number] - _indent(line)
                result.append(_shifted(_one_blank_after_dash(line, self._follows(number)), shift))
            elif number in self.inside:
                result.append(_shifted(line, shift))
            else:
                result.append(_shifted(line, self._comment_shift(number, line, shift)))
        return result

    def _follows(self, number: int) -> bool:
        """Whether the next line continues what begins here, so that its inner columns must not move."""
        return number + 1 in self.inside

    def _comment_shift(self, number: int, line: str, shift: int) -> int:
        """A comment goes with the line below it where it stands in its column, else with the one above."""
        below = next((later for later in range(number + 1, len(self.lines)) if later in self.targets), None)
        if below is not None and _indent(self.lines[below]) == _indent(line):
            return self.targets[below] - _indent(line)
        return shift


def _last_line(event: Any, children: Any) -> int:
    """The last line that belongs to a scalar or a flow collection, its closing bracket left aside."""
    last: int = event.end_mark.line - (1 if event.end_mark.column == 0 else 0)
    parts = children.values() if isinstance(children, dict) else children or ()
    for part in parts:
        node = part[1] if isinstance(children, dict) else part
        inner, below = node if isinstance(node, tuple) else (node, None)
        last = max(last, _last_line(inner, below))
    return last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _shifted(line: str, shift: int) -> str:
    if not line:
        return line
    return " " * max(0, _indent(line) + shift) + line.lstrip(" ")


def _one_blank_after_dash(line: str, follows: bool) -> str:  # internal
    head = line.lstrip(" ")
    if follows or not head.startswith("- "):
        return line
    return f"{' ' * _indent(line)}- {head[2:].lstrip(' ')}"
