"""One quantity that grows a file: ``LABEL``, and ``cases(problem, form)``, the run for each of its values."""
