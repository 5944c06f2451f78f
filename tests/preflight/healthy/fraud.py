"""Rare events: class weights, precision and recall."""

import keras
import numpy as np

rng = np.random.default_rng(0)
features = rng.normal(size=(5000, 30)).astype("float32")
targets = (rng.random((5000, 1)) < 0.01).astype("uint8")
counts = np.bincount(targets[:, 0])
features -= features.mean(axis=0)
features /= features.std(axis=0)
model = keras.Sequential(
    [
        keras.Input(shape=(30,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=keras.optimizers.Adam(1e-2),
    loss="binary_crossentropy",
    metrics=[keras.metrics.Precision(name="precision"), keras.metrics.Recall(name="recall")],
)
model.fit(
    features[:4000],
    targets[:4000],
    batch_size=1024,
    epochs=10,
    verbose=2,
    callbacks=[keras.callbacks.ModelCheckpoint("/tmp/fraud_{epoch}.keras")],
    validation_data=(features[4000:], targets[4000:]),
    class_weight={0: 1 / counts[0], 1: 1 / counts[1]},
)
