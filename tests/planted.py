"""Secrets to plant into inputs, in every way in which people write them, and the search for them in what comes out."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from typing import Any

SHAPES: dict[str, Callable[[str], str]] = {
    "user of a URI": lambda word: f"https://ops:{word}@db.example/x",
    "URI without a user": lambda word: f"redis://:{word}@h:6379/0",
    "URI with @ in the password": lambda word: f"amqp://u:{word}@{word}@host",
    "URI with digits first": lambda word: f"mysql://root:12345{word}@h:3306/db",
    "parameter of a URI": lambda word: f"jdbc:mysql://h/db?user=u&password={word}",
    "keys of a cloud": lambda word: f"http://h/p?sig=1&accessKey={word}&secretKey={word}",
    "assignment": lambda word: f"password = {word}",
    "YAML": lambda word: f"secret: '{word} and {word}'",
    "JSON": lambda word: f'"password": "{word}, {word}"',
    "JSON in JSON": lambda word: f'{{\\"password\\": \\"{word}\\"}}',
    "XML": lambda word: f"<password>{word}</password>",
    "JAAS": lambda word: f'X required username="u" password="{word}";',
    "Kafka's SCRAM": lambda word: f"SCRAM-SHA-512=[password={word}]",
    "flag": lambda word: f"run --password {word} --host h",
    "Chinese": lambda word: f"密码：{word}",
    "header": lambda word: f"Authorization: Bearer {word}",
    "header of its own": lambda word: f"X-Api-Key: {word}",
    "npm": lambda word: f"//registry/:_authToken={word}",
    "passphrase": lambda word: f"passphrase={word}",
    "token of GitHub": lambda word: f"ghp_{word}",
    "token of GitLab": lambda word: f"glpat-{word}",
    "token of Slack": lambda word: f"xoxb-{word}",
    "token sk": lambda word: f"sk-{word}",
    "JWT": lambda word: f"eyJ{word}.eyJ{word}.{word}",
    "private key": lambda word: f"-----BEGIN RSA PRIVATE KEY-----\n{word}\n{word}\n-----END RSA PRIVATE KEY-----",
    "private key that does not end": lambda word: f"-----BEGIN PRIVATE KEY----- {word}",
}
PHONE = "phone number"


class Planted:
    """Draws secrets, and remembers where each was put."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._places: dict[str, tuple[str, str]] = {}

    def secret(self, shape: str, place: str) -> str:
        word = "".join(self._draw.choices(string.ascii_letters + string.digits, k=20))
        self._places[word] = (shape, place)
        return SHAPES[shape](word)

    def phone(self, place: str) -> str:
        number = f"1{self._draw.randrange(10**10, 10**11)}"
        self._places[number] = (PHONE, place)
        return number

    def found_in(self, *told: Any) -> set[tuple[str, str]]:
        """Shape and place of each that stands in what is told, whole or in its first half."""
        text = "\n".join(each.decode("utf-8", "replace") if isinstance(each, bytes) else str(each) for each in told)
        return {where for word, where in self._places.items() if word[: max(11, len(word) // 2)] in text}
