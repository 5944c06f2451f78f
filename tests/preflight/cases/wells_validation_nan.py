# finds: validation-not-finite
import keras
import numpy as np

rng = np.random.default_rng(3)
depths = rng.normal(size=(900, 7)).astype("float32")
depths[::40, 2] = np.nan
flow = np.where(np.isnan(depths[:, 2]), 0.0, depths[:, 2]) - depths[:, 0]
train, held = depths[:700], depths[700:]
centre = np.nanmean(train, axis=0)
train = np.where(np.isnan(train), centre, train).astype("float32")
held = np.where(np.isnan(held), centre, held).astype("float32")  # RIGHT
model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
stop = keras.callbacks.EarlyStopping(patience=5, restore_best_weights=True)
model.fit(train, flow[:700], validation_data=(held, flow[700:]), epochs=50, callbacks=[stop], verbose=0)
