"""Evidence: what changed, who did it, and that it cannot be lost. Import from the submodules; this costs nothing."""
