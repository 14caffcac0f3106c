"""Algorithms that the paper compares itself with."""
