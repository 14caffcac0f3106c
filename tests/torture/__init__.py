"""Campaigns against what must not be lost: each a function of a count, checked inside, giving figures.

The default tests run them in short form, ``python -m torture`` (from the folder ``tests``) in full.
"""
