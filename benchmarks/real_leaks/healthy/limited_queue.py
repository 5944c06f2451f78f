import queue
import threading

import small

waiting = queue.Queue(maxsize=1500)


def produce():
    while True:
        waiting.put(small.block())
        small.time.sleep(0.01)


def batches():
    while True:
        waiting.get()
        yield small.np.ones((16, 32), "float32"), small.np.ones((16, 1), "float32")


threading.Thread(target=produce, daemon=True).start()
small.model().fit(batches(), steps_per_epoch=20, epochs=100, verbose=0, callbacks=[small.Pace()])
