"""The parts of nacos-sdk-python that are used, and none else: its stubs and messages. Importing takes a second.

Its services are left alone. They answer from a cache on disk, write contents and tokens to logs, hide the time of a
change, listen on only while nothing has failed, and stand on gRPC's asyncio, which does not live through a fork: the
child of a process that uses it can crash in the fork itself.

These parts are not what it documents as its interface, so the extra `nacos` names the minor version they are of.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():  # deprecated uses of pydantic in what the library imports
    warnings.simplefilter("ignore")
    from v2.nacos.config.model.config import ConfigListenContext
    from v2.nacos.config.model.config_request import (
        ConfigBatchListenRequest,
        ConfigChangeNotifyRequest,
        ConfigPublishRequest,
        ConfigQueryRequest,
        ConfigRemoveRequest,
    )
    from v2.nacos.transport.grpc_util import GrpcUtils
    from v2.nacos.transport.grpcauto.nacos_grpc_service_pb2_grpc import BiRequestStreamStub, RequestStub
    from v2.nacos.transport.model.internal_request import (
        ClientDetectionRequest,
        ConnectionSetupRequest,
        HealthCheckRequest,
        ServerCheckRequest,
    )
    from v2.nacos.transport.model.internal_response import ClientDetectionResponse, NotifySubscriberResponse

__all__ = [
    "BiRequestStreamStub",
    "ClientDetectionRequest",
    "ClientDetectionResponse",
    "ConfigBatchListenRequest",
    "ConfigChangeNotifyRequest",
    "ConfigListenContext",
    "ConfigPublishRequest",
    "ConfigQueryRequest",
    "ConfigRemoveRequest",
    "ConnectionSetupRequest",
    "GrpcUtils",
    "HealthCheckRequest",
    "NotifySubscriberResponse",
    "RequestStub",
    "ServerCheckRequest",
]
