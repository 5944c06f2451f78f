import small
import tensorflow as tf

data = tf.data.Dataset.range(1500).map(lambda n: tf.fill((51_200,), tf.cast(n, tf.float32))).cache()
data = data.map(lambda values: (tf.reshape(values[:512], (16, 32)), tf.ones((16, 1))))
small.model().fit(data, epochs=3, verbose=0, callbacks=[small.Pace()])
