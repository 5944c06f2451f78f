"""Ten further Keras models in the style of tutorials, papers and GitHub repositories.

MODELS[name](batch) -> (compiled model, x, y); y is None where the model
computes its own loss from x alone. BATCHES[name] -> three rising batch sizes.
"""
import numpy as np
import tensorflow as tf
import keras
from keras import layers, ops


def _rng():
    return np.random.default_rng(0)


# --------------------------------------------------------------------------
# 1. EfficientNetV2-B0 fine-tuning on flowers, lower blocks and all
#    BatchNormalization frozen, SGD with Nesterov momentum
# --------------------------------------------------------------------------
def effnetv2_partfrozen(batch):
    base = keras.applications.EfficientNetV2B0(
        include_top=False, weights=None, input_shape=(224, 224, 3))
    base.trainable = True
    frozen = True
    for layer in base.layers:
        if layer.name.startswith("block5a"):
            frozen = False
        if frozen or isinstance(layer, layers.BatchNormalization):
            layer.trainable = False
    inputs = keras.Input((224, 224, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = base(x, training=False)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.BatchNormalization()(x)
    x = layers.Dropout(0.3)(x)
    outputs = layers.Dense(102, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(5e-3, momentum=0.9, nesterov=True, clipnorm=1.0),
                  keras.losses.CategoricalCrossentropy(label_smoothing=0.1),
                  metrics=["accuracy", keras.metrics.TopKCategoricalAccuracy(5)],
                  jit_compile=False)
    r = _rng()
    x = (r.random((batch, 224, 224, 3), dtype=np.float32) * 255)
    y = keras.utils.to_categorical(r.integers(0, 102, batch), 102).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 2. PointNet on ModelNet10 with two T-nets and an orthogonality penalty, RMSprop
# --------------------------------------------------------------------------
@keras.saving.register_keras_serializable("fourth")
class _Orthogonal(keras.regularizers.Regularizer):
    def __init__(self, n, l2=1e-3):
        self.n, self.l2 = n, l2

    def __call__(self, x):
        x = ops.reshape(x, (-1, self.n, self.n))
        xxt = ops.matmul(x, ops.transpose(x, (0, 2, 1)))
        return ops.sum(self.l2 * ops.square(xxt - ops.eye(self.n)))

    def get_config(self):
        return {"n": self.n, "l2": self.l2}


def pointnet_modelnet(batch):
    def conv(x, n):
        x = layers.Conv1D(n, 1)(x)
        x = layers.BatchNormalization(momentum=0.0)(x)
        return layers.Activation("relu")(x)

    def dense(x, n):
        x = layers.Dense(n)(x)
        x = layers.BatchNormalization(momentum=0.0)(x)
        return layers.Activation("relu")(x)

    def tnet(inputs, n):
        x = conv(inputs, 32)
        x = conv(x, 64)
        x = conv(x, 512)
        x = layers.GlobalMaxPooling1D()(x)
        x = dense(x, 256)
        x = dense(x, 128)
        x = layers.Dense(n * n, kernel_initializer="zeros",
                         bias_initializer=keras.initializers.Constant(np.eye(n).flatten()),
                         activity_regularizer=_Orthogonal(n))(x)
        t = layers.Reshape((n, n))(x)
        return layers.Dot(axes=(2, 1))([inputs, t])

    inputs = keras.Input((2048, 3))
    x = tnet(inputs, 3)
    x = conv(x, 32)
    x = conv(x, 32)
    x = tnet(x, 32)
    x = conv(x, 32)
    x = conv(x, 64)
    x = conv(x, 512)
    x = layers.GlobalMaxPooling1D()(x)
    x = layers.Dropout(0.3)(dense(x, 256))
    x = layers.Dropout(0.3)(dense(x, 128))
    outputs = layers.Dense(10, activation="softmax")(x)
    model = keras.Model(inputs, outputs, name="pointnet")
    model.compile(keras.optimizers.RMSprop(1e-3, momentum=0.9),
                  "sparse_categorical_crossentropy",
                  metrics=["sparse_categorical_accuracy"], jit_compile=False)
    r = _rng()
    return (model, r.standard_normal((batch, 2048, 3), dtype=np.float32),
            r.integers(0, 10, batch).astype("int32"))


# --------------------------------------------------------------------------
# 3. FT-Transformer on tabular data, AdamW with gradient accumulation
# --------------------------------------------------------------------------
class _NumericTokenizer(layers.Layer):
    def __init__(self, dim, **kw):
        super().__init__(**kw)
        self.dim = dim

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], self.dim), initializer="random_normal")
        self.b = self.add_weight(shape=(shape[-1], self.dim), initializer="random_normal")

    def call(self, x):
        return x[..., None] * self.w + self.b


class _ClsToken(layers.Layer):
    def build(self, shape):
        self.cls = self.add_weight(shape=(1, 1, shape[-1]), initializer="random_normal")

    def call(self, x):
        cls = ops.repeat(self.cls, ops.shape(x)[0], axis=0)
        return ops.concatenate([cls, x], axis=1)


def ft_transformer(batch):
    dim, cards = 192, [12, 31, 7, 100, 2000, 5, 9, 450]
    num = keras.Input((28,), name="numeric")
    cats = [keras.Input((1,), dtype="int32", name=f"cat{i}") for i in range(len(cards))]
    tokens = [_NumericTokenizer(dim)(num)]
    for c, n in zip(cats, cards):
        tokens.append(layers.Embedding(n + 1, dim)(c))
    x = layers.Concatenate(axis=1)(tokens)
    x = _ClsToken()(x)
    for i in range(3):
        h = x if i == 0 else layers.LayerNormalization(epsilon=1e-5)(x)
        h = layers.MultiHeadAttention(8, dim // 8, dropout=0.2)(h, h)
        x = layers.Add()([x, layers.Dropout(0.0)(h)])
        h = layers.LayerNormalization(epsilon=1e-5)(x)
        gate = layers.Dense(256, activation="relu")(h)
        h = layers.Multiply()([layers.Dense(256)(h), gate])
        h = layers.Dense(dim)(layers.Dropout(0.1)(h))
        x = layers.Add()([x, h])
    x = layers.Lambda(lambda t: t[:, 0], output_shape=(dim,))(x)
    x = layers.ReLU()(layers.LayerNormalization(epsilon=1e-5)(x))
    outputs = layers.Dense(1)(x)
    model = keras.Model([num] + cats, outputs)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=1e-5, gradient_accumulation_steps=4)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, keras.losses.BinaryCrossentropy(from_logits=True),
                  metrics=[keras.metrics.AUC(from_logits=True, name="auc")], jit_compile=False)
    r = _rng()
    x = [r.standard_normal((batch, 28), dtype=np.float32)]
    x += [r.integers(0, n, (batch, 1)).astype("int32") for n in cards]
    return model, x, r.integers(0, 2, (batch, 1)).astype("float32")


# --------------------------------------------------------------------------
# 4. SRGAN 4x with VGG19 perceptual loss, own train_step, two Adams
# --------------------------------------------------------------------------
class _SRGAN(keras.Model):
    def __init__(self, generator, discriminator, vgg):
        super().__init__(name="srgan")
        self.generator = generator
        self.discriminator = discriminator
        self.vgg = vgg
        self.vgg.trainable = False
        self.bce = keras.losses.BinaryCrossentropy()
        self.mse = keras.losses.MeanSquaredError()
        self.g_loss = keras.metrics.Mean(name="g_loss")
        self.d_loss = keras.metrics.Mean(name="d_loss")

    def compile(self, g_optimizer, d_optimizer, **kw):
        super().compile(**kw)
        self.g_optimizer = g_optimizer
        self.d_optimizer = d_optimizer

    @property
    def metrics(self):
        return [self.g_loss, self.d_loss]

    def call(self, x, training=False):
        return self.generator(x, training=training)

    def _content(self, hr, sr):
        hr = keras.applications.vgg19.preprocess_input((hr + 1) * 127.5)
        sr = keras.applications.vgg19.preprocess_input((sr + 1) * 127.5)
        return self.mse(self.vgg(hr) / 12.75, self.vgg(sr) / 12.75)

    def train_step(self, data):
        lr, hr = data[:2]
        with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
            sr = self.generator(lr, training=True)
            real = self.discriminator(hr, training=True)
            fake = self.discriminator(sr, training=True)
            g_loss = self._content(hr, sr) + 1e-3 * self.bce(tf.ones_like(fake), fake)
            d_loss = (self.bce(tf.ones_like(real), real)
                      + self.bce(tf.zeros_like(fake), fake))
        gv = self.generator.trainable_variables
        dv = self.discriminator.trainable_variables
        g_grads = g_tape.gradient(g_loss, gv)
        d_grads = d_tape.gradient(d_loss, dv)
        self.g_optimizer.apply_gradients(zip(g_grads, gv))
        self.d_optimizer.apply_gradients(zip(d_grads, dv))
        self.g_loss.update_state(g_loss)
        self.d_loss.update_state(d_loss)
        return {m.name: m.result() for m in self.metrics}


def srgan_perceptual(batch):
    inputs = keras.Input((24, 24, 3))
    x = layers.Conv2D(64, 9, padding="same")(inputs)
    x = first = layers.PReLU(shared_axes=[1, 2])(x)
    for _ in range(16):
        h = layers.Conv2D(64, 3, padding="same")(x)
        h = layers.BatchNormalization(momentum=0.8)(h)
        h = layers.PReLU(shared_axes=[1, 2])(h)
        h = layers.Conv2D(64, 3, padding="same")(h)
        h = layers.BatchNormalization(momentum=0.8)(h)
        x = layers.Add()([x, h])
    x = layers.Conv2D(64, 3, padding="same")(x)
    x = layers.BatchNormalization(momentum=0.8)(x)
    x = layers.Add()([x, first])
    for _ in range(2):
        x = layers.Conv2D(256, 3, padding="same")(x)
        x = layers.Lambda(lambda t: tf.nn.depth_to_space(t, 2))(x)
        x = layers.PReLU(shared_axes=[1, 2])(x)
    outputs = layers.Conv2D(3, 9, padding="same", activation="tanh")(x)
    generator = keras.Model(inputs, outputs, name="generator")

    inputs = keras.Input((96, 96, 3))
    x = layers.LeakyReLU(negative_slope=0.2)(layers.Conv2D(64, 3, padding="same")(inputs))
    for n, s in ((64, 2), (128, 1), (128, 2), (256, 1), (256, 2), (512, 1), (512, 2)):
        x = layers.Conv2D(n, 3, s, padding="same")(x)
        x = layers.BatchNormalization(momentum=0.8)(x)
        x = layers.LeakyReLU(negative_slope=0.2)(x)
    x = layers.Flatten()(x)
    x = layers.LeakyReLU(negative_slope=0.2)(layers.Dense(1024)(x))
    discriminator = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x),
                                name="discriminator")

    vgg = keras.applications.VGG19(include_top=False, weights=None, input_shape=(96, 96, 3))
    vgg = keras.Model(vgg.input, vgg.get_layer("block5_conv4").output, name="vgg")
    model = _SRGAN(generator, discriminator, vgg)
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([100000], [1e-4, 1e-5])
    model.compile(keras.optimizers.Adam(schedule), keras.optimizers.Adam(schedule),
                  jit_compile=False)
    r = _rng()
    return (model, r.random((batch, 24, 24, 3), dtype=np.float32),
            r.random((batch, 96, 96, 3), dtype=np.float32) * 2 - 1)


# --------------------------------------------------------------------------
# 5. Conformer on log-mel spectrograms, layers in mixed_bfloat16, Adam with warm-up
# --------------------------------------------------------------------------
def conformer_bf16(batch):
    dim, p = 144, "mixed_bfloat16"

    def norm(x):
        return layers.LayerNormalization(epsilon=1e-6, dtype=p)(x)

    def feed_forward(x):
        h = layers.Dense(4 * dim, activation="silu", dtype=p)(norm(x))
        h = layers.Dropout(0.1, dtype=p)(h)
        h = layers.Dense(dim, dtype=p)(h)
        h = layers.Dropout(0.1, dtype=p)(h)
        return layers.Add(dtype=p)([x, layers.Rescaling(0.5, dtype=p)(h)])

    inputs = keras.Input((400, 80), name="logmel")
    x = layers.Normalization(axis=-1, mean=np.zeros(80), variance=np.ones(80))(inputs)
    x = layers.Reshape((400, 80, 1), dtype=p)(x)
    x = layers.Conv2D(64, 3, 2, padding="same", activation="relu", dtype=p)(x)
    x = layers.Conv2D(64, 3, 2, padding="same", activation="relu", dtype=p)(x)
    x = layers.Reshape((100, 20 * 64), dtype=p)(x)
    x = layers.Dropout(0.1, dtype=p)(layers.Dense(dim, dtype=p)(x))
    for _ in range(4):
        x = feed_forward(x)
        h = norm(x)
        h = layers.MultiHeadAttention(4, dim // 4, dropout=0.1, dtype=p)(h, h)
        x = layers.Add(dtype=p)([x, h])
        h = norm(x)
        a = layers.Conv1D(dim, 1, dtype=p)(h)
        b = layers.Conv1D(dim, 1, activation="sigmoid", dtype=p)(h)
        h = layers.Multiply(dtype=p)([a, b])
        h = layers.DepthwiseConv1D(31, padding="same", dtype=p)(h)
        h = layers.BatchNormalization(dtype=p)(h)
        h = layers.Activation("silu", dtype=p)(h)
        h = layers.Dropout(0.1, dtype=p)(layers.Conv1D(dim, 1, dtype=p)(h))
        x = layers.Add(dtype=p)([x, h])
        x = norm(feed_forward(x))
    x = layers.GlobalAveragePooling1D(dtype=p)(x)
    outputs = layers.Dense(527, activation="sigmoid", dtype="float32")(x)
    model = keras.Model(inputs, outputs)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0, 50000, warmup_target=1e-3, warmup_steps=2000)
    model.compile(keras.optimizers.Adam(schedule, beta_2=0.98, epsilon=1e-9),
                  keras.losses.BinaryFocalCrossentropy(),
                  metrics=[keras.metrics.AUC(curve="PR", multi_label=True, num_labels=527)],
                  jit_compile=False)
    r = _rng()
    return (model, r.standard_normal((batch, 400, 80), dtype=np.float32),
            (r.random((batch, 527)) < 0.01).astype("float32"))


# --------------------------------------------------------------------------
# 6. DeepLabV3+ with a ResNet-50 backbone and dilated convolutions, SGD, poly decay
# --------------------------------------------------------------------------
def deeplabv3plus(batch):
    size = 256

    def block(x, n=256, k=3, rate=1, bias=False):
        x = layers.Conv2D(n, k, dilation_rate=rate, padding="same", use_bias=bias,
                          kernel_initializer="he_normal")(x)
        return layers.ReLU()(layers.BatchNormalization()(x))

    inputs = keras.Input((size, size, 3))
    x = keras.applications.resnet50.preprocess_input(inputs)
    resnet = keras.applications.ResNet50(weights=None, include_top=False, input_tensor=x)
    x = resnet.get_layer("conv4_block6_2_relu").output
    pool = layers.AveragePooling2D((size // 16, size // 16))(x)
    pool = block(pool, k=1, bias=True)
    pool = layers.UpSampling2D((size // 16, size // 16), interpolation="bilinear")(pool)
    x = layers.Concatenate()([pool, block(x, k=1)] + [block(x, rate=r) for r in (6, 12, 18)])
    x = block(x, k=1)
    x = layers.UpSampling2D(4, interpolation="bilinear")(x)
    low = block(resnet.get_layer("conv2_block3_2_relu").output, n=48, k=1)
    x = layers.Concatenate()([x, low])
    x = block(block(x))
    x = layers.UpSampling2D(4, interpolation="bilinear")(x)
    outputs = layers.Conv2D(20, 1)(x)
    model = keras.Model(inputs, outputs)
    schedule = keras.optimizers.schedules.PolynomialDecay(7e-3, 30000, 0.0, power=0.9)
    model.compile(keras.optimizers.SGD(schedule, momentum=0.9, weight_decay=4e-5),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    return (model, r.random((batch, size, size, 3), dtype=np.float32) * 255,
            r.integers(0, 20, (batch, size, size, 1)).astype("int32"))


# --------------------------------------------------------------------------
# 7. NeRF: MLP on encoded samples along rays, volume rendering in train_step, Adam
# --------------------------------------------------------------------------
class _NeRF(keras.Model):
    def __init__(self, mlp, samples=64, near=2.0, far=6.0):
        super().__init__(name="nerf")
        self.mlp = mlp
        self.samples, self.near, self.far = samples, near, far
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.psnr = keras.metrics.Mean(name="psnr")

    @property
    def metrics(self):
        return [self.loss_tracker, self.psnr]

    @staticmethod
    def _encode(x, bands):
        out = [x]
        for i in range(bands):
            out += [tf.sin(2.0 ** i * x), tf.cos(2.0 ** i * x)]
        return tf.concat(out, -1)

    def call(self, rays, training=False):
        origin, direction = rays[:, :3], rays[:, 3:]
        n = tf.shape(rays)[0]
        t = tf.linspace(self.near, self.far, self.samples)
        step = (self.far - self.near) / self.samples
        t = t + tf.random.uniform((n, self.samples)) * step
        points = origin[:, None] + direction[:, None] * t[..., None]
        view = tf.broadcast_to(direction[:, None], tf.shape(points))
        pe = tf.reshape(self._encode(points, 10), (-1, 63))
        ve = tf.reshape(self._encode(view, 4), (-1, 27))
        raw = tf.reshape(self.mlp([pe, ve], training=training), (n, self.samples, 4))
        rgb = tf.sigmoid(raw[..., :3])
        sigma = tf.nn.relu(raw[..., 3])
        delta = tf.concat([t[:, 1:] - t[:, :-1], tf.fill((n, 1), 1e10)], -1)
        alpha = 1.0 - tf.exp(-sigma * delta)
        trans = tf.math.cumprod(1.0 - alpha + 1e-10, axis=-1, exclusive=True)
        return tf.reduce_sum((alpha * trans)[..., None] * rgb, axis=1)

    def train_step(self, data):
        rays, rgb = data[:2]
        with tf.GradientTape() as tape:
            pred = self(rays, training=True)
            loss = tf.reduce_mean(tf.square(rgb - pred))
        grads = tape.gradient(loss, self.mlp.trainable_variables)
        self.optimizer.apply_gradients(zip(grads, self.mlp.trainable_variables))
        self.loss_tracker.update_state(loss)
        self.psnr.update_state(-10.0 * tf.math.log(loss) / np.log(10.0))
        return {m.name: m.result() for m in self.metrics}


def nerf_rays(batch):
    pe, ve = keras.Input((63,)), keras.Input((27,))
    x = pe
    for i in range(8):
        x = layers.Dense(256, activation="relu")(x)
        if i == 4:
            x = layers.Concatenate()([x, pe])
    sigma = layers.Dense(1)(x)
    x = layers.Dense(256)(x)
    x = layers.Dense(128, activation="relu")(layers.Concatenate()([x, ve]))
    rgb = layers.Dense(3)(x)
    mlp = keras.Model([pe, ve], layers.Concatenate()([rgb, sigma]))
    model = _NeRF(mlp)
    schedule = keras.optimizers.schedules.ExponentialDecay(5e-4, 250000, 0.1)
    model.compile(keras.optimizers.Adam(schedule, epsilon=1e-7), jit_compile=False)
    r = _rng()
    return (model, r.standard_normal((batch, 6), dtype=np.float32),
            r.random((batch, 3), dtype=np.float32))


# --------------------------------------------------------------------------
# 8. Swin Transformer with shifted 4x4 windows on 128x128 images, Lion
# --------------------------------------------------------------------------
class _WindowAttention(layers.Layer):
    def __init__(self, dim, heads, size, win, shift, **kw):
        super().__init__(**kw)
        self.dim, self.heads, self.size, self.win, self.shift = dim, heads, size, win, shift
        self.qkv = layers.Dense(3 * dim)
        self.proj = layers.Dense(dim)
        self.drop = layers.Dropout(0.1)
        c = np.stack(np.meshgrid(np.arange(win), np.arange(win), indexing="ij")).reshape(2, -1)
        rel = (c[:, :, None] - c[:, None, :]).transpose(1, 2, 0) + win - 1
        self.index = (rel[..., 0] * (2 * win - 1) + rel[..., 1]).reshape(-1)
        self.mask = None
        if shift:
            m = np.zeros((size, size))
            cuts = (slice(0, -win), slice(-win, -shift), slice(-shift, None))
            for i, a in enumerate(cuts):
                for j, b in enumerate(cuts):
                    m[a, b] = 3 * i + j
            m = m.reshape(size // win, win, size // win, win).transpose(0, 2, 1, 3)
            m = m.reshape(-1, win * win)
            self.mask = np.where(m[:, None] != m[:, :, None], -100.0, 0.0).astype("float32")

    def build(self, shape):
        self.table = self.add_weight(shape=((2 * self.win - 1) ** 2, self.heads),
                                     initializer="zeros", name="table")
        self.qkv.build((None, self.dim))
        self.proj.build((None, self.dim))

    def call(self, x, training=False):
        s, w, d, h = self.size, self.win, self.dim, self.heads
        n, k = (s // w) ** 2, w * w
        if self.shift:
            x = ops.roll(x, (-self.shift, -self.shift), axis=(1, 2))
        x = ops.reshape(x, (-1, s // w, w, s // w, w, d))
        x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, k, d))
        qkv = ops.reshape(self.qkv(x), (-1, k, 3, h, d // h))
        qkv = ops.transpose(qkv, (2, 0, 3, 1, 4))
        q, key, v = qkv[0] * (d // h) ** -0.5, qkv[1], qkv[2]
        a = ops.matmul(q, ops.transpose(key, (0, 1, 3, 2)))
        bias = ops.reshape(ops.take(self.table, self.index, axis=0), (k, k, h))
        a = a + ops.transpose(bias, (2, 0, 1))[None]
        if self.mask is not None:
            a = ops.reshape(a, (-1, n, h, k, k)) + self.mask[None, :, None]
            a = ops.reshape(a, (-1, h, k, k))
        a = self.drop(ops.softmax(a, -1), training=training)
        x = ops.reshape(ops.transpose(ops.matmul(a, v), (0, 2, 1, 3)), (-1, k, d))
        x = ops.reshape(self.proj(x), (-1, s // w, s // w, w, w, d))
        x = ops.reshape(ops.transpose(x, (0, 1, 3, 2, 4, 5)), (-1, s, s, d))
        if self.shift:
            x = ops.roll(x, (self.shift, self.shift), axis=(1, 2))
        return x


def swin_shifted(batch):
    inputs = keras.Input((128, 128, 3))
    dim, size, win = 96, 32, 4
    x = layers.Rescaling(1 / 127.5, offset=-1)(inputs)
    x = layers.LayerNormalization(epsilon=1e-5)(layers.Conv2D(dim, 4, 4)(x))
    for stage, (depth, heads) in enumerate(((2, 3), (2, 6), (4, 12), (2, 24))):
        if stage:
            size, dim = size // 2, dim * 2
            x = layers.Reshape((size, 2, size, 2, dim // 2))(x)
            x = layers.Permute((1, 3, 2, 4, 5))(x)
            x = layers.Reshape((size, size, 2 * dim))(x)
            x = layers.Dense(dim, use_bias=False)(layers.LayerNormalization(epsilon=1e-5)(x))
        for i in range(depth):
            shift = win // 2 if i % 2 and size > win else 0
            h = layers.LayerNormalization(epsilon=1e-5)(x)
            h = _WindowAttention(dim, heads, size, win, shift)(h)
            x = layers.Add()([x, layers.Dropout(0.1, noise_shape=(None, 1, 1, 1))(h)])
            h = layers.LayerNormalization(epsilon=1e-5)(x)
            h = layers.Dense(4 * dim, activation="gelu")(h)
            h = layers.Dense(dim)(h)
            x = layers.Add()([x, layers.Dropout(0.1, noise_shape=(None, 1, 1, 1))(h)])
    x = layers.GlobalAveragePooling2D()(layers.LayerNormalization(epsilon=1e-5)(x))
    model = keras.Model(inputs, layers.Dense(200)(x), name="swin")
    model.compile(keras.optimizers.Lion(1e-4, weight_decay=0.05),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    return (model, r.random((batch, 128, 128, 3), dtype=np.float32) * 255,
            r.integers(0, 200, batch).astype("int32"))


# --------------------------------------------------------------------------
# 9. DDPM with time-conditioned residual network, EMA copy, own train_step, AdamW
# --------------------------------------------------------------------------
class _TimeEmbedding(layers.Layer):
    def __init__(self, dim, **kw):
        super().__init__(**kw)
        half = dim // 2
        self.freq = np.exp(-np.log(10000.0) * np.arange(half) / (half - 1)).astype("float32")

    def call(self, t):
        a = ops.cast(t, "float32")[:, None] * self.freq
        return ops.concatenate([ops.sin(a), ops.cos(a)], -1)


def _ddpm_network(size=32, widths=(64, 128, 192), blocks=1):
    def residual(x, temb, n):
        skip = x if x.shape[-1] == n else layers.Conv2D(n, 1)(x)
        h = layers.Activation("swish")(layers.GroupNormalization(8)(x))
        h = layers.Conv2D(n, 3, padding="same")(h)
        t = layers.Reshape((1, 1, n))(layers.Dense(n)(layers.Activation("swish")(temb)))
        h = layers.Add()([h, t])
        h = layers.Activation("swish")(layers.GroupNormalization(8)(h))
        h = layers.Conv2D(n, 3, padding="same", kernel_initializer="zeros")(h)
        return layers.Add()([skip, h])

    def attention(x):
        s, n = x.shape[1], x.shape[-1]
        h = layers.Reshape((s * s, n))(layers.GroupNormalization(8)(x))
        h = layers.MultiHeadAttention(1, n)(h, h)
        return layers.Add()([x, layers.Reshape((s, s, n))(h)])

    image = keras.Input((size, size, 3))
    time = keras.Input((), dtype="int32")
    temb = _TimeEmbedding(256)(time)
    temb = layers.Dense(256)(layers.Dense(256, activation="swish")(temb))
    x = layers.Conv2D(widths[0], 3, padding="same")(image)
    skips = [x]
    for i, n in enumerate(widths):
        for _ in range(blocks):
            x = residual(x, temb, n)
            if i > 0:
                x = attention(x)
            skips.append(x)
        if i < len(widths) - 1:
            x = layers.Conv2D(n, 3, 2, padding="same")(x)
            skips.append(x)
    x = residual(attention(residual(x, temb, n)), temb, n)
    for i, n in reversed(list(enumerate(widths))):
        for _ in range(blocks + 1):
            x = residual(layers.Concatenate()([x, skips.pop()]), temb, n)
            if i > 0:
                x = attention(x)
        if i > 0:
            x = layers.UpSampling2D(2, interpolation="nearest")(x)
            x = layers.Conv2D(n, 3, padding="same")(x)
    x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
    return keras.Model([image, time],
                       layers.Conv2D(3, 3, padding="same", kernel_initializer="zeros")(x))


class _DDPM(keras.Model):
    def __init__(self, network, ema_network, steps=1000, ema=0.999):
        super().__init__(name="ddpm")
        self.network, self.ema_network = network, ema_network
        self.ema_network.trainable = False
        self.ema_network.set_weights(self.network.get_weights())
        self.steps, self.ema = steps, ema
        bar = np.cumprod(1.0 - np.linspace(1e-4, 0.02, steps))
        self.signal = np.sqrt(bar).astype("float32")
        self.noise = np.sqrt(1 - bar).astype("float32")

    def call(self, inputs, training=False):
        return self.network(inputs, training=training)

    def train_step(self, data):
        images = data[0] if isinstance(data, (tuple, list)) else data
        n = tf.shape(images)[0]
        t = tf.random.uniform((n,), 0, self.steps, dtype="int32")
        noise = tf.random.normal(tf.shape(images))
        a = tf.reshape(tf.gather(self.signal, t), (-1, 1, 1, 1))
        b = tf.reshape(tf.gather(self.noise, t), (-1, 1, 1, 1))
        with tf.GradientTape() as tape:
            pred = self.network([a * images + b * noise, t], training=True)
            loss = tf.reduce_mean(tf.square(noise - pred))
        variables = self.network.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        for w, e in zip(self.network.weights, self.ema_network.weights):
            e.assign(self.ema * e + (1 - self.ema) * w)
        return {"loss": loss}


def ddpm_ema(batch):
    model = _DDPM(_ddpm_network(), _ddpm_network())
    model.compile(keras.optimizers.AdamW(2e-4, weight_decay=1e-4, global_clipnorm=1.0),
                  jit_compile=False)
    x = _rng().random((batch, 32, 32, 3), dtype=np.float32) * 2 - 1
    return model, x, None


# --------------------------------------------------------------------------
# 10. CRNN with CTC loss on 32x128 word images, Adadelta
# --------------------------------------------------------------------------
def crnn_ctc(batch):
    classes, length = 63, 16
    inputs = keras.Input((32, 128, 1), name="image")
    x = inputs
    for n, pool in ((64, (2, 2)), (128, (2, 2))):
        x = layers.Conv2D(n, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(pool)(x)
    x = layers.Conv2D(256, 3, padding="same", activation="relu")(x)
    x = layers.Conv2D(256, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D((2, 1))(x)
    x = layers.Conv2D(512, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.Conv2D(512, 3, padding="same", use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization()(x))
    x = layers.MaxPooling2D((2, 1))(x)
    x = layers.Conv2D(512, (2, 2), activation="relu")(x)
    x = layers.Reshape((31, 512))(x)
    x = layers.Bidirectional(layers.LSTM(256, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(256, return_sequences=True))(x)
    outputs = layers.Dense(classes)(x)
    model = keras.Model(inputs, outputs, name="crnn")
    model.compile(keras.optimizers.Adadelta(1.0, rho=0.9), keras.losses.CTC(),
                  jit_compile=False)
    r = _rng()
    y = r.integers(1, classes, (batch, length)).astype("int32")
    y[np.arange(length)[None] >= r.integers(3, length + 1, (batch, 1))] = 0
    return model, r.random((batch, 32, 128, 1), dtype=np.float32), y


MODELS = {f.__name__: f for f in (
    effnetv2_partfrozen, pointnet_modelnet, ft_transformer, srgan_perceptual, conformer_bf16,
    deeplabv3plus, nerf_rays, swin_shifted, ddpm_ema, crnn_ctc)}

BATCHES = {
    "effnetv2_partfrozen": [8, 24, 64],
    "pointnet_modelnet": [8, 16, 48],
    "ft_transformer": [128, 256, 768],
    "srgan_perceptual": [2, 4, 12],
    "conformer_bf16": [8, 24, 72],
    "deeplabv3plus": [2, 4, 8],
    "nerf_rays": [256, 512, 1536],
    "swin_shifted": [8, 16, 40],
    "ddpm_ema": [8, 16, 48],
    "crnn_ctc": [16, 32, 96],
}
