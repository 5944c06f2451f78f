import numpy as np, keras
from keras import layers, ops, applications as A

_R = np.random.default_rng(0)
def _f(*s): return _R.standard_normal(s, dtype='float32')
def _u(*s): return _R.random(s, dtype='float32')
def _i(hi, *s, dtype='int64'): return _R.integers(0, hi, s).astype(dtype)
def _one(n, b): return np.eye(n, dtype='float32')[_i(n, b)]


# ---------------------------------------------------------------- keras.applications

def densenet121(b):
    m = A.DenseNet121(weights=None, input_shape=(160, 160, 3), classes=120)
    m.compile('adam', 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 160, 160, 3), _i(120, b)

def inceptionv3(b):
    m = A.InceptionV3(weights=None, input_shape=(192, 192, 3), classes=1000)
    m.compile(keras.optimizers.RMSprop(0.045, rho=0.9, momentum=0.9, epsilon=1.0),
              keras.losses.CategoricalCrossentropy(label_smoothing=0.1), metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 192, 192, 3), _one(1000, b)

def xception(b):
    m = A.Xception(weights=None, input_shape=(150, 150, 3), classes=2)
    m.compile(keras.optimizers.SGD(0.045, momentum=0.9), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 150, 150, 3), _i(2, b)

def nasnetmobile(b):
    m = A.NASNetMobile(weights=None, input_shape=(128, 128, 3), classes=100)
    m.compile(keras.optimizers.Adam(1e-3, clipnorm=1.0), 'categorical_crossentropy', jit_compile=False)
    return m, _u(b, 128, 128, 3), _one(100, b)

def resnet101v2(b):
    m = A.ResNet101V2(weights=None, input_shape=(224, 224, 3), classes=1000)
    m.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=1e-4), 'sparse_categorical_crossentropy',
              metrics=['accuracy', keras.metrics.SparseTopKCategoricalAccuracy(5)], jit_compile=False)
    return m, _u(b, 224, 224, 3), _i(1000, b)

def mobilenetv3small(b):
    m = A.MobileNetV3Small(weights=None, input_shape=(224, 224, 3), classes=1000)
    m.compile(keras.optimizers.RMSprop(1e-3, momentum=0.9), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, 255 * _u(b, 224, 224, 3), _i(1000, b)

def convnexttiny(b):
    m = A.ConvNeXtTiny(weights=None, input_shape=(128, 128, 3), classes=200, classifier_activation=None)
    m.compile(keras.optimizers.AdamW(4e-4, weight_decay=0.05), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy'], jit_compile=False)
    return m, 255 * _u(b, 128, 128, 3), _i(200, b)

def efficientnetv2b0(b):
    m = A.EfficientNetV2B0(weights=None, input_shape=(192, 192, 3), classes=37)
    m.compile(keras.optimizers.Adam(1e-3, use_ema=True), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, 255 * _u(b, 192, 192, 3), _i(37, b)

def vgg19_head(b):
    base = A.VGG19(weights=None, include_top=False, input_shape=(96, 96, 3))
    h = layers.Flatten()(base.output)
    h = layers.Dense(512, activation='relu')(h)
    h = layers.Dropout(0.5)(h)
    m = keras.Model(base.input, layers.Dense(10, activation='softmax')(h))
    m.compile(keras.optimizers.SGD(1e-3, momentum=0.9), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 96, 96, 3), _i(10, b)

def transfer_frozen(b):
    """The keras.io transfer-learning guide: augmentation, frozen base in inference mode, small head."""
    base = A.MobileNet(weights=None, include_top=False, input_shape=(160, 160, 3))
    base.trainable = False
    i = keras.Input((160, 160, 3))
    h = layers.RandomFlip('horizontal')(i)
    h = layers.RandomRotation(0.1)(h)
    h = layers.Rescaling(1 / 127.5, offset=-1)(h)
    h = base(h, training=False)
    h = layers.GlobalAveragePooling2D()(h)
    h = layers.Dropout(0.2)(h)
    m = keras.Model(i, layers.Dense(1)(h))
    m.compile(keras.optimizers.Adam(), keras.losses.BinaryCrossentropy(from_logits=True),
              metrics=[keras.metrics.BinaryAccuracy()], jit_compile=False)
    return m, 255 * _u(b, 160, 160, 3), _i(2, b, 1, dtype='float32')

def finetune_top(b):
    """Fine-tuning the last part of ResNet50V2, everything else frozen."""
    base = A.ResNet50V2(weights=None, include_top=False, input_shape=(180, 180, 3), pooling='avg')
    for l in base.layers[:154]: l.trainable = False
    i = keras.Input((180, 180, 3))
    h = base(A.resnet_v2.preprocess_input(i))
    h = layers.Dense(256, activation='relu')(h)
    m = keras.Model(i, layers.Dense(5, activation='softmax')(h))
    m.compile(keras.optimizers.Adam(1e-5), 'categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, 255 * _u(b, 180, 180, 3), _one(5, b)


# ---------------------------------------------------------------- text

def gru_text(b):
    m = keras.Sequential([
        keras.Input((250,), dtype='int32'),
        layers.Embedding(30000, 100, mask_zero=True),
        layers.SpatialDropout1D(0.2),
        layers.GRU(128, return_sequences=True),
        layers.GRU(64),
        layers.Dense(64, activation='relu'),
        layers.Dropout(0.4),
        layers.Dense(4, activation='softmax')])
    m.compile('rmsprop', 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _i(30000, b, 250, dtype='int32'), _i(4, b)

def bilstm_imdb(b):
    i = keras.Input((None,), dtype='int32')
    h = layers.Embedding(20000, 128)(i)
    h = layers.Bidirectional(layers.LSTM(64, return_sequences=True))(h)
    h = layers.Bidirectional(layers.LSTM(64))(h)
    m = keras.Model(i, layers.Dense(1, activation='sigmoid')(h))
    m.compile('adam', 'binary_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _i(20000, b, 200, dtype='int32'), _i(2, b, 1, dtype='float32')


class _TokPos(layers.Layer):
    def __init__(self, seq, vocab, d, **k):
        super().__init__(**k)
        self.tok, self.pos, self.seq = layers.Embedding(vocab, d), layers.Embedding(seq, d), seq
    def call(self, x):
        return self.tok(x) + self.pos(ops.arange(0, ops.shape(x)[-1]))

class TiedGPT(keras.Model):
    """GPT-2-like decoder; output projection shares the token embedding matrix."""
    def __init__(self, vocab=16000, seq=128, d=256, heads=4, n=4, **k):
        super().__init__(**k)
        self.tok, self.pos = layers.Embedding(vocab, d), layers.Embedding(seq, d)
        self.drop = layers.Dropout(0.1)
        self.blocks = [dict(n1=layers.LayerNormalization(epsilon=1e-5), att=layers.MultiHeadAttention(heads, d // heads, dropout=0.1),
                            n2=layers.LayerNormalization(epsilon=1e-5), f1=layers.Dense(4 * d, activation='gelu'),
                            f2=layers.Dense(d), dr=layers.Dropout(0.1)) for _ in range(n)]
        self._sub = [l for bl in self.blocks for l in bl.values()]
        self.nf = layers.LayerNormalization(epsilon=1e-5)
    def call(self, x, training=None):
        h = self.drop(self.tok(x) + self.pos(ops.arange(0, ops.shape(x)[1])), training=training)
        for bl in self.blocks:
            a = bl['n1'](h)
            h = h + bl['att'](a, a, use_causal_mask=True, training=training)
            h = h + bl['dr'](bl['f2'](bl['f1'](bl['n2'](h))), training=training)
        return ops.matmul(self.nf(h), ops.transpose(self.tok.embeddings))

def gpt_tied(b):
    m = TiedGPT()
    m(np.zeros((1, 128), 'int32'))
    m.compile(keras.optimizers.AdamW(3e-4, weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return m, _i(16000, b, 128, dtype='int32'), _i(16000, b, 128, dtype='int32')

def miniature_gpt(b):
    """keras.io 'Text generation with a miniature GPT': one block, 20k-word softmax."""
    V, S, D = 20000, 80, 256
    i = keras.Input((S,), dtype='int32')
    h = _TokPos(S, V, D)(i)
    a = layers.MultiHeadAttention(2, D)(h, h, use_causal_mask=True)
    h = layers.LayerNormalization(epsilon=1e-6)(h + layers.Dropout(0.1)(a))
    f = layers.Dense(D)(layers.Dense(256, activation='relu')(h))
    h = layers.LayerNormalization(epsilon=1e-6)(h + layers.Dropout(0.1)(f))
    m = keras.Model(i, layers.Dense(V)(h))
    m.compile('adam', keras.losses.SparseCategoricalCrossentropy(from_logits=True), jit_compile=False)
    return m, _i(V, b, S, dtype='int32'), _i(V, b, S, dtype='int32')

def seq2seq_attention(b):
    """Translation with a bidirectional GRU encoder and a decoder with dot attention."""
    VS, VT, S, T, U = 12000, 10000, 30, 32, 256
    src, tgt = keras.Input((S,), dtype='int32', name='source'), keras.Input((T,), dtype='int32', name='target_in')
    e = layers.Embedding(VS, U)(src)
    e, fwd, bwd = layers.Bidirectional(layers.GRU(U, return_sequences=True, return_state=True))(e)
    e = layers.Dense(U)(e)
    s0 = layers.Dense(U, activation='tanh')(layers.Concatenate()([fwd, bwd]))
    d = layers.Embedding(VT, U)(tgt)
    d = layers.GRU(U, return_sequences=True)(d, initial_state=s0)
    c = layers.Attention(use_scale=True)([d, e])
    h = layers.Dense(U, activation='tanh')(layers.Concatenate()([d, c]))
    h = layers.Dropout(0.3)(h)
    m = keras.Model([src, tgt], layers.Dense(VT, activation='softmax')(h))
    m.compile(keras.optimizers.Adam(1e-3), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    x = {'source': _i(VS, b, S, dtype='int32'), 'target_in': _i(VT, b, T, dtype='int32')}
    return m, x, _i(VT, b, T, dtype='int32')

def _enc(h, d, heads, ff, drop=0.1):
    a = layers.MultiHeadAttention(heads, d // heads, dropout=drop)(h, h)
    h = layers.LayerNormalization(epsilon=1e-6)(layers.Add()([h, layers.Dropout(drop)(a)]))
    f = layers.Dense(d)(layers.Dense(ff, activation='gelu')(h))
    return layers.LayerNormalization(epsilon=1e-6)(layers.Add()([h, layers.Dropout(drop)(f)]))

def bert_small_adafactor(b):
    """Masked-language model, 4 encoder layers, sample weights folded into ignore_class."""
    V, S, D = 24000, 96, 320
    i = keras.Input((S,), dtype='int32')
    h = layers.LayerNormalization()(_TokPos(S, V, D)(i))
    for _ in range(4): h = _enc(h, D, 5, 4 * D)
    h = layers.LayerNormalization()(layers.Dense(D, activation='gelu')(h))
    m = keras.Model(i, layers.Dense(V)(h))
    m.compile(keras.optimizers.Adafactor(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1), jit_compile=False)
    y = _i(V, b, S, dtype='int32'); y[_R.random((b, S)) > 0.15] = -1
    return m, _i(V, b, S, dtype='int32'), y

def transformer_fp16(b):
    """Text classifier under mixed_float16 (loss scaling on)."""
    old = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy('mixed_float16')
    try:
        i = keras.Input((160,), dtype='int32')
        h = _TokPos(160, 15000, 192)(i)
        for _ in range(3): h = _enc(h, 192, 6, 512)
        h = layers.Dropout(0.1)(layers.GlobalAveragePooling1D()(h))
        m = keras.Model(i, layers.Dense(20, activation='softmax', dtype='float32')(h))
        m.compile(keras.optimizers.Adam(1e-4), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    finally:
        keras.mixed_precision.set_dtype_policy(old)
    return m, _i(15000, b, 160, dtype='int32'), _i(20, b)


# ---------------------------------------------------------------- audio, series

def conv1d_audio(b):
    """M5-like network on one second of 16 kHz speech commands."""
    ls = [keras.Input((16000, 1)), layers.Conv1D(64, 80, strides=4), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling1D(4)]
    for n in (64, 128, 256):
        ls += [layers.Conv1D(n, 3, padding='same'), layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling1D(4)]
    m = keras.Sequential(ls + [layers.GlobalAveragePooling1D(), layers.Dropout(0.3), layers.Dense(35, activation='softmax')])
    m.compile(keras.optimizers.Adam(1e-2, weight_decay=1e-4), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _f(b, 16000, 1), _i(35, b)

def tcn_forecast(b):
    """Dilated causal convolutions with residuals, multi-step forecast."""
    i = keras.Input((336, 21))
    h = layers.Conv1D(64, 1)(i)
    for d in (1, 2, 4, 8, 16, 32):
        r = layers.Conv1D(64, 3, padding='causal', dilation_rate=d, activation='relu')(h)
        r = layers.SpatialDropout1D(0.1)(r)
        r = layers.Conv1D(64, 3, padding='causal', dilation_rate=d, activation='relu')(r)
        h = layers.LayerNormalization()(layers.Add()([h, r]))
    h = layers.Lambda(lambda t: t[:, -1])(h)
    m = keras.Model(i, layers.Reshape((96, 21))(layers.Dense(96 * 21)(h)))
    m.compile(keras.optimizers.Nadam(1e-3), keras.losses.Huber(), metrics=['mae', keras.metrics.RootMeanSquaredError()], jit_compile=False)
    return m, _f(b, 336, 21), _f(b, 96, 21)


# ---------------------------------------------------------------- vision, from scratch

class _PatchPos(layers.Layer):
    def __init__(self, n, d, **k):
        super().__init__(**k)
        self.n, self.d = n, d
    def build(self, s):
        self.cls = self.add_weight(shape=(1, 1, self.d), initializer='zeros', name='cls')
        self.pos = self.add_weight(shape=(1, self.n + 1, self.d), initializer='random_normal', name='pos')
    def call(self, x):
        c = ops.broadcast_to(self.cls, (ops.shape(x)[0], 1, self.d))
        return ops.concatenate([c, x], axis=1) + self.pos
    def compute_output_shape(self, s): return (s[0], self.n + 1, self.d)

def vit(b):
    """ViT-Ti/16 at 224 with a class token, pre-norm."""
    D = 192
    i = keras.Input((224, 224, 3))
    h = layers.Reshape((196, D))(layers.Conv2D(D, 16, strides=16)(i))
    h = layers.Dropout(0.1)(_PatchPos(196, D)(h))
    for _ in range(12):
        a = layers.LayerNormalization(epsilon=1e-6)(h)
        h = layers.Add()([h, layers.MultiHeadAttention(3, 64, dropout=0.1)(a, a)])
        f = layers.LayerNormalization(epsilon=1e-6)(h)
        f = layers.Dropout(0.1)(layers.Dense(4 * D, activation='gelu')(f))
        h = layers.Add()([h, layers.Dense(D)(f)])
    h = layers.Lambda(lambda t: t[:, 0])(layers.LayerNormalization(epsilon=1e-6)(h))
    m = keras.Model(i, layers.Dense(100)(h))
    m.compile(keras.optimizers.AdamW(1e-3, weight_decay=1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=['accuracy', keras.metrics.SparseTopKCategoricalAccuracy(5)], jit_compile=False)
    return m, _u(b, 224, 224, 3), _i(100, b)

def conv_autoencoder(b):
    m = keras.Sequential([
        keras.Input((128, 128, 3)),
        layers.Conv2D(32, 3, activation='relu', padding='same'), layers.MaxPooling2D(2),
        layers.Conv2D(64, 3, activation='relu', padding='same'), layers.MaxPooling2D(2),
        layers.Conv2D(128, 3, activation='relu', padding='same'), layers.MaxPooling2D(2),
        layers.Conv2DTranspose(128, 3, strides=2, activation='relu', padding='same'),
        layers.Conv2DTranspose(64, 3, strides=2, activation='relu', padding='same'),
        layers.Conv2DTranspose(32, 3, strides=2, activation='relu', padding='same'),
        layers.Conv2D(3, 3, activation='sigmoid', padding='same')])
    m.compile('adam', 'binary_crossentropy', jit_compile=False)
    x = _u(b, 128, 128, 3)
    return m, x, x.copy()

def unet_segmentation(b):
    def blk(h, n):
        for _ in range(2): h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(n, 3, padding='same')(h)))
        return h
    i = h = keras.Input((160, 160, 3)); skips = []
    for n in (32, 64, 128, 256):
        h = blk(h, n); skips.append(h); h = layers.MaxPooling2D()(h)
    h = layers.Dropout(0.3)(blk(h, 512))
    for n, s in zip((256, 128, 64, 32), skips[::-1]):
        h = blk(layers.Concatenate()([layers.Conv2DTranspose(n, 2, strides=2)(h), s]), n)
    m = keras.Model(i, layers.Conv2D(3, 1, activation='softmax')(h))
    m.compile(keras.optimizers.Adam(1e-4), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 160, 160, 3), _i(3, b, 160, 160, 1, dtype='uint8')

def _resblock(h, n, stride):
    r = layers.Conv2D(n, 3, stride, padding='same', use_bias=False)(h)
    r = layers.ReLU()(layers.BatchNormalization()(r))
    r = layers.BatchNormalization()(layers.Conv2D(n, 3, padding='same', use_bias=False)(r))
    if stride != 1 or h.shape[-1] != n:
        h = layers.BatchNormalization()(layers.Conv2D(n, 1, stride, use_bias=False)(h))
    return layers.ReLU()(layers.Add()([h, r]))

def cifar_resnet_accum(b):
    """ResNet-32 for CIFAR-100, gradient accumulation over 4 steps."""
    i = keras.Input((32, 32, 3))
    h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(16, 3, padding='same', use_bias=False)(i)))
    for n in (16, 32, 64):
        for k in range(5): h = _resblock(h, n, 2 if k == 0 and n > 16 else 1)
    m = keras.Model(i, layers.Dense(100)(layers.GlobalAveragePooling2D()(h)))
    m.compile(keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=4),
              keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'], jit_compile=False)
    return m, _u(b, 32, 32, 3), _i(100, b)

def resnet18_bf16(b):
    """ResNet-18 at 128 under mixed_bfloat16."""
    old = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy('mixed_bfloat16')
    try:
        i = keras.Input((128, 128, 3))
        h = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 7, 2, padding='same', use_bias=False)(i)))
        h = layers.MaxPooling2D(3, 2, padding='same')(h)
        for n in (64, 128, 256, 512):
            for k in range(2): h = _resblock(h, n, 2 if k == 0 and n > 64 else 1)
        h = layers.Dense(200)(layers.GlobalAveragePooling2D()(h))
        m = keras.Model(i, layers.Activation('softmax', dtype='float32')(h))
        m.compile(keras.optimizers.SGD(0.1, momentum=0.9), 'sparse_categorical_crossentropy', metrics=['accuracy'], jit_compile=False)
    finally:
        keras.mixed_precision.set_dtype_policy(old)
    return m, _u(b, 128, 128, 3), _i(200, b)

def multi_output_faces(b):
    """Age, gender and ethnicity from one trunk (UTKFace-like)."""
    i = keras.Input((128, 128, 3), name='image')
    h = i
    for n in (32, 64, 128, 256):
        h = layers.Conv2D(n, 3, activation='relu', padding='same')(h)
        h = layers.MaxPooling2D()(layers.BatchNormalization()(h))
    h = layers.Dropout(0.25)(layers.Flatten()(h))
    o = {'age': layers.Dense(1, name='age')(layers.Dense(128, activation='relu')(h)),
         'gender': layers.Dense(1, activation='sigmoid', name='gender')(layers.Dense(128, activation='relu')(h)),
         'ethnicity': layers.Dense(5, activation='softmax', name='ethnicity')(layers.Dense(128, activation='relu')(h))}
    m = keras.Model(i, o)
    m.compile('adam', {'age': 'mse', 'gender': 'binary_crossentropy', 'ethnicity': 'sparse_categorical_crossentropy'},
              loss_weights={'age': 0.01, 'gender': 1.0, 'ethnicity': 1.5},
              metrics={'age': 'mae', 'gender': 'accuracy', 'ethnicity': 'accuracy'}, jit_compile=False)
    return m, _u(b, 128, 128, 3), {'age': 90 * _u(b, 1), 'gender': _i(2, b, 1, dtype='float32'), 'ethnicity': _i(5, b)}

def _contrastive(y, d):
    y = ops.cast(y, d.dtype)
    return ops.mean(y * ops.square(d) + (1 - y) * ops.square(ops.maximum(1.0 - d, 0.0)), axis=-1)

def siamese(b):
    e = keras.Sequential([keras.Input((105, 105, 1)),
        layers.Conv2D(64, 10, activation='relu'), layers.MaxPooling2D(),
        layers.Conv2D(128, 7, activation='relu'), layers.MaxPooling2D(),
        layers.Conv2D(128, 4, activation='relu'), layers.MaxPooling2D(),
        layers.Conv2D(256, 4, activation='relu'), layers.Flatten(), layers.Dense(1024)], name='embed')
    l, r = keras.Input((105, 105, 1)), keras.Input((105, 105, 1))
    d = layers.Lambda(lambda t: ops.sqrt(ops.maximum(ops.sum(ops.square(t[0] - t[1]), axis=1, keepdims=True), 1e-7)),
                      output_shape=(1,))([e(l), e(r)])
    m = keras.Model([l, r], d)
    m.compile(keras.optimizers.RMSprop(1e-4), _contrastive, jit_compile=False)
    return m, (_u(b, 105, 105, 1), _u(b, 105, 105, 1)), _i(2, b, 1, dtype='float32')


# ---------------------------------------------------------------- video, volumes

def cnn3d_ct(b):
    """keras.io '3D image classification from CT scans', at half the resolution."""
    i = keras.Input((64, 64, 32, 1)); h = i
    for n in (64, 64, 128, 256):
        h = layers.Conv3D(n, 3, activation='relu', padding='same' if n == 256 else 'valid')(h)
        h = layers.BatchNormalization()(layers.MaxPooling3D(2, padding='same')(h))
    h = layers.Dense(512, activation='relu')(layers.GlobalAveragePooling3D()(h))
    m = keras.Model(i, layers.Dense(1, activation='sigmoid')(layers.Dropout(0.3)(h)))
    m.compile(keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(1e-4, 100000, 0.96, staircase=True)),
              'binary_crossentropy', metrics=['acc'], jit_compile=False)
    return m, _u(b, 64, 64, 32, 1), _i(2, b, 1, dtype='float32')

def convlstm_frames(b):
    """Next-frame prediction on Moving MNIST, smaller frames."""
    i = keras.Input((None, 40, 40, 1)); h = i
    for k in (5, 3, 1):
        h = layers.ConvLSTM2D(32, k, padding='same', return_sequences=True, activation='relu')(h)
        if k > 1: h = layers.BatchNormalization()(h)
    m = keras.Model(i, layers.Conv3D(1, 3, activation='sigmoid', padding='same')(h))
    m.compile(keras.optimizers.Adam(), 'binary_crossentropy', jit_compile=False)
    return m, _u(b, 12, 40, 40, 1), _u(b, 12, 40, 40, 1)


# ---------------------------------------------------------------- tables, recommenders

def ncf_recommender(b):
    """Neural collaborative filtering: GMF and MLP branches, 250k users and 60k items."""
    u, t = keras.Input((1,), dtype='int32', name='user'), keras.Input((1,), dtype='int32', name='item')
    emb = lambda n, d, x: layers.Flatten()(layers.Embedding(n, d, embeddings_initializer='he_normal')(x))
    g = layers.Multiply()([emb(250000, 32, u), emb(60000, 32, t)])
    h = layers.Concatenate()([emb(250000, 64, u), emb(60000, 64, t)])
    for n in (256, 128, 64): h = layers.Dropout(0.2)(layers.Dense(n, activation='relu')(h))
    m = keras.Model({'user': u, 'item': t}, layers.Dense(1, activation='sigmoid')(layers.Concatenate()([g, h])))
    m.compile('adam', 'binary_crossentropy', metrics=['accuracy'], jit_compile=False)
    return m, {'user': _i(250000, b, 1, dtype='int32'), 'item': _i(60000, b, 1, dtype='int32')}, _i(2, b, 1, dtype='float32')

def wide_and_deep(b):
    """13 numbers and 26 categories, Criteo-like; AUC, precision and recall carry state."""
    n = keras.Input((13,), name='numeric')
    cs = [keras.Input((1,), dtype='int32', name=f'c{k}') for k in range(26)]
    sizes = [(37 * (k + 3) ** 2) % 20000 + 50 for k in range(26)]
    wide = layers.Add()([layers.Flatten()(layers.Embedding(s, 1)(c)) for s, c in zip(sizes, cs)] + [layers.Dense(1)(n)])
    h = layers.Concatenate()([layers.BatchNormalization()(n)] + [layers.Flatten()(layers.Embedding(s, 16)(c)) for s, c in zip(sizes, cs)])
    for k in (512, 256, 128): h = layers.Dropout(0.1)(layers.ReLU()(layers.BatchNormalization()(layers.Dense(k)(h))))
    m = keras.Model([n] + cs, layers.Activation('sigmoid')(layers.Add()([wide, layers.Dense(1)(h)])))
    m.compile(keras.optimizers.Adagrad(0.01), 'binary_crossentropy',
              metrics=[keras.metrics.AUC(), keras.metrics.AUC(curve='PR'), keras.metrics.Precision(), keras.metrics.Recall()], jit_compile=False)
    x = {'numeric': _f(b, 13), **{f'c{k}': _i(s, b, 1, dtype='int32') for k, s in enumerate(sizes)}}
    return m, x, _i(2, b, 1, dtype='float32')


# ---------------------------------------------------------------- custom train_step

class VAE(keras.Model):
    def __init__(self, z=32, **k):
        super().__init__(**k)
        i = keras.Input((64, 64, 3)); h = i
        for n in (32, 64, 128): h = layers.Conv2D(n, 3, 2, padding='same', activation='relu')(h)
        h = layers.Dense(256, activation='relu')(layers.Flatten()(h))
        self.enc = keras.Model(i, [layers.Dense(z)(h), layers.Dense(z)(h)])
        j = keras.Input((z,)); h = layers.Reshape((8, 8, 128))(layers.Dense(8 * 8 * 128, activation='relu')(j))
        for n in (128, 64, 32): h = layers.Conv2DTranspose(n, 3, 2, padding='same', activation='relu')(h)
        self.dec = keras.Model(j, layers.Conv2DTranspose(3, 3, padding='same', activation='sigmoid')(h))
        self.seed = keras.random.SeedGenerator(7)
        self.lt, self.kt = keras.metrics.Mean(name='loss'), keras.metrics.Mean(name='kl')
    @property
    def metrics(self): return [self.lt, self.kt]
    def call(self, x):
        return self.dec(self.enc(x)[0])
    def train_step(self, data):
        import tensorflow as tf
        x = data[0] if isinstance(data, (tuple, list)) else data
        with tf.GradientTape() as t:
            mu, lv = self.enc(x, training=True)
            y = self.dec(mu + ops.exp(0.5 * lv) * keras.random.normal(ops.shape(mu), seed=self.seed), training=True)
            rec = ops.mean(ops.sum(keras.losses.binary_crossentropy(x, y), axis=(1, 2)))
            kl = ops.mean(ops.sum(-0.5 * (1 + lv - ops.square(mu) - ops.exp(lv)), axis=1))
            loss = rec + kl
        g = t.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(g, self.trainable_weights))
        self.lt.update_state(loss); self.kt.update_state(kl)
        return {'loss': self.lt.result(), 'kl': self.kt.result()}

def vae_custom_step(b):
    m = VAE()
    m(np.zeros((1, 64, 64, 3), 'float32'))
    m.compile(keras.optimizers.Adam(1e-3), loss='binary_crossentropy', jit_compile=False)
    x = _u(b, 64, 64, 3)
    return m, x, x.copy()


MODELS = {f.__name__: f for f in (
    densenet121, inceptionv3, xception, nasnetmobile, resnet101v2, mobilenetv3small, convnexttiny, efficientnetv2b0, vgg19_head,
    transfer_frozen, finetune_top, gru_text, bilstm_imdb, gpt_tied, miniature_gpt, seq2seq_attention, bert_small_adafactor,
    transformer_fp16, conv1d_audio, tcn_forecast, vit, conv_autoencoder, unet_segmentation, cifar_resnet_accum, resnet18_bf16,
    multi_output_faces, siamese, cnn3d_ct, convlstm_frames, ncf_recommender, wide_and_deep, vae_custom_step)}

BATCHES = {
    'densenet121': [3, 10, 24], 'inceptionv3': [2, 9, 28], 'xception': [4, 11, 20], 'nasnetmobile': [5, 16, 40],
    'resnet101v2': [1, 4, 10], 'mobilenetv3small': [6, 24, 72], 'convnexttiny': [2, 7, 18], 'efficientnetv2b0': [4, 14, 36],
    'vgg19_head': [3, 12, 30], 'transfer_frozen': [8, 48, 128], 'finetune_top': [5, 20, 56],
    'gru_text': [16, 64, 160], 'bilstm_imdb': [10, 50, 200], 'gpt_tied': [1, 6, 16], 'miniature_gpt': [4, 12, 26],
    'seq2seq_attention': [8, 40, 96], 'bert_small_adafactor': [2, 10, 20], 'transformer_fp16': [4, 16, 40],
    'conv1d_audio': [12, 48, 128], 'tcn_forecast': [16, 96, 300], 'vit': [3, 10, 32], 'conv_autoencoder': [6, 20, 60],
    'unet_segmentation': [1, 5, 12], 'cifar_resnet_accum': [20, 100, 256], 'resnet18_bf16': [4, 14, 36],
    'multi_output_faces': [7, 28, 80], 'siamese': [4, 12, 30], 'cnn3d_ct': [1, 3, 8], 'convlstm_frames': [1, 3, 6],
    'ncf_recommender': [256, 2048, 16384], 'wide_and_deep': [128, 1000, 6000], 'vae_custom_step': [24, 80, 250]}
