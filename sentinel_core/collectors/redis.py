"""Numbers in Redis: keys, hash fields, lengths, and how far a consumer group of a stream is behind.

Needs the extra `[redis]`. All keys of a collector are one round trip.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from sentinel_core.collectors.contract import LONGEST_NUMBER, CollectorError, SourceLost, Values
from sentinel_core.collectors.source import TIMEOUT_S, Source, library, secretless, targets
from sentinel_core.datasources.uri import mask_uri

Kind = Literal["list", "set", "zset", "hash", "stream", "string"]
LENGTHS: Final[Mapping[str, str]] = {
    "list": "LLEN",
    "set": "SCARD",
    "zset": "ZCARD",
    "hash": "HLEN",
    "stream": "XLEN",
    "string": "STRLEN",
}


class RedisCollector(Source[Any]):
    """Reads keys of one Redis.

    url         redis://, rediss:// (TLS) or unix://, as redis-py takes it
    keys        a key, for `resource` ("" for all); or resource → key, or (resource, dimension) → key
    field       a field of hashes, instead of whole keys
    length_of   the number of elements instead of the value: of a list, set, zset, hash or stream
    group       how many entries of a stream this consumer group was not handed yet (Redis 7 or newer)
    client      a client of your own (Sentinel, Cluster) instead of the url; give it time-outs
    options     more for redis-py, such as ssl_ca_certs or username
    """

    def __init__(
        self,
        metric: str,
        url: str = "redis://127.0.0.1:6379/0",
        *,
        keys: str | Mapping[Any, str],
        resource: str = "",
        field: str | None = None,
        length_of: Kind | None = None,
        group: str | None = None,
        every_s: float = 1.0,
        timeout_s: float = TIMEOUT_S,
        client: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(metric, mask_uri(url) if client is None else "", every_s=every_s, timeout_s=timeout_s)
        if sum(choice is not None for choice in (field, length_of, group)) > 1:
            raise ValueError("field, length_of and group exclude each other; a collector reads one sort of number")
        if length_of is not None and length_of not in LENGTHS:
            raise ValueError(f"length_of is {length_of!r}; write one of {', '.join(LENGTHS)}")
        self._keys = targets(keys, resource, "keys")
        self._url = url
        self._group = group
        self._options = options
        self._given = client
        # Not GET: whatever stands there, no more comes over the wire than a number needs, and one byte to tell.
        self._command: tuple[str, ...] = ("GETRANGE",)
        self._argument: tuple[str, ...] = ("0", str(LONGEST_NUMBER))
        if field is not None:
            self._command, self._argument = ("HGET",), (field,)
        elif length_of is not None:
            self._command, self._argument = (LENGTHS[length_of],), ()
        elif group is not None:
            self._command, self._argument = ("XINFO", "GROUPS"), ()

    def connect(self) -> Any:
        if self._given is not None:
            return self._given
        redis = library("redis", "redis")
        library("redis.retry", "redis")
        settings = {
            "socket_connect_timeout": self.timeout_s,
            "socket_timeout": self.timeout_s,
            # One more try for a connection that the server has closed meanwhile; everything else waits for its turn.
            "retry": redis.retry.Retry(redis.backoff.NoBackoff(), 1, supported_errors=(redis.ConnectionError,)),
            **self._options,
        }
        try:
            return redis.Redis.from_url(self._url, **settings)
        except (ValueError, TypeError) as error:
            raise CollectorError(f"redis-py does not take this URL or option: {secretless(error)}") from error

    def read(self) -> Values:
        redis = library("redis", "redis")
        try:
            with self.client().pipeline(transaction=False) as pipeline:
                for key in self._keys.values():
                    pipeline.execute_command(*self._command, key, *self._argument)
                answers = pipeline.execute(raise_on_error=False)
        except redis.AuthenticationError as error:
            raise CollectorError(f"access denied: {secretless(error)}") from error
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise SourceLost(f"no answer: {secretless(error)}") from error
        except redis.RedisError as error:
            raise CollectorError(secretless(error)) from error
        return {target: self._value(answer) for target, answer in zip(self._keys, answers, strict=True)}

    def _value(self, answer: Any) -> object:
        if isinstance(answer, Exception):
            words = secretless(answer)
            if "no such key" in words:
                return None
            if "WRONGTYPE" in words:
                return answer  # no number: invalid
            raise CollectorError(words)
        if self._group is not None:
            return self._lag(answer)
        return None if answer in (b"", "") else answer  # GETRANGE of a key that is missing

    def _lag(self, groups: list[dict[Any, Any]]) -> object:
        for group in groups:
            known = {_text(name): value for name, value in group.items()}
            if _text(known.get("name")) == self._group:
                if "lag" not in known:
                    raise CollectorError("this Redis tells no lag of consumer groups; that takes Redis 7 or newer")
                return known["lag"]
        return None

    def disconnect(self, client: Any) -> None:
        if self._given is None:
            client.close()


def _text(name: object) -> object:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
