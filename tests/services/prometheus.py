"""One Prometheus, of the machine's package prometheus, that scrapes one target every second at most."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
from pathlib import Path

from tests.services.server import Server, Unavailable, free_port

CONFIG = """\
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s}}
scrape_configs:
- job_name: app
  static_configs: [{{targets: ["{target}"]}}]
"""


class Prometheus(Server):
    """Scrapes http://`target`/metrics five times a second."""

    def __init__(self, folder: Path, target: str) -> None:
        program = shutil.which("prometheus")
        if program is None:
            raise Unavailable("prometheus is not installed (apt-get install prometheus)")
        self.url = f"http://127.0.0.1:{free_port()}"
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(target=target), encoding="utf-8")
        super().__init__(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={self.url.removeprefix('http://')}",
            ],
            folder,
            self._is_ready,
        )

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):  # noqa: S310 (our own server)
                return True
        except (OSError, urllib.error.URLError):
            return False
