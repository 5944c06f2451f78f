# grows: list  owner: seen
import small


def batches():
    seen = []
    while True:
        seen.append(small.block())
        yield seen[-1][:512].reshape(16, 32), seen[-1][:16].reshape(16, 1)


small.model().fit(batches(), steps_per_epoch=50, epochs=1000, verbose=0, callbacks=[small.Pace()])
