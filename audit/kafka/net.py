"""kafka-python's client of connections, with what it leaves out: why a connection failed, and an end to each socket.

Imports kafka-python; import it where a connection is made, and not before.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import SaslAuthenticationFailedError
from kafka.net import KafkaNetSocket
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

DIRECT = "sentinel-direct"


class _Sockets(KafkaNetSocket):  # type: ignore[misc]  # it brings no types
    """No proxy: a socket whose connection fails is closed at once, and not when it is garbage-collected. A broker that
    is away is asked every second, so an hour would leave thousands."""

    SCHEMES = (DIRECT,)

    async def sock_connect(self, net: Any, sock: Any, *place: Any, **options: Any) -> Any:
        try:
            return await super().sock_connect(net, sock, *place, **options)
        except BaseException:
            sock.close()
            raise


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # it brings no types
    trouble: BaseException | None = None
    """Why the connection that was tried last failed; None when it stands."""

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        known = self._conns.get(node_id)
        connection = super().get_connection(node_id, *arguments, **options)
        if connection is not known:
            connection.init_future.add_callback(lambda _: self._note(node_id, None))
            connection.init_future.add_errback(lambda error: self._note(node_id, error))
        return connection

    def _note(self, node_id: Any, error: BaseException | None) -> None:
        self.trouble = error
        if isinstance(error, SaslAuthenticationFailedError):
            # No use in asking again until the time is up, and brokers may lock a user out who does.
            self._auth_failures[node_id] = error


class Client(KafkaNetClient):  # type: ignore[misc]  # it brings no types
    """For `kafka_client=`."""

    def __init__(self, **settings: Any) -> None:
        net = NetworkSelector(**settings)
        super().__init__(net, _Manager(net, **settings | {"proxy_url": f"{DIRECT}://"}), **settings)
        # The option does not reach it, and a topic that a broker makes by itself would drop what it is told after a
        # week.
        self.cluster.config["allow_auto_create_topics"] = False

    @property
    def trouble(self) -> BaseException | None:
        """Why there is no connection; None when there is one, to whichever broker."""
        found: BaseException | None = self._manager.trouble
        standing = any(each.connected for each in list(self._manager._conns.values()))  # noqa: SLF001 - of this class
        return None if standing else found
