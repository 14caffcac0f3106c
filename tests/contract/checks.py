"""All promises: importing this module enters them in the lists."""

from contract import estimators, paths, refusals, storing, weights
from contract.promises import keep, of_all, of_estimators

__all__ = ["estimators", "keep", "of_all", "of_estimators", "paths", "refusals", "storing", "weights"]
