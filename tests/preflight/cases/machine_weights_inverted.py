"""The class weights are the class frequencies instead of their inverse, so the rare failures count even less than without weights."""

# finds: class-weights

import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(35)
rng = np.random.default_rng(35)
n = 2000
sensors = rng.normal(size=(n, 16)).astype("float32")
failure = (sensors[:, 0] - sensors[:, 1] + sensors[:, 2] + 0.8 * rng.normal(size=n) > 2.8).astype("int32")
x_train, y_train, x_val, y_val = sensors[:1600], failure[:1600], sensors[1600:], failure[1600:]

counts = np.bincount(y_train)
class_weight = {k: counts[k] / len(y_train) for k in range(2)}  # WRONG
class_weight = {k: len(y_train) / (2 * counts[k]) for k in range(2)}  # RIGHT

inp = keras.Input((16,))
h = layers.Dense(32, activation="relu")(inp)
h = layers.Dropout(0.2)(h)
out = layers.Dense(1, activation="sigmoid")(h)
model = keras.Model(inp, out)
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="binary_crossentropy",
              metrics=[keras.metrics.Recall(name="recall"), keras.metrics.AUC(curve="PR", name="pr_auc")])
model.fit(x_train, y_train, epochs=3, batch_size=32, class_weight=class_weight,
          validation_data=(x_val, y_val), verbose=2)
print("failures", y_val.mean(), "val", model.evaluate(x_val, y_val, return_dict=True, verbose=0))
