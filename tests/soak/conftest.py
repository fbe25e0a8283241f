"""The suite is for ``run.py``, which runs it in processes of its own."""

collect_ignore = ["suite"]
