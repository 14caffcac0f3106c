"""One question a file: ``measure(form)`` yields :class:`~benchmarks.suite.study.Study`. Part of ``make bench-full``."""
