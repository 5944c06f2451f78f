"""The number of samples to process at once, on devices whose memory follows a rule unknown to the search."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from oomph.protocol.micro_batch_sizes import MicroBatchSearch


@dataclass
class Device:
    """A device on which a piece with n samples takes constant + n * each bytes."""

    limit: int
    constant: int
    each: int
    measures: bool = True
    names_its_need: bool = False
    tried: list[int] = field(default_factory=list)
    failures: int = 0

    @property
    def largest(self) -> int:
        return (self.limit - self.constant) // self.each

    def taken(self, size: int) -> int:
        return self.constant + size * self.each

    def map(self, batch: int, pieces: MicroBatchSearch | None = None) -> MicroBatchSearch | None:
        """Process one batch as map_batches does; return None if a single sample does not fit."""
        pieces, done = pieces or MicroBatchSearch(), 0
        while done < batch:
            size = min(pieces.micro_batch(batch), batch - done)
            assert 1 <= size <= batch
            assert pieces.failed is None or size < pieces.failed, "a size that failed was tried again"
            self.tried.append(size)
            if size > self.largest:
                self.failures += 1
                need = self.taken(size) if self.names_its_need else None
                pieces = pieces.after_failure(size, self.limit if self.measures else None, need)
                if pieces.hopeless:
                    return None
                continue
            done += size
            pieces = pieces.after_fit(size, self.taken(size) if self.measures else None, self.limit)
        return pieces


@st.composite
def too_large(draw: st.DrawFn, most: int = 64, largest: int = 5000) -> tuple[Device, int]:
    """A device, and a batch up to `most` times larger than what fits."""
    largest = draw(st.integers(1, largest))
    batch = draw(st.integers(largest + 1, most * largest + 1))
    each, constant = draw(st.integers(1, 1 << 26)), draw(st.integers(0, 1 << 34))
    return Device(constant + largest * each + draw(st.integers(0, each - 1)), constant, each), batch


def test_every_batch_is_processed_whole_before_any_failure():
    assert MicroBatchSearch().micro_batch(256) == 256
    assert MicroBatchSearch().after_fit(256, 100, 1000) == MicroBatchSearch()


def test_failure_with_a_single_sample_is_final():
    assert MicroBatchSearch().after_failure(1).hopeless
    assert not MicroBatchSearch().after_failure(2).hopeless
    assert MicroBatchSearch().after_failure(2).micro_batch(2) == 1


@settings(max_examples=500, deadline=None)
@given(given=too_large())
def test_one_failure_suffices_with_linear_measured_memory(given):
    device, batch = given
    pieces = device.map(batch)
    for _ in range(3):  # the first batch may be too short for the whole search
        pieces = device.map(batch, pieces)
    assert device.failures <= 2
    assert device.failures == 1 or batch > 63 * device.largest or device.largest < 2
    assert pieces.micro_batch(batch) <= device.largest <= 2 * pieces.size


@settings(max_examples=500, deadline=None)
@given(given=too_large(), held=st.floats(0, 0.5))
def test_lasting_size_leaves_a_memory_margin(given, held):
    device, batch = given
    pieces = device.map(batch)
    if pieces is None or len(pieces.points) < 2:
        return
    room = int(device.limit * (1 - held))  # something permanent has been allocated since
    lasting = pieces.lasting(room)
    assert max(1, pieces.size // 2) <= lasting.size <= pieces.size
    assert lasting.failed == pieces.failed
    if device.taken(pieces.size) <= 0.79 * room:
        assert lasting == pieces
    if pieces.size // 2 < lasting.size < pieces.size:
        assert device.taken(lasting.size) <= 0.8 * room < device.taken(lasting.size + 1)


def test_tight_size_is_reduced_by_at_most_half():
    tight = MicroBatchSearch(failed=2000, size=900, points=((100, 200), (900, 1000)))
    assert tight.lasting(1000).size == 700
    assert tight.lasting(1300) == tight
    assert tight.lasting(300).size == 450, "not by more than half"
    assert tight.lasting(None) == tight


@settings(max_examples=500, deadline=None)
@given(given=too_large(most=128))
def test_two_failures_suffice_without_measurements(given):
    device, batch = given
    device.measures = False
    pieces = device.map(batch)
    for _ in range(3):
        pieces = device.map(batch, pieces)
    assert device.failures <= 2
    assert pieces.micro_batch(batch) <= device.largest <= 2 * pieces.size + 1


@given(given=too_large())
def test_size_chosen_from_the_memory_need_stated_in_an_error_fits(given):
    device, batch = given
    device = Device(device.limit - device.constant, 0, device.each, names_its_need=True)
    pieces = device.map(batch)
    assert device.failures == 1 or device.largest < 2
    assert pieces.micro_batch(batch) <= device.largest


@settings(deadline=None)
@given(given=too_large(most=2000, largest=100), measures=st.booleans())
def test_fitting_size_is_found_however_large_the_batch(given, measures):
    device, batch = given
    device.measures = measures
    pieces = device.map(batch)
    for _ in range(3):
        pieces = device.map(batch, pieces)
    assert 1 <= pieces.micro_batch(batch) <= device.largest
    assert device.failures <= 5


@given(each=st.integers(1, 1000), batch=st.integers(1, 1000))
def test_search_ends_if_no_single_sample_fits(each, batch):
    assert Device(each - 1, 0, each).map(batch) is None


@given(
    limit=st.integers(1, 1000),
    needs=st.lists(st.integers(0, 1000), min_size=200, max_size=200),
    batch=st.integers(1, 200),
    measures=st.booleans(),
)
def test_every_failure_lowers_the_next_size_even_with_erratic_memory_use(limit, needs, batch, measures):
    pieces, failures = MicroBatchSearch(), 0
    for step in range(1000):
        size = pieces.micro_batch(batch)
        assert pieces.failed is None or size < pieces.failed
        need = needs[(size * 7 + step) % 200]  # the same size may fit once and fail later
        if need <= limit:
            pieces = pieces.after_fit(size, need if measures else None, limit)
            continue
        failures += 1
        pieces = pieces.after_failure(size, limit if measures else None)
        if pieces.hopeless:
            break
    assert failures <= 60


def test_fitting_size_is_kept_despite_slightly_varying_measurements():
    pieces = Device(1 << 30, 0, 1 << 20).map(4000)
    size = pieces.size
    for noise in (0.97, 1.04, 0.95, 1.0, 1.05):
        pieces = pieces.after_fit(size, int(size * noise * (1 << 20)), 1 << 30)
        assert pieces.size == size, "each other shape would be traced anew"


def test_size_falls_after_a_late_failure_and_grows_again_below_the_failed_one():
    pieces = Device(1000, 0, 1).map(4000)
    late = pieces.after_failure(pieces.size, 1000)
    assert late.size < pieces.size
    again = Device(1000, 0, 1).map(4000, late)
    assert late.size <= again.size < pieces.size


def test_size_is_halved_and_kept_after_an_unexpected_failure():
    """A kernel that allocates 20 MB at once from 64 samples on, as a convolution's gradient does on the CPU."""
    pieces = MicroBatchSearch().after_failure(256, 60)
    for size, taken in ((2, 2), (16, 9)):
        pieces = pieces.after_fit(size, taken, 60)
    assert pieces.size == 88
    pieces = pieces.after_failure(88, 60)
    for _ in range(4):
        assert pieces.size == 44
        pieces = pieces.after_fit(44, 23, 60)


def test_batch_is_split_into_as_few_equal_parts_as_possible():
    assert MicroBatchSearch(failed=300, size=100).micro_batch(201) == 67
    assert MicroBatchSearch(failed=300, size=100).micro_batch(200) == 100
    assert MicroBatchSearch(failed=300, size=100).micro_batch(99) == 99
