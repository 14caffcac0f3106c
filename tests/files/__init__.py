"""Tables as people have them, and what becomes of each."""
