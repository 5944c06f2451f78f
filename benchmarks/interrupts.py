"""Counts lost interrupts in plain Keras and under `oomph run`: `python benchmarks/interrupts.py [--fits 1500]`.

Each of many short fits is interrupted (SIGINT, as by Ctrl-C) at a random moment. An interrupt is lost if the fit
continues for 3 s: TensorFlow and NumPy swallow a KeyboardInterrupt that is raised while they call back into Python.
The figures in docs/explanation/limits.md come from here.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

WAIT_SECONDS = 3.0
LATEST_SECONDS = 0.3  # of the interrupt, after the call of fit


class Fits:
    """Interrupts each fit from a thread, again and again until it has ended, and counts those that went on."""

    def __init__(self) -> None:
        self.ended = self.lost = 0  # only the main thread writes the first, only the other thread the second
        self._asked = threading.Semaphore(0)
        threading.Thread(target=self._interrupt, daemon=True).start()

    def next(self) -> None:
        """A fit is about to begin."""
        self._asked.release()

    def _interrupt(self) -> None:
        while True:
            self._asked.acquire()
            time.sleep(random.random() * LATEST_SECONDS)
            before = self.ended
            while self._goes_on_after_one(before):
                self.lost += 1

    def _goes_on_after_one(self, before: int) -> bool:
        until = time.monotonic() + WAIT_SECONDS
        os.kill(os.getpid(), signal.SIGINT)
        while time.monotonic() < until and self.ended == before:
            time.sleep(0.002)
        return self.ended == before


def train(fits: int) -> None:
    """So many fits, each of which only an interrupt ends; prints how many interrupts were lost."""
    import keras
    import numpy as np

    x = np.zeros((160, 4), "float32")
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=False)
    model.fit(x, x[:, :1], batch_size=16, epochs=2, verbose=0)
    count = Fits()
    for _ in range(fits):
        try:
            count.next()
            model.fit(x, x[:, :1], batch_size=16, epochs=1_000_000, verbose=0)
        except KeyboardInterrupt:
            count.ended += 1
    print(f"{count.lost} of {fits} lost")


def main() -> None:
    """Run the fits twice, without and with oomph, and print what each has lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=1500)
    parser.add_argument("--train", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args.fits)
        return
    script = [__file__, "--train", f"--fits={args.fits}"]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name, words in {"plain": [], "oomph": ["-m", "oomph", "run", "--checkpoint-every=1000000"]}.items():
        done = subprocess.run(
            [sys.executable, *words, *script], env=quiet, stdout=subprocess.PIPE, text=True, check=True
        )
        print(f"{name}: {done.stdout.strip().splitlines()[-1]}", flush=True)


if __name__ == "__main__":
    main()
