"""Healthy: own train_step with mixup; soft labels that are not one-hot are intended."""
import numpy as np
import tensorflow as tf
import keras
from keras import layers

keras.utils.set_random_seed(108)
rng = np.random.default_rng(108)
y = rng.integers(0, 4, 1200)
X = rng.normal(0.3, 0.1, (1200, 12, 12, 1))
for i, k in enumerate(y):
    X[i, 3 * k:3 * k + 3] += 0.4
X, Y = np.clip(X, 0, 1).astype("float32"), keras.utils.to_categorical(y, 4)


class MixupModel(keras.Model):
    def train_step(self, data):
        x, y = data
        lam = tf.random.uniform((tf.shape(x)[0], 1), 0.7, 1.0)
        perm = tf.random.shuffle(tf.range(tf.shape(x)[0]))
        mix = lam[:, :, None, None]
        x = mix * x + (1 - mix) * tf.gather(x, perm)
        y = lam * y + (1 - lam) * tf.gather(y, perm)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(x=x, y=y, y_pred=y_pred)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


inputs = keras.Input((12, 12, 1))
h = layers.Conv2D(16, 3, activation="relu")(inputs)
h = layers.Flatten()(layers.MaxPooling2D()(h))
outputs = layers.Dense(4, activation="softmax")(h)
model = MixupModel(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-3), loss="categorical_crossentropy", metrics=["accuracy"])
model.fit(X[:960], Y[:960], validation_data=(X[960:], Y[960:]), epochs=3, batch_size=32, verbose=2)
