"""`sentinelctl audit init`."""

from __future__ import annotations

import click

from sentinel_core.audit.kafka.topics import PARTITIONS, Made, make_topics
from sentinel_core.cli.app import App, output_options, pass_app
from sentinel_core.cli.audit.common import kafka_settings
from sentinel_core.cli.output import View, table
from sentinel_core.cli.text import Span, Styled


@click.command()
@click.option("--partitions", type=click.IntRange(1, 1000), help=f"Of each new topic (default: {PARTITIONS}).")
@click.option("--replicas", type=click.IntRange(1, 32), help="Of each new topic (default: what the brokers say).")
@output_options
@pass_app
def init(app: App, partitions: int | None, replicas: int | None) -> None:
    """Make the topics that events need in Kafka; those that are there are left as they are.

    \b
    Examples:
      sentinelctl audit init
      sentinelctl audit init --partitions 12 --replicas 3

    Changes are kept for ever, states of instances for a week; messages up to 32 MiB are taken.
    """
    target, topics = kafka_settings(app)
    made = make_topics(target, topics, partitions=partitions, replicas=replicas or -1)
    items = [{"topic": each.topic, "created": each.created, "differs": list(each.differs)} for each in made]
    app.out.show(
        View(
            document={"topics": items},
            items=items,
            names=[each.topic for each in made],
            lines=lambda _: table(("TOPIC", "STATE", "DIFFERS"), [_row(each) for each in made]),
        )
    )


def _row(made: Made) -> list[Span]:
    state: Span = Styled("created", "green") if made.created else "was there"
    return [made.topic, state, "; ".join(made.differs)]
