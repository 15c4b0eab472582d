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
    "short name": lambda word: f"DB_PASS={word}",
    "short name of a property": lambda word: f"db.pass = {word}",
    "authorization": lambda word: f"auth={word}",
    "credentials": lambda word: f"credentials: {word}",
    "short name in JSON": lambda word: f'"auth": "{word} {word}"',
    "user of curl": lambda word: f"curl -u ops:{word} http://h/x",
    "user as a long flag": lambda word: f"curl --user 'ops:{word}' http://h/x",
    "flag of MySQL": lambda word: f"mysql -h db -u root -p{word} shop",
    "sshpass": lambda word: f"sshpass -p {word} ssh h",
    "full-width sign": lambda word: f"password＝{word}",
    "full width": lambda word: f"ｐａｓｓｗｏｒｄ＝{word}",
    "character without width": lambda word: f"pass\u200bword\u2060={word}",
    "escaped in a URI": lambda word: f"GET /x?q=password%3D{word}%26y%3D1",
    "Chinese sentence": lambda word: f"密码是{word}，不要外传",
    "Chinese change": lambda word: f"口令改为 {word}",
    "signature of a URI": lambda word: f"https://h/x?sv=1&sig={word}",
    "key of a webhook": lambda word: f"https://h/cgi-bin/webhook/send?key=693a91f6-{word}",
    "path of a webhook": lambda word: f"https://hooks.slack.com/services/T000/B000/{word}",
    "URI with a blank in the password": lambda word: f"amqp://u:{word} x@h/",
    "Oracle": lambda word: f"jdbc:oracle:thin:app/{word}@h:1521",
    "block of YAML": lambda word: f"password: |\n  {word}\n  {word}\n",
    "folded block of YAML": lambda word: f"- user: x\n  db_pass: >- # new\n    {word}\n",
    "token of npm": lambda word: f"npm_{word}",
    "token of Google": lambda word: f"AIza{word}{word}",
    "token of SendGrid": lambda word: f"SG.{word}.{word}",
    "token of Hugging Face": lambda word: f"hf_{word}",
    "key of Tencent": lambda word: f"AKID{word}",
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
