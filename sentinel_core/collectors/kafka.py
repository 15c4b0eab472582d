"""How far a consumer group is behind in Kafka.

Needs the extra `[kafka]`. Nothing is consumed and no group is joined: two questions to the brokers, where the group has
committed and where its partitions end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sentinel_core.collectors.contract import CollectorError, SourceLost, Target, Values
from sentinel_core.collectors.source import Source, library, secretless

TIMEOUT_S: Final = 5.0


class KafkaLagCollector(Source[Any]):
    """Messages that a consumer group has not committed yet, all partitions together.

    bootstrap   host:port of brokers, separated by commas
    group       the consumer group
    topics      its topics; left out, those it has committed something of. A partition without a commit counts from
                its beginning
    by_topic    one value a topic, the topic as dimension, beside the sum
    options     more for kafka-python's admin client: security_protocol, ssl_cafile, sasl_mechanism, …
    """

    def __init__(
        self,
        metric: str,
        bootstrap: str,
        group: str,
        *,
        topics: Sequence[str] = (),
        resource: str = "",
        by_topic: bool = False,
        every_s: float = 5.0,
        timeout_s: float = TIMEOUT_S,
        **options: Any,
    ) -> None:
        super().__init__(metric, f"kafka://{bootstrap}/{group}", every_s=every_s, timeout_s=timeout_s)
        self._bootstrap = [address.strip() for address in bootstrap.split(",") if address.strip()]
        if not self._bootstrap or not group:
            raise ValueError("bootstrap and group are needed: host:port of a broker, and the consumer group")
        self._group = group
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._resource = resource
        self._by_topic = by_topic
        self._options = options

    def connect(self) -> Any:
        client = library("kafka", "kafka").KafkaAdminClient
        limit = max(1, round(self.timeout_s * 1000))
        settings = {
            "bootstrap_servers": self._bootstrap,
            "client_id": "sentinel-collector",
            "request_timeout_ms": limit,
            "bootstrap_timeout_ms": limit,
            **self._options,
        }
        admin = client.__new__(client)
        try:
            admin.__init__(**settings)
        except BaseException:
            # Its constructor starts a thread and leaves it running where no broker answers: one more each time.
            if "_net" in vars(admin):
                vars(admin)["_closed"] = False
                admin.close()
            raise
        return admin

    def read(self) -> Values:
        kafka = library("kafka", "kafka")
        try:
            return self._lags(kafka, self.client())
        except (kafka.errors.AuthorizationError, kafka.errors.KafkaConfigurationError) as error:
            raise CollectorError(self._words(error)) from error
        except (kafka.errors.RetriableError, OSError, TimeoutError) as error:
            self.close()  # its metadata may be of a cluster that is gone
            raise SourceLost(f"no answer: {self._words(error)}") from error
        except kafka.errors.KafkaError as error:
            self.close()
            raise CollectorError(self._words(error)) from error

    def _words(self, error: Exception) -> str:
        return f"{type(error).__name__}: {secretless(error, self._options.get('sasl_plain_password'))}"

    def _lags(self, kafka: Any, admin: Any) -> Values:
        committed = admin.list_group_offsets([self._group]).get(self._group, {})
        wanted = self._partitions(kafka, admin) or list(committed)
        partitions = [partition for partition in wanted if not self._topics or partition.topic in self._topics]
        if not partitions:
            return {}
        ends = admin.list_partition_offsets(dict.fromkeys(partitions, kafka.OffsetSpec.LATEST))
        begun = {partition: offset.offset for partition, offset in committed.items() if offset.offset >= 0}
        fresh = [partition for partition in partitions if partition not in begun]
        if fresh:
            starts = admin.list_partition_offsets(dict.fromkeys(fresh, kafka.OffsetSpec.EARLIEST))
            begun |= {partition: offset.offset for partition, offset in starts.items()}
        lags = {partition: max(0, ends[partition].offset - begun[partition]) for partition in partitions}
        values: dict[Target, object] = {self._resource: sum(lags.values())}
        if self._by_topic:
            for topic in sorted({partition.topic for partition in partitions}):
                values[self._resource, topic] = sum(lag for at, lag in lags.items() if at.topic == topic)
        return values

    def _partitions(self, kafka: Any, admin: Any) -> list[Any]:
        """Of the topics that were named; none where none was."""
        if not self._topics:
            return []
        described = admin.describe_topics(self._topics)
        return [
            kafka.TopicPartition(topic["name"], partition["partition_index"])
            for topic in described
            for partition in topic["partitions"]
        ]
