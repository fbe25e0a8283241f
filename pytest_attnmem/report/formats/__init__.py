"""The formats of a session's report: each module is one, and has an option of its name.

A module has ``OPTION``, the help text of ``--attnmem-NAME``, and ``render``, which returns the
file's text. pytest imports every module here when it starts, so a module imports the parts that
render in the function that uses them.
"""
