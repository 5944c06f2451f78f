"""The targets are a plain Python list, which Keras takes for a list of outputs; turn them into a numpy array."""

# finds: step-fails

import csv
import io
import numpy as np
import keras

keras.utils.set_random_seed(33)
rng = np.random.default_rng(33)
lines = ["distance,hour_sin,fare"]
for _ in range(1000):
    d, h = rng.uniform(0, 1), rng.uniform(-1, 1)
    lines.append(f"{d:.3f},{h:.3f},{0.4 + 2.5 * d + 0.4 * h + rng.normal(0, 0.05):.3f}")
rows = list(csv.DictReader(io.StringIO("\n".join(lines))))

features = np.array([[float(r["distance"]), float(r["hour_sin"])] for r in rows], dtype="float32")
fares = [float(r["fare"]) for r in rows]
fares = np.array(fares, dtype="float32")  # RIGHT

model = keras.Sequential([
    keras.Input((2,)),
    keras.layers.Dense(32, activation="relu"),
    keras.layers.Dense(1),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mae")
model.fit(features[:800], fares[:800], epochs=3, batch_size=20, validation_data=(features[800:900], fares[800:900]), verbose=2)
print("test mae", model.evaluate(features[900:], fares[900:], verbose=0))
