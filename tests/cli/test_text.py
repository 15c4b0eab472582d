"""What people see: nothing invisible, and columns that stand under each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sentinel_core.cli.text import display_width, is_hidden, pad, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("payment_invoke", "payment_invoke"),
        ("支付 é 👍", "支付 é 👍"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("admin\u202egnp.exe", "admin\\u202egnp.exe"),
        ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
        ("a\u200db", "a\\u200db"),
        ("👨\u200d👩\u200d👧", "👨\u200d👩\u200d👧"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("\u2028x\U000e0041", "\\u2028x\\U000e0041"),
        ("\udc80", "\\udc80"),
    ],
)
def test_control_bidi_and_other_invisible_characters_become_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text())
def test_what_is_visible_stays_visible_and_holds_no_control_character(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown
    assert not any(is_hidden(char) for char in shown if char != "\u200d")


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("abc", 3),
        ("支付", 4),
        ("ｆｕ", 4),
        ("e\u0301", 1),
        ("👍", 2),
        ("👍🏽", 2),
        ("👨\u200d👩\u200d👧", 2),
        ("❤\ufe0f", 2),
        ("한글", 4),
        ("ไทย", 3),
        ("", 0),
    ],
)
def test_width_is_counted_in_terminal_columns(text: str, width: int) -> None:
    assert display_width(text) == width
    assert display_width(pad(text, 8)) == 8
