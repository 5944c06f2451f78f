# Graph convolution trained full batch (one step per epoch, 170 epochs) with a sparse adjacency matrix, DropEdge by tf.random, sample weights as masks, early stopping on masked validation, and a callback that rewires the graph.
import os

import numpy as np
import tensorflow as tf
import keras
from keras import layers

if os.environ.get("UNSEEDED") != "1":
    keras.utils.set_random_seed(64)

N, F, C = 240, 24, 4
labels = np.random.randint(0, C, N)
same = labels[:, None] == labels[None, :]
adj = np.triu(np.random.rand(N, N) < np.where(same, 0.06, 0.012), 1)
src, dst = np.nonzero(adj | adj.T)
topic = np.random.rand(C, F)
features = (np.random.rand(N, F) < 0.10 + 0.15 * topic[labels]).astype("float32")

order = np.random.permutation(N)
train_mask, val_mask, test_mask = (np.zeros(N, "float32") for _ in range(3))
train_mask[order[:60]] = 1.0
val_mask[order[60:140]] = 1.0
test_mask[order[140:]] = 1.0

edge_weight = tf.Variable(np.ones(len(src), "float32"), trainable=False)
indices = tf.constant(np.stack([src, dst], 1), tf.int64)


class GraphConv(layers.Layer):
    def __init__(self, units, drop_edge=0.2, activation=None):
        super().__init__()
        self.units, self.drop_edge = units, drop_edge
        self.act = keras.activations.get(activation)

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.units), initializer="glorot_uniform", regularizer=keras.regularizers.L2(5e-4))
        self.b = self.add_weight(shape=(self.units,), initializer="zeros")

    def call(self, x, training=False):
        e = tf.identity(edge_weight)
        if training:
            e = e * tf.cast(tf.random.uniform(tf.shape(e)) > self.drop_edge, tf.float32)
        a = tf.sparse.SparseTensor(indices, e, (N, N))
        deg = 1.0 + tf.sparse.sparse_dense_matmul(a, tf.ones((N, 1)))
        h = tf.matmul(x, self.w)
        agg = (tf.sparse.sparse_dense_matmul(a, h / tf.sqrt(deg)) + h / tf.sqrt(deg)) / tf.sqrt(deg)
        return self.act(agg + self.b)


class GCN(keras.Model):
    def __init__(self):
        super().__init__()
        self.drop1, self.drop2 = layers.Dropout(0.5), layers.Dropout(0.5)
        self.conv1, self.conv2 = GraphConv(16, activation="relu"), GraphConv(C)

    def call(self, x, training=False):
        h = self.conv1(self.drop1(x, training=training), training=training)
        return self.conv2(self.drop2(h, training=training), training=training)


class Rewire(keras.callbacks.Callback):
    """Every 30 epochs edges between nodes that the model puts apart lose weight."""

    def __init__(self):
        super().__init__()
        self.changed = []

    def on_epoch_end(self, epoch, logs=None):
        if (epoch + 1) % 30 == 0:
            p = tf.nn.softmax(self.model(features)).numpy()
            agree = (p[src] * p[dst]).sum(1)
            pick = np.random.rand(len(src)) < 0.5
            w = edge_weight.numpy()
            w[pick & (agree < 0.3)] *= 0.7
            edge_weight.assign(w)
            self.changed.append(w.mean())


model = GCN()
model.compile(
    keras.optimizers.Adam(0.01),
    keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    weighted_metrics=["accuracy"],
)
rewire = Rewire()
es = keras.callbacks.EarlyStopping("val_loss", patience=90, restore_best_weights=True)
hist = model.fit(
    features,
    labels,
    sample_weight=train_mask,
    validation_data=(features, labels, val_mask),
    batch_size=N,
    shuffle=False,
    epochs=170,
    callbacks=[rewire, es],
    verbose=0,
)
test = model.evaluate(features, labels, sample_weight=test_mask, batch_size=N, verbose=0)
print("epochs", len(hist.epoch), "test", test)

np.savez(
    "result.npz",
    **{f"w{i}": np.asarray(v) for i, v in enumerate(model.variables)},
    **{f"opt{i}": np.asarray(v) for i, v in enumerate(model.optimizer.variables)},
    **{f"hist_{k}": np.array(v) for k, v in hist.history.items()},
    edges=edge_weight.numpy(),
    changed=np.array(rewire.changed),
    stop=np.array([es.best, es.wait, es.best_epoch]),
    test=np.array(test),
    logits=model.predict(features, batch_size=N, verbose=0),
    next_uniform=tf.random.uniform((2,)).numpy(),
)
