"""The formats of a session's report: each module is one, and has an option of its name.

A module has ``render``, which returns the file's text.
"""
