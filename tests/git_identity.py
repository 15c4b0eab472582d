"""Who commits in tests that run Git as a user would."""

IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Li"), ("EMAIL", "li@example.com"))
}
