"""Old events leave the store as sealed segments, and the store keeps what proves that they were there.

`purge.py` has the steps and their order, `segment.py` the file, `record.py` the statement that remains.
"""
