"""One library or method a file.

A function named after a problem takes that problem's ``K`` and gives learners by name; ``MOST_ROWS`` is how many rows a
slow one is given. There is no list to add a file to.
"""
