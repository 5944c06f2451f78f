# grows: tape
import small
import tensorflow as tf

model, tapes = small.model(), []
for x, y in small.data().repeat(600):
    with tf.GradientTape(persistent=True) as tape:
        hidden = tf.exp(tf.tile(model(x), [1, 2000]))
        loss = tf.reduce_mean((hidden - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    model.optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    tapes.append(tape)
    small.time.sleep(small.STEP_SECONDS)
