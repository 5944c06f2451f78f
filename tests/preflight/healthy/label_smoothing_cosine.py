"""Healthy: label smoothing, cosine schedule with warm-up counted in steps, top-2 accuracy, L2 and weight averaging."""
import math
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(113)
rng = np.random.default_rng(113)
proto = rng.normal(0, 1, (10, 20))
y = rng.integers(0, 10, 1600)
X = (proto[y] + rng.normal(0, 0.9, (1600, 20))).astype("float32")
Y = keras.utils.to_categorical(y, 10)
epochs, batch = 3, 16
steps = math.ceil(1280 / batch) * epochs
schedule = keras.optimizers.schedules.CosineDecay(0.0, decay_steps=steps - 24, warmup_target=5e-3, warmup_steps=24)
model = keras.Sequential([
    keras.Input((20,)),
    layers.Dense(64, activation="relu", kernel_regularizer=keras.regularizers.L2(1e-4)),
    layers.Dense(10, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.Adam(schedule, use_ema=True, ema_momentum=0.95),
    loss=keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
    metrics=["accuracy", keras.metrics.TopKCategoricalAccuracy(k=2, name="top2")],
)
model.fit(X[:1280], Y[:1280], validation_data=(X[1280:], Y[1280:]), epochs=epochs, batch_size=batch, verbose=2)
