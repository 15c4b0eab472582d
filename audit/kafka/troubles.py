"""What kafka-python raises, in words for people: what is wrong, and what to do about it."""

from __future__ import annotations

from sentinel_core.audit.errors import PublisherDenied, PublisherMisconfigured, PublisherUnavailable
from sentinel_core.audit.kafka.target import Target, library


def told(target: Target, error: BaseException, topics: str = "the topics of the settings") -> PublisherUnavailable:
    """`error` as PublisherDenied, PublisherMisconfigured or PublisherUnavailable. Never holds the password."""
    if isinstance(error, PublisherUnavailable):
        return error
    errors = library().errors
    words = target.words(error)
    if isinstance(error, (errors.SaslAuthenticationFailedError, errors.UnsupportedSaslMechanismError)):
        who = f"the login of {target.user} by {target.mechanism}" if target.user else "a client without a login"
        return PublisherDenied(f"{target} refuses {who} ({words}); check user, password and mechanism")
    if isinstance(error, errors.GroupAuthorizationFailedError):
        return PublisherDenied(f"{target} denies the group ({words}); grant Read on the group of audit.kafka.group")
    if isinstance(error, errors.AuthorizationError):
        who = target.user or "this client"
        return PublisherDenied(f"{target} denies this to {who} ({words}); grant Read and Write on {topics}")
    if isinstance(error, errors.UnknownTopicOrPartitionError):
        return PublisherUnavailable(f"{target}: a topic is missing ({words}); make the topics: sentinelctl audit init")
    if isinstance(error, errors.UnsupportedCodecError):
        step = "install the library of its codec here (python-snappy, lz4 or zstandard)"
        return PublisherMisconfigured(f"{target}: a message is packed in a way that cannot be read ({words}); {step}")
    if "CERTIFICATE_VERIFY_FAILED" in words:
        step = "name the PEM file of its CA in audit.kafka.ca, and a host that its certificate names"
        return PublisherMisconfigured(f"{target}: its certificate is not trusted ({words}); {step}")
    return PublisherUnavailable(f"{target} does not answer ({words}); check the address, and that the brokers run")
