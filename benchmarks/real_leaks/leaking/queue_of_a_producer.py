# grows: queue
import queue
import threading
import time

import small

waiting = queue.Queue()


def produce():
    while True:
        waiting.put(small.block())
        time.sleep(0.015)


def batches():
    while True:
        waiting.get()
        time.sleep(0.06)
        yield small.np.ones((16, 32), "float32"), small.np.ones((16, 1), "float32")


threading.Thread(target=produce, daemon=True).start()
small.model().fit(batches(), steps_per_epoch=20, epochs=1000, verbose=0)
