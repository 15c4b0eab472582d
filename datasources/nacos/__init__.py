"""Rules kept in Nacos, one dataId a kind. Over HTTP it needs no extra; over gRPC the extra `nacos`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sentinel_core.datasources.nacos.source import NacosSource
from sentinel_core.datasources.nacos.target import Target, transport_of
from sentinel_core.datasources.registry import Scheme, flag, seconds
from sentinel_core.datasources.uri import SourceUri

__all__ = ["SCHEME", "NacosSource"]


def _open(
    uri: SourceUri, *, kind: str | None = None, template: str | None = None, environment: str = "default", **how: Any
) -> NacosSource:
    target = Target.of(uri.address, uri.path, **how)
    return NacosSource(target, kind=kind, template=template, environment=environment)


SCHEME = Scheme(
    names=("nacos",),
    open=_open,
    options={
        "namespace": str,
        "group": str,
        "kind": str,
        "template": str,
        "transport": transport_of,
        "tls": flag,
        "ca": Path,
        "cert": Path,
        "key": Path,
        "user": str,
        "password_file": Path,
        "token_file": Path,
        "timeout": seconds,
        "interval": seconds,
        "environment": str,
    },
    form="nacos://host1:8848,host2:8848/namespace?group=SENTINEL_GROUP",
)
