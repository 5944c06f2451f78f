"""The target column is still among the features, so the model just copies it; drop it from X."""

# finds: target-in-features

import numpy as np
import pandas as pd
import keras

keras.utils.set_random_seed(31)
rng = np.random.default_rng(31)
n = 1200
df = pd.DataFrame({
    "rain": rng.normal(0, 1, n),
    "sun": rng.normal(0, 1, n),
    "nitrogen": rng.normal(0, 1, n),
    "slope": rng.normal(0, 1, n),
})
df["good_yield"] = (df.rain + 0.7 * df.sun + 0.5 * df.nitrogen + rng.normal(0, 1.0, n) > 0).astype("int64")
train, valid, test = df.iloc[:800], df.iloc[800:1000], df.iloc[1000:]
columns = list(df.columns)  # WRONG
columns = [c for c in df.columns if c != "good_yield"]  # RIGHT

model = keras.Sequential([
    keras.Input((len(columns),)),
    keras.layers.Dense(16, activation="relu"),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(train[columns].to_numpy("float32"), train["good_yield"].to_numpy(), epochs=3, batch_size=16,
          validation_data=(valid[columns].to_numpy("float32"), valid["good_yield"].to_numpy()), verbose=2)
print("test", model.evaluate(test[columns].to_numpy("float32"), test["good_yield"].to_numpy(), verbose=0))
