"""The offline algorithms that run on a coreset."""
