"""`sentinelctl audit verify`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from sentinel_core.audit.checkpoints import Checkpoints, read
from sentinel_core.audit.instants import rfc3339
from sentinel_core.audit.retention.past import Past, walked
from sentinel_core.audit.retention.record import PurgeRecord
from sentinel_core.audit.signing import VerifyKey
from sentinel_core.audit.verify import Finding, Verdict
from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.audit.common import opened_chain
from sentinel_core.cli.exits import Exit
from sentinel_core.cli.output import View
from sentinel_core.cli.text import Span, Styled, plural, visible


@click.command()
@click.option(
    "--key",
    "key_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Public key in PEM; may be given again (default: audit.verifyKey, else the half of audit.signingKey).",
)
@click.option(
    "--checkpoints",
    "checkpoints_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Checkpoints to verify with (default: those of audit.checkpoints).",
)
@click.option(
    "--segments",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Walk through the purged events in their sealed segments, too.",
)
@output_options
@pass_app
def verify(app: App, key_files: tuple[Path, ...], checkpoints_file: Path | None, folder: Path | None) -> None:
    """Walk through every event: are they as they were written, all of them, in their order?

    \b
    sentinelctl audit verify
    sentinelctl audit verify --segments segments

    Goes on after a failure and names each: gap, duplicate, reordered, hash mismatch, bad signature, truncated after,
    bad segment, altered layout, altered record, damaged file, no checkpoint (where the settings name a file of them).
    Exit code 0: sound; 2: tampered with.
    """
    keys = _keys(app, key_files)
    place = _place(app, checkpoints_file)
    checkpoints = _checkpoints(app, keys, place)
    with opened_chain(app) as store, app.out.waiting("walking through the events"):
        past, verdict = walked(store, checkpoints.promises, keys, folder)
    if past.record is not None:
        app.out.say(_purged(past.record, keys, walked=folder is not None))
    findings = [*past.findings, *verdict.findings, *checkpoints.findings]
    if place is not None and verdict.events and not (checkpoints.promises or checkpoints.findings):
        findings.append(Finding("no checkpoint", "", 0, 0, _unsigned(place)))
    app.out.show(_view(verdict, findings, len(checkpoints.promises), past))
    app.out.say(_summary(verdict, findings, checkpoints))
    if findings:
        app.out.say(f"next: {_next(findings)}")
        raise click.exceptions.Exit(Exit.ERROR)


def _keys(app: App, files: Sequence[Path]) -> list[VerifyKey]:
    settings = app.settings.audit
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    texts = texts or [text for text in (settings.verify_key or settings.signing_key,) if text is not None]
    return [VerifyKey.from_pem(text) for text in texts]


def _purged(record: PurgeRecord, keys: Sequence[VerifyKey], *, walked: bool) -> str:
    events = plural(sum(segment.events for segment in record.segments), "event")
    text = f"note: {events} of before {rfc3339(record.before)} were purged"
    return (
        text
        if walked
        else f"{text}; --segments DIR verifies them as well" + ("" if keys else ", and --key who says so")
    )


def _place(app: App, file: Path | None) -> Path | None:
    """Where checkpoints are to be; None where nothing names a file."""
    settings = app.settings.audit
    return file or (Path(settings.checkpoints) if settings.checkpoints is not None else None)


def _checkpoints(app: App, keys: Sequence[VerifyKey], place: Path | None) -> Checkpoints:
    if place is None:
        app.out.say("note: there are no checkpoints, so a chain that was cut off or made anew cannot be told")
        return Checkpoints((), ())
    if not keys:
        app.out.say("note: there is no key (--key, audit.verifyKey), so the signatures of checkpoints are not verified")
    return read(place, keys)


def _unsigned(place: Path) -> str:
    what = "holds no checkpoint" if place.exists() else "is not there"
    return f"{place} {what}: nobody has signed yet, or it was taken away"


def _next(findings: Sequence[Finding]) -> str:
    """What to do about the first that leads anywhere."""
    if {finding.kind for finding in findings} == {"no checkpoint"}:
        return "sentinelctl audit checkpoint    (where nobody has signed yet; else bring the file back)"
    named = next((finding.event.id for finding in findings if finding.event and finding.event.id), None)
    keep = "keep a copy of the store as evidence"
    return f"{keep}; sentinelctl audit show {named}" if named else f"{keep}; docs/audit.md says what each kind means"


def _view(verdict: Verdict, findings: Sequence[Finding], checkpoints: int, past: Past) -> View:
    found = [finding.to_json() for finding in findings]
    chains = [{"source": head.source, "number": head.number, "hash": head.hash.hex()} for head in verdict.heads]

    def lines(wide: bool) -> Iterator[Sequence[Span]]:
        for finding in findings:
            told = f"  {finding.text}{_which(finding)}"
            yield (Styled("! ", "red"), f"{finding.kind} {_where(finding)}".rstrip(), Styled(told, "dim"))
        if wide:
            for chain in chains:
                yield (f"  {chain['source']} to {chain['number']} {chain['hash']}",)

    return View(
        document={
            "sound": not found,
            "events": verdict.events,
            "adopted": verdict.adopted,
            "checkpoints": checkpoints,
            "purged": past.record and _purged_json(past.record, walked=past.pages is not None),
            "chains": chains,
            "findings": found,
        },
        items=found,
        names=sorted({finding.source for finding in findings}),
        lines=lines,
    )


def _purged_json(record: PurgeRecord, *, walked: bool) -> dict[str, Any]:
    segments = [{"file": each.file, "sha256": each.sha256, "events": each.events} for each in record.segments]
    return {"before": rfc3339(record.before), "segments": segments, "walked": walked}


def _where(finding: Finding) -> str:
    span = f"{finding.number}" if finding.number == finding.last else f"{finding.number}–{finding.last}"
    return f"{span} of {finding.source}" if finding.source else ""


def _which(finding: Finding) -> str:
    """`: event 939b21ac…, 2026-11-25T06:30:00.123Z, payment_invoke`."""
    told = filter(None, finding.event or ())
    text = ", ".join(visible(part) for part in told)
    return f": event {text}" if text else ""


def _summary(verdict: Verdict, findings: Sequence[Finding], checkpoints: Checkpoints) -> str:
    walked = (
        f"{plural(verdict.events, 'event')} of {plural(len(verdict.heads), 'source')}, "
        f"{plural(len(checkpoints.promises), 'checkpoint')}"
    )
    adopted = f" {verdict.adopted} are from before the store kept a chain." if verdict.adopted else ""
    if findings:
        return f"Tampered with: {plural(len(findings), 'finding')} in {walked}.{adopted}"
    return f"Sound: {walked}.{adopted}"
