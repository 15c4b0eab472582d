"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("shared", deadline=None)  # a busy machine is no fault of the example
settings.load_profile("shared")
