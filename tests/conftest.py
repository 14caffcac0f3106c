"""Examples of hypothesis are the same in each run, so that no test fails by chance.

``pytest --hypothesis-profile=explore`` draws others.
"""

from hypothesis import settings

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("fixed")
