# Data in HDF5 files read by an infinite generator class (open h5py handles, passes counter, np.random.permutation of blocks), a TrainingMonitor that keeps its history in a JSON file and an EpochCheckpoint, polynomial decay.
import json
import os

import h5py
import numpy as np
from tensorflow import keras
from tensorflow.keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(60)


class HDF5DatasetWriter:
    def __init__(self, dims, path, buf_size=100):
        if os.path.exists(path):
            os.remove(path)
        self.db = h5py.File(path, "w")
        self.data = self.db.create_dataset("images", dims, dtype="uint8")
        self.labels = self.db.create_dataset("labels", (dims[0],), dtype="int")
        self.buf_size, self.idx = buf_size, 0
        self.buffer = {"data": [], "labels": []}

    def add(self, rows, labels):
        self.buffer["data"].extend(rows)
        self.buffer["labels"].extend(labels)
        if len(self.buffer["data"]) >= self.buf_size:
            self.flush()

    def flush(self):
        i = self.idx + len(self.buffer["data"])
        if i > self.idx:
            self.data[self.idx : i] = self.buffer["data"]
            self.labels[self.idx : i] = self.buffer["labels"]
        self.idx = i
        self.buffer = {"data": [], "labels": []}

    def close(self):
        self.flush()
        self.db.close()


class HDF5DatasetGenerator:
    def __init__(self, path, batch_size, classes=3, augment=True):
        self.db = h5py.File(path, "r")
        self.batch_size, self.classes, self.augment = batch_size, classes, augment
        self.num_images = self.db["labels"].shape[0]

    def generator(self, passes=np.inf):
        epochs = 0
        while epochs < passes:
            starts = np.arange(0, self.num_images, self.batch_size)
            if self.augment:
                starts = np.random.permutation(starts)
            for i in starts:
                images = self.db["images"][i : i + self.batch_size].astype("float32") / 255.0
                labels = keras.utils.to_categorical(self.db["labels"][i : i + self.batch_size], self.classes)
                if self.augment:
                    flip = np.random.rand(len(images)) < 0.5
                    images[flip] = images[flip, :, ::-1]
                    images += np.random.normal(0, 0.03, images.shape)
                yield images, labels
            epochs += 1

    def close(self):
        self.db.close()


def write(path, n):
    w = HDF5DatasetWriter((n, 10, 10, 1), path)
    for _ in range(n):
        c = np.random.randint(3)
        img = np.random.randint(0, 80, (10, 10, 1))
        r = np.random.randint(2, 8)
        if c == 0:
            img[r - 1 : r + 1] += 90
        elif c == 1:
            img[:, r - 1 : r + 1] += 90
        else:
            img[r - 2 : r + 2, 3:7] += 90
        w.add([img.astype("uint8")], [c])
    w.close()


write("train.hdf5", 640)
write("val.hdf5", 160)


class TrainingMonitor(keras.callbacks.Callback):
    def __init__(self, json_path, start_at=0):
        super().__init__()
        self.json_path, self.start_at = json_path, start_at

    def on_train_begin(self, logs=None):
        self.H = {}
        if os.path.exists(self.json_path):
            with open(self.json_path) as f:
                self.H = json.load(f)
            if self.start_at > 0:
                self.H = {k: v[: self.start_at] for k, v in self.H.items()}

    def on_epoch_end(self, epoch, logs=None):
        for k, v in (logs or {}).items():
            self.H.setdefault(k, []).append(float(v))
        with open(self.json_path, "w") as f:
            json.dump(self.H, f)


class EpochCheckpoint(keras.callbacks.Callback):
    def __init__(self, folder, every=4, start_at=0):
        super().__init__()
        self.folder, self.every, self.int_epoch = folder, every, start_at

    def on_epoch_end(self, epoch, logs=None):
        if (self.int_epoch + 1) % self.every == 0:
            self.model.save(os.path.join(self.folder, f"epoch_{self.int_epoch + 1}.keras"))
        self.int_epoch += 1


class PolynomialDecay:
    def __init__(self, max_epochs, init, power):
        self.max_epochs, self.init, self.power = max_epochs, init, power

    def __call__(self, epoch):
        return float(self.init * (1 - epoch / float(self.max_epochs)) ** self.power)


EPOCHS, BS = 12, 32
train_gen = HDF5DatasetGenerator("train.hdf5", BS)
val_gen = HDF5DatasetGenerator("val.hdf5", 160, augment=False)
model = keras.Sequential(
    [
        layers.Input((10, 10, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.BatchNormalization(),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(24, activation="relu"),
        layers.Dense(3, activation="softmax"),
    ]
)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "categorical_crossentropy", metrics=["accuracy"])
os.makedirs("checkpoints", exist_ok=True)
monitor = TrainingMonitor("history.json")
H = model.fit(
    train_gen.generator(),
    steps_per_epoch=train_gen.num_images // BS,
    validation_data=val_gen.generator(),
    validation_steps=1,
    epochs=EPOCHS,
    callbacks=[monitor, EpochCheckpoint("checkpoints"), keras.callbacks.LearningRateScheduler(PolynomialDecay(EPOCHS, 0.05, 1.0))],
    verbose=2,
)

with open("history.json") as f:
    saved = json.load(f)
arrays = {"json_" + k: np.array(v) for k, v in saved.items()}
arrays.update({"hist_" + k: np.array(v) for k, v in H.history.items()})
for i, v in enumerate(model.variables):
    arrays[f"w{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    arrays[f"opt{i}"] = np.asarray(v)
for e in (4, 8, 12):
    for i, w in enumerate(keras.models.load_model(f"checkpoints/epoch_{e}.keras").get_weights()):
        arrays[f"ck{e}_{i}"] = w
arrays["pred"] = model.predict(val_gen.db["images"][:16].astype("float32") / 255.0, verbose=0)
train_gen.close()
val_gen.close()
np.savez("result.npz", **arrays)
