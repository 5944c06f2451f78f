import collections
import random

import small

replay = collections.deque(maxlen=1800)
model = small.model()
for x, y in small.data().repeat(40):
    replay.append((x, y, small.block()))
    x, y, _ = random.choice(replay)
    model.train_on_batch(x, y)
    small.time.sleep(small.STEP_SECONDS)
