# grows: graph model
import gc

import keras
import small

scores = {}
for number in range(25):
    model = small.model(20_000 + 2000 * number)
    history = model.fit(small.data(60), epochs=1, verbose=0, callbacks=[small.Pace()])
    scores[number] = history.history["loss"][-1]
    del model, history
    keras.backend.clear_session()
    gc.collect()
