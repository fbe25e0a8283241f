"""The memory of a project over its commits."""
