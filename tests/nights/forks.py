"""Interpreters that have imported what others have written: a process costs no second.

``python forks.py`` has imported nothing of this package, ``python forks.py all`` all of it. It answers lines of JSON:
``[arguments, out, error]`` starts ``python ARGUMENTS`` and answers its process id; a process id waits for its end and
answers its exit code and its seconds of processor time.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import sys
import threading
import traceback
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import NoReturn

OTHERS = (
    *("numpy", "pandas", "pyarrow.parquet", "pyarrow.csv", "pyarrow.ipc", "pyarrow.dataset", "orjson", "msgspec"),
    *("scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "scipy.spatial", "joblib", "threadpoolctl", "sqlite3"),
    *("sklearn.compose", "sklearn.pipeline", "sklearn.impute", "sklearn.linear_model", "sklearn.ensemble", "lightgbm"),
    *("sklearn.cluster", "sklearn.decomposition", "sklearn.metrics", "sklearn.utils.estimator_checks"),
    *("click", "rich.console", "rich.table", "rich.progress", "uvicorn", "starlette.applications", "prometheus_client"),
    *("uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on", "uvicorn.loops.asyncio", "http.client"),
)


def main() -> None:
    for name in OTHERS:
        with suppress(ImportError):
            import_module(name)
    if sys.argv[1:] == ["all"]:
        import batch2online

        for module in pkgutil.walk_packages(batch2online.__path__, "batch2online."):
            with suppress(ImportError):
                if not module.name.endswith("__main__"):
                    import_module(module.name)
    gc.freeze()  # what is imported is neither collected nor copied
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, int):
            _, status, use = os.wait4(asked, 0)
            answer = [os.waitstatus_to_exitcode(status), use.ru_utime + use.ru_stime]
        else:
            answer = os.fork()
            if not answer:
                be(*asked)
        print(json.dumps(answer), flush=True)


def be(arguments: list[str], out: str, error: str) -> NoReturn:
    """Be ``python ARGUMENTS``, a module after ``-m`` or a file."""
    for number, path in ((0, os.devnull), (1, out), (2, error)):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC), number)
    is_module = arguments[0] == "-m"
    sys.argv = arguments[is_module:]
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(sys.argv[0])
    start = partial(runpy.run_module, alter_sys=True) if is_module else runpy.run_path
    code = 0
    try:
        start(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # as the interpreter does
        code = traceback.print_exc() or 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the second half of a second in which an interpreter frees its modules


if __name__ == "__main__":
    main()
