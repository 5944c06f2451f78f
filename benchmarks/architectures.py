"""The trainings of twenty public architectures, in the form of `exactness_cases.py`, without any use of oomph.

    python benchmarks/architectures.py bert --dtype float64 --jit off --out trained.npz [--reorder]
    python benchmarks/architectures.py --list

The networks come from keras-hub and keras.applications where these can build them tiny without a download. The others
follow their papers, in few lines. Each architecture uses its usual optimizer, schedule, loss, masks and dropout. A
training is one epoch: four full batches, and mostly a ragged one. The widths make the activations of a batch take most
of the memory.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import exactness_cases
import keras
import numpy as np
import tensorflow as tf
from exactness_cases import Case, Setting, Trained, crossentropy, one_hot
from keras import layers, losses, ops, optimizers, regularizers

CASES: dict[str, Case] = {}
case = functools.partial(exactness_cases.case, into=CASES)
hub = functools.partial(case, needs="keras_hub")

VOCABULARY, LENGTH = 60, 48
CLASSES = exactness_cases.CLASSES
IMAGE = (32, 32, 3)


# Data ----------------------------------------------------------------------------------------------------------------


def text(s: Setting, length: int = LENGTH, seed: int = 1) -> tuple[Any, Any]:
    """Words that follow from the word before, mostly; and the mask: 1 where there is a word, 0 behind the last."""
    generator = np.random.default_rng(seed)
    words = np.empty((s.samples, length), "int32")
    words[:, 0] = generator.integers(2, VOCABULARY, s.samples)
    for place in range(1, length):
        words[:, place] = 2 + (7 * words[:, place - 1] + generator.integers(0, 3, s.samples)) % (VOCABULARY - 2)
    mask = np.arange(length) < generator.integers(length // 3, length + 1, s.samples)[:, None]
    return words * mask, mask.astype("int32")


def next_words(s: Setting) -> tuple[Any, Any, Any]:
    """For a causal language model: words with their padding, the word after each, and which of these count."""
    words, mask = text(s, LENGTH + 1)
    return {"token_ids": words[:, :-1], "padding_mask": mask[:, :-1]}, words[:, 1:], mask[:, 1:].astype(s.dtype)


def hidden_words(s: Setting, places: int = 7) -> tuple[Any, Any, Any]:
    """For a masked language model: words, some hidden behind number 1; what they were, and which of these count."""
    words, mask = text(s)
    generator = np.random.default_rng(2)
    positions = np.sort(generator.permuted(np.tile(np.arange(LENGTH), (s.samples, 1)), axis=1)[:, :places], axis=1)
    hidden = np.take_along_axis(words, positions, axis=1)
    counts = np.take_along_axis(mask, positions, axis=1)
    seen = words.copy()
    np.put_along_axis(seen, positions, counts, axis=1)
    x = {"token_ids": seen, "padding_mask": mask, "mask_positions": (positions * counts).astype("int32")}
    return x, hidden, counts.astype(s.dtype)


def photographs(s: Setting, shape: tuple[int, int, int] = IMAGE) -> tuple[Any, Any]:
    """Noise with a bright disc; the disc's colour and size make the class."""
    generator = np.random.default_rng(3)
    x, y = generator.standard_normal((s.samples, *shape)) * 0.3, generator.integers(0, CLASSES, s.samples)
    x[np.arange(s.samples), :, :, y % 3] += discs(s, shape, 3 + 3 * (y // 3))
    return x.astype(s.dtype), y


def discs(s: Setting, shape: tuple[int, int, int], radius: Any) -> Any:
    """A disc in each picture: 1 inside, 0 outside."""
    generator = np.random.default_rng(4)
    row, column = generator.integers(shape[0] // 4, 3 * shape[0] // 4, (2, s.samples, 1, 1))
    rows, columns = np.arange(shape[0])[:, None], np.arange(shape[1])
    distance = (rows - row) ** 2 + (columns - column) ** 2
    return (distance < np.reshape(radius, (-1, 1, 1)) ** 2).astype("float64")


# Training ------------------------------------------------------------------------------------------------------------


def fit(s: Setting, model: keras.Model, x: Any, y: Any = None, sample_weight: Any = None) -> Trained:
    """One epoch; the samples of every array are in the order that is asked for."""
    given = {"x": x, "y": y, "sample_weight": sample_weight}
    given = {name: value for name, value in given.items() if value is not None}
    ordered = keras.tree.map_structure(lambda array: s.in_batches(array)[0], given)
    return Trained(model, dict(model.fit(**ordered, batch_size=s.batch, epochs=1, shuffle=False, verbose=0).history))


def warm_up(peak: float) -> Any:
    """Two steps of warm-up, then half a cosine."""
    return optimizers.schedules.CosineDecay(0.0, 10, alpha=0.1, warmup_target=peak, warmup_steps=2)


# Text ----------------------------------------------------------------------------------------------------------------


@hub("BERT, masked words (keras-hub)", batch=32, reorder=False)
def bert(s: Setting) -> Trained:
    from keras_hub.models import BertBackbone, BertMaskedLM

    backbone = BertBackbone(
        VOCABULARY, num_layers=2, num_heads=4, hidden_dim=32, intermediate_dim=128, max_sequence_length=LENGTH
    )
    model = BertMaskedLM(backbone)
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.01, global_clipnorm=1.0, epsilon=1e-6)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    model.compile(optimizer, crossentropy(), weighted_metrics=[accuracy], jit_compile=s.jit)
    x, y, weights = hidden_words(s)
    return fit(s, model, {**x, "segment_ids": np.zeros_like(x["token_ids"])}, y, weights)


@hub("GPT-2, tied embeddings (keras-hub)", batch=32, reorder=False)
def gpt2(s: Setting) -> Trained:
    from keras_hub.models import GPT2Backbone, GPT2CausalLM

    backbone = GPT2Backbone(
        VOCABULARY, num_layers=2, num_heads=4, hidden_dim=32, intermediate_dim=128, max_sequence_length=LENGTH
    )
    model = GPT2CausalLM(backbone)
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0)
    model.compile(optimizer, crossentropy(), jit_compile=s.jit)
    return fit(s, model, *next_words(s))


@hub("Llama, grouped queries, rotary positions (keras-hub)", batch=32, dtypes=("float32",))
def llama(s: Setting) -> Trained:
    from keras_hub.models import LlamaBackbone, LlamaCausalLM

    backbone = LlamaBackbone(
        VOCABULARY, num_layers=2, num_query_heads=4, num_key_value_heads=2, hidden_dim=32, intermediate_dim=96
    )
    model = LlamaCausalLM(backbone)
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0)
    model.compile(optimizer, crossentropy(reduction="mean_with_sample_weight"), jit_compile=s.jit)
    return fit(s, model, *next_words(s))


@hub("Mixtral, mixture of experts, load-balancing loss (keras-hub)", batch=32, dtypes=("float32",), must_refuse=True)
def mixtral(s: Setting) -> Trained:
    """The load-balancing loss multiplies two means over all words of the batch."""
    from keras_hub.models import MixtralBackbone, MixtralCausalLM

    backbone = MixtralBackbone(
        VOCABULARY,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=32,
        intermediate_dim=48,
        num_experts=4,
        top_k=2,
        sliding_window=16,
    )
    model = MixtralCausalLM(backbone)
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.1, beta_2=0.95, global_clipnorm=1.0)
    model.compile(optimizer, crossentropy(), jit_compile=s.jit)
    return fit(s, model, *next_words(s))


@hub("ALBERT, masked words, weights shared by all layers, LAMB (keras-hub)", batch=32)
def albert(s: Setting) -> Trained:
    """Without dropout, as its largest model is pretrained."""
    from keras_hub.models import AlbertBackbone, AlbertMaskedLM

    backbone = AlbertBackbone(
        VOCABULARY,
        num_layers=3,
        num_heads=4,
        embedding_dim=16,
        hidden_dim=32,
        intermediate_dim=128,
        max_sequence_length=LENGTH,
    )
    model = AlbertMaskedLM(backbone)
    decay = optimizers.schedules.PolynomialDecay(2e-3, 10, end_learning_rate=0.0)
    optimizer = optimizers.Lamb(decay, weight_decay=0.01, epsilon=1e-6)
    model.compile(optimizer, crossentropy(), jit_compile=s.jit)
    x, y, weights = hidden_words(s)
    return fit(s, model, {**x, "segment_ids": np.zeros_like(x["token_ids"])}, y, weights)


@hub("DeBERTa, relative positions in a shared table (keras-hub)", batch=32, reorder=False, dtypes=("float32",))
def deberta(s: Setting) -> Trained:
    from keras_hub.models import DebertaV3Backbone, DebertaV3TextClassifier

    backbone = DebertaV3Backbone(
        VOCABULARY,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=96,
        max_sequence_length=LENGTH,
        bucket_size=8,
    )
    model = DebertaV3TextClassifier(backbone, CLASSES)
    optimizer = optimizers.AdamW(warm_up(5e-4), weight_decay=0.01, global_clipnorm=1.0, epsilon=1e-6)
    model.compile(optimizer, crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    words, mask = text(s)
    return fit(s, model, {"token_ids": words, "padding_mask": mask}, words[:, 1] % CLASSES)


@hub("T5 1.1, encoder and decoder, Adafactor (keras-hub)", batch=32, dtypes=("float32",), jits=("off",))
def t5(s: Setting) -> Trained:
    """Without dropout, as T5 1.1 is pretrained. The embedding is also the last layer; its output is scaled."""
    from keras_hub.models import T5Backbone

    backbone = T5Backbone(
        VOCABULARY, num_layers=2, num_heads=4, hidden_dim=32, intermediate_dim=64, dropout=0.0, activation="gelu"
    )
    decoded = backbone.output["decoder_sequence_output"]
    model = keras.Model(backbone.input, backbone.token_embedding(decoded * 32**-0.5, reverse=True))
    optimizer = optimizers.Adafactor(1e-2, relative_step=False)
    loss = crossentropy(reduction="mean_with_sample_weight")
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    model.compile(optimizer, loss, weighted_metrics=[accuracy], jit_compile=s.jit)
    (words, mask), (target, counts) = text(s), text(s, 32, seed=5)
    x = {
        "encoder_token_ids": words,
        "encoder_padding_mask": mask,
        "decoder_token_ids": np.pad(target[:, :-1], ((0, 0), (1, 0))),
        "decoder_padding_mask": np.pad(counts[:, :-1], ((0, 0), (1, 0)), constant_values=1),
    }
    return fit(s, model, x, target, counts.astype(s.dtype))


# Sound ---------------------------------------------------------------------------------------------------------------


@hub("Whisper, sound to text, padding by ignore_class (keras-hub)", batch=64, jits=("off",))
def whisper(s: Setting) -> Trained:
    from keras_hub.models import WhisperBackbone

    backbone = WhisperBackbone(
        VOCABULARY,
        num_layers=2,
        num_heads=4,
        hidden_dim=32,
        intermediate_dim=128,
        num_mels=20,
        max_encoder_sequence_length=128,
        max_decoder_sequence_length=24,
    )
    decoded = backbone.output["decoder_sequence_output"]
    model = keras.Model(backbone.input, backbone.token_embedding(decoded, reverse=True))
    decay = optimizers.schedules.PolynomialDecay(1e-3, 10, end_learning_rate=0.0)
    optimizer = optimizers.AdamW(decay, weight_decay=0.1, beta_2=0.98, epsilon=1e-6, global_clipnorm=1.0)
    model.compile(optimizer, crossentropy(ignore_class=0), jit_compile=s.jit)
    words, mask = text(s, 24)
    sound = np.random.default_rng(6).standard_normal((s.samples, 128, 20))
    sound[:, ::6, :] += words[:, :22, None] / VOCABULARY
    x = {
        "encoder_features": sound.astype(s.dtype),
        "decoder_token_ids": np.pad(words[:, :-1], ((0, 0), (1, 0)), constant_values=1),
        "decoder_padding_mask": np.pad(mask[:, :-1], ((0, 0), (1, 0)), constant_values=1),
    }
    return fit(s, model, x, words)


def post_norm_block(x: Any, heads: int, width: int, dropout: float) -> Any:
    """A layer of Transformer's encoder, normalised behind each part."""
    size = x.shape[-1]
    attended = layers.MultiHeadAttention(heads, size // heads, dropout=dropout)(x, x)
    x = layers.LayerNormalization()(x + layers.Dropout(dropout)(attended))
    inner = layers.Dropout(dropout)(layers.Dense(width, activation="gelu")(x))
    return layers.LayerNormalization()(x + layers.Dropout(dropout)(layers.Dense(size)(inner)))


@case("wav2vec 2.0, fine-tuned with CTC (own)", batch=256, reorder=False, dtypes=("float32",))
def wav2vec2(s: Setting) -> Trained:
    """After Baevski et al., wav2vec 2.0 (2020): convolutions over the wave, a Transformer over them, CTC on top."""
    wave = keras.Input((1600, 1))
    x = layers.Conv1D(32, 10, strides=5, use_bias=False)(wave)
    x = layers.Activation("gelu")(layers.GroupNormalization(groups=-1)(x))
    for kernel in (3, 2):
        x = layers.Conv1D(32, kernel, strides=2, use_bias=False, activation="gelu")(x)
    x = layers.Dropout(0.1)(layers.Dense(32)(layers.LayerNormalization()(x)))
    positions = layers.Conv1D(32, 16, padding="same", groups=4, activation="gelu")(x)
    x = layers.Dropout(0.1)(layers.LayerNormalization()(x + positions))
    for _ in range(2):
        x = post_norm_block(x, heads=4, width=128, dropout=0.1)
    model = keras.Model(wave, layers.Dense(30)(layers.Dropout(0.1)(x)))
    model.compile(
        optimizers.Adam(warm_up(5e-4), beta_2=0.98, epsilon=1e-6, global_clipnorm=1.0), losses.CTC(), jit_compile=s.jit
    )
    generator = np.random.default_rng(7)
    letters = generator.integers(1, 30, (s.samples, 8))
    letters[np.arange(8) >= generator.integers(3, 9, s.samples)[:, None]] = 0
    pitch = np.repeat(letters / 30, 200, axis=1)
    heard = np.sin(np.cumsum(pitch, axis=1)) + 0.1 * generator.standard_normal((s.samples, 1600))
    return fit(s, model, heard[..., None].astype(s.dtype), letters)


# Pictures ------------------------------------------------------------------------------------------------------------


@hub("ViT, SGD with momentum and clipping (keras-hub)", batch=32)
def vit(s: Setting) -> Trained:
    """Fine-tuned as in the paper: no dropout, gradients clipped at norm 1."""
    from keras_hub.models import ViTBackbone, ViTImageClassifier

    backbone = ViTBackbone(IMAGE, patch_size=4, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=128)
    model = ViTImageClassifier(backbone, CLASSES, pooling="token")
    optimizer = optimizers.SGD(warm_up(0.03), momentum=0.9, global_clipnorm=1.0)
    model.compile(optimizer, crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    return fit(s, model, *photographs(s))


@hub("Swin, shifted windows, stochastic depth (keras-hub)", batch=32, reorder=False, jits=("off",))
def swin(s: Setting) -> Trained:
    from keras_hub.models import SwinTransformerBackbone, SwinTransformerImageClassifier

    backbone = SwinTransformerBackbone(
        IMAGE, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4, patch_size=2, drop_path=0.1
    )
    model = SwinTransformerImageClassifier(backbone, CLASSES)
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.05, global_clipnorm=5.0)
    loss = losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=s.jit)
    x, y = photographs(s)
    return fit(s, model, x, one_hot(y, s.dtype))


@case("ConvNeXt, stochastic depth, averaged weights (keras.applications)", batch=128, reorder=False)
def convnext(s: Setting) -> Trained:
    from keras.src.applications.convnext import ConvNeXt

    model = ConvNeXt(
        depths=[1, 1, 1, 1],
        projection_dims=[16, 20, 24, 32],
        drop_path_rate=0.1,
        include_preprocessing=False,
        input_shape=(64, 64, 3),
        classes=CLASSES,
        classifier_activation=None,
    )
    optimizer = optimizers.AdamW(warm_up(1e-3), weight_decay=0.05, use_ema=True, ema_momentum=0.99)
    loss = losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=s.jit)
    x, y = photographs(s, (64, 64, 3))
    return fit(s, model, x, one_hot(y, s.dtype))


@case("EfficientNet, BatchNormalization, RMSprop (keras.applications)", batch=64, reorder=False)
def efficientnet(s: Setting) -> Trained:
    from keras.src.applications.efficientnet import DEFAULT_BLOCKS_ARGS, EfficientNet

    model = EfficientNet(
        width_coefficient=0.5,
        depth_coefficient=0.5,
        default_size=32,
        blocks_args=DEFAULT_BLOCKS_ARGS[:3],
        weights=None,
        input_shape=IMAGE,
        classes=CLASSES,
        classifier_activation=None,
    )
    decay = optimizers.schedules.ExponentialDecay(1e-3, 2, 0.97, staircase=True)
    optimizer = optimizers.RMSprop(decay, rho=0.9, momentum=0.9, epsilon=1e-3, weight_decay=1e-5)
    loss = losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=s.jit)
    x, y = photographs(s)
    return fit(s, model, 255 * (x + 1) / 3, one_hot(y, s.dtype))


@hub(
    "SegFormer, a class for each pixel, ignore_class (keras-hub)",
    batch=96,
    reorder=False,
    dtypes=("float32",),
    jits=("off",),
)
def segformer(s: Setting) -> Trained:
    """Its decoder has BatchNormalization; pixels at the edge of the disc are marked 255 and do not count."""
    from keras_hub.models import MiTBackbone, SegFormerBackbone, SegFormerImageSegmenter

    encoder = MiTBackbone(
        layerwise_depths=[1, 1, 1, 1],
        num_layers=4,
        layerwise_num_heads=[1, 2, 2, 4],
        layerwise_sr_ratios=[4, 2, 1, 1],
        max_drop_path_rate=0.1,
        layerwise_patch_sizes=[7, 3, 3, 3],
        layerwise_strides=[4, 2, 2, 2],
        image_shape=(64, 64, 3),
        hidden_dims=[16, 20, 24, 32],
    )
    model = SegFormerImageSegmenter(SegFormerBackbone(encoder, projection_filters=32), num_classes=3)
    decay = optimizers.schedules.PolynomialDecay(1e-3, 10, end_learning_rate=0.0)
    optimizer = optimizers.AdamW(decay, weight_decay=0.01)
    model.compile(optimizer, crossentropy(ignore_class=255), metrics=["accuracy"], jit_compile=s.jit)
    x, y = photographs(s, (64, 64, 3))
    inner, outer = (discs(s, (64, 64, 3), 3 + 3 * (y // 3) + more).astype("int32") for more in (0, 2))
    return fit(s, model, x, np.where(outer > inner, 255, inner * (1 + y[:, None, None] % 2)))


def gated(skipped: Any, gate: Any, width: int) -> Any:
    """The attention gate: what comes from below says where the skip connection matters."""
    both = layers.Conv2D(width, 1)(skipped) + layers.Conv2D(width, 1)(gate)
    return skipped * layers.Conv2D(1, 1, activation="sigmoid")(layers.Activation("relu")(both))


@case("Attention U-Net, Dice loss over the whole batch (own)", batch=64, must_refuse=True)
def attention_unet(s: Setting) -> Trained:
    """After Oktay et al., Attention U-Net (2018). Keras' Dice() is one fraction over all pixels of the batch."""

    def twice(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x)
        return x

    x = inputs = keras.Input((48, 48, 3))
    skips = []
    for width in (8, 16):
        skips.append(twice(x, width))
        x = layers.MaxPooling2D()(skips[-1])
    x = twice(x, 32)
    for width in (16, 8):
        x = layers.Conv2DTranspose(width, 2, strides=2)(x)
        x = twice(layers.Concatenate()([gated(skips.pop(), x, width), x]), width)
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))
    model.compile(optimizers.Adam(1e-3), losses.Dice(), metrics=["mae"], jit_compile=s.jit)
    x, y = photographs(s, (48, 48, 3))
    return fit(s, model, x, discs(s, (48, 48, 3), 3 + 3 * (y // 3)).astype(s.dtype)[..., None])


@keras.saving.register_keras_serializable()
def waves(power: Any, size: int) -> Any:
    """The power of the noise as sines and cosines of many frequencies."""
    frequencies = ops.cast(2 * math.pi * np.geomspace(1.0, 1000.0, size // 2), power.dtype)
    return ops.concatenate([ops.sin(frequencies * power), ops.cos(frequencies * power)], axis=3)


def denoiser(size: int = 24, width: int = 16) -> keras.Model:
    """A U-Net that is told how strong the noise is, with attention over the smallest picture."""

    def block(x: Any, emb: Any, width: int) -> Any:
        known = x if x.shape[-1] == width else layers.Conv2D(width, 1)(x)
        x = layers.Conv2D(width, 3, padding="same")(layers.Activation("swish")(layers.GroupNormalization(8)(x)))
        x = x + layers.Dense(width)(emb)
        x = layers.Activation("swish")(layers.GroupNormalization(8)(x))
        return known + layers.Conv2D(width, 3, padding="same", kernel_initializer="zeros")(layers.Dropout(0.1)(x))

    noisy, power = keras.Input((size, size, 1)), keras.Input((1, 1, 1))
    emb = layers.Dense(4 * width, activation="swish")(layers.Lambda(waves, arguments={"size": 16})(power))
    x = layers.Conv2D(width, 3, padding="same")(noisy)
    skips = []
    for times in (1, 2):
        x = block(x, emb, times * width)
        skips.append(x)
        x = layers.AveragePooling2D(2)(x)
    x = block(x, emb, 2 * width)
    flat = layers.Reshape((-1, 2 * width))(layers.GroupNormalization(8)(x))
    x = x + layers.Reshape(x.shape[1:])(layers.MultiHeadAttention(2, width)(flat, flat))
    for times in (2, 1):
        x = layers.Concatenate()([layers.UpSampling2D()(x), skips.pop()])
        x = block(x, emb, times * width)
    return keras.Model([noisy, power], layers.Conv2D(1, 1, kernel_initializer="zeros")(x))


class Diffusion(keras.Model):
    """The pattern of the Keras example "Denoising Diffusion Implicit Models": noise of its own, averaged weights."""

    def __init__(self) -> None:
        super().__init__()
        self.network = denoiser()
        self.ema_network = keras.models.clone_model(self.network)
        self.ema_network.set_weights(self.network.get_weights())

    def compile(self, **options: Any) -> None:
        super().compile(**options)
        self.noise_loss_tracker = keras.metrics.Mean(name="n_loss")

    @property
    def metrics(self) -> list[Any]:
        return [self.noise_loss_tracker]

    def train_step(self, images: Any) -> dict[str, Any]:
        noises = keras.random.normal(ops.shape(images), dtype=images.dtype)
        times = keras.random.uniform((ops.shape(images)[0], 1, 1, 1), 0.0, 1.0, dtype=images.dtype)
        start, end = math.acos(0.95), math.acos(0.02)
        angles = start + times * (end - start)
        signal_rates, noise_rates = ops.cos(angles), ops.sin(angles)
        noisy_images = signal_rates * images + noise_rates * noises
        with tf.GradientTape() as tape:
            pred_noises = self.network([noisy_images, noise_rates**2], training=True)
            noise_loss = self.loss(noises, pred_noises)
        gradients = tape.gradient(noise_loss, self.network.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.network.trainable_weights, strict=True))
        self.noise_loss_tracker.update_state(noise_loss)
        for weight, ema_weight in zip(self.network.weights, self.ema_network.weights, strict=True):
            ema_weight.assign(0.999 * ema_weight + (1 - 0.999) * weight)
        return {metric.name: metric.result() for metric in self.metrics}


@case("denoising diffusion, U-Net with time embedding, own train_step (own)", batch=64, reorder=False, jits=("off",))
def ddpm(s: Setting) -> Trained:
    """After Ho et al., Denoising Diffusion Probabilistic Models (2020), trained as in the Keras example."""
    model = Diffusion()
    optimizer = optimizers.AdamW(1e-3, weight_decay=1e-4)
    model.compile(optimizer=optimizer, loss=losses.mean_absolute_error, jit_compile=s.jit)
    return fit(s, model, photographs(s, (24, 24, 3))[0][..., :1])


@case("ConvLSTM, next picture of a film (keras.layers)", batch=32, ragged=0)
def conv_lstm(s: Setting) -> Trained:
    """After Shi et al., Convolutional LSTM Network (2015), as in the Keras example on next-frame prediction."""
    model = keras.Sequential(
        [
            keras.Input((8, 24, 24, 1)),
            layers.ConvLSTM2D(8, 5, padding="same", return_sequences=True),
            layers.ConvLSTM2D(8, 3, padding="same", return_sequences=True),
            layers.Conv3D(1, 3, padding="same", activation="sigmoid"),
        ]
    )
    model.compile(optimizers.RMSprop(1e-3, rho=0.9), losses.BinaryCrossentropy(), jit_compile=s.jit)
    first = discs(s, (24, 24, 1), 4)
    steps = np.random.default_rng(8).integers(-2, 3, s.samples)
    film = [np.stack([np.roll(image, step * t, 1) for t in range(9)]) for image, step in zip(first, steps, strict=True)]
    frames = np.stack(film)[..., None].astype(s.dtype)
    return fit(s, model, frames[:, :-1], frames[:, 1:])


# Others --------------------------------------------------------------------------------------------------------------


class Pairs(keras.Model):
    """Pictures and their captions; each has to be found among those of the whole batch."""

    def __init__(self, backbone: keras.Model) -> None:
        super().__init__()
        self.backbone = backbone

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.backbone(inputs, training=training)

    def compute_loss(self, x: Any = None, y: Any = None, y_pred: Any = None, *_: Any, **__: Any) -> Any:
        labels = ops.arange(ops.shape(y_pred["text_logits"])[0])
        sides = [y_pred["vision_logits"], y_pred["text_logits"]]
        return (
            sum(ops.mean(losses.sparse_categorical_crossentropy(labels, side, from_logits=True)) for side in sides) / 2
        )


@hub("CLIP, pictures and captions, contrastive over the batch (keras-hub)", batch=32, must_refuse=True, jits=("off",))
def clip(s: Setting) -> Trained:
    from keras_hub.models import CLIPBackbone
    from keras_hub.src.models.clip.clip_text_encoder import CLIPTextEncoder
    from keras_hub.src.models.clip.clip_vision_encoder import CLIPVisionEncoder

    both = {"hidden_dim": 32, "num_layers": 2, "num_heads": 4, "intermediate_dim": 96}
    towers = (
        CLIPVisionEncoder(4, **both, image_shape=IMAGE),
        CLIPTextEncoder(VOCABULARY, 32, **both, max_sequence_length=16),
    )
    model = Pairs(CLIPBackbone(*towers, projection_dim=16))
    optimizer = optimizers.AdamW(warm_up(5e-4), weight_decay=0.2, beta_2=0.98, epsilon=1e-6)
    model.compile(optimizer, jit_compile=s.jit)
    (x, y), (words, _) = photographs(s), text(s, 16)
    words[:, 0] = 2 + y
    return fit(s, model, {"images": x, "token_ids": words})


@case("DLRM, embedding tables, dot products, Adagrad (own)", batch=4096)
def dlrm(s: Setting) -> Trained:
    """After Naumov et al., Deep Learning Recommendation Model (2019): numbers and kinds, and how they go together."""
    numbers, kinds = keras.Input((13,)), keras.Input((8,), dtype="int32")
    bottom = layers.Dense(16, activation="relu")(layers.Dense(128, activation="relu")(numbers))
    tables = [layers.Embedding(100 + 50 * number, 16)(kinds[:, number]) for number in range(8)]
    features = ops.stack([bottom, *tables], axis=1)
    products = ops.matmul(features, ops.transpose(features, (0, 2, 1)))
    rows, columns = np.tril_indices(9, -1)
    pairs = ops.take(ops.reshape(products, (-1, 81)), rows * 9 + columns, axis=1)
    top = layers.Concatenate()([bottom, pairs])
    for width in (256, 64):
        top = layers.Dense(width, activation="relu")(top)
    model = keras.Model([numbers, kinds], layers.Dense(1, activation="sigmoid")(top))
    auc = keras.metrics.AUC(name="auc")
    model.compile(optimizers.Adagrad(0.02), "binary_crossentropy", metrics=[auc], jit_compile=s.jit)
    generator = np.random.default_rng(9)
    x = generator.lognormal(size=(s.samples, 13))
    chosen = (generator.random((s.samples, 8)) ** 2 * (100 + 50 * np.arange(8))).astype("int32")
    clicked = np.log(x[:, :2]).sum(axis=1) + (chosen[:, 0] % 3) > 1 + generator.standard_normal(s.samples)
    return fit(s, model, [np.log1p(x).astype(s.dtype), chosen], clicked.astype(s.dtype)[:, None])


class GraphNetwork(keras.Model):
    """Graph convolutions; what is known of a graph is the mean over the nodes it really has."""

    def __init__(self) -> None:
        super().__init__()
        decay = regularizers.L2(5e-4)
        self.widths = [layers.Dense(128, use_bias=False, kernel_regularizer=decay) for _ in range(2)]
        self.dropouts = [layers.Dropout(0.5) for _ in range(2)]
        self.last = layers.Dense(CLASSES)

    def call(self, graphs: Any, training: bool = False) -> Any:
        x, real = graphs["nodes"], graphs["real"][..., None]
        for dropout, dense in zip(self.dropouts, self.widths, strict=True):
            x = ops.relu(ops.matmul(graphs["edges"], dense(dropout(x, training=training))))
        return self.last(ops.sum(x * real, axis=1) / ops.sum(real, axis=1))


@case("graph convolutional network, padded graphs (own)", batch=64, reorder=False)
def gcn(s: Setting) -> Trained:
    """After Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks (2017)."""
    generator = np.random.default_rng(10)
    real = np.arange(48) < generator.integers(8, 49, s.samples)[:, None]
    edges = np.triu(generator.random((s.samples, 48, 48)) < 0.1, 1)
    edges = (edges | edges.transpose(0, 2, 1) | np.eye(48, dtype=bool)) & real[:, None] & real[:, :, None]
    degrees = np.maximum(edges.sum(axis=2), 1) ** -0.5
    nodes = generator.standard_normal((s.samples, 48, 8)) * real[..., None]
    graphs = {"nodes": nodes, "edges": edges * degrees[:, None] * degrees[:, :, None], "real": real}
    model = GraphNetwork()
    model.compile(optimizers.Adam(0.01), crossentropy(), metrics=["accuracy"], jit_compile=s.jit)
    x = {name: array.astype(s.dtype) for name, array in graphs.items()}
    return fit(s, model, x, np.digitize(edges.sum(axis=(1, 2)) / real.sum(axis=1), [1.5, 2, 2.5, 3, 3.5]))


if __name__ == "__main__":
    exactness_cases.main(CASES)
