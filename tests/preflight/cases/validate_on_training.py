"""The training data is passed as validation_data, so the validation score and early stopping say nothing about new data."""

# finds: validation-is-training

import numpy as np
import keras

keras.utils.set_random_seed(29)
rng = np.random.default_rng(29)
X = rng.normal(size=(800, 30)).astype("float32")
y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(0, 0.3, 800) > 0).astype("int32")
X_train, X_val, X_test = np.split(X, [480, 640])
y_train, y_val, y_test = np.split(y, [480, 640])

model = keras.Sequential([
    keras.Input((30,)),
    keras.layers.Dense(64, activation="relu"),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.003), loss="binary_crossentropy", metrics=["accuracy"])
stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=2, restore_best_weights=True)
validation = (X_train, y_train)  # WRONG
validation = (X_val, y_val)  # RIGHT
model.fit(X_train, y_train, epochs=3, batch_size=16, validation_data=validation, callbacks=[stop], verbose=2)
print("test", model.evaluate(X_test, y_test, verbose=0))
