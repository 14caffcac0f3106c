"""The contract: what every estimator and every construction promises, found by discovery and checked alike.

``discovery`` finds the classes, ``cases`` says how each is made, ``subjects`` reads and feeds both kinds in the same
way, and the modules of checks hold one function for each promise.
"""
