"""kafka-python's client of connections, with what it leaves out: why a connection failed, and an end to each socket.

Imports kafka-python; import it where a connection is made, and not before.
"""

from __future__ import annotations

from typing import Any

from kafka.errors import KafkaConnectionError, SaslAuthenticationFailedError
from kafka.net import KafkaNetSocket, create_connection
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport

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


class _WholeAnswers:
    """What a broker said before it closed is read. With TLS its answer to a wrong password comes with the end of the
    connection, and kafka-python drops both."""

    def _sock_recv(self) -> tuple[bytes, BaseException | None]:
        data, error = super()._sock_recv()  # type: ignore[misc]  # of the class beside this one
        return data, None if data else error


class _Plain(_WholeAnswers, KafkaTCPTransport):  # type: ignore[misc]  # it brings no types
    pass


class _Tls(_WholeAnswers, KafkaSSLTransport):  # type: ignore[misc]  # it brings no types
    pass


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # it brings no types
    trouble: BaseException | None = None
    """Why the connection that was tried last failed; None when it stands."""

    refused: BaseException | None = None
    """That a login or a certificate is no good: asking again changes nothing, and brokers lock out who does."""

    def get_connection(self, node_id: Any, *arguments: Any, **options: Any) -> Any:
        if self.refused is not None:
            raise self.refused
        known = self._conns.get(node_id)
        connection = super().get_connection(node_id, *arguments, **options)
        if connection is not known:
            connection.init_future.add_callback(lambda _: self._note(None))
            connection.init_future.add_errback(self._note)
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        place = (node.host, node.port, self.config["socket_options"])
        socket = await create_connection(self._net, *place, proxy_url=f"{DIRECT}://", timeout_at=timeout_at)
        try:
            if self.ssl_enabled:
                options = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
                transport = _Tls(self._net, socket, host=node.host, **options)
                socket = transport._sock  # noqa: SLF001 - the one that was wrapped
            else:
                transport = _Plain(self._net, socket, host=node.host)
            await transport.handshake()
        except Exception as error:
            socket.close()
            raise KafkaConnectionError(f"Handshake failed: {error}") from error
        except BaseException:
            socket.close()
            raise
        return transport

    def _note(self, error: BaseException | None) -> None:
        self.trouble = error
        if isinstance(error, SaslAuthenticationFailedError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            self.refused = error


class Client(KafkaNetClient):  # type: ignore[misc]  # it brings no types
    """For `kafka_client=`."""

    def __init__(self, **settings: Any) -> None:
        net = NetworkSelector(**settings)
        super().__init__(net, _Manager(net, **settings), **settings)
        # The option does not reach it, and a topic that a broker makes by itself would drop what it is told after a
        # week.
        self.cluster.config["allow_auto_create_topics"] = False

    @property
    def trouble(self) -> BaseException | None:
        """Why there is no connection; None when there is one, to whichever broker."""
        found: BaseException | None = self._manager.trouble
        standing = any(each.connected for each in list(self._manager._conns.values()))  # noqa: SLF001 - of this class
        return None if standing else found
