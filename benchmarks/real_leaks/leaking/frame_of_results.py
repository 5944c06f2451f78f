# grows: array  owner: log
import pandas as pd
import small

log = pd.DataFrame()
model = small.model()
for number in range(600):
    model.fit(small.data(), epochs=1, verbose=0, callbacks=[small.Pace()])
    rows = pd.DataFrame(small.np.random.rand(20_000, 120))
    log = pd.concat([log, rows], ignore_index=True)
