# finds: validation-does-not-fit
import keras
import numpy as np

TOWNS = ["bath", "cork", "dover", "ely"]
rng = np.random.default_rng(12)
towns = rng.choice(TOWNS, 700)
towns[600:][towns[600:] == "ely"] = "bath"
age = rng.normal(size=(700, 1))
label = ((age[:, 0] > 0) ^ (towns == "cork")).astype("int32")


def table(rows):
    known = sorted(set(towns[rows]))  # WRONG
    known = TOWNS  # RIGHT
    dummies = [towns[rows] == town for town in known]
    return np.concatenate([age[rows], np.stack(dummies, axis=1)], axis=1).astype("float32")


train, held = slice(0, 600), slice(600, 700)
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
model.fit(table(train), label[train], validation_data=(table(held), label[held]), epochs=10, verbose=0)
