# grows: list  owner: Net.seen
import keras
import small
import tensorflow as tf


class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.seen = []

    def call(self, x):
        return self.dense(x)

    def train_step(self, pair):
        x, y = pair
        with tf.GradientTape() as tape:
            prediction = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=prediction)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.seen.append(tf.tile(prediction, [1, 3200]))
        return {"loss": loss}


net = Net()
net.compile("adam", "mse", run_eagerly=True)
net.fit(small.data(), epochs=600, verbose=0, callbacks=[small.Pace()])
