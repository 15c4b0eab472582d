"""Numbers out of JSON over HTTP, from a server of the standard library."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core import Engine
from sentinel_core.collectors import CollectorError, SourceLost
from sentinel_core.collectors.http import MAX_BYTES
from sentinel_core.collectors.http_json import HttpJsonCollector
from sentinel_core.collectors.json_path import find, steps_of
from sentinel_core.collectors.prometheus import PrometheusCollector
from tests.services.server import free_port

STOCK = {"data": {"items": [{"sku": "a", "depth": 7}, {"sku": "b", "depth": "3"}], "a name": 1}, "none": None}


class Handler(BaseHTTPRequestHandler):
    """Answers what the test laid on the server."""

    server: Web

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        status, body = self.server.answer
        self.send_response(status)
        self.end_headers()
        try:
            for start in range(0, len(body), self.server.piece):
                self.wfile.write(body[start : start + self.server.piece])
                if self.server.piece < len(body):
                    time.sleep(0.05)
        except OSError:
            pass  # the reader has had enough

    def log_message(self, *_: Any) -> None:
        pass


class Web(ThreadingHTTPServer):
    daemon_threads = True
    answer: tuple[int, bytes] = (200, json.dumps(STOCK).encode())
    piece = 1 << 20

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}/stock"


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_numbers_are_taken_by_their_paths(web: Web) -> None:
    paths = {"": "$.data.items[0].depth", ("deduct", "b"): "data.items[-1].depth", "name": "$['data'][\"a name\"]"}
    assert HttpJsonCollector("STOCK", web.url, paths=paths).collect() == {"": 7, ("deduct", "b"): "3", "name": 1}


def test_what_is_not_there_has_no_value(web: Web) -> None:
    paths = {"a": "$.data.items[9].depth", "b": "$.nothing.at.all", "c": "$.none", "d": "$.data[0]"}
    assert set(HttpJsonCollector("STOCK", web.url, paths=paths).collect().values()) == {None}


def test_a_bare_number_is_a_document_too(web: Web) -> None:
    web.answer = (200, b"42")
    assert HttpJsonCollector("STOCK", web.url, resource="r").collect() == {"r": 42}


@pytest.mark.parametrize("body", [b"NaN", b"[1]", b'{"a": 1}', b'"abc"', b"1e999"])
def test_what_is_no_number_is_invalid(web: Web, engine: Engine, body: bytes) -> None:
    web.answer = (200, body)
    engine.collectors.register(HttpJsonCollector("STOCK", web.url), thread=False)
    engine.collectors.refresh()
    assert engine.collectors.status()[0]["state"] == "invalid"


def test_credentials_are_sent_and_never_shown(web: Web) -> None:
    url = web.url.replace("http://", "http://app:hunter%202@")
    collector = HttpJsonCollector("STOCK", url, paths="$.data.items[0].depth", headers={"X-Token": "hunter3"})
    collector.collect()
    _, headers = web.seen[0]
    assert base64.b64decode(headers["Authorization"].split()[1]) == b"app:hunter 2"
    assert headers["X-Token"] == "hunter3"
    web.answer = (403, b'{"error": "hunter3 may not"}')
    with pytest.raises(CollectorError, match=r"HTTP 403 Forbidden: \*\*\* may not") as refused:
        collector.collect()
    assert "hunter" not in f"{refused.value} {collector!r} {collector.source}"


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ((404, b"<html>"), CollectorError, "HTTP 404"),
        ((503, b""), SourceLost, "HTTP 503"),
        ((200, b"<html>"), CollectorError, "is no JSON"),
        ((200, b"[" * 100_000), CollectorError, "is no JSON"),
        ((200, b"1" * 10_000), CollectorError, "is no JSON"),
        ((200, b"\xff"), CollectorError, "is no JSON"),
        ((200, b" " * (MAX_BYTES + 1)), CollectorError, "longer than 1 MiB"),
    ],
)
def test_answers_that_cannot_be_used(web: Web, answer: tuple[int, bytes], error: type[Exception], words: str) -> None:
    web.answer = answer
    with pytest.raises(error, match=words):
        HttpJsonCollector("STOCK", web.url).collect()


def test_a_server_that_sends_byte_by_byte_is_given_up(web: Web) -> None:
    web.answer, web.piece = (200, b" " * 100), 1
    begun = time.monotonic()
    with pytest.raises(SourceLost, match="not complete"):
        HttpJsonCollector("STOCK", web.url, timeout_s=0.3).collect()
    assert time.monotonic() - begun < 1


def test_nobody_there() -> None:
    with pytest.raises(SourceLost, match="no answer"):
        HttpJsonCollector("STOCK", f"http://127.0.0.1:{free_port()}/").collect()


@pytest.mark.parametrize("url", ["ftp://host/", "file:///etc/passwd", "http://", "host/path", ""])
def test_only_http_is_read(url: str) -> None:
    with pytest.raises(ValueError, match="http://"):
        HttpJsonCollector("STOCK", url)


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["$.a[*]", "$..a", "$[?(@.a)]", "$.a[1:2]", "$.a[", "$['a", "a b[", "$.*"])
def test_a_path_that_could_find_several_places_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"write names and indexes"):
        steps_of(path)


@given(st.text())
def test_no_text_does_harm_as_a_path(text: str) -> None:
    try:
        steps = steps_of(text)
    except ValueError:
        return
    find(STOCK, steps)


@given(st.recursive(st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), st.data())
def test_every_place_can_be_written_as_a_path(document: Any, data: st.DataObject) -> None:
    path, place = "$", document
    while isinstance(place, (list, dict)) and place:
        if isinstance(place, list):
            index = data.draw(st.integers(-len(place), len(place) - 1))
            path, place = f"{path}[{index}]", place[index]
        else:
            name = data.draw(st.sampled_from(sorted(place)))
            quoted = name.replace("\\", "\\\\").replace("'", "\\'")
            path, place = f"{path}['{quoted}']", place[name]
    assert find(document, steps_of(path)) == place


# -- Prometheus' answers, without a Prometheus -------------------------------------------------------------------------


def prometheus(web: Web, kind: str, result: Any, **options: Any) -> Any:
    web.answer = (200, json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode())
    return PrometheusCollector("LAG", web.url, "query", **options).collect()


def series(value: str, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1.0, value]}


def test_a_scalar_or_one_series_is_for_the_resource(web: Web) -> None:
    assert prometheus(web, "scalar", [1.0, "7"], resource="r") == {"r": "7"}
    assert prometheus(web, "vector", [series("7", job="x")], resource="r") == {"r": "7"}
    assert prometheus(web, "vector", []) == {}
    path, _ = web.seen[0]
    assert path.startswith("/stock/api/v1/query?query=query&timeout=1000ms")


def test_labels_name_resources_and_dimensions(web: Web) -> None:
    both = [series("1", api="pay", channel="alipay"), series("2", api="pay", channel="wechat")]
    found = prometheus(web, "vector", both, resource_label="api", dimension_label="channel")
    assert found == {("pay", "alipay"): "1", ("pay", "wechat"): "2"}
    assert prometheus(web, "vector", both, dimension_label="channel") == {("", "alipay"): "1", ("", "wechat"): "2"}
    with pytest.raises(CollectorError, match="two series for pay"):
        prometheus(web, "vector", both, resource_label="api")
    with pytest.raises(CollectorError, match="2 series; aggregate them"):
        prometheus(web, "vector", both)


@pytest.mark.parametrize("body", [b"[]", b"{}", b"null", b'{"data": {"resultType": "vector", "result": [{}]}}', b"7"])
def test_another_server_behind_the_url_is_told(web: Web, body: bytes) -> None:
    web.answer = (200, body)
    with pytest.raises(CollectorError, match="is the url right"):
        PrometheusCollector("LAG", web.url, "up").collect()


def test_a_range_is_refused(web: Web) -> None:
    with pytest.raises(CollectorError, match="gives a matrix"):
        prometheus(web, "matrix", [])
