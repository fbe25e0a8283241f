"""The commits of a repository: what git tells, their files, and the sessions that measure them."""
