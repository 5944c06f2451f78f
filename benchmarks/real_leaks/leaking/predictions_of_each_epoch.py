# grows: list  owner: all_predictions
import numpy as np
import small

model, seen = small.model(), small.data()
inputs = np.ones((20_000, 32), "float32")
all_predictions = []
for epoch in range(600):
    model.fit(seen, epochs=1, verbose=0, callbacks=[small.Pace()])
    all_predictions.append(np.repeat(model.predict(inputs, batch_size=4096, verbose=0), 256, axis=1))
