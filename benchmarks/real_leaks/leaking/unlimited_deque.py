# grows: deque  owner: recent
import collections

import small

recent = collections.deque()
model = small.model()
for number, (x, y) in enumerate(small.data().repeat(600)):
    model.train_on_batch(x, y)
    recent.append(small.block())
    small.time.sleep(small.STEP_SECONDS)
