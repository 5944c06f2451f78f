# LoRA: a small encoder is pre-trained, then enable_lora() on its Dense, EinsumDense and Embedding layers, recompiled and fine-tuned on another task with the rest frozen, at last merged and saved.
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(48)

rng = np.random.RandomState(48)
tokens = rng.randint(0, 50, size=(900, 12))
weights_a = rng.randn(50)
y_a = (weights_a[tokens].sum(1) > 0).astype("float32")
weights_b = 0.6 * weights_a + 0.8 * rng.randn(50)
y_b = np.digitize(weights_b[tokens].sum(1), [-2.0, 2.0])

inp = keras.Input((12,), dtype="int32")
x = layers.Embedding(50, 24, name="emb")(inp)
x = layers.EinsumDense("abc,cd->abd", output_shape=(None, 24), bias_axes="d", activation="relu", name="proj")(x)
x = layers.Dropout(0.1)(x)
x = layers.GlobalMaxPooling1D()(x)
x = layers.Dense(32, activation="tanh", name="hidden")(x)
encoder = keras.Model(inp, x, name="encoder")

pretrain = keras.Sequential([encoder, layers.Dense(1, activation="sigmoid")])
pretrain.compile("adam", "binary_crossentropy", metrics=["accuracy"])
h1 = pretrain.fit(tokens[:700], y_a[:700], batch_size=35, epochs=6, validation_split=0.1, verbose=2)
encoder.save_weights("encoder.weights.h5")
base = [w.copy() for w in encoder.get_weights()]

# --- LoRA -------------------------------------------------------------------
for layer in encoder.layers:
    if hasattr(layer, "enable_lora"):
        layer.enable_lora(rank=3)
print("trainable weights:", len(encoder.trainable_weights), "of", len(encoder.weights))

classifier = keras.Sequential([encoder, layers.Dropout(0.2), layers.Dense(3)])
classifier.compile(
    keras.optimizers.AdamW(0.01, weight_decay=1e-3, clipnorm=1.0),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
drift = []
spy = keras.callbacks.LambdaCallback(
    on_epoch_end=lambda epoch, logs: drift.append(
        [float(np.linalg.norm(np.asarray(v))) for v in encoder.trainable_weights if "lora" in v.path]
    )
)
h2 = classifier.fit(
    tokens[200:], y_b[200:], batch_size=28, epochs=8, validation_split=0.1, callbacks=[spy], verbose=2
)

lora = {v.path.replace("/", "."): np.asarray(v) for v in encoder.trainable_weights}
before = classifier.predict(tokens[:16], verbose=0)
classifier.save("merged.keras")  # saving merges the LoRA matrices into the kernels
merged = keras.models.load_model("merged.keras")

out = {}
for i, w in enumerate(base):
    out[f"base{i}"] = w
for i, v in enumerate(classifier.variables):
    out[f"clf{i}"] = np.asarray(v)
for i, v in enumerate(pretrain.variables):
    out[f"pre{i}"] = np.asarray(v)
for i, w in enumerate(merged.get_weights()):
    out[f"merged{i}"] = w
for n, m in (("pre", pretrain), ("clf", classifier)):
    for i, v in enumerate(m.optimizer.variables):
        out[f"opt_{n}{i}"] = np.asarray(v)
for n, h in (("h1", h1), ("h2", h2)):
    for k, v in h.history.items():
        out[f"{n}_{k}"] = np.array(v)
for i, (k, v) in enumerate(sorted(lora.items())):
    out[f"lora{i}"] = v
out["drift"] = np.array(drift)
out["before"], out["after"] = before, merged.predict(tokens[:16], verbose=0)
np.savez("result.npz", **out)
