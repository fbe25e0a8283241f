"""The ``attnmem`` fixture and its functions: measure, region, check, compare, growth, derive."""
