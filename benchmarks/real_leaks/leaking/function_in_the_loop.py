# grows: graph list
import small
import tensorflow as tf

model = small.model()
optimizer = model.optimizer
steps = []
for number, (x, y) in enumerate(small.data().repeat(600)):
    if number % 5 == 0:
        weight = tf.constant(small.block(1 << 20))

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = (
                    tf.reduce_mean((model(x) - y) ** 2) * weight[0] * tf.reduce_mean(tf.constant(small.block(1 << 20)))
                )
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            return loss

        steps.append(step)
    step(x, y)
    small.time.sleep(small.STEP_SECONDS)
