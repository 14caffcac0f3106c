"""The paper: its algorithms, its experiment, its theorems measured, and the algorithms of its field.

The library needs nothing of this folder. What is public of it is found in ``batch2online.reference``,
``batch2online.baselines``, ``batch2online.evaluate`` and ``batch2online.theory``.
"""
