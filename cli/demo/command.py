"""The story of the demo, step by step. Talk goes to stderr, the measured figures to stdout."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.demo.workshop import Facts, Service, Workshop, command_line
from sentinel_core.cli.exits import CommandError, Exit, UsageProblem
from sentinel_core.cli.output import Output, View, table
from sentinel_core.cli.text import Span, Styled

BEFORE, AFTER, TYPO = "count: 20\n", "count: 25\n", "count: 2O\n"


@click.command()
@click.option(
    "--keep",
    is_flag=False,
    flag_value="",
    metavar="[FOLDER]",
    help="Leave everything to look at: in FOLDER, or in a new folder whose name is printed at the end.",
)
@output_options
@pass_app
def demo(app: App, keep: str | None) -> None:
    """Show the whole loop on this machine, without any server: about twenty seconds.

    \b
    sentinelctl demo
    sentinelctl demo --keep my-demo      leaves the folder, to look at

    A Git repository with rules, a guarded service under load, a threshold changed by a commit, a bad commit refused, a
    rollback, and the answer to "who changed it, from what to what?". Every figure is measured while you watch.
    """
    folder, is_new = _folder(keep)
    story = Story(Workshop(folder), app.out)
    try:
        story.tell()
    except BaseException:
        story.close()
        _clear(folder, is_new=is_new)  # half a story is nothing to look at, and would be in the way of the next
        raise
    story.close()
    if keep is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        app.out.say()
        app.out.say(f"Everything lies in {folder}. Ask it, for example:")
        app.out.say(
            "  ",
            Styled(f"cd {shlex.quote(str(folder))} && {shlex.quote(program())} audit who payment_invoke", "bold"),
        )
    app.out.show(story.figures())


def program() -> str:
    """This program as it was called, so that what is printed can be typed; it need not be on the PATH."""
    called = Path(sys.argv[0])
    return str(called.resolve()) if called.name == "sentinelctl" and called.parent != Path() else "sentinelctl"


def _clear(folder: Path, *, is_new: bool) -> None:
    for each in [folder] if is_new else folder.iterdir():
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def _folder(keep: str | None) -> tuple[Path, bool]:
    """An empty folder, and whether it was made here."""
    if not keep:
        return Path(tempfile.mkdtemp(prefix="sentinel-demo-")).resolve(), True
    folder = Path(keep).expanduser().resolve()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageProblem(f"{folder} is not an empty folder", next_step="name a folder that does not exist yet")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    return folder, is_new


class Story:
    """The steps in order; each says what it does, does it for real, and notes what was measured."""

    def __init__(self, workshop: Workshop, out: Output) -> None:
        self.workshop = workshop
        self.out = out
        self.service: Service | None = None
        self.measured: list[dict[str, Any]] = []
        self.steps = 0

    def tell(self) -> None:
        service = self.start()
        self.change(service)
        self.refuse(service)
        self.roll_back(service)
        self.answer()

    def close(self) -> None:
        if self.service is not None:
            self.service.close()

    def start(self) -> Service:
        self.title("Rules stand in a Git repository, and a service under load obeys them")
        self.workshop.build()
        self.service = service = Service(self.workshop)
        active = service.wait_for(lambda facts: facts["event"] == "activated" and facts["rules"] > 0)
        self.say(f"revision {active['digest'][:12]} of commit {active['commit'][:7]} is active")
        self.note("calls/s let through before", self.traffic(service)["passed"], "calls/s")
        return service

    def change(self, service: Service) -> None:
        self.title("Somebody commits a change: payment_invoke may have 25 calls a second instead of 20")
        self.workshop.edit(("payment channel promised us twenty calls", "payment channel promised us 25 calls"))
        self.workshop.edit((BEFORE, AFTER), ("count: 10\n", "count: 12\n"))
        self.note("commit → active", self.commit_and_wait(service, "Raise payment limits for the sale"), "ms")
        self.note("calls/s let through after", self.traffic(service)["passed"], "calls/s")
        self.ask("audit", "query", "resource:payment_*", "kind:flow")

    def refuse(self, service: Service) -> None:
        self.title("Somebody commits a typo: the whole revision is refused, traffic keeps its rules")
        self.workshop.edit((AFTER, TYPO))
        commit = self.workshop.commit("Lower the limit again")
        self.say(f"commit {commit} is pushed")
        self.ask("rules", "validate", "rules", expect=(Exit.INVALID_RULES,))
        self.note("calls/s let through with the bad commit on main", self.traffic(service)["passed"], "calls/s")

    def roll_back(self, service: Service) -> None:
        self.title("Somebody rolls back to the first revision: a new commit that restores it")
        position, begin = service.position, time.monotonic_ns()
        self.ask("rules", "rollback", "--to", "1", "--yes", "--reason", "Back to the reviewed limits")
        active = service.wait_for(lambda facts: facts["event"] == "activated", since=position)
        self.note("rollback typed → active", (active["monotonic_ns"] - begin) / 1e6, "ms")
        self.note("calls/s let through after the rollback", self.traffic(service)["passed"], "calls/s")

    def answer(self) -> None:
        self.title("Who changed payment_invoke's threshold, from what to what, and what changed with it?")
        begin = time.monotonic_ns()
        self.ask("audit", "who", "payment_invoke", "--field", "count", "--since", "10m")
        self.note("question → answer (a new process)", (time.monotonic_ns() - begin) / 1e6, "ms")

    def commit_and_wait(self, service: Service, message: str) -> float:
        """Commits; gives the milliseconds from before `git commit` until the rules were active in the service."""
        position, begin = service.position, time.monotonic_ns()
        commit = self.workshop.commit(message)
        active = service.wait_for(lambda facts: facts["event"] == "activated", since=position)
        milliseconds = (int(active["monotonic_ns"]) - begin) / 1e6
        self.say(f"commit {commit} is active as {active['digest'][:12]} after {milliseconds:.0f} ms")
        return milliseconds

    def traffic(self, service: Service) -> Facts:
        facts = service.traffic("payment_invoke")
        self.say(f"payment_invoke in one second: {facts['passed']} calls passed, {facts['blocked']} were refused")
        return facts

    def ask(self, *arguments: str, expect: Sequence[int] = (Exit.DONE,)) -> None:
        """Runs a command of this program and shows it with its output; anything but the expected end stops the demo."""
        self.out.say("  ", Styled(f"$ {command_line(arguments)}", "bold"))
        done = self.workshop.sentinelctl(*arguments)
        for line in (done.stdout + done.stderr).splitlines():
            self.out.say("    ", line)
        if done.returncode not in expect:
            raise CommandError(
                f"{command_line(arguments)} ended with exit code {done.returncode}",
                next_step="look at what it said above; sentinelctl doctor tells of what this machine lacks",
            )

    def title(self, text: str) -> None:
        self.steps += 1
        self.out.say()
        self.out.say(Styled(f"{self.steps}. {text}", "bold"))

    def say(self, text: str) -> None:
        self.out.say("  ", text)

    def note(self, what: str, value: float, unit: str) -> None:
        self.measured.append({"what": what, "value": round(value, 1), "unit": unit})

    def figures(self) -> View:
        """What was measured."""

        def lines(_: bool) -> Iterator[Sequence[Span]]:
            yield ("",)
            rows = [(figure["what"], f"{figure['value']:g} {figure['unit']}") for figure in self.measured]
            yield from table(("MEASURED", "VALUE"), rows)

        return View(
            document={"figures": self.measured},
            items=self.measured,
            names=[str(figure["what"]) for figure in self.measured],
            lines=lines,
        )
