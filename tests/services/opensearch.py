"""A real OpenSearch 2 on free loopback ports, from the jars that script/test fetches."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import urllib.error
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

from tests.services.server import CACHE, Server, accepts, cannot, free_port

JARS = CACHE / "opensearch"
_MEMORY = ("-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dlog4j2.level=WARN", "-Dlog4j2.disable.jmx=true")
_SHORT_LIFE = ("-Xms512m", "-Xmx512m", "-XX:TieredStopAtLevel=1")


def missing() -> str | None:
    """Why there can be none on this machine; None where there can."""
    if shutil.which("java") is None:
        return "java is not installed (17 or newer)"
    if not (JARS / "classes").exists():
        return "the jars of OpenSearch are not in .cache/opensearch (script/test fetches them; it takes mvn)"
    return None


def needed() -> None:
    """Skips the test where there can be none; on CI that is a failure."""
    if why := missing():
        cannot(why)


class OpenSearch(Server):
    """One node with its data in `folder`; takes 5 to 10 s to start. `lasting`: as for work, not for a quick start."""

    def __init__(self, folder: Path, *, lasting: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        command = [
            *(shutil.which("java") or "java", *_MEMORY, *(("-Xms1g", "-Xmx1g") if lasting else _SHORT_LIFE)),
            *("-cp", f"{JARS / 'lib'}/*:{JARS / 'classes'}", "OpenSearchLauncher"),
            *(str(folder), str(self.port), str(free_port())),
        ]
        super().__init__(command, folder, self._is_ready, within_s=90)

    def _is_ready(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            return self.ask("GET", "/_cluster/health?wait_for_status=yellow&timeout=1s")[0] == 200
        except OSError:
            return False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def uri(self, index: str = "sentinel-audit", **options: str) -> str:
        more = "".join(f"&{name}={value}" for name, value in options.items())
        return f"opensearch://{self.address}/?index={index}{more}"

    def ask(self, method: str, path: str, document: Any = None) -> tuple[int, Any]:
        """What anybody may do who can reach it."""
        data = None if document is None else json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=30) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read() or b"null")

    def forget(self, index: str) -> None:
        """All indices and templates whose names begin so."""
        self.ask("DELETE", f"/{index}-*")
        self.ask("DELETE", f"/_index_template/{index}-*")


@cache
def shared() -> OpenSearch:
    """One for all tests of this process; ended with it. A test takes an index of its own."""
    folder = Path(tempfile.mkdtemp(prefix="opensearch-"))
    server = OpenSearch(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(_end, server)  # before the folder goes
    server.start()
    return server


def _end(server: OpenSearch) -> None:
    if server._process is not None:
        server.kill()
