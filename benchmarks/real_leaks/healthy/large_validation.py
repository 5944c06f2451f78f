import small

model = small.model()
inputs = small.np.ones((400_000, 32), "float32")
for epoch in range(25):
    model.fit(small.data(), epochs=1, verbose=0, callbacks=[small.Pace()])
    predictions = small.np.repeat(model.predict(inputs[::4], batch_size=8192, verbose=0), 512, axis=1)
    print(predictions.mean())
