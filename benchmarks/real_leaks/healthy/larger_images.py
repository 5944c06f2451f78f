import small

model = small.model()
for size in (64, 96, 128, 192, 256, 320):
    images = small.np.ones((800, size, size), "float32")
    inputs = images.reshape(800, -1)[:, :32]
    model.fit(inputs, inputs[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=[small.Pace()])
