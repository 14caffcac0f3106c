"""The paper as printed, Algorithms 1 to 7: public name of :mod:`batch2online.paper.reference`."""

from batch2online.paper.reference import *  # noqa: F403
from batch2online.paper.reference import __all__  # noqa: F401
