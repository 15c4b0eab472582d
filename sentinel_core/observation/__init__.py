"""Business metrics watched before there is a rule: recorded, described, and turned into a threshold.

`recorder` writes, `store` keeps, `windows` gives what a rule would have judged, `statistics` and `normal` describe it,
`suggestion` draws a rule from it. Nothing here is imported by a service that does not record.
"""
