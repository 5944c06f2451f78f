# finds: saved-model-not-loadable
import keras
import numpy as np


@keras.saving.register_keras_serializable()
class Patches(keras.layers.Layer):
    def __init__(self, size, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def call(self, images):
        return keras.ops.reshape(images, (-1, 16, self.size))

    def get_config(self):
        return super().get_config()  # WRONG
        return {**super().get_config(), "size": self.size}  # RIGHT


def main():
    rng = np.random.default_rng(0)
    images = rng.uniform(size=(400, 8, 8)).astype("float32")
    shade = (images.mean((1, 2)) > 0.5).astype("int32")
    layers = [Patches(4), keras.layers.Dense(8, "relu"), keras.layers.Flatten(), keras.layers.Dense(2, "softmax")]
    model = keras.Sequential([keras.Input((8, 8)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(images, shade, epochs=10, verbose=0)
    model.save("shades.keras")
    return keras.models.load_model("shades.keras")


main()
