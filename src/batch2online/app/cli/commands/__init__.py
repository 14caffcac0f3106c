"""One command a file: what each does once its options are known."""
