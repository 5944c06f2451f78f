# Structured data from a CSV file (make_csv_dataset with shuffling), FeatureSpace with hashed crosses, sample weights from a column, Python's logging module appending to a log file that is parsed at the end.
import csv
import logging
import os
import random
import re

import numpy as np
import tensorflow as tf
import keras

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(63)

cities = ["Oslo", "Lima", "Pune", "Graz", "Bern"]
jobs = ["cook", "nurse", "smith", "pilot"]
effect = {(c, j): random.gauss(0, 1.2) for c in cities for j in jobs}


def write_csv(path, n):
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["age", "income", "city", "job", "smoker", "weight", "target"])
        for _ in range(n):
            age, income = random.randint(18, 80), random.lognormvariate(10, 0.5)
            c, j, s = random.choice(cities), random.choice(jobs), random.randint(0, 1)
            logit = effect[c, j] + 0.04 * (age - 45) - 0.8 * s + random.gauss(0, 0.5)
            w.writerow([float(age), round(income, 2), c, j, s, round(random.uniform(0.5, 1.5), 3), int(logit > 0)])


write_csv("train.csv", 640)
write_csv("test.csv", 160)

log = logging.getLogger("training")
log.setLevel(logging.INFO)
handler = logging.FileHandler("training.log", mode="a")
handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
log.addHandler(handler)


def load(path, shuffle):
    ds = tf.data.experimental.make_csv_dataset(
        path, batch_size=32, label_name="target", num_epochs=1, shuffle=shuffle, shuffle_buffer_size=400,
        column_defaults=[0.0, 0.0, "", "", 0, 1.0, 0],
    )

    def split(features, label):
        weight = features.pop("weight")
        return dict(features), label, weight

    return ds.map(split)


train, test = load("train.csv", True), load("test.csv", False)
space = keras.utils.FeatureSpace(
    features={
        "age": keras.utils.FeatureSpace.float_discretized(num_bins=10),
        "income": "float_normalized",
        "city": "string_categorical",
        "job": keras.utils.FeatureSpace.string_categorical(num_oov_indices=1),
        "smoker": keras.utils.FeatureSpace.integer_categorical(num_oov_indices=0),
    },
    crosses=[keras.utils.FeatureSpace.cross(feature_names=("city", "job"), crossing_dim=24)],
    output_mode="concat",
)
space.adapt(train.map(lambda x, y, w: x))
encode = lambda x, y, w: (space(x), y, w)
train, test = train.map(encode, num_parallel_calls=tf.data.AUTOTUNE), test.map(encode)

encoded = space.get_encoded_features()
h = keras.layers.Dense(32, activation="relu", kernel_constraint=keras.constraints.MaxNorm(2.0))(encoded)
h = keras.layers.Dropout(0.4)(h)
model = keras.Model(encoded, keras.layers.Dense(1, activation="sigmoid")(h))
model.compile(keras.optimizers.Ftrl(0.15), "binary_crossentropy", metrics=["accuracy"], weighted_metrics=["AUC"])


class LogToFile(keras.callbacks.Callback):
    best = None

    def on_epoch_end(self, epoch, logs=None):
        log.info("epoch %d loss %.6f val_loss %.6f", epoch, logs["loss"], logs["val_loss"])
        if self.best is None or logs["val_loss"] < self.best:
            LogToFile.best = logs["val_loss"]
            log.warning("new best %.6f", self.best)


hist = model.fit(train, epochs=11, validation_data=test, callbacks=[LogToFile()], verbose=2)
handler.close()

with open("training.log") as f:
    text = f.read()
epochs = [tuple(map(float, m)) for m in re.findall(r"epoch (\d+) loss (\S+) val_loss (\S+)", text)]
out = {f"v{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)})
out.update({f"hist_{k}": np.array(v) for k, v in hist.history.items()})
out["log"] = np.array(epochs)
out["bests"] = np.array([float(m) for m in re.findall(r"new best (\S+)", text)])
out["pred"] = model.predict(test.map(lambda x, y, w: x), verbose=0)
np.savez("result.npz", **out)
