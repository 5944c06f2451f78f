"""Twenty Keras models in the style of tutorials and papers with code.

MODELS[name](batch) -> (compiled model, x, y); y is None where the model
computes its own loss. BATCHES[name] -> three rising batch sizes.
"""
import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops


def _rng():
    return np.random.default_rng(0)


class _policy:
    """Set the global dtype policy inside a with block."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.old = keras.config.dtype_policy()
        keras.config.set_dtype_policy(self.name)

    def __exit__(self, *exc):
        keras.config.set_dtype_policy(self.old)


# --------------------------------------------------------------------------
# 1. Own VGG-like CNN on CIFAR-10, augmentation layers inside
# --------------------------------------------------------------------------
def cifar_cnn(batch):
    model = keras.Sequential([keras.Input((32, 32, 3)),
                              layers.Rescaling(1 / 255.0),
                              layers.RandomFlip("horizontal"),
                              layers.RandomTranslation(0.1, 0.1)])
    for width, drop in ((32, 0.2), (64, 0.3), (128, 0.4)):
        for _ in range(2):
            model.add(layers.Conv2D(width, 3, padding="same",
                                    kernel_regularizer=keras.regularizers.L2(1e-4)))
            model.add(layers.BatchNormalization())
            model.add(layers.Activation("relu"))
        model.add(layers.MaxPooling2D())
        model.add(layers.Dropout(drop))
    model.add(layers.Flatten())
    model.add(layers.Dense(256, activation="relu"))
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(10, activation="softmax"))
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"],
                  jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, 32, 32, 3), dtype=np.uint8).astype("float32")
    y = keras.utils.to_categorical(r.integers(0, 10, batch), 10)
    return model, x, y


# --------------------------------------------------------------------------
# 2. DenseNet121 from scratch, dog breeds
# --------------------------------------------------------------------------
def densenet_dogs(batch):
    model = keras.applications.DenseNet121(weights=None, input_shape=(160, 160, 3),
                                           classes=120)
    lr = keras.optimizers.schedules.CosineDecay(0.05, 10000)
    model.compile(keras.optimizers.SGD(lr, momentum=0.9, nesterov=True, weight_decay=1e-4),
                  keras.losses.SparseCategoricalCrossentropy(),
                  metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(5)],
                  jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 160, 160, 3), dtype=np.float32)
    y = r.integers(0, 120, batch).astype("int32")
    return model, x, y


# --------------------------------------------------------------------------
# 3. Transfer learning with a frozen Xception (cats vs dogs)
# --------------------------------------------------------------------------
def xception_frozen(batch):
    base = keras.applications.Xception(weights=None, include_top=False,
                                       input_shape=(150, 150, 3))
    base.trainable = False
    inp = keras.Input((150, 150, 3))
    h = layers.RandomFlip("horizontal")(inp)
    h = layers.RandomRotation(0.1)(h)
    h = layers.Rescaling(1 / 127.5, offset=-1)(h)
    h = base(h, training=False)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.2)(h)
    model = keras.Model(inp, layers.Dense(1)(h))
    model.compile(keras.optimizers.Adam(1e-3),
                  keras.losses.BinaryCrossentropy(from_logits=True),
                  metrics=[keras.metrics.BinaryAccuracy()], jit_compile=False)
    r = _rng()
    x = r.uniform(0, 255, (batch, 150, 150, 3)).astype("float32")
    y = r.integers(0, 2, (batch, 1)).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 4. Xception-style U-Net, Oxford pets segmentation
# --------------------------------------------------------------------------
def unet_pets(batch):
    inp = keras.Input((160, 160, 3))
    h = layers.Conv2D(32, 3, strides=2, padding="same")(inp)
    h = layers.BatchNormalization()(h)
    h = layers.Activation("relu")(h)
    prev = h
    for f in (64, 128, 256):
        for _ in range(2):
            h = layers.Activation("relu")(h)
            h = layers.SeparableConv2D(f, 3, padding="same")(h)
            h = layers.BatchNormalization()(h)
        h = layers.MaxPooling2D(3, strides=2, padding="same")(h)
        res = layers.Conv2D(f, 1, strides=2, padding="same")(prev)
        h = layers.add([h, res])
        prev = h
    for f in (256, 128, 64, 32):
        for _ in range(2):
            h = layers.Activation("relu")(h)
            h = layers.Conv2DTranspose(f, 3, padding="same")(h)
            h = layers.BatchNormalization()(h)
        h = layers.UpSampling2D(2)(h)
        res = layers.UpSampling2D(2)(prev)
        res = layers.Conv2D(f, 1, padding="same")(res)
        h = layers.add([h, res])
        prev = h
    out = layers.Conv2D(3, 3, activation="softmax", padding="same")(h)
    model = keras.Model(inp, out)
    model.compile(keras.optimizers.Adam(1e-4), "sparse_categorical_crossentropy",
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    x = r.uniform(0, 1, (batch, 160, 160, 3)).astype("float32")
    y = r.integers(0, 3, (batch, 160, 160, 1)).astype("uint8")
    return model, x, y


# --------------------------------------------------------------------------
# 5. One-stage detector: depthwise backbone, FPN, shared class and box heads
# --------------------------------------------------------------------------
def detector_fpn(batch):
    anchors, classes, width = 9, 20, 128

    def cbr(h, f, k, s=1):
        h = layers.Conv2D(f, k, strides=s, padding="same", use_bias=False)(h)
        return layers.ReLU(6.0)(layers.BatchNormalization()(h))

    def dw(h, f, s=1):
        h = layers.DepthwiseConv2D(3, strides=s, padding="same", use_bias=False)(h)
        h = layers.ReLU(6.0)(layers.BatchNormalization()(h))
        return cbr(h, f, 1)

    inp = keras.Input((320, 320, 3), name="image")
    h = cbr(inp, 32, 3, 2)
    h = dw(h, 64)
    h = dw(dw(h, 128, 2), 128)
    c3 = h = dw(dw(h, 256, 2), 256)
    h = dw(h, 512, 2)
    for _ in range(4):
        h = dw(h, 512)
    c4 = h
    c5 = dw(dw(h, 768, 2), 768)
    p5 = layers.Conv2D(width, 1)(c5)
    p4 = layers.Add()([layers.Conv2D(width, 1)(c4), layers.UpSampling2D()(p5)])
    p3 = layers.Add()([layers.Conv2D(width, 1)(c3), layers.UpSampling2D()(p4)])
    pyramid = [layers.Conv2D(width, 3, padding="same")(p) for p in (p3, p4, p5)]

    def head(filters, bias, name):
        m = keras.Sequential([keras.Input((None, None, width))], name=name)
        for _ in range(3):
            m.add(layers.Conv2D(width, 3, padding="same", activation="relu",
                                kernel_initializer=keras.initializers.RandomNormal(0, 0.01)))
        m.add(layers.Conv2D(filters, 3, padding="same",
                            bias_initializer=keras.initializers.Constant(bias)))
        return m

    cls_head = head(anchors * classes, -4.6, "cls_head")
    box_head = head(anchors * 4, 0.0, "box_head")
    cls = layers.Concatenate(axis=1, name="cls")(
        [layers.Reshape((-1, classes))(cls_head(p)) for p in pyramid])
    box = layers.Concatenate(axis=1, name="box")(
        [layers.Reshape((-1, 4))(box_head(p)) for p in pyramid])
    model = keras.Model(inp, {"cls": cls, "box": box})
    model.compile(
        keras.optimizers.SGD(0.01, momentum=0.9, clipnorm=10.0),
        loss={"cls": keras.losses.BinaryFocalCrossentropy(
                  apply_class_balancing=True, from_logits=True),
              "box": keras.losses.Huber(0.1)},
        loss_weights={"cls": 1.0, "box": 50.0}, jit_compile=False)
    r = _rng()
    n = (40 * 40 + 20 * 20 + 10 * 10) * anchors
    x = r.uniform(-1, 1, (batch, 320, 320, 3)).astype("float32")
    y = {"cls": (r.random((batch, n, classes), dtype=np.float32) < 0.001).astype("float32"),
         "box": r.standard_normal((batch, n, 4), dtype=np.float32)}
    return model, x, y


# --------------------------------------------------------------------------
# 6. DCGAN with its own train_step (two optimizers), faces 64 x 64
# --------------------------------------------------------------------------
class DCGAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim
        self.seed_generator = keras.random.SeedGenerator(1337)

    def compile(self, d_optimizer, g_optimizer, loss_fn, **kwargs):
        super().compile(**kwargs)
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")
        self.g_loss_metric = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_loss_metric, self.g_loss_metric]

    def call(self, images, training=False):
        return self.discriminator(images, training=training)

    def train_step(self, data):
        real, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        n = ops.shape(real)[0]
        z = keras.random.normal((n, self.latent_dim), seed=self.seed_generator)
        fake = self.generator(z, training=True)
        combined = ops.concatenate([fake, real], axis=0)
        labels = ops.concatenate([ops.ones((n, 1)), ops.zeros((n, 1))], axis=0)
        labels += 0.05 * keras.random.uniform(ops.shape(labels), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            pred = self.discriminator(combined, training=True)
            d_loss = self.loss_fn(labels, pred)
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))

        z = keras.random.normal((n, self.latent_dim), seed=self.seed_generator)
        with tf.GradientTape() as tape:
            pred = self.discriminator(self.generator(z, training=True), training=True)
            g_loss = self.loss_fn(ops.zeros((n, 1)), pred)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.d_loss_metric.update_state(d_loss)
        self.g_loss_metric.update_state(g_loss)
        return {m.name: m.result() for m in self.metrics}


def dcgan_faces(batch):
    latent = 128
    disc = keras.Sequential([
        keras.Input((64, 64, 3)),
        layers.Conv2D(64, 4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(128, 4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2),
        layers.Conv2D(128, 4, strides=2, padding="same"), layers.LeakyReLU(negative_slope=0.2),
        layers.Flatten(), layers.Dropout(0.2), layers.Dense(1, activation="sigmoid"),
    ], name="discriminator")
    gen = keras.Sequential([keras.Input((latent,)), layers.Dense(8 * 8 * 256),
                            layers.Reshape((8, 8, 256))], name="generator")
    for f in (256, 128, 64):
        gen.add(layers.Conv2DTranspose(f, 4, strides=2, padding="same", use_bias=False))
        gen.add(layers.BatchNormalization())
        gen.add(layers.LeakyReLU(negative_slope=0.2))
    gen.add(layers.Conv2D(3, 5, padding="same", activation="sigmoid"))
    model = DCGAN(disc, gen, latent)
    model.compile(keras.optimizers.Adam(1e-4, beta_1=0.5),
                  keras.optimizers.Adam(1e-4, beta_1=0.5),
                  keras.losses.BinaryCrossentropy(), jit_compile=False)
    x = _rng().random((batch, 64, 64, 3), dtype=np.float32)
    return model, x, None


# --------------------------------------------------------------------------
# 7. Bidirectional stacked LSTM on IMDB, masked
# --------------------------------------------------------------------------
def bilstm_imdb(batch):
    vocab, length = 20000, 200
    inp = keras.Input((None,), dtype="int32")
    h = layers.Embedding(vocab, 128, mask_zero=True)(inp)
    h = layers.Bidirectional(layers.LSTM(64, return_sequences=True))(h)
    h = layers.Bidirectional(layers.LSTM(64))(h)
    h = layers.Dropout(0.3)(h)
    model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))
    model.compile("rmsprop", "binary_crossentropy", metrics=["accuracy"],
                  jit_compile=False)
    r = _rng()
    x = r.integers(1, vocab, (batch, length)).astype("int32")
    lens = r.integers(40, length + 1, batch)
    x[np.arange(length)[None, :] < (length - lens)[:, None]] = 0
    y = r.integers(0, 2, batch).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 8. Probabilistic load forecast: stacked LSTM + GRU, quantile losses
# --------------------------------------------------------------------------
class Pinball(keras.losses.Loss):
    def __init__(self, quantiles, **kw):
        super().__init__(**kw)
        self.q = quantiles

    def call(self, y_true, y_pred):
        q = ops.convert_to_tensor(self.q, dtype=y_pred.dtype)
        e = ops.expand_dims(ops.cast(y_true, y_pred.dtype), -1) - y_pred
        return ops.mean(ops.maximum(q * e, (q - 1) * e), axis=(1, 2))


def load_forecast_rnn(batch):
    past, horizon, feats, qs = 168, 24, 20, (0.1, 0.5, 0.9)
    inp = keras.Input((past, feats))
    h = layers.Conv1D(64, 3, padding="causal", activation="relu")(inp)
    h = layers.LSTM(96, return_sequences=True, dropout=0.1)(h)
    h = layers.LayerNormalization()(h)
    h = layers.GRU(64, return_sequences=False)(h)
    h = layers.RepeatVector(horizon)(h)
    h = layers.LSTM(64, return_sequences=True)(h)
    out = layers.TimeDistributed(layers.Dense(len(qs)))(h)
    model = keras.Model(inp, out)
    model.compile(keras.optimizers.RMSprop(1e-3, clipvalue=0.5), Pinball(qs),
                  jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, past, feats), dtype=np.float32)
    y = r.standard_normal((batch, horizon), dtype=np.float32)
    return model, x, y


# --------------------------------------------------------------------------
# 9. Translation seq2seq: biGRU encoder, GRU decoder, cross attention
# --------------------------------------------------------------------------
def _masked_loss(y_true, y_pred):
    loss = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
    mask = ops.cast(ops.not_equal(y_true, 0), loss.dtype)
    return ops.sum(loss * mask) / ops.maximum(ops.sum(mask), 1.0)


def _masked_acc(y_true, y_pred):
    hit = ops.cast(ops.equal(ops.cast(ops.argmax(y_pred, -1), "int32"),
                             ops.cast(y_true, "int32")), "float32")
    mask = ops.cast(ops.not_equal(y_true, 0), "float32")
    return ops.sum(hit * mask) / ops.maximum(ops.sum(mask), 1.0)


def nmt_gru_attention(batch):
    vocab_in, vocab_out, units, s, t = 8000, 8000, 256, 40, 40
    src = keras.Input((None,), dtype="int32", name="source")
    tgt = keras.Input((None,), dtype="int32", name="target")
    ctx = layers.Embedding(vocab_in, units, mask_zero=True)(src)
    ctx = layers.Bidirectional(layers.GRU(units, return_sequences=True),
                               merge_mode="sum")(ctx)
    h = layers.Embedding(vocab_out, units, mask_zero=True)(tgt)
    h = layers.GRU(units, return_sequences=True)(h)
    att = layers.MultiHeadAttention(num_heads=1, key_dim=units)(query=h, value=ctx)
    h = layers.LayerNormalization()(layers.Add()([h, att]))
    model = keras.Model({"source": src, "target": tgt}, layers.Dense(vocab_out)(h))
    model.compile(keras.optimizers.Adafactor(1e-3), _masked_loss, metrics=[_masked_acc],
                  jit_compile=False)
    r = _rng()

    def sentences(n, v):
        a = r.integers(1, v, (batch, n)).astype("int32")
        a[np.arange(n)[None, :] >= r.integers(8, n + 1, batch)[:, None]] = 0
        return a

    full = sentences(t + 1, vocab_out)
    x = {"source": sentences(s, vocab_in), "target": np.ascontiguousarray(full[:, :-1])}
    return model, x, np.ascontiguousarray(full[:, 1:])


# --------------------------------------------------------------------------
# 10. BERT-like masked LM with the WordPiece vocabulary, LAMB
# --------------------------------------------------------------------------
class TokenAndPosition(layers.Layer):
    def __init__(self, vocab, length, dim, **kw):
        super().__init__(**kw)
        self.tok = layers.Embedding(vocab, dim)
        self.pos = layers.Embedding(length, dim)

    def call(self, ids):
        return self.tok(ids) + self.pos(ops.arange(ops.shape(ids)[1]))


def bert_mlm(batch):
    vocab, length, dim, heads = 30522, 128, 256, 4
    ids = keras.Input((length,), dtype="int32", name="ids")
    seg = keras.Input((length,), dtype="int32", name="segments")
    h = TokenAndPosition(vocab, length, dim)(ids)
    h = h + layers.Embedding(2, dim)(seg)
    h = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-12)(h))
    for _ in range(4):
        a = layers.MultiHeadAttention(heads, dim // heads, dropout=0.1)(h, h)
        h = layers.LayerNormalization(epsilon=1e-12)(h + layers.Dropout(0.1)(a))
        f = layers.Dense(4 * dim, activation="gelu")(h)
        f = layers.Dropout(0.1)(layers.Dense(dim)(f))
        h = layers.LayerNormalization(epsilon=1e-12)(h + f)
    h = layers.LayerNormalization()(layers.Dense(dim, activation="gelu")(h))
    out = layers.Dense(vocab, name="mlm")(h)
    model = keras.Model([ids, seg], out)
    model.compile(keras.optimizers.Lamb(1e-3, weight_decay=0.01, global_clipnorm=1.0),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True,
                                                             ignore_class=-1),
                  jit_compile=False)
    r = _rng()
    tokens = r.integers(1000, vocab, (batch, length)).astype("int32")
    chosen = r.random((batch, length)) < 0.15
    x = [np.where(chosen, 103, tokens).astype("int32"),
         (np.arange(length)[None, :] > r.integers(20, 100, (batch, 1))).astype("int32")]
    y = np.where(chosen, tokens, -1).astype("int32")
    return model, x, y


# --------------------------------------------------------------------------
# 11. GPT-like LM: subclassed, GPT-2 vocabulary, tied head, accumulation
# --------------------------------------------------------------------------
class CausalBlock(layers.Layer):
    def __init__(self, dim, heads, rate, **kw):
        super().__init__(**kw)
        self.ln1 = layers.LayerNormalization(epsilon=1e-5)
        self.ln2 = layers.LayerNormalization(epsilon=1e-5)
        self.att = layers.MultiHeadAttention(heads, dim // heads, dropout=rate)
        self.up = layers.Dense(4 * dim, activation="gelu")
        self.down = layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def call(self, x, training=None):
        n = self.ln1(x)
        x = x + self.drop(self.att(n, n, use_causal_mask=True, training=training),
                          training=training)
        return x + self.drop(self.down(self.up(self.ln2(x))), training=training)


class MiniGPT(keras.Model):
    def __init__(self, vocab, context, dim, heads, depth, **kw):
        super().__init__(**kw)
        self.wte = layers.Embedding(vocab, dim, embeddings_initializer="random_normal")
        self.wpe = layers.Embedding(context, dim)
        self.drop = layers.Dropout(0.1)
        self.blocks = [CausalBlock(dim, heads, 0.1) for _ in range(depth)]
        self.ln_f = layers.LayerNormalization(epsilon=1e-5)

    def call(self, ids, training=None):
        h = self.wte(ids) + self.wpe(ops.arange(ops.shape(ids)[1]))
        h = self.drop(h, training=training)
        for block in self.blocks:
            h = block(h, training=training)
        return ops.matmul(self.ln_f(h), ops.transpose(self.wte.embeddings))


def gpt_mini(batch):
    vocab, context = 50257, 256
    model = MiniGPT(vocab, context, 384, 6, 6)
    model(np.zeros((1, context), "int32"))
    model.compile(keras.optimizers.AdamW(3e-4, weight_decay=0.1, beta_2=0.95,
                                         gradient_accumulation_steps=4),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  jit_compile=False)
    text = _rng().integers(0, vocab, (batch, context + 1)).astype("int32")
    return model, np.ascontiguousarray(text[:, :-1]), np.ascontiguousarray(text[:, 1:])


# --------------------------------------------------------------------------
# 12. Speech commands from the raw waveform, residual Conv1D
# --------------------------------------------------------------------------
def speech_conv1d(batch):
    inp = keras.Input((16000, 1))
    h = layers.Conv1D(64, 80, strides=4, padding="same", use_bias=False)(inp)
    h = layers.ReLU()(layers.BatchNormalization()(h))
    h = layers.MaxPooling1D(4)(h)
    for f, pool in ((64, 4), (128, 4), (256, 2), (512, 2)):
        short = layers.Conv1D(f, 1, padding="same")(h)
        for _ in range(2):
            h = layers.Conv1D(f, 3, padding="same", use_bias=False)(h)
            h = layers.BatchNormalization()(h)
            h = layers.ReLU()(h)
        h = layers.MaxPooling1D(pool)(layers.Add()([h, short]))
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(128, activation="relu")(h)
    model = keras.Model(inp, layers.Dense(35, activation="softmax")(h))
    model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy",
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    x = 0.1 * r.standard_normal((batch, 16000, 1), dtype=np.float32)
    return model, x, r.integers(0, 35, batch).astype("int32")


# --------------------------------------------------------------------------
# 13. Two-tower retrieval with big tables and an in-batch softmax
# --------------------------------------------------------------------------
class TwoTower(keras.Model):
    def __init__(self, users, items, dim, **kw):
        super().__init__(**kw)

        def tower(n, name):
            return keras.Sequential([layers.Embedding(n, dim),
                                     layers.Dense(256, activation="relu"),
                                     layers.Dense(dim)], name=name)

        self.user_tower = tower(users, "user")
        self.item_tower = tower(items, "item")

    def call(self, inputs, training=None):
        u = ops.normalize(self.user_tower(inputs["user_id"]), axis=-1)
        v = ops.normalize(self.item_tower(inputs["item_id"]), axis=-1)
        return ops.matmul(u, ops.transpose(v)) / 0.1

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        labels = ops.arange(ops.shape(y_pred)[0])
        return ops.mean(keras.losses.sparse_categorical_crossentropy(
            labels, y_pred, from_logits=True))


def two_tower_retrieval(batch):
    users, items = 400_000, 120_000
    model = TwoTower(users, items, 64)
    r = _rng()
    x = {"user_id": r.integers(0, users, batch).astype("int32"),
         "item_id": (items * r.power(0.3, batch)).astype("int32")}
    model({k: v[:2] for k, v in x.items()})
    model.compile(keras.optimizers.Adagrad(0.1), jit_compile=False)
    return model, x, None


# --------------------------------------------------------------------------
# 14. Wide & deep click model, 39 inputs (Criteo), mixed_float16
# --------------------------------------------------------------------------
_CRITEO = [1460, 583, 200000, 150000, 305, 24, 12517, 633, 3, 93145, 5683, 180000,
           3194, 27, 14992, 160000, 10, 5652, 2173, 4, 170000, 18, 15, 86181, 105, 72655]


def wide_deep_criteo_fp16(batch):
    with _policy("mixed_float16"):
        inputs, deep, wide = {}, [], []
        for i in range(13):
            inputs[f"I{i}"] = n = keras.Input((1,), name=f"I{i}")
            deep.append(n)
            wide.append(n)
        for i, size in enumerate(_CRITEO):
            inputs[f"C{i}"] = c = keras.Input((1,), dtype="int32", name=f"C{i}")
            deep.append(layers.Flatten()(layers.Embedding(size, 16)(c)))
            wide.append(layers.Flatten()(layers.Embedding(
                size, 1, embeddings_initializer="zeros")(c)))
        h = layers.BatchNormalization()(layers.Concatenate()(deep))
        for u in (128, 64):
            h = layers.Dense(u, activation="relu")(h)
            h = layers.Dropout(0.2)(h)
        logit = layers.Add()([layers.Dense(1)(h), layers.Dense(1)(layers.Concatenate()(wide))])
        model = keras.Model(inputs, layers.Activation("sigmoid", dtype="float32")(logit))
        model.compile(keras.optimizers.Adam(1e-3), "binary_crossentropy",
                      metrics=[keras.metrics.AUC()], jit_compile=False)
    r = _rng()
    x = {f"I{i}": r.lognormal(size=(batch, 1)).astype("float32") for i in range(13)}
    for i, size in enumerate(_CRITEO):
        x[f"C{i}"] = r.integers(0, size, (batch, 1)).astype("int32")
    return model, x, (r.random((batch, 1)) < 0.25).astype("float32")


# --------------------------------------------------------------------------
# 15. Tabular residual MLP, 32 inputs, three outputs with three losses
# --------------------------------------------------------------------------
def tabular_multitask(batch):
    r = _rng()
    inputs, parts, x = {}, [], {}
    for i in range(20):
        k = f"num{i}"
        inputs[k] = t = keras.Input((1,), name=k)
        parts.append(layers.Normalization(mean=5.0, variance=4.0)(t))
        x[k] = r.normal(5, 2, (batch, 1)).astype("float32")
    for i, size in enumerate((2, 3, 5, 7, 9, 12, 16, 24, 42, 52, 100, 366)):
        k = f"cat{i}"
        inputs[k] = t = keras.Input((1,), dtype="int64", name=k)
        parts.append(layers.CategoryEncoding(size, output_mode="one_hot")(t))
        x[k] = r.integers(0, size, (batch, 1))
    h = layers.Dense(1024)(layers.Concatenate()(parts))
    for _ in range(4):
        z = layers.BatchNormalization()(h)
        z = layers.Dense(2048, activation="selu")(z)
        z = layers.Dropout(0.2)(z)
        h = layers.Add()([h, layers.Dense(1024)(z)])
    h = layers.Activation("relu")(layers.BatchNormalization()(h))
    outputs = {
        "churn": layers.Dense(1, activation="sigmoid", name="churn")(h),
        "spend": layers.Dense(1, activation="softplus", name="spend")(h),
        "segment": layers.Dense(12, activation="softmax", name="segment")(h),
    }
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Nadam(1e-3),
                  loss={"churn": "binary_crossentropy",
                        "spend": keras.losses.Huber(),
                        "segment": keras.losses.CategoricalCrossentropy(label_smoothing=0.1)},
                  loss_weights={"churn": 1.0, "spend": 0.3, "segment": 0.5},
                  metrics={"churn": ["accuracy"], "spend": ["mae"]}, jit_compile=False)
    y = {"churn": r.integers(0, 2, (batch, 1)).astype("float32"),
         "spend": r.lognormal(size=(batch, 1)).astype("float32"),
         "segment": keras.utils.to_categorical(r.integers(0, 12, batch), 12)}
    return model, x, y


# --------------------------------------------------------------------------
# 16. Message passing on molecules: gather, per-edge matrices, segment sum
# --------------------------------------------------------------------------
class EdgeNetwork(layers.Layer):
    """Bond-conditioned matrices applied to the neighbours, then summed."""

    def build(self, shapes):
        atoms, bonds, _ = shapes
        self.dim, self.bond_dim = atoms[-1], bonds[-1]
        self.kernel = self.add_weight(shape=(self.bond_dim, self.dim * self.dim),
                                      initializer="glorot_uniform", name="kernel")
        self.bias = self.add_weight(shape=(self.dim * self.dim,), initializer="zeros",
                                    name="bias")

    def call(self, inputs):
        h, bonds, pairs = inputs
        b, n = ops.shape(h)[0], ops.shape(h)[1]
        offset = ops.expand_dims(ops.arange(b) * n, 1)
        dst = ops.reshape(pairs[..., 0] + offset, (-1,))
        src = ops.reshape(pairs[..., 1] + offset, (-1,))
        flat = ops.reshape(h, (-1, self.dim))
        e = ops.reshape(bonds, (-1, self.bond_dim))
        mats = ops.reshape(ops.matmul(e, self.kernel) + self.bias,
                           (-1, self.dim, self.dim))
        msg = tf.gather(flat, src)
        msg = ops.squeeze(ops.matmul(mats, ops.expand_dims(msg, -1)), -1)
        agg = tf.math.unsorted_segment_sum(msg, dst, b * n)
        return ops.reshape(agg, (b, n, self.dim))


class MessagePassing(layers.Layer):
    def __init__(self, dim, steps=4, **kw):
        super().__init__(**kw)
        self.dim, self.steps = dim, steps
        self.proj = layers.Dense(dim)
        self.edge = EdgeNetwork()
        self.cell = layers.GRUCell(dim)

    def build(self, shapes):
        atoms, bonds, pairs = shapes
        self.proj.build(atoms)
        self.edge.build([(*atoms[:-1], self.dim), bonds, pairs])
        self.cell.build((None, self.dim))

    def call(self, inputs):
        atoms, bonds, pairs = inputs
        h = self.proj(atoms)
        shape = ops.shape(h)
        for _ in range(self.steps):
            m = ops.reshape(self.edge([h, bonds, pairs]), (-1, self.dim))
            new, _ = self.cell(m, [ops.reshape(h, (-1, self.dim))])
            h = ops.reshape(new, shape)
        return h

    def compute_output_shape(self, shapes):
        return (*shapes[0][:-1], self.dim)


def mpnn_molecules(batch):
    n, e, dim = 30, 70, 48
    atoms = keras.Input((n, 29), name="atoms")
    bonds = keras.Input((e, 7), name="bonds")
    pairs = keras.Input((e, 2), dtype="int32", name="pairs")
    h = MessagePassing(dim)([atoms, bonds, pairs])
    a = layers.MultiHeadAttention(8, dim)(h, h)
    h = layers.LayerNormalization()(h + a)
    f = layers.Dense(dim)(layers.Dense(512, activation="relu")(h))
    h = layers.LayerNormalization()(h + f)
    h = layers.GlobalAveragePooling1D()(h)
    h = layers.Dense(512, activation="relu")(h)
    model = keras.Model({"atoms": atoms, "bonds": bonds, "pairs": pairs},
                        layers.Dense(1, activation="sigmoid")(h))
    model.compile(keras.optimizers.Adam(5e-4), "binary_crossentropy",
                  metrics=[keras.metrics.AUC(name="AUC")], jit_compile=False)
    r = _rng()
    x = {"atoms": (r.random((batch, n, 29)) < 0.15).astype("float32"),
         "bonds": (r.random((batch, e, 7)) < 0.3).astype("float32"),
         "pairs": r.integers(0, n, (batch, e, 2)).astype("int32")}
    return model, x, r.integers(0, 2, (batch, 1)).astype("float32")


# --------------------------------------------------------------------------
# 17. 3-D CNN on CT volumes
# --------------------------------------------------------------------------
def ct_scan_3d(batch):
    inp = keras.Input((128, 128, 64, 1))
    h = inp
    for f in (32, 32, 64, 128):
        h = layers.Conv3D(f, 3, activation="relu")(h)
        h = layers.MaxPooling3D(2)(h)
        h = layers.BatchNormalization()(h)
    h = layers.GlobalAveragePooling3D()(h)
    h = layers.Dropout(0.3)(layers.Dense(512, activation="relu")(h))
    model = keras.Model(inp, layers.Dense(1, activation="sigmoid")(h))
    lr = keras.optimizers.schedules.ExponentialDecay(1e-4, 100000, 0.96, staircase=True)
    model.compile(keras.optimizers.Adam(lr), "binary_crossentropy", metrics=["acc"],
                  jit_compile=False)
    r = _rng()
    x = r.random((batch, 128, 128, 64, 1), dtype=np.float32)
    return model, x, r.integers(0, 2, (batch, 1)).astype("float32")


# --------------------------------------------------------------------------
# 18. EDSR super-resolution x4 with pixel shuffle
# --------------------------------------------------------------------------
class PixelShuffle(layers.Layer):
    def __init__(self, scale, **kw):
        super().__init__(**kw)
        self.scale = scale

    def call(self, x):
        return tf.nn.depth_to_space(x, self.scale)

    def compute_output_shape(self, s):
        k = self.scale
        return (s[0], s[1] and s[1] * k, s[2] and s[2] * k, s[3] // k ** 2)


def _psnr(a, b):
    return tf.image.psnr(a, b, max_val=255.0)


def edsr_x4(batch):
    inp = keras.Input((None, None, 3))
    h = layers.Rescaling(1 / 255.0)(inp)
    h = first = layers.Conv2D(64, 3, padding="same")(h)
    for _ in range(16):
        z = layers.Conv2D(64, 3, padding="same", activation="relu")(h)
        z = layers.Conv2D(64, 3, padding="same")(z)
        h = layers.Add()([h, z])
    h = layers.Add()([first, layers.Conv2D(64, 3, padding="same")(h)])
    for _ in range(2):
        h = PixelShuffle(2)(layers.Conv2D(256, 3, padding="same")(h))
    h = layers.Conv2D(3, 3, padding="same")(h)
    model = keras.Model(inp, layers.Rescaling(255.0)(h))
    lr = keras.optimizers.schedules.PiecewiseConstantDecay([5000], [1e-4, 5e-5])
    model.compile(keras.optimizers.Adam(lr, ema_momentum=0.999, use_ema=True),
                  "mae", metrics=[_psnr], jit_compile=False)
    r = _rng()
    x = r.uniform(0, 255, (batch, 24, 24, 3)).astype("float32")
    y = r.uniform(0, 255, (batch, 96, 96, 3)).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 19. Vision transformer on CIFAR-100, mixed_bfloat16
# --------------------------------------------------------------------------
class Patches(layers.Layer):
    def __init__(self, size, **kw):
        super().__init__(**kw)
        self.size = size

    def call(self, images):
        p = ops.image.extract_patches(images, size=self.size)
        s = ops.shape(p)
        return ops.reshape(p, (s[0], s[1] * s[2], s[3]))


class PatchEncoder(layers.Layer):
    def __init__(self, count, dim, **kw):
        super().__init__(**kw)
        self.count = count
        self.proj = layers.Dense(dim)
        self.pos = layers.Embedding(count, dim)

    def call(self, patches):
        return self.proj(patches) + self.pos(ops.expand_dims(ops.arange(self.count), 0))


def vit_cifar100_bf16(batch):
    size, patch, dim, heads, depth = 72, 6, 64, 4, 8
    count = (size // patch) ** 2

    def mlp(h, units, rate):
        for u in units:
            h = layers.Dropout(rate)(layers.Dense(u, activation="gelu")(h))
        return h

    with _policy("mixed_bfloat16"):
        inp = keras.Input((32, 32, 3))
        h = layers.Resizing(size, size)(layers.Rescaling(1 / 255.0)(inp))
        h = layers.RandomFlip("horizontal")(h)
        h = PatchEncoder(count, dim)(Patches(patch)(h))
        for _ in range(depth):
            z = layers.LayerNormalization(epsilon=1e-6)(h)
            z = layers.MultiHeadAttention(heads, dim, dropout=0.1)(z, z)
            h = layers.Add()([z, h])
            z = layers.LayerNormalization(epsilon=1e-6)(h)
            h = layers.Add()([mlp(z, (2 * dim, dim), 0.1), h])
        h = layers.Flatten()(layers.LayerNormalization(epsilon=1e-6)(h))
        h = mlp(layers.Dropout(0.5)(h), (2048, 1024), 0.5)
        model = keras.Model(inp, layers.Dense(100, dtype="float32")(h))
        model.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
                      keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                      metrics=[keras.metrics.SparseCategoricalAccuracy()],
                      jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, 32, 32, 3)).astype("float32")
    return model, x, r.integers(0, 100, (batch, 1)).astype("int32")


# --------------------------------------------------------------------------
# 20. Siamese triplet network on EfficientNetV2B0, own train_step
# --------------------------------------------------------------------------
class TripletModel(keras.Model):
    def __init__(self, encoder, margin=0.5, **kw):
        super().__init__(**kw)
        self.encoder = encoder
        self.margin = margin
        self.loss_tracker = keras.metrics.Mean(name="loss")

    @property
    def metrics(self):
        return [self.loss_tracker]

    def call(self, inputs, training=False):
        a, p, n = (self.encoder(inputs[k], training=training)
                   for k in ("anchor", "positive", "negative"))
        return (ops.sum(ops.square(a - p), -1), ops.sum(ops.square(a - n), -1))

    def train_step(self, data):
        x, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            ap, an = self(x, training=True)
            loss = ops.mean(ops.maximum(ap - an + self.margin, 0.0))
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.trainable_variables))
        self.loss_tracker.update_state(loss)
        return {"loss": self.loss_tracker.result()}


def triplet_effnetv2(batch):
    base = keras.applications.EfficientNetV2B0(weights=None, include_top=False,
                                               input_shape=(112, 112, 3))
    h = layers.GlobalAveragePooling2D()(base.output)
    h = layers.BatchNormalization()(layers.Dense(512, activation="relu")(h))
    h = layers.UnitNormalization()(layers.Dense(256)(h))
    model = TripletModel(keras.Model(base.input, h, name="embedding"))
    model.compile(optimizer=keras.optimizers.Adam(1e-4), jit_compile=False)
    r = _rng()
    x = {k: r.uniform(0, 255, (batch, 112, 112, 3)).astype("float32")
         for k in ("anchor", "positive", "negative")}
    return model, x, None


MODELS = {f.__name__: f for f in (
    cifar_cnn, densenet_dogs, xception_frozen, unet_pets, detector_fpn,
    dcgan_faces, bilstm_imdb, load_forecast_rnn, nmt_gru_attention, bert_mlm,
    gpt_mini, speech_conv1d, two_tower_retrieval, wide_deep_criteo_fp16,
    tabular_multitask, mpnn_molecules, ct_scan_3d, edsr_x4, vit_cifar100_bf16,
    triplet_effnetv2)}

BATCHES = {
    "cifar_cnn": [64, 256, 1024],
    "densenet_dogs": [8, 16, 32],
    "xception_frozen": [32, 64, 128],
    "unet_pets": [8, 16, 48],
    "detector_fpn": [4, 8, 32],
    "dcgan_faces": [32, 64, 256],
    "bilstm_imdb": [32, 128, 512],
    "load_forecast_rnn": [64, 256, 1024],
    "nmt_gru_attention": [64, 128, 256],
    "bert_mlm": [8, 16, 32],
    "gpt_mini": [2, 4, 8],
    "speech_conv1d": [32, 64, 256],
    "two_tower_retrieval": [1024, 4096, 8192],
    "wide_deep_criteo_fp16": [512, 1024, 4096],
    "tabular_multitask": [256, 1024, 4096],
    "mpnn_molecules": [32, 64, 256],
    "ct_scan_3d": [1, 2, 4],
    "edsr_x4": [16, 32, 128],
    "vit_cifar100_bf16": [32, 64, 128],
    "triplet_effnetv2": [8, 16, 32],
}
