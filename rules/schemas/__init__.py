"""The published JSON Schemas of the rules (draft-07), as package data."""
