import small
import tensorflow as tf

blocks = tf.data.Dataset.range(100_000).map(lambda n: tf.fill((51_200,), tf.cast(n, tf.float32))).shuffle(2000)
data = blocks.map(lambda values: (tf.reshape(values[:512], (16, 32)), tf.ones((16, 1))))


def slowly():
    for pair in data:
        yield pair


small.model().fit(slowly(), steps_per_epoch=50, epochs=60, verbose=0, callbacks=[small.Pace()])
