"""Why a rule does not do what was expected: findings from the rules and from what running services tell.

`explain` asks about one resource, `doctor` about all. Each module answers one row of `docs/troubleshooting.md`.
"""
