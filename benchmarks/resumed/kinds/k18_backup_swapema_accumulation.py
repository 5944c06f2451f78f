# The user's own BackupAndRestore and TensorBoard together with SwapEMAWeights(swap_on_epoch), gradient accumulation, use_ema with overwriting, clipping and CosineDecayRestarts.
import os

import numpy as np
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(18)

rng = np.random.default_rng(18 if os.environ.get("UNSEEDED") != "1" else None)
n = 840
x = rng.normal(size=(n, 10, 4)).astype("float32")
q = x[:, 0] * 1.5
att = np.exp((x * q[:, None]).sum(-1))
y = ((att / att.sum(1, keepdims=True))[..., None] * x).sum(1).astype("float32")

inp = keras.Input((10, 4))
h = layers.Dense(16)(inp)
a = layers.MultiHeadAttention(2, 8, dropout=0.1)(h, h)
h = layers.LayerNormalization()(h + a)
h = layers.Dense(16, activation="gelu")(h)
h = layers.GlobalAveragePooling1D()(h)
model = keras.Model(inp, layers.Dense(4)(h))

lr = keras.optimizers.schedules.CosineDecayRestarts(1e-2, 25, t_mul=1.5, m_mul=0.8)
opt = keras.optimizers.Adam(
    lr, global_clipnorm=1.0, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=60, gradient_accumulation_steps=3
)
model.compile(opt, "mse", metrics=["cosine_similarity"])
cbs = [
    keras.callbacks.BackupAndRestore("backup"),
    keras.callbacks.SwapEMAWeights(swap_on_epoch=True),
    keras.callbacks.ModelCheckpoint("ema.weights.h5", save_weights_only=True),
    keras.callbacks.TensorBoard("tb", histogram_freq=5),
]
hist = model.fit(x[:700], y[:700], batch_size=28, epochs=14, validation_data=(x[700:], y[700:]), callbacks=cbs, verbose=0)

out = {f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)}
out.update({f"opt{i}": np.asarray(v) for i, v in enumerate(opt.variables)})
out.update({f"h_{k}": np.array(v) for k, v in hist.history.items()})
model.load_weights("ema.weights.h5")
out.update({f"ema{i}": w for i, w in enumerate(model.get_weights())})
out["pred"] = model.predict(x[700:710], verbose=0)
np.savez("result.npz", **out)
