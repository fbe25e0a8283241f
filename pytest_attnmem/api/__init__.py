"""The functions of ``attnmem``: measure, region, check, compare, growth and derive."""
