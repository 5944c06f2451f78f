"""Twenty further Keras models in the style of tutorials and papers with code.

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
# 1. Self-normalizing MLP on HIGGS, Adam with a moving average of the weights
# --------------------------------------------------------------------------
def higgs_snn(batch):
    model = keras.Sequential([keras.Input((28,))])
    for _ in range(8):
        model.add(layers.Dense(512, activation="selu", kernel_initializer="lecun_normal"))
        model.add(layers.AlphaDropout(0.05))
    model.add(layers.Dense(1, activation="sigmoid"))
    model.compile(keras.optimizers.Adam(1e-3, use_ema=True, ema_momentum=0.999),
                  "binary_crossentropy",
                  metrics=["accuracy", keras.metrics.AUC(name="auc")], jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 28), dtype=np.float32)
    y = r.integers(0, 2, (batch, 1)).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 2. ResNet-34 with squeeze-and-excitation, SGD momentum
# --------------------------------------------------------------------------
def se_resnet34(batch):
    def conv(x, n, k, s=1):
        x = layers.Conv2D(n, k, s, padding="same", use_bias=False,
                          kernel_initializer="he_normal")(x)
        return layers.BatchNormalization(momentum=0.9)(x)

    def block(x, n, s):
        y = layers.ReLU()(conv(x, n, 3, s))
        y = conv(y, n, 3)
        w = layers.GlobalAveragePooling2D(keepdims=True)(y)
        w = layers.Conv2D(n // 16, 1, activation="relu")(w)
        w = layers.Conv2D(n, 1, activation="sigmoid")(w)
        y = layers.Multiply()([y, w])
        if s != 1 or x.shape[-1] != n:
            x = conv(x, n, 1, s)
        return layers.ReLU()(layers.Add()([x, y]))

    inputs = keras.Input((160, 160, 3))
    x = layers.ReLU()(conv(inputs, 64, 7, 2))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for n, repeats in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for i in range(repeats):
            x = block(x, n, 2 if i == 0 and n != 64 else 1)
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(10)(x)
    model = keras.Model(inputs, outputs)
    lr = keras.optimizers.schedules.PiecewiseConstantDecay([3000, 6000], [0.1, 0.01, 0.001])
    model.compile(keras.optimizers.SGD(lr, momentum=0.9, nesterov=True),
                  keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1),
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 160, 160, 3), dtype=np.float32)
    y = keras.utils.to_categorical(r.integers(0, 10, batch), 10)
    return model, x, y


# --------------------------------------------------------------------------
# 3. GoogLeNet with two auxiliary heads, RMSprop
# --------------------------------------------------------------------------
def googlenet_aux(batch):
    def conv(x, n, k, s=1):
        return layers.Conv2D(n, k, s, padding="same", activation="relu")(x)

    def inception(x, a, b1, b2, c1, c2, d):
        return layers.Concatenate()([
            conv(x, a, 1), conv(conv(x, b1, 1), b2, 3), conv(conv(x, c1, 1), c2, 5),
            conv(layers.MaxPooling2D(3, 1, padding="same")(x), d, 1)])

    def aux(x, name):
        x = conv(layers.AveragePooling2D(5, 3)(x), 128, 1)
        x = layers.Dense(1024, activation="relu")(layers.Flatten()(x))
        return layers.Dense(102, activation="softmax", name=name)(layers.Dropout(0.7)(x))

    inputs = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, 2, padding="same")(conv(inputs, 64, 7, 2))
    x = conv(conv(x, 64, 1), 192, 3)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    x = inception(x, 64, 96, 128, 16, 32, 32)
    x = inception(x, 128, 128, 192, 32, 96, 64)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    x = inception(x, 192, 96, 208, 16, 48, 64)
    aux1 = aux(x, "aux1")
    x = inception(x, 160, 112, 224, 24, 64, 64)
    x = inception(x, 128, 128, 256, 24, 64, 64)
    x = inception(x, 112, 144, 288, 32, 64, 64)
    aux2 = aux(x, "aux2")
    x = inception(x, 256, 160, 320, 32, 128, 128)
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    x = inception(x, 256, 160, 320, 32, 128, 128)
    x = inception(x, 384, 192, 384, 48, 128, 128)
    x = layers.Dropout(0.4)(layers.GlobalAveragePooling2D()(x))
    main = layers.Dense(102, activation="softmax", name="main")(x)
    model = keras.Model(inputs, [main, aux1, aux2])
    model.compile(keras.optimizers.RMSprop(1e-3, rho=0.9, momentum=0.9),
                  ["sparse_categorical_crossentropy"] * 3, loss_weights=[1.0, 0.3, 0.3],
                  metrics=[["accuracy"], [], []], jit_compile=False)
    r = _rng()
    x = r.random((batch, 224, 224, 3), dtype=np.float32)
    y = r.integers(0, 102, batch).astype("int32")
    return model, x, (y, y, y)


# --------------------------------------------------------------------------
# 4. Long-term recurrent convolutional network: TimeDistributed CNN + LSTM
# --------------------------------------------------------------------------
def lrcn_actions(batch):
    model = keras.Sequential([keras.Input((20, 64, 64, 3))])
    for n, pool in ((16, 4), (32, 4), (64, 2), (64, 2)):
        model.add(layers.TimeDistributed(layers.Conv2D(n, 3, padding="same",
                                                       activation="relu")))
        model.add(layers.TimeDistributed(layers.MaxPooling2D(pool, padding="same")))
        model.add(layers.TimeDistributed(layers.Dropout(0.25)))
    model.add(layers.TimeDistributed(layers.Flatten()))
    model.add(layers.LSTM(32))
    model.add(layers.Dense(4, activation="softmax"))
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy"],
                  jit_compile=False)
    r = _rng()
    x = r.random((batch, 20, 64, 64, 3), dtype=np.float32)
    y = keras.utils.to_categorical(r.integers(0, 4, batch), 4)
    return model, x, y


# --------------------------------------------------------------------------
# 5. ConvMixer-256/8 on CIFAR-10 (keras.io), AdamW
# --------------------------------------------------------------------------
def convmixer_cifar(batch):
    def act(x):
        return layers.BatchNormalization()(layers.Activation("gelu")(x))

    inputs = keras.Input((32, 32, 3))
    x = layers.Rescaling(1 / 255)(inputs)
    x = act(layers.Conv2D(256, 2, strides=2)(x))
    for _ in range(8):
        x0 = x
        x = act(layers.DepthwiseConv2D(5, padding="same")(x))
        x = layers.Add()([x, x0])
        x = act(layers.Conv2D(256, 1)(x))
    x = layers.GlobalAveragePooling2D()(x)
    outputs = layers.Dense(10, activation="softmax")(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
                  "sparse_categorical_crossentropy", metrics=["accuracy"],
                  jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, 32, 32, 3), dtype=np.uint8)
    y = r.integers(0, 10, (batch, 1)).astype("uint8")
    return model, x, y


# --------------------------------------------------------------------------
# 6. MobileNetV3Large as a frozen extractor, own head, RMSprop
# --------------------------------------------------------------------------
def mobilenetv3large_frozen(batch):
    base = keras.applications.MobileNetV3Large(
        input_shape=(224, 224, 3), include_top=False, weights=None)
    base.trainable = False
    inputs = keras.Input((224, 224, 3))
    x = layers.RandomFlip("horizontal")(inputs)
    x = layers.RandomRotation(0.2)(x)
    x = base(x, training=False)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(256, activation="relu")(x)
    x = layers.Dropout(0.2)(x)
    outputs = layers.Dense(1)(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.RMSprop(1e-4),
                  keras.losses.BinaryCrossentropy(from_logits=True),
                  metrics=[keras.metrics.BinaryAccuracy(threshold=0)], jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, 224, 224, 3), dtype=np.uint8).astype("float32")
    y = r.integers(0, 2, batch).astype("int64")
    return model, x, y


# --------------------------------------------------------------------------
# 7. InceptionResNetV2, last blocks unfrozen, regression head (bone age)
# --------------------------------------------------------------------------
def inceptionresnetv2_boneage(batch):
    base = keras.applications.InceptionResNetV2(
        input_shape=(256, 256, 3), include_top=False, weights=None)
    for layer in base.layers[:-200]:
        layer.trainable = False
    image = keras.Input((256, 256, 3), name="image")
    gender = keras.Input((1,), name="gender")
    x = layers.GlobalAveragePooling2D()(base(image))
    g = layers.Dense(32, activation="relu")(gender)
    x = layers.Concatenate()([x, g])
    for _ in range(2):
        x = layers.Dense(1000, activation="relu")(x)
    outputs = layers.Dense(1)(x)
    model = keras.Model([image, gender], outputs)
    model.compile(keras.optimizers.Adam(3e-4), "mae", metrics=["mae"], jit_compile=False)
    r = _rng()
    x = {"image": r.random((batch, 256, 256, 3), dtype=np.float32),
         "gender": r.integers(0, 2, (batch, 1)).astype("float32")}
    y = (r.random((batch, 1)) * 228).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 8. Attention U-Net on multi-channel MR slices, Dice + cross-entropy, clipnorm
# --------------------------------------------------------------------------
def attention_unet_mri(batch):
    def double(x, n):
        for _ in range(2):
            x = layers.Conv2D(n, 3, padding="same", kernel_initializer="he_normal")(x)
            x = layers.BatchNormalization()(x)
            x = layers.Activation("relu")(x)
        return x

    def gate(skip, g, n):
        theta = layers.Conv2D(n, 1, strides=2, padding="same")(skip)
        phi = layers.Conv2D(n, 1)(g)
        a = layers.Activation("relu")(layers.Add()([theta, phi]))
        a = layers.Conv2D(1, 1, activation="sigmoid")(a)
        a = layers.UpSampling2D(2, interpolation="bilinear")(a)
        return layers.Multiply()([skip, a])

    inputs = keras.Input((128, 128, 4))
    x, skips = inputs, []
    for n in (32, 64, 128, 256):
        x = double(x, n)
        skips.append(x)
        x = layers.MaxPooling2D()(x)
    x = double(x, 512)
    for n in (256, 128, 64, 32):
        skip = gate(skips.pop(), x, n)
        x = layers.Conv2DTranspose(n, 2, strides=2, padding="same")(x)
        x = double(layers.Concatenate()([x, skip]), n)
    outputs = layers.Conv2D(4, 1, activation="softmax", dtype="float32")(x)
    model = keras.Model(inputs, outputs)

    def dice_ce(y_true, y_pred):
        inter = ops.sum(y_true * y_pred, axis=(1, 2))
        union = ops.sum(y_true, axis=(1, 2)) + ops.sum(y_pred, axis=(1, 2))
        dice = 1 - ops.mean((2 * inter + 1.0) / (union + 1.0), axis=-1)
        ce = ops.mean(keras.losses.categorical_crossentropy(y_true, y_pred), axis=(1, 2))
        return dice + ce

    model.compile(keras.optimizers.Adam(1e-4, clipnorm=1.0), dice_ce,
                  metrics=["accuracy", keras.metrics.OneHotMeanIoU(4)], jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 128, 128, 4), dtype=np.float32)
    y = np.eye(4, dtype=np.float32)[r.integers(0, 4, (batch, 128, 128))]
    return model, x, y


# --------------------------------------------------------------------------
# 9. V-Net on 3D volumes, SGD momentum
# --------------------------------------------------------------------------
def vnet_prostate(batch):
    def stage(x, n, convs):
        y = x
        for _ in range(convs):
            y = layers.Conv3D(n, 5 if n < 64 else 3, padding="same")(y)
            y = layers.BatchNormalization()(y)
            y = layers.PReLU(shared_axes=[1, 2, 3])(y)
        if x.shape[-1] != n:
            x = layers.Conv3D(n, 1)(x)
        return layers.Add()([x, y])

    inputs = keras.Input((64, 64, 32, 1))
    x, skips = inputs, []
    for n, convs in ((16, 1), (32, 2), (64, 3)):
        x = stage(x, n, convs)
        skips.append(x)
        x = layers.Conv3D(2 * n, 2, strides=2)(x)
        x = layers.PReLU(shared_axes=[1, 2, 3])(x)
    x = stage(x, 128, 3)
    for n, convs in ((64, 3), (32, 2), (16, 1)):
        x = layers.Conv3DTranspose(n, 2, strides=2)(x)
        x = layers.PReLU(shared_axes=[1, 2, 3])(x)
        x = stage(layers.Concatenate()([x, skips.pop()]), 2 * n, convs)
    outputs = layers.Conv3D(1, 1, activation="sigmoid")(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(1e-2, momentum=0.99), keras.losses.Dice(axis=(1, 2, 3, 4)),
                  metrics=[keras.metrics.BinaryIoU(target_class_ids=[1])], jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 64, 64, 32, 1), dtype=np.float32)
    y = (r.random((batch, 64, 64, 32, 1)) > 0.8).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 10. VQ-VAE (keras.io), own train_step, straight-through estimator
# --------------------------------------------------------------------------
class _VectorQuantizer(layers.Layer):
    def __init__(self, count, dim, beta=0.25, **kwargs):
        super().__init__(**kwargs)
        self.count, self.dim, self.beta = count, dim, beta

    def build(self, shape):
        self.codes = self.add_weight(shape=(self.dim, self.count),
                                     initializer="random_uniform", name="codes")

    def call(self, x):
        flat = ops.reshape(x, (-1, self.dim))
        distance = (ops.sum(flat ** 2, axis=1, keepdims=True) + ops.sum(self.codes ** 2, axis=0)
                    - 2 * ops.matmul(flat, self.codes))
        hot = ops.one_hot(ops.argmin(distance, axis=1), self.count)
        quantized = ops.reshape(ops.matmul(hot, ops.transpose(self.codes)), ops.shape(x))
        self.add_loss(self.beta * ops.mean((ops.stop_gradient(quantized) - x) ** 2)
                      + ops.mean((quantized - ops.stop_gradient(x)) ** 2))
        return x + ops.stop_gradient(quantized - x)


class _VQTrainer(keras.Model):
    def __init__(self, variance, vqvae, **kwargs):
        super().__init__(**kwargs)
        self.variance, self.vqvae = variance, vqvae
        self.total = keras.metrics.Mean(name="loss")
        self.reconstruction = keras.metrics.Mean(name="reconstruction_loss")

    @property
    def metrics(self):
        return [self.total, self.reconstruction]

    def call(self, x, training=None):
        return self.vqvae(x, training=training)

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        with tf.GradientTape() as tape:
            out = self.vqvae(x, training=True)
            reconstruction = tf.reduce_mean((x - out) ** 2) / self.variance
            total = reconstruction + sum(self.vqvae.losses)
        weights = self.vqvae.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(total, weights), weights))
        self.total.update_state(total)
        self.reconstruction.update_state(reconstruction)
        return {m.name: m.result() for m in self.metrics}


def vqvae_images(batch):
    def residual(x):
        y = layers.Conv2D(32, 3, padding="same", activation="relu")(layers.ReLU()(x))
        return layers.Add()([x, layers.Conv2D(128, 1)(y)])

    inputs = keras.Input((64, 64, 3))
    x = layers.Conv2D(64, 4, 2, padding="same", activation="relu")(inputs)
    x = layers.Conv2D(128, 4, 2, padding="same", activation="relu")(x)
    x = layers.Conv2D(128, 3, padding="same")(x)
    x = layers.Conv2D(64, 1)(layers.ReLU()(residual(residual(x))))
    x = _VectorQuantizer(512, 64, name="quantizer")(x)
    x = layers.Conv2D(128, 3, padding="same")(x)
    x = layers.ReLU()(residual(residual(x)))
    x = layers.Conv2DTranspose(64, 4, 2, padding="same", activation="relu")(x)
    outputs = layers.Conv2DTranspose(3, 4, 2, padding="same")(x)
    model = _VQTrainer(0.06, keras.Model(inputs, outputs))
    model.compile(keras.optimizers.Adam(2e-4), jit_compile=False)
    r = _rng()
    return model, r.random((batch, 64, 64, 3), dtype=np.float32) - 0.5, None


# --------------------------------------------------------------------------
# 11. WGAN-GP (keras.io): gradient penalty, several critic steps per train_step
# --------------------------------------------------------------------------
class _WGAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim, d_steps=3, gp_weight=10.0):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator
        self.latent_dim, self.d_steps, self.gp_weight = latent_dim, d_steps, gp_weight

    def compile(self, d_optimizer, g_optimizer, **kwargs):
        super().compile(**kwargs)
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer

    def gradient_penalty(self, batch, real, fake):
        alpha = tf.random.uniform([batch, 1, 1, 1], 0.0, 1.0)
        mixed = real + alpha * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(mixed)
            pred = self.discriminator(mixed, training=True)
        grads = tape.gradient(pred, [mixed])[0]
        norm = tf.sqrt(tf.reduce_sum(tf.square(grads), axis=[1, 2, 3]) + 1e-12)
        return tf.reduce_mean((norm - 1.0) ** 2)

    def train_step(self, data):
        real = data[0] if isinstance(data, tuple) else data
        batch = tf.shape(real)[0]
        for _ in range(self.d_steps):
            noise = tf.random.normal((batch, self.latent_dim))
            with tf.GradientTape() as tape:
                fake = self.generator(noise, training=True)
                fake_logits = self.discriminator(fake, training=True)
                real_logits = self.discriminator(real, training=True)
                cost = tf.reduce_mean(fake_logits) - tf.reduce_mean(real_logits)
                d_loss = cost + self.gp_weight * self.gradient_penalty(batch, real, fake)
            weights = self.discriminator.trainable_variables
            self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        noise = tf.random.normal((batch, self.latent_dim))
        with tf.GradientTape() as tape:
            g_loss = -tf.reduce_mean(self.discriminator(self.generator(noise, training=True),
                                                        training=True))
        weights = self.generator.trainable_variables
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
        return {"d_loss": d_loss, "g_loss": g_loss}


def wgan_gp_fashion(batch):
    critic = keras.Sequential([keras.Input((28, 28, 1)), layers.ZeroPadding2D(2)])
    for n, drop in ((64, 0), (128, 0.3), (256, 0.3), (512, 0)):
        critic.add(layers.Conv2D(n, 5, 2, padding="same"))
        critic.add(layers.LeakyReLU(0.2))
        if drop:
            critic.add(layers.Dropout(drop))
    critic.add(layers.Flatten())
    critic.add(layers.Dropout(0.2))
    critic.add(layers.Dense(1))
    generator = keras.Sequential([keras.Input((128,)),
                                  layers.Dense(4 * 4 * 256, use_bias=False),
                                  layers.BatchNormalization(), layers.LeakyReLU(0.2),
                                  layers.Reshape((4, 4, 256))])
    for n in (128, 64, 1):
        generator.add(layers.UpSampling2D())
        generator.add(layers.Conv2D(n, 3, padding="same", use_bias=False))
        generator.add(layers.BatchNormalization())
        generator.add(layers.LeakyReLU(0.2) if n > 1 else layers.Activation("tanh"))
    generator.add(layers.Cropping2D(2))
    model = _WGAN(critic, generator, 128)
    model.compile(keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9),
                  keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9), jit_compile=False)
    r = _rng()
    return model, (r.random((batch, 28, 28, 1), dtype=np.float32) * 2 - 1), None


# --------------------------------------------------------------------------
# 12. WaveNet: gated dilated causal Conv1D, skip sums, 256-way output, Adamax
# --------------------------------------------------------------------------
def wavenet_mulaw(batch, length=4000):
    inputs = keras.Input((length,), dtype="int32")
    x = layers.Embedding(256, 64)(inputs)
    x = layers.Conv1D(64, 2, padding="causal")(x)
    skips = []
    for _ in range(2):
        for i in range(10):
            t = layers.Conv1D(64, 2, padding="causal", dilation_rate=2 ** i,
                              activation="tanh")(x)
            s = layers.Conv1D(64, 2, padding="causal", dilation_rate=2 ** i,
                              activation="sigmoid")(x)
            z = layers.Multiply()([t, s])
            skips.append(layers.Conv1D(128, 1)(z))
            x = layers.Add()([x, layers.Conv1D(64, 1)(z)])
    x = layers.ReLU()(layers.Add()(skips))
    x = layers.Conv1D(128, 1, activation="relu")(x)
    outputs = layers.Conv1D(256, 1)(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adamax(1e-3),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["sparse_categorical_accuracy"], jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, length + 1)).astype("int32")
    return model, x[:, :-1], x[:, 1:]


# --------------------------------------------------------------------------
# 13. Stacked bidirectional LSTM and GRU with recurrent dropout, Nadam
# --------------------------------------------------------------------------
def bigru_har(batch):
    inputs = keras.Input((128, 9))
    x = layers.Masking(0.0)(inputs)
    x = layers.Bidirectional(layers.LSTM(96, return_sequences=True))(x)
    x = layers.LayerNormalization()(x)
    x = layers.Bidirectional(layers.GRU(64, return_sequences=True, dropout=0.2,
                                        recurrent_dropout=0.2))(x)
    x = layers.GRU(64)(x)
    x = layers.Dense(64, activation="relu")(x)
    outputs = layers.Dense(6, activation="softmax")(layers.Dropout(0.5)(x))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Nadam(1e-3), "sparse_categorical_crossentropy",
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    x = r.standard_normal((batch, 128, 9), dtype=np.float32)
    x[:, 112:] = 0.0
    y = r.integers(0, 6, (batch, 1)).astype("int64")
    return model, x, y


# --------------------------------------------------------------------------
# 14. ConvLSTM2D encoder-forecaster for radar nowcasting
# --------------------------------------------------------------------------
def convlstm_nowcast(batch):
    inputs = keras.Input((8, 64, 64, 1))
    x = layers.TimeDistributed(layers.Conv2D(16, 3, 2, padding="same", activation="relu"))(inputs)
    x, h1, c1 = layers.ConvLSTM2D(32, 3, padding="same", return_sequences=True,
                                  return_state=True)(x)
    x = layers.BatchNormalization()(x)
    x, h2, c2 = layers.ConvLSTM2D(48, 3, padding="same", return_state=True)(x)
    x = layers.Lambda(lambda t: ops.repeat(ops.expand_dims(t, 1), 6, axis=1))(x)
    x = layers.ConvLSTM2D(48, 3, padding="same", return_sequences=True)(
        x, initial_state=[h2, c2])
    x = layers.ConvLSTM2D(32, 3, padding="same", return_sequences=True)(
        x, initial_state=[h1, c1])
    x = layers.TimeDistributed(layers.Conv2DTranspose(16, 4, 2, padding="same",
                                                      activation="relu"))(x)
    outputs = layers.Conv3D(1, (1, 3, 3), padding="same", activation="sigmoid")(x)
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.RMSprop(1e-3, clipvalue=1.0), "binary_crossentropy",
                  metrics=["mae"], jit_compile=False)
    r = _rng()
    x = r.random((batch, 8, 64, 64, 1), dtype=np.float32)
    y = r.random((batch, 6, 64, 64, 1), dtype=np.float32)
    return model, x, y


# --------------------------------------------------------------------------
# 15. Encoder-decoder transformer for translation, padding masks, Noam schedule
# --------------------------------------------------------------------------
class _PositionalEmbedding(layers.Layer):
    def __init__(self, vocab, dim, length=2048, **kwargs):
        super().__init__(**kwargs)
        self.dim = dim
        self.embedding = layers.Embedding(vocab, dim, mask_zero=True)
        pos = np.arange(length)[:, None] / 10000 ** (np.arange(dim // 2)[None] / (dim // 2))
        self.table = np.concatenate([np.sin(pos), np.cos(pos)], -1).astype("float32")

    def build(self, shape):
        self.embedding.build(shape)

    def compute_mask(self, x, mask=None):
        return self.embedding.compute_mask(x)

    def call(self, x):
        out = self.embedding(x) * self.dim ** 0.5
        return out + self.table[None, :x.shape[1]]


class _Noam(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, dim, warmup=4000):
        self.dim, self.warmup = dim, warmup

    def __call__(self, step):
        step = ops.cast(step, "float32") + 1.0
        return self.dim ** -0.5 * ops.minimum(step ** -0.5, step * self.warmup ** -1.5)

    def get_config(self):
        return {"dim": self.dim, "warmup": self.warmup}


def transformer_pt_en(batch, length=64, vocab=7765, dim=128, heads=8):
    def ffn(x):
        y = layers.Dense(512, activation="relu")(x)
        y = layers.Dropout(0.1)(layers.Dense(dim)(y))
        return layers.LayerNormalization()(layers.Add()([x, y]))

    def attend(x, kv, causal=False):
        y = layers.MultiHeadAttention(heads, dim, dropout=0.1)(
            query=x, value=kv, key=kv, use_causal_mask=causal)
        return layers.LayerNormalization()(layers.Add()([x, y]))

    source = keras.Input((length,), dtype="int64", name="source")
    target = keras.Input((length,), dtype="int64", name="target")
    x = layers.Dropout(0.1)(_PositionalEmbedding(vocab, dim)(source))
    for _ in range(4):
        x = ffn(attend(x, x))
    y = layers.Dropout(0.1)(_PositionalEmbedding(vocab, dim)(target))
    for _ in range(4):
        y = ffn(attend(attend(y, y, causal=True), x))
    outputs = layers.Dense(vocab)(y)
    model = keras.Model((source, target), outputs)

    def masked_loss(label, pred):
        mask = label != 0
        loss = ops.sparse_categorical_crossentropy(label, pred, from_logits=True)
        mask = ops.cast(mask, loss.dtype)
        return ops.sum(loss * mask) / ops.sum(mask)

    def masked_accuracy(label, pred):
        match = ops.cast(label, "int64") == ops.cast(ops.argmax(pred, axis=2), "int64")
        mask = label != 0
        match = ops.cast(ops.logical_and(match, mask), "float32")
        return ops.sum(match) / ops.sum(ops.cast(mask, "float32"))

    model.compile(keras.optimizers.Adam(_Noam(dim), beta_1=0.9, beta_2=0.98, epsilon=1e-9),
                  masked_loss, metrics=[masked_accuracy], jit_compile=False)
    r = _rng()
    src = r.integers(1, vocab, (batch, length)).astype("int64")
    tgt = r.integers(1, vocab, (batch, length + 1)).astype("int64")
    for i in range(batch):
        src[i, r.integers(20, length):] = 0
        tgt[i, r.integers(20, length):] = 0
    return model, [src, tgt[:, :-1]], tgt[:, 1:]


# --------------------------------------------------------------------------
# 16. BERT-like sentence-pair classifier, encoder blocks recomputed, AdamW
# --------------------------------------------------------------------------
class _EncoderBlock(layers.Layer):
    def __init__(self, dim, heads, hidden, rate=0.1, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(heads, dim // heads, dropout=rate)
        self.norm1 = layers.LayerNormalization(epsilon=1e-12)
        self.norm2 = layers.LayerNormalization(epsilon=1e-12)
        self.up = layers.Dense(hidden, activation="gelu")
        self.down = layers.Dense(dim)
        self.drop = layers.Dropout(rate)

    def build(self, x_shape, attention_mask_shape):
        self.attention.build(x_shape, x_shape)
        self.norm1.build(x_shape)
        self.norm2.build(x_shape)
        self.up.build(x_shape)
        self.down.build((*x_shape[:-1], self.up.units))

    def compute_output_shape(self, x_shape, attention_mask_shape):
        return x_shape

    def call(self, x, attention_mask, training=None):
        if not training:
            return self.forward(x, attention_mask, False)
        return tf.recompute_grad(lambda t: self.forward(t, attention_mask, True))(x)

    def forward(self, x, attention_mask, training):
        y = self.attention(x, x, attention_mask=attention_mask[:, None, :], training=training)
        x = self.norm1(x + self.drop(y, training=training))
        y = self.down(self.up(x))
        return self.norm2(x + self.drop(y, training=training))


def bert_pairs_remat(batch, length=128):
    ids = keras.Input((length,), dtype="int32", name="input_ids")
    mask = keras.Input((length,), dtype="int32", name="attention_mask")
    types = keras.Input((length,), dtype="int32", name="token_type_ids")
    x = layers.Embedding(30522, 384)(ids) + layers.Embedding(2, 384)(types)
    x = x + layers.Embedding(512, 384)(ops.arange(length))
    x = layers.Dropout(0.1)(layers.LayerNormalization(epsilon=1e-12)(x))
    attend = layers.Lambda(lambda t: ops.cast(t, "bool"))(mask)
    for _ in range(6):
        x = _EncoderBlock(384, 6, 1536)(x, attend)
    x = layers.Lambda(lambda t: t[:, 0])(x)
    x = layers.Dropout(0.1)(layers.Dense(384, activation="tanh")(x))
    outputs = layers.Dense(3)(x)
    model = keras.Model([ids, mask, types], outputs)
    optimizer = keras.optimizers.AdamW(
        keras.optimizers.schedules.PolynomialDecay(5e-5, 10000, 0.0), weight_decay=0.01,
        global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], jit_compile=False)
    r = _rng()
    x = {"input_ids": r.integers(0, 30522, (batch, length)).astype("int32"),
         "attention_mask": (np.arange(length)[None] < r.integers(40, length, (batch, 1))).astype("int32"),
         "token_type_ids": np.tile((np.arange(length) > 60).astype("int32"), (batch, 1))}
    y = r.integers(0, 3, batch).astype("int32")
    return model, x, y


# --------------------------------------------------------------------------
# 17. DLRM on Criteo: large embedding tables, pairwise dots, Adagrad
# --------------------------------------------------------------------------
_CRITEO = [1460, 583, 200000, 150000, 305, 24, 12517, 633, 3, 93145, 5683, 200000, 3194, 27,
           14992, 180000, 10, 5652, 2173, 4, 200000, 18, 15, 86181, 105, 42572]


def dlrm_criteo(batch, dim=32):
    dense = keras.Input((13,), name="numeric")
    cats = keras.Input((26,), dtype="int64", name="cats")
    bottom = layers.Lambda(lambda t: ops.log(t + 1.0))(dense)
    for n in (512, 256, dim):
        bottom = layers.Dense(n, activation="relu")(bottom)
    vectors = [layers.Embedding(size, dim, embeddings_initializer="uniform")(cats[:, i])
               for i, size in enumerate(_CRITEO)]
    stack = layers.Lambda(lambda ts: ops.stack(ts, axis=1))([bottom] + vectors)
    dots = layers.Dot(axes=2)([stack, stack])
    rows, cols = np.tril_indices(27, -1)
    pairs = layers.Lambda(lambda t: ops.take(ops.reshape(t, (-1, 27 * 27)), rows * 27 + cols, axis=1),
                          output_shape=(len(rows),))(dots)
    x = layers.Concatenate()([bottom, pairs])
    for n in (512, 256):
        x = layers.Dense(n, activation="relu")(x)
    outputs = layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model({"numeric": dense, "cats": cats}, outputs)
    model.compile(keras.optimizers.Adagrad(0.01), "binary_crossentropy",
                  metrics=[keras.metrics.AUC(num_thresholds=1000)], jit_compile=False)
    r = _rng()
    x = {"numeric": r.integers(0, 100, (batch, 13)).astype("float32"),
         "cats": np.stack([r.integers(0, n, batch) for n in _CRITEO], 1).astype("int64")}
    y = r.integers(0, 2, (batch, 1)).astype("float32")
    return model, x, y


# --------------------------------------------------------------------------
# 18. SimCLR on STL-10: augmentation in train_step, NT-Xent loss, Lion
# --------------------------------------------------------------------------
class SimCLR(keras.Model):
    def __init__(self, augment, encoder, head, temperature=0.1):
        super().__init__()
        self.augment, self.encoder, self.head = augment, encoder, head
        self.temperature = temperature
        self.loss_tracker = keras.metrics.Mean(name="c_loss")
        self.acc = keras.metrics.SparseCategoricalAccuracy(name="c_acc")

    @property
    def metrics(self):
        return [self.loss_tracker, self.acc]

    def call(self, x, training=None):
        return self.head(self.encoder(x, training=training), training=training)

    def contrast(self, a, b):
        a, b = ops.normalize(a, axis=1), ops.normalize(b, axis=1)
        similar = ops.matmul(a, ops.transpose(b)) / self.temperature
        labels = ops.arange(ops.shape(a)[0])
        self.acc.update_state(labels, similar)
        self.acc.update_state(labels, ops.transpose(similar))
        loss1 = keras.losses.sparse_categorical_crossentropy(labels, similar, from_logits=True)
        loss2 = keras.losses.sparse_categorical_crossentropy(labels, ops.transpose(similar),
                                                             from_logits=True)
        return (ops.mean(loss1) + ops.mean(loss2)) / 2

    def train_step(self, data):
        images = data[0] if isinstance(data, tuple) else data
        view1 = self.augment(images, training=True)
        view2 = self.augment(images, training=True)
        with tf.GradientTape() as tape:
            loss = self.contrast(self(view1, training=True), self(view2, training=True))
        weights = self.encoder.trainable_weights + self.head.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        self.loss_tracker.update_state(loss)
        return {m.name: m.result() for m in self.metrics}


def simclr_stl10(batch):
    augment = keras.Sequential([
        keras.Input((96, 96, 3)), layers.Rescaling(1 / 255), layers.RandomFlip("horizontal"),
        layers.RandomTranslation(0.25, 0.25), layers.RandomZoom((-0.5, 0.0), (-0.5, 0.0)),
        layers.RandomBrightness(0.3, value_range=(0, 1)),
        layers.RandomContrast(0.4, value_range=(0, 1))])
    encoder = keras.Sequential([keras.Input((96, 96, 3))])
    for n in (64, 128, 192, 256):
        encoder.add(layers.Conv2D(n, 3, 2, use_bias=False))
        encoder.add(layers.BatchNormalization())
        encoder.add(layers.ReLU())
    encoder.add(layers.Flatten())
    encoder.add(layers.Dense(128, activation="relu"))
    head = keras.Sequential([keras.Input((128,)), layers.Dense(128, activation="relu"),
                             layers.Dense(128)])
    model = SimCLR(augment, encoder, head)
    model.compile(keras.optimizers.Lion(1e-4, weight_decay=1e-2), jit_compile=False)
    r = _rng()
    x = r.integers(0, 256, (batch, 96, 96, 3), dtype=np.uint8)
    return model, x, None


# --------------------------------------------------------------------------
# 19. Listing price and category from photo, text and table; mixed_float16
# --------------------------------------------------------------------------
def listing_multimodal_fp16(batch):
    with _policy("mixed_float16"):
        photo = keras.Input((112, 112, 3), name="photo")
        x = layers.Rescaling(1 / 127.5, offset=-1)(photo)
        x = layers.Conv2D(32, 3, 2, padding="same", use_bias=False)(x)
        x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        for n, s in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)):
            x = layers.SeparableConv2D(n, 3, s, padding="same", use_bias=False)(x)
            x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
        x = layers.GlobalAveragePooling2D()(x)

        title = keras.Input((60,), dtype="int32", name="title")
        t = layers.SpatialDropout1D(0.2)(layers.Embedding(40000, 128)(title))
        t = layers.Concatenate()([
            layers.GlobalMaxPooling1D()(layers.Conv1D(128, k, activation="relu")(t))
            for k in (2, 3, 4, 5)])

        table = keras.Input((24,), name="table")
        n = layers.Dense(64, activation="relu")(layers.BatchNormalization()(table))

        z = layers.Concatenate()([x, t, n])
        z = layers.Dropout(0.3)(layers.Dense(512, activation="relu")(z))
        price = layers.Dense(1, dtype="float32", name="price")(layers.Dense(64, activation="relu")(z))
        category = layers.Dense(200, activation="softmax", dtype="float32", name="category")(z)
        model = keras.Model({"photo": photo, "title": title, "table": table},
                            {"price": price, "category": category})
        model.compile(keras.optimizers.Adam(1e-3),
                      {"price": "huber", "category": "sparse_categorical_crossentropy"},
                      loss_weights={"price": 1.0, "category": 0.5},
                      metrics={"price": ["mae"], "category": ["accuracy"]}, jit_compile=False)
    r = _rng()
    x = {"photo": r.integers(0, 256, (batch, 112, 112, 3)).astype("float32"),
         "title": r.integers(0, 40000, (batch, 60)).astype("int32"),
         "table": r.standard_normal((batch, 24), dtype=np.float32)}
    y = {"price": r.random((batch, 1), dtype=np.float32),
         "category": r.integers(0, 200, batch).astype("int32")}
    return model, x, y


# --------------------------------------------------------------------------
# 20. CapsNet on MNIST with dynamic routing and a masked decoder
# --------------------------------------------------------------------------
def _squash(x, axis=-1):
    norm = ops.sum(ops.square(x), axis, keepdims=True)
    return norm / (1 + norm) / ops.sqrt(norm + keras.config.epsilon()) * x


class _Capsules(layers.Layer):
    def __init__(self, count, dim, routings=3, **kwargs):
        super().__init__(**kwargs)
        self.count, self.dim, self.routings = count, dim, routings

    def build(self, shape):
        self.inputs_count = shape[1]
        self.w = self.add_weight(shape=(self.count, shape[1], self.dim, shape[2]),
                                 initializer="glorot_uniform", name="w")

    def compute_output_shape(self, shape):
        return (shape[0], self.count, self.dim)

    def call(self, x):
        x = ops.expand_dims(ops.expand_dims(x, 1), -1)  # (b, 1, in, d_in, 1)
        hat = ops.squeeze(ops.matmul(self.w[None], x), -1)  # (b, count, in, dim)
        logits = ops.zeros_like(hat[..., :1])
        for i in range(self.routings):
            c = ops.softmax(logits, axis=1)
            v = _squash(ops.sum(c * hat, axis=2, keepdims=True))
            if i < self.routings - 1:
                logits = logits + ops.sum(hat * v, axis=-1, keepdims=True)
        return ops.squeeze(v, 2)


def capsnet_mnist(batch):
    image = keras.Input((28, 28, 1), name="image")
    label = keras.Input((10,), name="label")
    x = layers.Conv2D(256, 9, activation="relu")(image)
    x = layers.Conv2D(8 * 32, 9, strides=2)(x)
    x = layers.Reshape((-1, 8))(x)
    x = layers.Lambda(_squash, name="primary")(x)
    digit = _Capsules(10, 16, name="digit")(x)
    length = layers.Lambda(lambda t: ops.sqrt(ops.sum(ops.square(t), -1) + 1e-7),
                           name="length")(digit)
    masked = layers.Lambda(lambda ts: ops.reshape(ts[0] * ts[1][..., None], (-1, 160)),
                           output_shape=(160,))([digit, label])
    d = layers.Dense(512, activation="relu")(masked)
    d = layers.Dense(1024, activation="relu")(d)
    d = layers.Dense(784, activation="sigmoid")(d)
    recon = layers.Reshape((28, 28, 1), name="recon")(d)
    model = keras.Model([image, label], [length, recon])

    def margin(y_true, y_pred):
        loss = (y_true * ops.square(ops.maximum(0.0, 0.9 - y_pred))
                + 0.5 * (1 - y_true) * ops.square(ops.maximum(0.0, y_pred - 0.1)))
        return ops.mean(ops.sum(loss, 1))

    model.compile(keras.optimizers.Nadam(1e-3), [margin, "mse"], loss_weights=[1.0, 0.392],
                  metrics=[["accuracy"], []], jit_compile=False)
    r = _rng()
    x = r.random((batch, 28, 28, 1), dtype=np.float32)
    y = keras.utils.to_categorical(r.integers(0, 10, batch), 10).astype("float32")
    return model, [x, y], (y, x)


MODELS = {f.__name__: f for f in (
    higgs_snn, se_resnet34, googlenet_aux, lrcn_actions, convmixer_cifar,
    mobilenetv3large_frozen, inceptionresnetv2_boneage, attention_unet_mri, vnet_prostate,
    vqvae_images, wgan_gp_fashion, wavenet_mulaw, bigru_har, convlstm_nowcast,
    transformer_pt_en, bert_pairs_remat, dlrm_criteo, simclr_stl10,
    listing_multimodal_fp16, capsnet_mnist)}

BATCHES = {
    "higgs_snn": [1024, 4096, 16384],
    "se_resnet34": [16, 32, 96],
    "googlenet_aux": [16, 32, 64],
    "lrcn_actions": [2, 4, 16],
    "convmixer_cifar": [32, 64, 128],
    "mobilenetv3large_frozen": [16, 32, 96],
    "inceptionresnetv2_boneage": [4, 10, 24],
    "attention_unet_mri": [4, 16, 32],
    "vnet_prostate": [1, 2, 6],
    "vqvae_images": [32, 128, 256],
    "wgan_gp_fashion": [64, 256, 512],
    "wavenet_mulaw": [2, 4, 12],
    "bigru_har": [128, 256, 1024],
    "convlstm_nowcast": [2, 8, 24],
    "transformer_pt_en": [16, 64, 96],
    "bert_pairs_remat": [8, 32, 64],
    "dlrm_criteo": [512, 2048, 8192],
    "simclr_stl10": [64, 128, 256],
    "listing_multimodal_fp16": [8, 16, 32],
    "capsnet_mnist": [32, 100, 200],
}
