"""What `doctor` says of the keys of the audit: whether they can be used, never what they are."""

from __future__ import annotations

from collections.abc import Iterator

from sentinel_core.audit.errors import KeyUnusable
from sentinel_core.cli.doctor import Check
from sentinel_core.cli.exits import Exit
from sentinel_core.settings import Settings


def keys(settings: Settings) -> Iterator[Check]:
    """Redaction, with which a service does not start where it is wrong, and signatures; those that are set."""
    audit = settings.audit
    if audit.redact or audit.redact_key is not None:
        yield _redaction(settings)
    if audit.signing_key is not None or audit.verify_key is not None:
        yield _signatures(settings)


def _redaction(settings: Settings) -> Check:
    from sentinel_core.audit.redaction import Redaction

    try:
        redaction = Redaction(settings.audit.redact, settings.audit.redact_key)
    except (ValueError, KeyUnusable) as error:
        return Check("redaction", "fail", str(error), "mend audit.redact and audit.redactKey", Exit.BAD_SETTINGS)
    return Check("redaction", "ok", f"key {redaction.key_id}, hides {', '.join(sorted(redaction.fields))}")


def _signatures(settings: Settings) -> Check:
    from sentinel_core.audit.signing import SigningKey, VerifyKey

    audit = settings.audit
    try:
        signing = None if audit.signing_key is None else SigningKey.from_pem(audit.signing_key).public.id
        verifying = None if audit.verify_key is None else VerifyKey.from_pem(audit.verify_key).id
    except KeyUnusable as error:
        return Check("checkpoints", "fail", str(error), "mend the key; services run without it", Exit.BAD_SETTINGS)
    if audit.checkpoints is None:
        text = "there is a key, but audit.checkpoints names no file"
        return Check("checkpoints", "warn", text, "set audit.checkpoints, and run audit checkpoint by a timer")
    if signing and verifying and signing != verifying:
        text = f"audit.signingKey is {signing}, but audit.verifyKey is of {verifying}"
        return Check("checkpoints", "warn", text, "openssl pkey -in audit.key -pubout writes the half that fits")
    return Check("checkpoints", "ok", f"{audit.checkpoints}, key {signing or verifying}")
