"""The evidence as files for other programs: whole events as NDJSON, rows of changes as CSV and Parquet."""
