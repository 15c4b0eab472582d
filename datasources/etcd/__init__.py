"""Rules kept in etcd, one key a kind. Needs the extra `etcd` (gRPC), which is imported when a store is first read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentinel_core.datasources.etcd.source import EtcdSource
from sentinel_core.datasources.etcd.target import Target
from sentinel_core.datasources.registry import Scheme, flag, seconds
from sentinel_core.datasources.uri import SourceUri

__all__ = ["SCHEME", "EtcdSource"]


def _open(
    uri: SourceUri,
    *,
    kind: str | None = None,
    template: str | None = None,
    environment: str = "default",
    client: str | None = None,
    **how: Any,
) -> EtcdSource:
    target = Target.of(uri.address, **how)
    return EtcdSource(target, uri.path, kind=kind, template=template, environment=environment, client=client)


def _client(text: str) -> str:
    if text != "etcd3":
        raise ValueError(f"{text!r} is not a client that can be had; leave it out, or write etcd3")
    return text


SCHEME = Scheme(
    names=("etcd",),
    open=_open,
    options={
        "kind": str,
        "template": str,
        "tls": flag,
        "ca": Path,
        "cert": Path,
        "key": Path,
        "user": str,
        "password_file": Path,
        "timeout": seconds,
        "environment": str,
        "client": _client,
    },
    form="etcd://host1:2379,host2:2379/public/SENTINEL_GROUP",
)
