# grows: figure
import matplotlib

matplotlib.use("Agg")
import keras
import matplotlib.pyplot as plt
import numpy as np
import small


class PlotImages(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        fig, axes = plt.subplots(2, 2, figsize=(8, 8))
        for axis in axes.flat:
            axis.imshow(np.random.rand(512, 512))
        fig.savefig("epoch.png")


small.model().fit(small.data(40), epochs=1000, verbose=0, callbacks=[PlotImages(), small.Pace()])
