"""One problem a file: its real data, drawn data, physical limits, and our learner for it."""
