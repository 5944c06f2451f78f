# Video frames in one .npy file per sample with a partition/labels dictionary, loaded by a DataGenerator(Sequence) with two loader threads that shuffles its list in on_epoch_end, TimeDistributed convolutions and a ConvLSTM2D.
import os

import numpy as np
from tensorflow.keras import callbacks, layers, models, optimizers, utils

if os.environ.get("UNSEEDED") != "1":
    utils.set_random_seed(62)

T, S = 4, 6
os.makedirs("data", exist_ok=True)
partition, labels = {"train": [], "validation": []}, {}
moves = [(0, 1), (0, -1), (1, 0), (-1, 0)]
for k in range(420):
    ID = f"id-{k:04d}"
    c = np.random.randint(4)
    pos = np.random.randint(0, S, 2)
    clip = np.random.rand(T, S, S, 1) * 0.5
    for t in range(T):
        clip[t, pos[0], pos[1]] = 1.0
        pos = (pos + moves[c]) % S
    np.save(f"data/{ID}.npy", clip.astype("float32"))
    labels[ID] = c
    partition["train" if k < 340 else "validation"].append(ID)


class DataGenerator(utils.Sequence):
    "Generates data for Keras"

    def __init__(self, list_IDs, labels, batch_size=20, dim=(T, S, S), n_channels=1, n_classes=4, shuffle=True, **kw):
        super().__init__(**kw)
        self.list_IDs, self.labels = list_IDs, labels
        self.batch_size, self.dim, self.n_channels = batch_size, dim, n_channels
        self.n_classes, self.shuffle = n_classes, shuffle
        self.rng = np.random.RandomState(np.random.randint(2**31 - 1))
        self.indexes = np.arange(len(list_IDs))
        self.on_epoch_end()

    def __len__(self):
        return int(np.floor(len(self.list_IDs) / self.batch_size))

    def __getitem__(self, index):
        ids = [self.list_IDs[k] for k in self.indexes[index * self.batch_size : (index + 1) * self.batch_size]]
        X = np.empty((self.batch_size, *self.dim, self.n_channels), "float32")
        y = np.empty(self.batch_size, dtype=int)
        for i, ID in enumerate(ids):
            X[i] = np.load("data/" + ID + ".npy")
            y[i] = self.labels[ID]
        return X, utils.to_categorical(y, num_classes=self.n_classes)

    def on_epoch_end(self):
        if self.shuffle:
            self.rng.shuffle(self.indexes)


training_generator = DataGenerator(partition["train"], labels, workers=2, max_queue_size=6)
validation_generator = DataGenerator(partition["validation"], labels, shuffle=False)

model = models.Sequential(
    [
        layers.Input((T, S, S, 1)),
        layers.TimeDistributed(layers.Conv2D(4, 3, padding="same", activation="relu")),
        layers.TimeDistributed(layers.LayerNormalization()),
        layers.ConvLSTM2D(6, 3, padding="same", unroll=True),
        layers.GlobalMaxPooling2D(),
        layers.Dropout(0.1),
        layers.Dense(4, activation="softmax"),
    ]
)
model.compile(optimizers.Adam(0.01), "categorical_crossentropy", metrics=["accuracy"])
history = model.fit(
    training_generator,
    validation_data=validation_generator,
    epochs=10,
    callbacks=[
        callbacks.ModelCheckpoint("weights.{epoch:02d}.weights.h5", save_weights_only=True, save_best_only=True, monitor="val_accuracy"),
        callbacks.ReduceLROnPlateau("loss", factor=0.7, patience=1),
    ],
    verbose=2,
)

saved = sorted(f for f in os.listdir(".") if f.endswith(".weights.h5"))
out = {"saved": np.array([int(f.split(".")[1]) for f in saved]), "indexes": training_generator.indexes}
out["rng_next"] = training_generator.rng.rand(3)
for i, v in enumerate(model.variables):
    out[f"v{i}"] = np.asarray(v)
for i, v in enumerate(model.optimizer.variables):
    out[f"o{i}"] = np.asarray(v)
for k, v in history.history.items():
    out["h_" + k] = np.array(v)
out["pred"] = model.predict(validation_generator, verbose=0)
model.load_weights(saved[-1])
for i, w in enumerate(model.get_weights()):
    out[f"best{i}"] = w
np.savez("result.npz", **out)
