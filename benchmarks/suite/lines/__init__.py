"""One group of lines to be met a file: ``measure(form)`` yields :class:`~benchmarks.suite.line.Line`."""
