"""One file a rule kind. A new kind is a new file here: the registry finds it, nothing else is edited."""
