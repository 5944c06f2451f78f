import multiprocessing as mp
import os
import time

import small

table = small.block(200 << 20)


def read(number):
    while True:
        table[number::4096].sum()
        time.sleep(0.1)


if __name__ == "__main__":
    for number in range(5):
        mp.get_context("fork").Process(target=read, args=(number,), daemon=True).start()
    small.model().fit(small.data(), epochs=35, verbose=0, callbacks=[small.Pace()])
    os._exit(0)
