"""One command a file: what each does once its options are known."""

from batch2online.app.cli.lazy_modules import import_scikit_learn

import_scikit_learn()
