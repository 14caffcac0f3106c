"""A process that is forked while another thread learns can learn, too."""

import os
import signal
import threading
import time
import warnings

import numpy as np
import pytest

from batch2online import OnlineRegression

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
CHILDREN, PATIENCE = 16, 30


@pytest.mark.slow
@pytest.mark.xfail(reason="d59: a forked process waits for the lock of a thread that it does not have")
def test_a_process_forked_while_a_thread_learns_can_learn():
    X = np.random.default_rng(0).normal(size=(500, 3))
    rows, targets = X.tolist(), X.sum(axis=1).tolist()
    model = OnlineRegression(random_state=0).partial_fit(X, targets)
    stop = threading.Event()

    def learn():
        while not stop.is_set():
            for row, target in zip(rows, targets, strict=True):
                model.learn_one(row, target)

    thread = threading.Thread(target=learn)
    thread.start()
    children = []
    for _ in range(CHILDREN):
        time.sleep(0.003)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns of forks where there are threads
            child = os.fork()
        if not child:
            try:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(PATIENCE)
                model.learn_one(rows[0], targets[0])
                os._exit(0)
            finally:
                os._exit(1)
        children.append(child)
    stop.set()
    thread.join()
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert ends == [0] * CHILDREN, f"{ends.count(-signal.SIGALRM)} of {CHILDREN} forked processes hang"
