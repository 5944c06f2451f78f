"""Soft targets: the share of annotators that voted for each class (rows sum to 1, hardly ever one-hot), trained with KL divergence."""
import numpy as np
import keras
from keras import layers

keras.utils.set_random_seed(76)
rng = np.random.default_rng(76)
x = rng.normal(size=(1500, 12)).astype("float32")
logits = x @ rng.normal(0, 0.7, (12, 4))
p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
votes = np.stack([rng.multinomial(9, row) for row in p])
share = (votes / votes.sum(axis=1, keepdims=True)).astype("float32")

model = keras.Sequential([
    keras.Input((12,)),
    layers.Dense(48, activation="gelu"),
    layers.Dense(4, activation="softmax"),
])
model.compile(
    optimizer=keras.optimizers.AdamW(0.005, weight_decay=1e-4),
    loss=keras.losses.KLDivergence(),
    metrics=[keras.metrics.MeanAbsoluteError(name="vote_error")],
)
model.fit(x[:1200], share[:1200], batch_size=24, epochs=3, validation_data=(x[1200:1350], share[1200:1350]), verbose=2)
print("test", model.evaluate(x[1350:], share[1350:], return_dict=True, verbose=0))
