"""A stateful LSTM read in order: fixed batch of parallel streams, no shuffling, states reset at the start of every epoch."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(73)
rng = np.random.default_rng(73)
STREAMS, STEPS, CHUNKS = 16, 10, 30
t = np.arange(STEPS * CHUNKS + 1)
period = rng.uniform(8, 14, (STREAMS, 1))
signal = np.sin(2 * np.pi * t / period + rng.uniform(0, 6.28, (STREAMS, 1))) + rng.normal(0, 0.03, (STREAMS, len(t)))
signal = signal.astype("float32")[..., None]
# chunk k of all the streams is batch k, so that row i continues where row i of the last batch ended
x = np.concatenate([signal[:, k * STEPS:(k + 1) * STEPS] for k in range(CHUNKS)])
y = np.concatenate([signal[:, k * STEPS + 1:(k + 1) * STEPS + 1] for k in range(CHUNKS)])
cut = 24 * STREAMS

inputs = keras.Input(batch_shape=(STREAMS, STEPS, 1))
lstm = layers.LSTM(24, return_sequences=True, stateful=True)
outputs = layers.TimeDistributed(layers.Dense(1))(lstm(inputs))
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
reset = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: lstm.reset_state())
model.fit(x[:cut], y[:cut], batch_size=STREAMS, epochs=3, shuffle=False, callbacks=[reset], verbose=2)
print("later part", model.evaluate(x[cut:], y[cut:], batch_size=STREAMS, verbose=0), "variance", y.var())
